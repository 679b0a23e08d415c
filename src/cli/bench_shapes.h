/* Matrix products of real models: what `zinc bench gemm` and its comparison with a BLAS library (bench/bench_gemm.c) measure. */
#ifndef ZN_CLI_BENCH_SHAPES_H
#define ZN_CLI_BENCH_SHAPES_H

#include "device/kernels.h"

struct bench_layer {
    const char *name;
    int64_t in, out;
    bool in_out; /* the weight is stored (in,out), as GPT-2's are */
};

static const struct bench_layer bench_layers[] = {
    {"gpt2-124m.qkv", 768, 2304, true},      {"gpt2-124m.proj", 768, 768, true},
    {"gpt2-124m.fc", 768, 3072, true},       {"gpt2-124m.out", 3072, 768, true},
    {"smollm2-135m.q", 576, 576, false},     {"smollm2-135m.kv", 576, 192, false},
    {"smollm2-135m.gate", 576, 1536, false}, {"smollm2-135m.down", 1536, 576, false},
    {"tinyllama.q", 2048, 2048, false},      {"tinyllama.kv", 2048, 256, false},
    {"tinyllama.gate", 2048, 5632, false},   {"tinyllama.down", 5632, 2048, false},
    {"qwen2.5-0.5b.q", 896, 896, false},     {"qwen2.5-0.5b.kv", 896, 128, false},
    {"qwen2.5-0.5b.gate", 896, 4864, false}, {"qwen2.5-0.5b.down", 4864, 896, false},
};

enum {
    BENCH_N_LAYERS = sizeof bench_layers / sizeof bench_layers[0],
    BENCH_MATRIX_BYTES = 5632 * 2048 * 4, /* of the largest operand */
    BENCH_N_SIDES = 3,
};

static const char *const bench_sides[BENCH_N_SIDES] = {"forward", "dX", "dW"};

/* The product of one side for m tokens. W is B of the forward product and of dX; dW is C. */
static inline struct zn_gemm_args bench_product(const struct bench_layer *l, int64_t m, int side, zn_dtype type)
{
    struct zn_gemm_args g = {.b_type = type};
    if (side == 2) {
        g.transpose_a = true;
        g.m = l->in_out ? l->in : l->out;
        g.n = l->in_out ? l->out : l->in;
        g.k = m;
        g.a_stride = g.m;
        g.b_stride = g.c_stride = g.n;
        return g;
    }
    g.m = m;
    g.n = side == 0 ? l->out : l->in;
    g.k = side == 0 ? l->in : l->out;
    g.transpose_b = (side == 0) != l->in_out;
    g.a_stride = g.k;
    g.b_stride = g.transpose_b ? g.k : g.n;
    g.c_stride = g.n;
    return g;
}

static inline double bench_product_flops(const struct zn_gemm_args *g)
{
    return 2.0 * (double)g->m * (double)g->n * (double)g->k;
}

#endif
