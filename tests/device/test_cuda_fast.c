/* --math fast on a CUDA device: products by cuBLASLt, here its stand-in, close to the exact ones and the same run after run, with B and the
 * bias in every type and B in one piece or several. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/both_devices.h"
#include "device/on_cuda.h"
#include "tensor/half.h"

static struct both both, *b = &both;
static const zn_dtype types[] = {ZN_F32, ZN_BF16, ZN_F16};

static zn_status open_fast(void **opened)
{
    ZN_TRY(on_cuda_open(opened));
    return zn_cuda_use_fast_math(*opened);
}

static const struct tested_backend fast = {"CUDA, fast", open_fast, on_cuda_close, on_cuda_create};

/* Sums of n products of values of about 1, each rounded; and no other byte changed. */
static void assert_close(const struct zn_gemm_args *g, const char *what)
{
    const unsigned char *exact = b->result[0], *got = b->result[1];
    int64_t n_other = 0;
    for (size_t at = 0; at < b->used; at += 4) {
        float x, y;
        memcpy(&x, exact + at, 4);
        memcpy(&y, got + at, 4);
        bool is_product = at >= g->c && at < g->c + (size_t)(4 * g->m * g->c_stride) && (int64_t)(at - g->c) / 4 % g->c_stride < g->n;
        if (is_product && !(fabsf(x - y) <= 1e-6f * (float)(g->k + 10)))
            fail_msg("%s: %g is %g at %zu", what, (double)x, (double)y, at);
        if (!is_product && memcmp(exact + at, got + at, 4) != 0)
            fail_msg("%s: what is not of the product changes at %zu", what, at);
        n_other += is_product && memcmp(&x, &y, 4) != 0;
    }
    assert_true(g->k < 300 || g->m * g->n < 500 || n_other > 0); /* else it is the exact kernel that ran */
}

static void check_product(struct zn_gemm_args g)
{
    static unsigned char again[BOTH_BYTES];
    char what[120];
    snprintf(what, sizeof what, "%lld x %lld x %lld%s%s%s, %s", (long long)g.m, (long long)g.n, (long long)g.k, g.transpose_a ? ", A'" : "",
             g.transpose_b ? ", B'" : "", g.adds ? ", adds" : "", zn_dtype_name(g.b_type));
    begin(b);
    g.a_stride = (g.transpose_a ? g.m : g.k) + draw(b, 0, 3);
    g.b_stride = (g.transpose_b ? g.k : g.n) + draw(b, 0, 3);
    g.c_stride = g.n + draw(b, 0, 3);
    g.a = place_floats(b, (g.transpose_a ? g.k : g.m) * g.a_stride, 1);
    g.b = place_params(b, (g.transpose_b ? g.n : g.k) * g.b_stride, g.b_type);
    g.c = place_floats(b, g.m * g.c_stride, 1);
    g.bias = draw(b, 0, 1) ? place_params(b, g.n, g.bias_type) : 0;
    run_on(b, 0, ZN_KERNEL_gemm, &g, sizeof g);
    run_on(b, 1, ZN_KERNEL_gemm, &g, sizeof g);
    assert_close(&g, what);
    memcpy(again, b->result[1], b->used);
    run_on(b, 1, ZN_KERNEL_gemm, &g, sizeof g);
    assert_memory_equal(again, b->result[1], b->used);
}

static void products_are_close(void **state)
{
    (void)state;
    for (int round = 0; round < 48; round++)
        check_product((struct zn_gemm_args){.m = draw(b, 1, round % 4 ? 70 : 8), .n = draw(b, 1, 150), .k = draw(b, 1, round % 3 ? 90 : 600),
                                            .b_type = types[round % 3], .bias_type = types[draw(b, 0, 2)], .transpose_a = round & 1,
                                            .transpose_b = round & 2, .adds = round & 4});
}

/* A 16-bit B that does not fit the memory for it is cut along n, or along k. */
static void large_operands_are_cut(void **state)
{
    (void)state;
    enum { N = 2750, K = 2800, M = 3 };
    struct both *own = b;
    zn_device *device = own->device[1];
    uint16_t *halves = malloc(sizeof *halves * N * K);
    float *a = malloc(sizeof *a * M * K), *c = malloc(sizeof *c * M * N);
    zn_addr base;
    assert_true(halves && a && c);
    for (int i = 0; i < N * K; i++)
        halves[i] = (uint16_t)(0x3c00 | (zn_random_bits(7, (uint64_t)i) & 0x83ff));
    for (int i = 0; i < M * K; i++)
        a[i] = (float)zn_random_normal(8, (uint64_t)i);
    OK(zn_device_alloc(device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, 4 * (N * K + M * K + M * N), &base));
    for (int transpose_b = 0; transpose_b < 2; transpose_b++) {
        struct zn_gemm_args g = {.m = M, .n = N, .k = K, .a = base + 2 * N * K, .b = base, .c = base + 2 * N * K + 4 * M * K, .b_type = ZN_BF16,
                                 .transpose_b = transpose_b, .a_stride = K, .b_stride = transpose_b ? K : N, .c_stride = N};
        OK(zn_device_write(device, g.b, halves, sizeof *halves * N * K));
        OK(zn_device_write(device, g.a, a, sizeof *a * M * K));
        OK(zn_run_gemm(device, &g));
        OK(zn_device_read(device, c, g.c, sizeof *c * M * N));
        for (int at = 0; at < M * N; at += 41) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)a[at / N * K + k] * (double)zn_bf16_to_float(halves[transpose_b ? at % N * K + k : k * N + at % N]);
            assert_true(fabs(sum - (double)c[at]) < 1e-3);
        }
    }
    zn_device_free(device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, base, 4 * (N * K + M * K + M * N));
    free(halves);
    free(a);
    free(c);
}

static int set_up(void **state)
{
    (void)state;
    both_open(b, &fast, 3);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    both_close(b);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_close), cmocka_unit_test(large_operands_are_cut)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
