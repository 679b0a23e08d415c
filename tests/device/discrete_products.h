/* Products on a discrete device in the canonical order, to the bit against plain chains of fmaf and against the processor's. */
#ifndef ZN_TESTS_DEVICE_DISCRETE_PRODUCTS_H
#define ZN_TESTS_DEVICE_DISCRETE_PRODUCTS_H

#include "device/both_devices.h"
#include "tensor/half.h"

static const struct tested_backend *backend;
static struct both both, *b = &both;
static const zn_dtype types[] = {ZN_F32, ZN_BF16, ZN_F16};

static float value_at(zn_addr place, zn_dtype type, int64_t i)
{
    const void *at = b->image + place;
    if (type == ZN_F32)
        return ((const float *)at)[i];
    uint16_t half = ((const uint16_t *)at)[i];
    return type == ZN_BF16 ? zn_bf16_to_float(half) : zn_f16_to_float(half);
}

/* C(row,col) of the arguments, whose addresses are places. */
static float element(const struct zn_gemm_args *g, int64_t row, int64_t col)
{
    float total = g->adds ? value_at(g->c, ZN_F32, row * g->c_stride + col) : 0;
    for (int64_t first = 0; first < g->k; first += ZN_GEMM_K) {
        float chain = 0;
        for (int64_t k = first; k < g->k && k < first + ZN_GEMM_K; k++)
            chain = fmaf(value_at(g->a, ZN_F32, g->transpose_a ? k * g->a_stride + row : row * g->a_stride + k),
                         value_at(g->b, g->b_type, g->transpose_b ? col * g->b_stride + k : k * g->b_stride + col), chain);
        total = first == 0 && !g->adds ? chain : total + chain;
    }
    return g->bias ? total + value_at(g->bias, g->bias_type, col) : total;
}

static void reference(const struct zn_gemm_args *g)
{
    memcpy(b->result[0], b->image, b->used);
    for (int64_t row = 0; row < g->m; row++)
        for (int64_t col = 0; col < g->n; col++)
            ((float *)(void *)(b->result[0] + g->c))[row * g->c_stride + col] = element(g, row, col);
}

static int n_rounds(void)
{
    const char *text = getenv("ZINC_TEST_ROUNDS");
    return text ? 4 * atoi(text) : 24;
}

static void products(void **state)
{
    (void)state;
    for (int round = 0, n = n_rounds(); round < n; round++) {
        struct zn_gemm_args g = {.m = draw(b, 1, round % 4 ? 70 : 8), .n = draw(b, 1, 150), .k = draw(b, 1, round % 3 ? 90 : 600),
                                 .b_type = types[draw(b, 0, 2)], .bias_type = types[draw(b, 0, 2)], .transpose_a = draw(b, 0, 1),
                                 .transpose_b = draw(b, 0, 1), .adds = draw(b, 0, 1)};
        char what[100];
        snprintf(what, sizeof what, "%lld x %lld x %lld%s%s%s, %s", (long long)g.m, (long long)g.n, (long long)g.k,
                 g.transpose_a ? ", A'" : "", g.transpose_b ? ", B'" : "", g.adds ? ", adds" : "", zn_dtype_name(g.b_type));
        begin(b);
        g.a_stride = (g.transpose_a ? g.m : g.k) + draw(b, 0, 3);
        g.b_stride = (g.transpose_b ? g.k : g.n) + draw(b, 0, 3);
        g.c_stride = g.n + draw(b, 0, 3);
        g.a = place_floats(b, (g.transpose_a ? g.k : g.m) * g.a_stride, 1);
        g.b = place_params(b, (g.transpose_b ? g.n : g.k) * g.b_stride, g.b_type);
        g.c = place_floats(b, g.m * g.c_stride, 1);
        g.bias = draw(b, 0, 1) ? place_params(b, g.n, g.bias_type) : 0;
        run_on(b, 1, ZN_KERNEL_gemm, &g, sizeof g);
        reference(&g);
        compare(b, ZN_KERNEL_gemm, what);
        run_on(b, 0, ZN_KERNEL_gemm, &g, sizeof g);
        compare(b, ZN_KERNEL_gemm, what);
    }
}

static int set_up(void **state)
{
    (void)state;
    both_open(b, backend, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    both_close(b);
    return 0;
}

/* The tests as a program. */
static int run_product_tests(const struct tested_backend *tested)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products)};
    backend = tested;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#endif
