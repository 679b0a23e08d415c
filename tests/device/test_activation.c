/* GELU and SwiGLU against double precision and finite differences, and the functions beneath. */
#include "device/cpu/fastmath.h"
#include "device/kernel_test.h"

static const int64_t sizes[] = {1, 15, 16, 17, 16385, 1000003};

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double slope(double (*f)(double), double x)
{
    return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
}

static double ulp(double x)
{
    float f = fabsf((float)x);
    return (double)(nextafterf(f, INFINITY) - f);
}

/* Values from -15 to 15 and some far out. */
static float *new_arguments(int64_t n)
{
    static const float far[] = {0.0f, -0.0f, 1e-30f, -1e-30f, 88.8f, -88.8f, 1000.0f, -1000.0f};
    float *x = new_normal(n, 5);
    for (int64_t i = 0; i < n; i++)
        x[i] *= 3.0f;
    for (size_t i = 0; i < COUNT(far) && (int64_t)i < n - 1; i++)
        x[i] = far[i];
    return x;
}

static void exp_and_log_are_within_an_ulp(void **state)
{
    (void)state;
    for (uint32_t bits = 1; bits < 0x7f800000; bits += 1009) {
        float x = zn_of_bits((int32_t)bits);
        assert_true(fabs((double)zn_log(x) - log((double)x)) <= ulp(log((double)x)));
        for (int sign = -1; sign <= 1 && x <= 87.3f; sign += 2)
            assert_true(fabs((double)zn_exp((float)sign * x) - exp((double)sign * (double)x)) <= ulp(exp((double)sign * (double)x)));
    }
}

static void exp_and_log_know_the_ends(void **state)
{
    (void)state;
    assert_true(zn_exp(-INFINITY) == 0.0f && zn_exp(-88.0f) == 0.0f && zn_exp(89.0f) == INFINITY && zn_exp(0.0f) == 1.0f);
    assert_true(zn_log(0.0f) == -INFINITY && zn_log(INFINITY) == INFINITY && zn_log(1.0f) == 0.0f);
    assert_true(isnan(zn_exp(NAN)) && isnan(zn_log(NAN)) && isnan(zn_log(-1.0f)) && isnan(zn_log(-INFINITY)));
}

static void check_gelu(int64_t n, bool tanh_form)
{
    double (*f)(double) = tanh_form ? gelu_tanh : gelu;
    float *x = new_arguments(n), *y = new_floats(n), *dy = new_normal(n, 6), *dx = new_floats(n);
    struct zn_gelu_forward_args a = {ADDRESS(y), ADDRESS(x), n, tanh_form};
    struct output out = {y, (size_t)n * sizeof *y};
    run_everywhere(ZN_KERNEL_gelu_forward, &a, &out, 1);
    struct zn_gelu_backward_args b = {ADDRESS(dx), ADDRESS(dy), ADDRESS(x), n, tanh_form};
    out.data = dx;
    run_everywhere(ZN_KERNEL_gelu_backward, &b, &out, 1);
    for (int64_t i = 0; i < n; i++) {
        assert_near((double)y[i], f((double)x[i]), 4e-7, "y", i);
        assert_near((double)dx[i], (double)dy[i] * slope(f, (double)x[i]), 2e-6, "dx", i);
    }
    free(x);
    free(y);
    free(dy);
    free(dx);
}

/* 1 + erf and 1 + tanh would lose all digits where gelu is small. */
static void gelu_keeps_its_digits_where_it_is_small(void **state)
{
    (void)state;
    enum { N = 4096 };
    float *x = new_floats(N), *y = new_floats(N);
    for (int i = 0; i < N; i++)
        x[i] = -9.0f * (float)(i + 1) / N;
    for (int form = 0; form < 2; form++) {
        struct zn_gelu_forward_args a = {ADDRESS(y), ADDRESS(x), N, form};
        assert_int_equal(run_on(NULL, 2, ZN_KERNEL_gelu_forward, &a), ZN_OK);
        for (int i = 0; i < N; i++) {
            double v = (double)x[i], u = sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v);
            double want = form ? v / (1 + exp(-2 * u)) : 0.5 * v * erfc(-v / sqrt(2));
            assert_true(fabs((double)y[i] - want) <= 1e-5 * fabs(want));
        }
    }
    free(x);
    free(y);
}

