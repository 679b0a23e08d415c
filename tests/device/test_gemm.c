/* The matrix product: right, the same bits for every thread count, instruction set and cut. */
#include <omp.h>

#include "device/variants.h"

VARIANTS(gemm)

enum { GAP = 3 }; /* columns between the rows of every matrix that no product may touch */

struct product {
    int64_t m, n, k;
    bool transpose_a, transpose_b, adds, has_bias;
    float *a, *b, *bias, *before; /* before: C as it was */
};

static int64_t a_cols(const struct product *p)
{
    return p->transpose_a ? p->m : p->k;
}
static int64_t b_cols(const struct product *p)
{
    return p->transpose_b ? p->k : p->n;
}

static struct product product_init(int64_t m, int64_t n, int64_t k, int form, bool adds,
                                   bool has_bias)
{
    struct product p = {.m = m,
                        .n = n,
                        .k = k,
                        .transpose_a = form & 1,
                        .transpose_b = form & 2,
                        .adds = adds,
                        .has_bias = has_bias};
    p.a = random_floats("a", (p.transpose_a ? k : m) * (a_cols(&p) + GAP) + GAP, 1.0);
    p.b = random_floats("b", (p.transpose_b ? n : k) * (b_cols(&p) + GAP) + GAP, 1.0);
    p.bias = random_floats("bias", n, 1.0);
    p.before = random_floats("c", m * (n + GAP), 1.0);
    return p;
}

static void product_fini(struct product *p)
{
    free(p->a);
    free(p->b);
    free(p->bias);
    free(p->before);
}

static float *new_c(const struct product *p)
{
    size_t n_bytes = (size_t)(p->m * (p->n + GAP)) * sizeof(float);
    float *c = malloc(n_bytes);
    assert_non_null(c);
    memcpy(c, p->before, n_bytes);
    return c;
}

/* The part of the product with rows, columns and sum from row, col, k to their ends. */
static struct zn_gemm_args part(const struct product *p, float *c, const int64_t from[3],
                                const int64_t to[3])
{
    int64_t a_stride = a_cols(p) + GAP, b_stride = b_cols(p) + GAP, c_stride = p->n + GAP;
    const float *a =
        p->a + (p->transpose_a ? from[2] * a_stride + from[0] : from[0] * a_stride + from[2]);
    const float *b =
        p->b + (p->transpose_b ? from[1] * b_stride + from[2] : from[2] * b_stride + from[1]);
    struct zn_gemm_args args = {
        .a = address_of(a),
        .b = address_of(b),
        .c = address_of(c + from[0] * c_stride + from[1]),
        .bias = p->has_bias && to[2] == p->k ? address_of(p->bias + from[1]) : 0,
        .m = to[0] - from[0],
        .n = to[1] - from[1],
        .k = to[2] - from[2],
        .a_stride = a_stride,
        .b_stride = b_stride,
        .c_stride = c_stride,
        .transpose_a = p->transpose_a,
        .transpose_b = p->transpose_b,
        .adds = p->adds || from[2] > 0,
    };
    return args;
}

/* C of the whole product in one call; the caller frees. */
static float *whole(const struct product *p, const struct variant *variant, int n_threads)
{
    float *c = new_c(p);
    const int64_t from[3] = {0, 0, 0}, to[3] = {p->m, p->n, p->k};
    struct zn_gemm_args args = part(p, c, from, to);
    run_variant(variant, n_threads, &args);
    return c;
}

/* Each element within 2e-6 of the sum of absolute products and of what is added. */
static void check_against_double(const struct product *p, const float *c)
{
    int64_t a_stride = a_cols(p) + GAP, b_stride = b_cols(p) + GAP, c_stride = p->n + GAP;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n + GAP; j++) {
            double old = (double)p->before[i * c_stride + j], sum = 0, magnitude = 0;
            if (j >= p->n) {
                assert_true((double)c[i * c_stride + j] == old);
                continue;
            }
            for (int64_t l = 0; l < p->k; l++) {
                double x = (double)p->a[p->transpose_a ? l * a_stride + i : i * a_stride + l];
                double y = (double)p->b[p->transpose_b ? j * b_stride + l : l * b_stride + j];
                sum += x * y;
                magnitude += fabs(x * y);
            }
            double added = (p->adds ? old : 0) + (p->has_bias ? (double)p->bias[j] : 0);
            double error = fabs((double)c[i * c_stride + j] - sum - added);
            if (!(error <= 2e-6 * (magnitude + fabs(added) + 1)))
                fail_msg("(%lld,%lld) is off by %g", (long long)i, (long long)j, error);
        }
}

