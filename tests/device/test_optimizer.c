/* Adam, SGD, Lion and Adagrad: the documented operations to the bit, and several steps against double precision. */
#include "device/kernel_test.h"

static const int64_t sizes[] = {0, 1, 15, 16, 17, 511, 513, 32769, 1000003};

struct states {
    int64_t n;
    float *param, *grad, *exp_avg, *exp_avg_sq;
    uint16_t *copy;
};

static struct states states_init(int64_t n)
{
    struct states t = {
        .n = n,
        .param = new_normal(n, 1),
        .grad = new_normal(n, 2),
        .exp_avg = new_normal(n, 3),
        .exp_avg_sq = new_normal(n, 4),
        .copy = new_bytes((size_t)n * sizeof(uint16_t)),
    };
    for (int64_t i = 0; i < n; i++)
        t.exp_avg_sq[i] *= t.exp_avg_sq[i];
    return t;
}

static void states_fini(struct states *t)
{
    free(t->param);
    free(t->grad);
    free(t->exp_avg);
    free(t->exp_avg_sq);
    free(t->copy);
}

static struct zn_adam_args adam_args(const struct states *t, zn_dtype copy_type)
{
    return (struct zn_adam_args){
        .param = ADDRESS(t->param),
        .grad = ADDRESS(t->grad),
        .exp_avg = ADDRESS(t->exp_avg),
        .exp_avg_sq = ADDRESS(t->exp_avg_sq),
        .copy = copy_type == ZN_F32 ? 0 : ADDRESS(t->copy),
        .copy_type = copy_type,
        .n_elements = t->n,
        .grad_scale = 0.37f,
        .one_minus_beta1 = 0.1f,
        .beta2 = 0.999f,
        .one_minus_beta2 = 0.001f,
        .eps = 1e-8f,
        .step_size = 1.3e-3f,
        .root_correction = 0.71f,
        .keep = 0.9999f,
    };
}

static void run_adam(const struct states *t, const struct zn_adam_args *a)
{
    size_t n = (size_t)t->n * sizeof(float);
    struct output out[] = {
        {t->param, n}, {t->exp_avg, n}, {t->exp_avg_sq, n}, {t->copy, n / 2}};
    run_everywhere(ZN_KERNEL_adam, a, out, 4);
}

static void check_copy(const struct states *t, zn_dtype type)
{
    uint16_t *want = new_bytes((size_t)t->n * sizeof *want);
    struct zn_cast_args cast = {ADDRESS(want), ADDRESS(t->param), type, ZN_F32, t->n};
    assert_int_equal(run_on("plain", 1, ZN_KERNEL_cast, &cast), ZN_OK);
    assert_memory_equal(t->copy, want, (size_t)t->n * sizeof *want);
    free(want);
}

/* One line of the contract after the other, on one element. */
static void adam_element(const struct zn_adam_args *a, float grad, float *p, float *m, float *v)
{
    float g = grad * a->grad_scale;
    if (a->coupled_decay != 0)
        g = g + a->coupled_decay * *p;
    *p = *p * a->keep;
    *m = *m + a->one_minus_beta1 * (g - *m);
    *v = a->beta2 * *v + a->one_minus_beta2 * g * g;
    *p = *p - a->step_size * *m / (sqrtf(*v) / a->root_correction + a->eps);
}

static void check_adam(int64_t n, zn_dtype copy_type, float coupled_decay)
{
    struct states t = states_init(n), start = states_init(n);
    struct zn_adam_args a = adam_args(&t, copy_type);
    a.coupled_decay = coupled_decay;
    run_adam(&t, &a);
    for (int64_t i = 0; i < n; i++) {
        float p = start.param[i], m = start.exp_avg[i], v = start.exp_avg_sq[i];
        adam_element(&a, start.grad[i], &p, &m, &v);
        assert_true(t.param[i] == p && t.exp_avg[i] == m && t.exp_avg_sq[i] == v);
    }
    if (copy_type != ZN_F32)
        check_copy(&t, copy_type);
    states_fini(&t);
    states_fini(&start);
}

static void adam_does_the_operations_promised(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++)
        check_adam(sizes[s], ZN_F32, 0);
    check_adam(50001, ZN_F32, 0.01f);
}

