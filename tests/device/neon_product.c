/* Matrix products of the NEON kernels against the canonical order; test_neon.sh compiles and runs it for aarch64, without the
 * libraries of the other tests. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/half.h"

zn_status zn_k_gemm_neon(const struct zn_cpu *cpu, const void *args);

static uint32_t state = 1;

static float next_value(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state * 0x1p-31f;
}

static float b_at(const struct zn_gemm_args *g, int64_t i)
{
    const void *b = (const void *)(uintptr_t)g->b;
    if (g->b_type == ZN_F32)
        return ((const float *)b)[i];
    uint16_t h = ((const uint16_t *)b)[i];
    return g->b_type == ZN_BF16 ? zn_float_of_bf16(h) : zn_float_of_f16(h);
}

static float canonical(const struct zn_gemm_args *g, const float *a, float c, float bias, int64_t i, int64_t j)
{
    for (int64_t at = 0; at < g->k; at += 256) {
        float chain = 0;
        for (int64_t k = at; k < g->k && k < at + 256; k++)
            chain = fmaf(a[g->transpose_a ? k * g->a_stride + i : i * g->a_stride + k],
                         b_at(g, g->transpose_b ? j * g->b_stride + k : k * g->b_stride + j), chain);
        c = g->adds || at > 0 ? c + chain : chain;
    }
    return g->bias ? c + bias : c;
}

static int check(int64_t m, int64_t n, int64_t k, int form, zn_dtype type, int n_threads)
{
    enum { SIZE = 400 * 400 };
    static float a[SIZE], b[SIZE], bias[400], c[SIZE], before[SIZE];
    static uint16_t halves[SIZE];
    for (int i = 0; i < SIZE; i++) {
        a[i] = next_value(), b[i] = next_value(), c[i] = before[i] = next_value();
        halves[i] = type == ZN_BF16 ? zn_bf16_of(b[i]) : zn_f16_of(b[i]);
        bias[i % 400] = a[i];
    }
    struct zn_gemm_args g = {.a = (uintptr_t)a, .b = type == ZN_F32 ? (uintptr_t)b : (uintptr_t)halves, .c = (uintptr_t)c,
                             .bias = form & 8 ? (uintptr_t)bias : 0, .m = m, .n = n, .k = k, .b_type = type,
                             .transpose_a = form & 1, .transpose_b = form & 2, .adds = form & 4, .c_stride = n + 3};
    g.a_stride = (g.transpose_a ? m : k) + 3;
    g.b_stride = (g.transpose_b ? k : n) + 3;
    float *scratch = calloc((size_t)n_threads, ZN_CPU_SCRATCH_BYTES);
    struct zn_cpu cpu = {.n_threads = n_threads, .scratch = scratch};
    int n_wrong = !scratch || zn_k_gemm_neon(&cpu, &g) != ZN_OK;
    free(scratch);
    for (int64_t i = 0; i < m * (n + 3) && !n_wrong; i++) {
        int64_t row = i / (n + 3), col = i % (n + 3);
        float want = col < n ? canonical(&g, a, before[i], bias[col], row, col) : before[i];
        n_wrong += memcmp(&want, &c[i], sizeof want) != 0;
    }
    if (n_wrong)
        printf("FAIL %lld x %lld x %lld, form %d, type %d, %d threads\n", (long long)m, (long long)n, (long long)k, form, (int)type,
               n_threads);
    return n_wrong;
}

int main(void)
{
    static const int64_t sizes[][3] = {{1, 37, 300}, {16, 70, 270}, {17, 33, 48}, {61, 57, 263}, {12, 8, 256}, {130, 90, 7}};
    int n_wrong = 0, n = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int form = 0; form < 16; form++, n++)
            n_wrong += check(sizes[s][0], sizes[s][1], sizes[s][2], form, (zn_dtype)(n % 3), 1 + n % 2);
    printf("%d products, %d wrong\n", n, n_wrong);
    return n_wrong > 0;
}
