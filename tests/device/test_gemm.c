/* The matrix product: its canonical order to the bit, for every thread count, instruction set, shape and cut. */
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

/* The order that device/kernels.h states, one element after the other; the caller frees. */
static float *canonical(const struct product *p)
{
    int64_t a_stride = a_cols(p) + GAP, b_stride = b_cols(p) + GAP, c_stride = p->n + GAP;
    float *c = new_c(p);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float total = p->adds ? c[i * c_stride + j] : 0;
            for (int64_t at = 0; at < p->k; at += 256) {
                float chain = 0;
                for (int64_t k = at; k < p->k && k < at + 256; k++)
                    chain = fmaf(p->a[p->transpose_a ? k * a_stride + i : i * a_stride + k],
                                 p->b[p->transpose_b ? j * b_stride + k : k * b_stride + j], chain);
                total = p->adds || at > 0 ? total + chain : chain;
            }
            c[i * c_stride + j] = p->has_bias ? total + p->bias[j] : total;
        }
    return c;
}

/* Every instruction set, with one, two or three threads in turn. */
static void check_everywhere(const struct product *p)
{
    char what[128];
    float *expected = canonical(p);
    static int turn = 0;
    for (const struct variant *v = gemm_variants; v->isa; v++) {
        int n_threads = 1 + turn++ % 3;
        if (!variant_runs_here(v))
            continue;
        float *c = whole(p, v, n_threads);
        snprintf(what, sizeof what, "%s, %d threads, %lld x %lld x %lld, form %d%d%d%d", v->isa, n_threads, (long long)p->m,
                 (long long)p->n, (long long)p->k, p->transpose_a, p->transpose_b, p->adds, p->has_bias);
        assert_same_bits(what, expected, c, p->m * (p->n + GAP));
        free(c);
    }
    free(expected);
}

static void check_size(int64_t m, int64_t n, int64_t k, int form)
{
    struct product p = product_init(m, n, k, form & 3, form & 4, form & 8);
    check_everywhere(&p);
    product_fini(&p);
}

/* One row, few rows and many, edges of tiles, strips and chunks; no sum at all. */
static void has_the_canonical_order(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},   {1, 37, 19},    {1, 600, 530}, {5, 7, 0},   {7, 3, 2},    {16, 90, 300},
                                       {17, 33, 48}, {257, 65, 40}, {30, 20, 513}, {1, 9, 0},   {3, 1030, 257}, {12, 32, 256}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int form = 0; form < 16; form++)
            check_size(sizes[s][0], sizes[s][1], sizes[s][2], form);
}

static void has_it_for_any_shape(void **state)
{
    (void)state;
    uint64_t key = zn_random_key(11, "shapes"), at = 0;
    for (int i = 0; i < 32; i++) {
        double u[3];
        for (int d = 0; d < 3; d++)
            u[d] = zn_random_uniform(key, at++);
        int64_t m = 1 + (int64_t)(u[0] * u[0] * 260), n = 1 + (int64_t)(u[1] * u[1] * 260), k = 1 + (int64_t)(u[2] * 600);
        check_size(m, n, k, i & 15);
    }
}

/* More than the scratch holds of either operand. */
static void has_it_where_operands_are_packed_in_parts(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { /* each instruction set has each number of threads */
        check_size(1900, 1901, 3, 2);
        check_size(35, 20, 17000, 1 + 4);
        check_size(29, 300, 600, 8);
        check_size(20, 20, 1, 0);
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

/* Rows and columns anywhere, the sum at whole chunks. */
static void has_the_same_bits_however_it_is_cut(void **state)
{
    (void)state;
    for (int form = 0; form < 16; form++) {
        struct product p = product_init(form & 8 ? 65 : 5, 300, 3 * ZN_GEMM_K + 52, form & 3, form & 4, form & 1);
        float *expected = canonical(&p);
        check_cut(&p, expected, 0, 13);
        check_cut(&p, expected, 1, 77);
        check_cut(&p, expected, 2, ZN_GEMM_K);
        check_cut(&p, expected, 2, 2 * ZN_GEMM_K);
        free(expected);
        product_fini(&p);
    }
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
    assert_int_equal(omp_get_max_threads(), 3);
    struct product p = product_init(20, 20, 20, 0, false, false);
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        float *c = whole(&p, &gemm_variants[0], n_threads);
        assert_int_equal(omp_get_max_threads(), 3);
        free(c);
    }
    product_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_canonical_order),
        cmocka_unit_test(has_it_for_any_shape),
        cmocka_unit_test(has_it_where_operands_are_packed_in_parts),
        cmocka_unit_test(has_the_same_bits_however_it_is_cut),
        cmocka_unit_test(overwrites_not_a_number_unless_it_adds),
        cmocka_unit_test(leaves_the_thread_count_of_the_caller_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