static void adam_writes_the_copy_in_the_same_pass(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        check_adam(sizes[s], ZN_BF16, 0);
        check_adam(sizes[s], ZN_F16, 0);
    }
}

static void adam_follows_double_precision(void **state)
{
    (void)state;
    enum { N = 101, STEPS = 20 };
    const double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.1;
    struct states t = states_init(N);
    double p[N], m[N] = {0}, v[N] = {0};
    for (int i = 0; i < N; i++) {
        p[i] = (double)t.param[i];
        t.exp_avg[i] = t.exp_avg_sq[i] = 0;
    }
    for (int step = 1; step <= STEPS; step++) {
        struct zn_adam_args a = adam_args(&t, ZN_F32);
        a.grad_scale = 1;
        a.one_minus_beta1 = (float)(1 - beta1);
        a.step_size = (float)(lr / (1 - pow(beta1, step)));
        a.root_correction = (float)sqrt(1 - pow(beta2, step));
        a.keep = (float)(1 - lr * decay);
        for (int i = 0; i < N; i++) {
            double g = zn_random_normal((uint64_t)step, (uint64_t)i);
            t.grad[i] = (float)g;
            m[i] = beta1 * m[i] + (1 - beta1) * g;
            v[i] = beta2 * v[i] + (1 - beta2) * g * g;
            double m_hat = m[i] / (1 - pow(beta1, step)), v_hat = v[i] / (1 - pow(beta2, step));
            p[i] = p[i] * (1 - lr * decay) - lr * m_hat / (sqrt(v_hat) + eps);
        }
        run_adam(&t, &a);
    }
    for (int i = 0; i < N; i++)
        assert_near((double)t.param[i], p[i], 1e-6, "param", i);
    states_fini(&t);
}

static void adam_of_a_range_is_a_range_of_adam(void **state)
{
    (void)state;
    enum { N = 40000, FIRST = 777, LENGTH = 12345 };
    struct states whole = states_init(N), part = states_init(N);
    struct zn_adam_args a = adam_args(&whole, ZN_F32), b = adam_args(&part, ZN_F32);
    assert_int_equal(run_on(NULL, 2, ZN_KERNEL_adam, &a), ZN_OK);
    b.param += 4 * FIRST, b.grad += 4 * FIRST, b.exp_avg += 4 * FIRST, b.exp_avg_sq += 4 * FIRST;
    b.n_elements = LENGTH;
    float before = part.param[FIRST + LENGTH];
    assert_int_equal(run_on(NULL, 2, ZN_KERNEL_adam, &b), ZN_OK);
    assert_memory_equal(part.param + FIRST, whole.param + FIRST, LENGTH * sizeof(float));
    assert_true(part.param[FIRST + LENGTH] == before);
    states_fini(&whole);
    states_fini(&part);
}

static void check_sgd(int64_t n, bool with_momentum, bool first, zn_dtype copy_type)
{
    struct states t = states_init(n), start = states_init(n);
    struct zn_sgd_args a = {
        .param = ADDRESS(t.param),
        .grad = ADDRESS(t.grad),
        .momentum_buffer = with_momentum ? ADDRESS(t.exp_avg) : 0,
        .copy = ADDRESS(t.copy),
        .copy_type = copy_type,
        .n_elements = n,
        .grad_scale = 0.37f,
        .lr = 0.05f,
        .momentum = 0.9f,
        .coupled_decay = 0.01f,
        .first = first,
    };
    if (first) /* what was in the buffer must not matter */
        for (int64_t i = 0; i < n; i++)
            t.exp_avg[i] = NAN;
    size_t bytes = (size_t)n * sizeof(float);
    struct output out[] = {{t.param, bytes}, {t.copy, bytes / 2}, {t.exp_avg, bytes}};
    run_everywhere(ZN_KERNEL_sgd, &a, out, with_momentum ? 3 : 2);
    for (int64_t i = 0; i < n; i++) {
        float g = start.grad[i] * a.grad_scale + a.coupled_decay * start.param[i];
        float b = with_momentum && !first ? a.momentum * start.exp_avg[i] + g : g;
        assert_true(t.param[i] == start.param[i] - a.lr * b);
        if (with_momentum)
            assert_true(t.exp_avg[i] == b);
    }
    check_copy(&t, copy_type);
    states_fini(&t);
    states_fini(&start);
}