static void gelu_exact_form(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++)
        check_gelu(sizes[s], false);
}

static void gelu_tanh_form(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++)
        check_gelu(sizes[s], true);
}

static void gelu_in_place_gives_the_same_bits(void **state)
{
    (void)state;
    enum { N = 40001 };
    float *x = new_arguments(N), *y = new_floats(N), *dx = new_floats(N), *dy = new_normal(N, 6);
    for (int form = 0; form < 2; form++) {
        struct zn_gelu_backward_args b = {ADDRESS(dx), ADDRESS(dy), ADDRESS(x), N, form};
        assert_int_equal(run_on(NULL, 2, ZN_KERNEL_gelu_backward, &b), ZN_OK);
        b.dx = b.dy;
        assert_int_equal(run_on(NULL, 2, ZN_KERNEL_gelu_backward, &b), ZN_OK);
        assert_memory_equal(dy, dx, N * sizeof *dx);
        struct zn_gelu_forward_args a = {ADDRESS(y), ADDRESS(x), N, form};
        assert_int_equal(run_on(NULL, 2, ZN_KERNEL_gelu_forward, &a), ZN_OK);
        a.y = a.x;
        assert_int_equal(run_on(NULL, 2, ZN_KERNEL_gelu_forward, &a), ZN_OK);
        assert_memory_equal(x, y, N * sizeof *x);
    }
    free(x);
    free(y);
    free(dx);
    free(dy);
}

static void check_swiglu(int64_t n)
{
    float *gate = new_arguments(n), *up = new_normal(n, 7), *y = new_floats(n);
    float *dy = new_normal(n, 8), *d_gate = new_floats(n), *d_up = new_floats(n);
    struct zn_swiglu_forward_args a = {ADDRESS(y), ADDRESS(gate), ADDRESS(up), n};
    struct output out[] = {{y, (size_t)n * sizeof *y}, {d_up, (size_t)n * sizeof *y}};
    run_everywhere(ZN_KERNEL_swiglu_forward, &a, out, 1);
    struct zn_swiglu_backward_args b = {ADDRESS(d_gate), ADDRESS(d_up), ADDRESS(dy), ADDRESS(gate),
                                        ADDRESS(up), n};
    out[0].data = d_gate;
    run_everywhere(ZN_KERNEL_swiglu_backward, &b, out, 2);
    for (int64_t i = 0; i < n; i++) {
        double g = (double)gate[i], u = (double)up[i], d = (double)dy[i];
        assert_near((double)y[i], silu(g) * u, 4e-7, "y", i);
        assert_near((double)d_up[i], d * silu(g), 4e-7, "d_up", i);
        assert_near((double)d_gate[i], d * u * slope(silu, g), 2e-6, "d_gate", i);
    }
    b.d_gate = b.dy;
    assert_int_equal(run_on(NULL, 2, ZN_KERNEL_swiglu_backward, &b), ZN_OK);
    assert_memory_equal(dy, d_gate, (size_t)n * sizeof *dy);
    float *all[] = {gate, up, y, dy, d_gate, d_up};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static void swiglu_and_its_slope(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++)
        check_swiglu(sizes[s]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_log_are_within_an_ulp),
        cmocka_unit_test(exp_and_log_know_the_ends),
        cmocka_unit_test(gelu_keeps_its_digits_where_it_is_small),
        cmocka_unit_test(gelu_exact_form),
        cmocka_unit_test(gelu_tanh_form),
        cmocka_unit_test(gelu_in_place_gives_the_same_bits),
        cmocka_unit_test(swiglu_and_its_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
