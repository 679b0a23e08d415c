/* Moving, filling and elementwise kernels. */
#include "device/halves.h"
#include "device/kernel_test.h"

static const int64_t sizes[] = {0, 1, 15, 16, 17, 32768, 1000003};

static void zero_clears_exactly_its_bytes(void **state)
{
    (void)state;
    static const size_t bytes[] = {1, 3, 4, 61, 65536, 65537, 400003};
    for (size_t s = 0; s < COUNT(bytes); s++) {
        unsigned char *data = new_bytes(bytes[s] + 2);
        memset(data, 0xab, bytes[s] + 2);
        struct zn_zero_args a = {ADDRESS(data + 1), (int64_t)bytes[s]};
        struct output out = {data, bytes[s] + 2};
        run_everywhere(ZN_KERNEL_zero, &a, &out, 1);
        assert_true(data[0] == 0xab && data[bytes[s] + 1] == 0xab);
        for (size_t i = 1; i <= bytes[s]; i++)
            assert_int_equal(data[i], 0);
        free(data);
    }
}

static void copy_moves_exactly_its_bytes(void **state)
{
    (void)state;
    static const size_t bytes[] = {1, 3, 4, 61, 65536, 65537, 400003};
    for (size_t s = 0; s < COUNT(bytes); s++) {
        unsigned char *src = new_bytes(bytes[s]), *dst = new_bytes(bytes[s] + 1);
        for (size_t i = 0; i < bytes[s]; i++)
            src[i] = (unsigned char)zn_random_bits(1, i);
        dst[bytes[s]] = 0xab;
        struct zn_copy_args a = {ADDRESS(dst), ADDRESS(src), (int64_t)bytes[s]};
        struct output out = {dst, bytes[s] + 1};
        run_everywhere(ZN_KERNEL_copy, &a, &out, 1);
        assert_memory_equal(dst, src, bytes[s]);
        assert_int_equal(dst[bytes[s]], 0xab);
        free(src);
        free(dst);
    }
}

static void copy_rows_moves_from_one_stride_to_another(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {300, 129}};
    for (size_t s = 0; s < COUNT(shapes); s++) {
        int64_t rows = shapes[s][0], width = shapes[s][1], to = width + 3, from = width + 7;
        float *src = new_normal(rows * from, 9), *dst = new_floats(rows * to);
        struct zn_copy_rows_args a = {ADDRESS(dst), ADDRESS(src), rows, width, to, from};
        struct output out = {dst, (size_t)(rows * to) * sizeof *dst};
        run_everywhere(ZN_KERNEL_copy_rows, &a, &out, 1);
        for (int64_t i = 0; i < rows * to; i++)
            assert_true(dst[i] == (i % to < width ? src[i / to * from + i % to] : 0.0f));
        free(src);
        free(dst);
    }
}

static void fill_sets_every_element(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        float *x = new_floats(sizes[s] + 1);
        struct zn_fill_args a = {ADDRESS(x), sizes[s], 2.5f};
        struct output out = {x, (size_t)(sizes[s] + 1) * sizeof *x};
        run_everywhere(ZN_KERNEL_fill, &a, &out, 1);
        for (int64_t i = 0; i < sizes[s]; i++)
            assert_true(x[i] == 2.5f);
        assert_true(x[sizes[s]] == 0.0f);
        free(x);
    }
}