static void sgd_does_the_operations_promised(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        check_sgd(sizes[s], false, false, ZN_BF16);
        check_sgd(sizes[s], true, true, ZN_F16);
        check_sgd(sizes[s], true, false, ZN_BF16);
    }
}

static void check_lion(int64_t n, zn_dtype copy_type)
{
    struct states t = states_init(n), start = states_init(n);
    struct zn_lion_args a = {.param = ADDRESS(t.param), .grad = ADDRESS(t.grad), .exp_avg = ADDRESS(t.exp_avg),
                             .copy = ADDRESS(t.copy), .copy_type = copy_type, .n_elements = n, .grad_scale = 0.37f,
                             .beta1 = 0.9f, .one_minus_beta1 = 0.1f, .beta2 = 0.99f, .one_minus_beta2 = 0.01f, .lr = 3e-4f,
                             .keep = 0.999f};
    for (int64_t i = 0; i < n; i += 7) /* no step where the momentum is zero */
        t.grad[i] = start.grad[i] = t.exp_avg[i] = start.exp_avg[i] = 0;
    size_t bytes = (size_t)n * sizeof(float);
    struct output out[] = {{t.param, bytes}, {t.exp_avg, bytes}, {t.copy, bytes / 2}};
    run_everywhere(ZN_KERNEL_lion, &a, out, 3);
    for (int64_t i = 0; i < n; i++) {
        float g = start.grad[i] * a.grad_scale, m = start.exp_avg[i];
        float c = a.beta1 * m + a.one_minus_beta1 * g, sign = (float)((c > 0) - (c < 0));
        assert_true(t.param[i] == start.param[i] * a.keep - a.lr * sign);
        assert_true(t.exp_avg[i] == a.beta2 * m + a.one_minus_beta2 * g);
    }
    check_copy(&t, copy_type);
    states_fini(&t);
    states_fini(&start);
}

static void check_adagrad(int64_t n, zn_dtype copy_type)
{
    struct states t = states_init(n), start = states_init(n);
    struct zn_adagrad_args a = {.param = ADDRESS(t.param), .grad = ADDRESS(t.grad), .sum = ADDRESS(t.exp_avg_sq),
                                .copy = ADDRESS(t.copy), .copy_type = copy_type, .n_elements = n, .grad_scale = 0.37f,
                                .lr = 0.01f, .eps = 1e-10f, .coupled_decay = 0.01f};
    size_t bytes = (size_t)n * sizeof(float);
    struct output out[] = {{t.param, bytes}, {t.exp_avg_sq, bytes}, {t.copy, bytes / 2}};
    run_everywhere(ZN_KERNEL_adagrad, &a, out, 3);
    for (int64_t i = 0; i < n; i++) {
        float g = start.grad[i] * a.grad_scale + a.coupled_decay * start.param[i];
        float s = start.exp_avg_sq[i] + g * g;
        assert_true(t.param[i] == start.param[i] - a.lr * g / (sqrtf(s) + a.eps));
        assert_true(t.exp_avg_sq[i] == s);
    }
    check_copy(&t, copy_type);
    states_fini(&t);
    states_fini(&start);
}

static void lion_and_adagrad_do_the_operations_promised(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        check_lion(sizes[s], ZN_BF16);
        check_adagrad(sizes[s], ZN_F16);
    }
}

static void a_copy_in_another_type_is_refused(void **state)
{
    (void)state;
    struct states t = states_init(4);
    struct zn_adam_args a = adam_args(&t, ZN_I32);
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_adam, &a), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "int32"));
    states_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_does_the_operations_promised),
        cmocka_unit_test(adam_writes_the_copy_in_the_same_pass),
        cmocka_unit_test(adam_follows_double_precision),
        cmocka_unit_test(adam_of_a_range_is_a_range_of_adam),
        cmocka_unit_test(sgd_does_the_operations_promised),
        cmocka_unit_test(lion_and_adagrad_do_the_operations_promised),
        cmocka_unit_test(a_copy_in_another_type_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