static void is_the_product(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 37, 19},    {1, 600, 1100},
                                       {5, 7, 0},      {7, 3, 2},      {65, 33, 48},
                                       {257, 513, 40}, {30, 20, 1030}, {1, 9, 0}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int form = 0; form < 16; form++) {
            struct product p =
                product_init(sizes[s][0], sizes[s][1], sizes[s][2], form & 3, form & 4, form & 8);
            float *c = whole(&p, &gemm_variants[0], 2);
            check_against_double(&p, c);
            free(c);
            product_fini(&p);
        }
}

static void has_the_same_bits_for_all_threads_and_instruction_sets(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        struct product p = product_init(300, 1100, 1200, form, form & 1, true);
        float *expected = whole(&p, &gemm_variants[0], 1);
        for (const struct variant *v = gemm_variants; v->isa; v++)
            for (int n_threads = 1; variant_runs_here(v) && n_threads <= 3; n_threads++) {
                float *c = whole(&p, v, n_threads);
                assert_same_bits(v->isa, expected, c, p.m * (p.n + GAP));
                free(c);
            }
        free(expected);
        product_fini(&p);
    }
}

/* Calls for the parts of a product cut at `cut` along one dimension, in order. */
static void check_cut(const struct product *p, const float *expected, int dimension, int64_t cut)
{
    float *c = new_c(p);
    int64_t from[3] = {0, 0, 0}, to[3] = {p->m, p->n, p->k}, end = to[dimension];
    for (int64_t at = 0; at < end; at += cut) {
        from[dimension] = at;
        to[dimension] = at + cut < end ? at + cut : end;
        struct zn_gemm_args args = part(p, c, from, to);
        run_variant(&gemm_variants[0], 2, &args);
    }
    assert_same_bits("cut", expected, c, p->m * (p->n + GAP));
    free(c);
}

static void has_the_same_bits_however_it_is_cut_along_the_grid(void **state)
{
    (void)state;
    /* The last block of rows has many rows, or the one row that takes another way. */
    static const int64_t rows[] = {2 * ZN_GEMM_M + 88, ZN_GEMM_M + 1};
    for (int form = 0; form < 16; form++) {
        struct product p = product_init(rows[form >> 3], 2 * ZN_GEMM_N + 76, 2 * ZN_GEMM_K + 52,
                                        form & 3, form & 4, form & 1);
        float *expected = whole(&p, &gemm_variants[0], 1);
        check_cut(&p, expected, 0, ZN_GEMM_M);
        check_cut(&p, expected, 1, ZN_GEMM_N);
        check_cut(&p, expected, 2, ZN_GEMM_K);
        free(expected);
        product_fini(&p);
    }
}

static void makes_tiles_of_1024_whole_panels(void **state)
{
    (void)state;
    assert_int_equal(1024 % ZN_GEMM_M, 0);
    assert_int_equal(1024 % ZN_GEMM_N, 0);
    assert_int_equal(1024 % ZN_GEMM_K, 0);
}

static void overwrites_not_a_number_unless_it_adds(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 40; m += 39) {
        struct product p = product_init(m, 50, 30, 0, false, false);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < p.n; j++)
                p.before[i * (p.n + GAP) + j] = NAN;
        float *c = whole(&p, &gemm_variants[0], 1);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < p.n; j++)
                assert_true(isfinite(c[i * (p.n + GAP) + j]));
        free(c);
        product_fini(&p);
    }
}

static void leaves_the_thread_count_of_the_caller_alone(void **state)
{
    (void)state;
    omp_set_num_threads(3);
    zn_blas_init();
    assert_int_equal(omp_get_max_threads(), 3);
    struct product p = product_init(20, 20, 20, 0, false, false);
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        float *c = whole(&p, &gemm_variants[0], n_threads);
        assert_int_equal(omp_get_max_threads(), 3);
        free(c);
    }
    product_fini(&p);
}

static void refuses_strides_beyond_the_integers_of_the_blas(void **state)
{
    (void)state;
    struct zn_gemm_args args = {.a_stride = INT64_C(1) << 31, .b_stride = 1, .c_stride = 1};
    struct zn_cpu cpu = {.n_threads = 1};
    assert_int_equal(gemm_variants[0].run(&cpu, &args), ZN_ERR_UNSUPPORTED);
}

int main(void)
{
    zn_blas_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_product),
        cmocka_unit_test(has_the_same_bits_for_all_threads_and_instruction_sets),
        cmocka_unit_test(has_the_same_bits_however_it_is_cut_along_the_grid),
        cmocka_unit_test(makes_tiles_of_1024_whole_panels),
        cmocka_unit_test(overwrites_not_a_number_unless_it_adds),
        cmocka_unit_test(leaves_the_thread_count_of_the_caller_alone),
        cmocka_unit_test(refuses_strides_beyond_the_integers_of_the_blas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