static void add_and_mul_are_exact_and_may_be_in_place(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        size_t n_bytes = (size_t)n * sizeof(float);
        float *a = new_normal(n, 1), *b = new_normal(n, 2), *sum = new_floats(n);
        float *product = new_floats(n);
        struct zn_add_args add = {ADDRESS(sum), ADDRESS(a), ADDRESS(b), n};
        struct zn_mul_args mul = {ADDRESS(product), ADDRESS(a), ADDRESS(b), n};
        run_everywhere(ZN_KERNEL_add, &add, &(struct output){sum, n_bytes}, 1);
        run_everywhere(ZN_KERNEL_mul, &mul, &(struct output){product, n_bytes}, 1);
        for (int64_t i = 0; i < n; i++) {
            assert_true(sum[i] == a[i] + b[i]);
            assert_true(product[i] == a[i] * b[i]);
        }
        add.y = add.a;
        run_everywhere(ZN_KERNEL_add, &add, &(struct output){a, n_bytes}, 1);
        assert_memory_equal(a, sum, n_bytes);
        free(a);
        a = new_normal(n, 1);
        mul = (struct zn_mul_args){ADDRESS(b), ADDRESS(a), ADDRESS(b), n};
        run_everywhere(ZN_KERNEL_mul, &mul, &(struct output){b, n_bytes}, 1);
        assert_memory_equal(b, product, n_bytes);
        free(a);
        free(b);
        free(sum);
        free(product);
    }
}

/* Normal values with the first of them special: ties, subnormals, overflow, infinities, NaN. */
static float *new_hard_values(int64_t n)
{
    static const float hard[] = {
        0.0f,     -0.0f, 1.00390625f, 1.01171875f, 0x1.ffcp-15f, 0x1p-24f, 0x1.8p-25f, 65519.0f,
        65520.0f, -1e9f, 0x1.ffp127f, INFINITY,    -INFINITY,    NAN,      1e-39f,     -0x1p-149f};
    float *x = new_normal(n, 9);
    for (int64_t i = 0; i < n && i < (int64_t)COUNT(hard); i++)
        x[i] = hard[i];
    return x;
}

static void round_is_a_cast_there_and_back(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2 * COUNT(sizes); s++) {
        zn_dtype type = s % 2 ? ZN_BF16 : ZN_F16;
        int64_t n = sizes[s / 2];
        size_t n_bytes = (size_t)n * sizeof(float);
        float *x = new_hard_values(n), *want = new_hard_values(n);
        free(round_to(want, n, type));
        struct zn_round_args a = {ADDRESS(x), type, n};
        run_everywhere(ZN_KERNEL_round, &a, &(struct output){x, n_bytes}, 1);
        assert_memory_equal(x, want, n_bytes);
        free(x);
        free(want);
    }
}

static void round_to_another_type_is_refused(void **state)
{
    (void)state;
    struct zn_round_args a = {.type = ZN_F32};
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_round, &a), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "fp32"));
}

static void add_scaled_rounds_twice(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        int64_t n = sizes[s];
        float *a = new_normal(n, 3), *b = new_normal(n, 4), *y = new_floats(n), *scaled = new_floats(n);
        struct zn_add_scaled_args both = {ADDRESS(y), ADDRESS(a), ADDRESS(b), n, 0.3f};
        struct zn_add_scaled_args alone = {ADDRESS(scaled), 0, ADDRESS(b), n, 0.3f};
        run_everywhere(ZN_KERNEL_add_scaled, &both, &(struct output){y, (size_t)n * sizeof *y}, 1);
        run_everywhere(ZN_KERNEL_add_scaled, &alone, &(struct output){scaled, (size_t)n * sizeof *y}, 1);
        for (int64_t i = 0; i < n; i++) {
            volatile float product = 0.3f * b[i]; /* not contracted with the sum */
            assert_true(scaled[i] == product && y[i] == a[i] + product);
        }
        free(a);
        free(b);
        free(y);
        free(scaled);
    }
}

static void fill_uniform_fills_its_range(void **state)
{
    (void)state;
    enum { N = 1000003, CUT = 70001 };
    float *x = new_floats(N), *part = new_floats(N - CUT);
    struct zn_fill_uniform_args a = {ADDRESS(x), 5, N, zn_random_key(1, "lora_A"), 0.25f};
    run_everywhere(ZN_KERNEL_fill_uniform, &a, &(struct output){x, N * sizeof *x}, 1);
    double mean = 0, square = 0, least = 1, most = -1;
    for (int i = 0; i < N; i++) {
        double v = (double)x[i] / 0.25;
        mean += v / N;
        square += v * v / N;
        least = fmin(least, v);
        most = fmax(most, v);
    }
    assert_near(mean, 0, 5 / sqrt(3.0 * N), "mean", 0);
    assert_near(square, 1.0 / 3, 5 * sqrt(4.0 / 45 / N), "variance", 0);
    assert_true(least >= -1 && least < -0.9999 && most <= 1 && most > 0.9999);
    a = (struct zn_fill_uniform_args){ADDRESS(part), 5 + CUT, N - CUT, a.key, 0.25f};
    assert_int_equal(run_on(NULL, 2, ZN_KERNEL_fill_uniform, &a), ZN_OK);
    assert_memory_equal(part, x + CUT, (N - CUT) * sizeof *x);
    free(x);
    free(part);
}

static void fill_normal_has_the_moments(void **state)
{
    (void)state;
    enum { N = 1000003 };
    float *x = new_floats(N);
    struct zn_fill_normal_args a = {ADDRESS(x), 0, N, zn_random_key(1, "weight"), 0.02f};
    run_everywhere(ZN_KERNEL_fill_normal, &a, &(struct output){x, N * sizeof *x}, 1);
    double mean = 0, square = 0, fourth = 0, next = 0;
    for (int i = 0; i < N; i++) {
        double v = (double)x[i] / 0.02;
        mean += v / N;
        square += v * v / N;
        fourth += v * v * v * v / N;
        if (i)
            next += v * (double)x[i - 1] / 0.02 / N;
    }
    /* Five standard deviations of each estimate. */
    assert_near(mean, 0, 5 / sqrt(N), "mean", 0);
    assert_near(square, 1, 5 * sqrt(2.0 / N) / 2, "variance", 0);
    assert_near(fourth, 3, 5 * sqrt(96.0 / N) / 4, "fourth moment", 0);
    assert_near(next, 0, 5 / sqrt(N), "correlation of neighbours", 0);
    free(x);
}

static void fill_normal_does_not_depend_on_cuts(void **state)
{
    (void)state;
    enum { N = 50021 };
    static const int64_t cuts[] = {0, 1, 16, 4097, 20000, 36385, N};
    const int64_t first = INT64_C(5000000000);
    float *whole = new_floats(N), *parts = new_floats(N);
    struct zn_fill_normal_args a = {ADDRESS(whole), first, N, 77, 1.0f};
    assert_int_equal(run_on(NULL, 2, ZN_KERNEL_fill_normal, &a), ZN_OK);
    for (size_t c = 0; c + 1 < COUNT(cuts); c++) {
        struct zn_fill_normal_args part = {ADDRESS(parts + cuts[c]), first + cuts[c],
                                           cuts[c + 1] - cuts[c], 77, 1.0f};
        assert_int_equal(run_on(NULL, 1, ZN_KERNEL_fill_normal, &part), ZN_OK);
    }
    assert_memory_equal(parts, whole, N * sizeof *whole);
    a.key = 78;
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_fill_normal, &a), ZN_OK);
    assert_memory_not_equal(parts, whole, N * sizeof *whole);
    free(whole);
    free(parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_clears_exactly_its_bytes),
        cmocka_unit_test(copy_moves_exactly_its_bytes),
        cmocka_unit_test(copy_rows_moves_from_one_stride_to_another),
        cmocka_unit_test(fill_sets_every_element),
        cmocka_unit_test(add_and_mul_are_exact_and_may_be_in_place),
        cmocka_unit_test(round_is_a_cast_there_and_back),
        cmocka_unit_test(round_to_another_type_is_refused),
        cmocka_unit_test(add_scaled_rounds_twice),
        cmocka_unit_test(fill_uniform_fills_its_range),
        cmocka_unit_test(fill_normal_has_the_moments),
        cmocka_unit_test(fill_normal_does_not_depend_on_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
