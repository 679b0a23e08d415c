/* Products on a device against the processor's: the bits depend on neither how often, in which pieces, where, nor beside what they
 * are computed. */
#include <stdio.h>
#include <string.h>

#include "device/check/both.h"

enum { COPIED_BYTES = 1 << 20, N_AGAIN = 2 };

static void choose_shape(struct both *b, int round, struct zn_gemm_args *g)
{
    static const zn_dtype types[] = {ZN_F32, ZN_BF16, ZN_F16};
    *g = (struct zn_gemm_args){.m = both_draw(b, 1, round % 4 ? 70 : 8),
                               .n = both_draw(b, 1, 150),
                               .k = both_draw(b, 1, round % 3 ? 90 : 600),
                               .b_type = types[both_draw(b, 0, 2)],
                               .bias_type = types[both_draw(b, 0, 2)],
                               .transpose_a = both_draw(b, 0, 1),
                               .transpose_b = both_draw(b, 0, 1),
                               .adds = both_draw(b, 0, 1)};
    g->a_stride = (g->transpose_a ? g->m : g->k) + both_draw(b, 0, 3);
    g->b_stride = (g->transpose_b ? g->k : g->n) + both_draw(b, 0, 3);
    g->c_stride = g->n + both_draw(b, 0, 3);
    g->a = both_floats(b, (g->transpose_a ? g->k : g->m) * g->a_stride, 1);
    g->b = both_params(b, (g->transpose_b ? g->n : g->k) * g->b_stride, g->b_type);
    g->c = both_floats(b, g->m * g->c_stride, 1);
    g->bias = both_draw(b, 0, 1) ? both_params(b, g->n, g->bias_type) : 0;
}

static zn_status queue(struct both *b, const struct zn_gemm_args *g)
{
    struct zn_gemm_args moved;
    both_move(b, 1, ZN_KERNEL_gemm, g, sizeof *g, &moved);
    return zn_run_gemm(b->device[1], &moved);
}

/* The rows from m0 to m1 and columns from n0 to n1, k in chunks whose ends are multiples of ZN_GEMM_K. */
static zn_status queue_piece(struct both *b, const struct zn_gemm_args *whole, int64_t m0, int64_t m1, int64_t n0, int64_t n1)
{
    zn_addr width = zn_dtype_bytes(whole->b_type), bias_width = zn_dtype_bytes(whole->bias_type);
    for (int64_t k = 0; k < whole->k; k += ZN_GEMM_K) {
        struct zn_gemm_args g = *whole;
        g.m = m1 - m0;
        g.n = n1 - n0;
        g.k = whole->k - k < ZN_GEMM_K ? whole->k - k : ZN_GEMM_K;
        g.a += 4 * (zn_addr)(g.transpose_a ? k * g.a_stride + m0 : m0 * g.a_stride + k);
        g.b += width * (zn_addr)(g.transpose_b ? n0 * g.b_stride + k : k * g.b_stride + n0);
        g.c += 4 * (zn_addr)(m0 * g.c_stride + n0);
        g.bias = g.bias && k + g.k == whole->k ? g.bias + bias_width * (zn_addr)n0 : 0;
        g.adds = whole->adds || k > 0;
        ZN_TRY(queue(b, &g));
    }
    return ZN_OK;
}

static zn_status queue_cut(struct both *b, const struct zn_gemm_args *g)
{
    int64_t m[] = {0, both_draw(b, 0, g->m), g->m}, n[] = {0, both_draw(b, 0, g->n), g->n};
    for (int i = 0; i < 4; i++)
        if (m[i / 2] < m[i / 2 + 1] && n[i % 2] < n[i % 2 + 1])
            ZN_TRY(queue_piece(b, g, m[i / 2], m[i / 2 + 1], n[i % 2], n[i % 2 + 1]));
    return ZN_OK;
}

/* While bytes beyond the operands are copied out and in. */
static zn_status run_beside_copies(struct both *b, const struct zn_gemm_args *g)
{
    zn_clock *clock = b->device[1]->clock;
    zn_addr far = b->base[1] + ZN_CHECK_BYTES - 2 * COPIED_BYTES, host = (zn_addr)(uintptr_t)(b->result[1]);
    zn_event out, in;
    if (!zn_device_is_discrete(b->device[1]))
        return queue(b, g);
    zn_event_init(&out);
    zn_event_init(&in);
    zn_status status = zn_device_copy(b->device[1], ZN_LANE_OUT,
                                      &(struct zn_transfer){.to = host, .from = far, .n_bytes = COPIED_BYTES, .done = &out});
    bool is_out = status == ZN_OK;
    if (status == ZN_OK)
        status = zn_device_copy(b->device[1], ZN_LANE_IN,
                                &(struct zn_transfer){.to = far + COPIED_BYTES, .from = host + 2 * COPIED_BYTES,
                                                      .n_bytes = COPIED_BYTES, .done = &in});
    bool is_in = is_out && status == ZN_OK;
    for (int i = 0; i < 4 && status == ZN_OK && !g->adds; i++)
        status = queue(b, g);
    if (status == ZN_OK && g->adds)
        status = queue(b, g);
    zn_status copied = is_out ? zn_event_wait(&out, clock) : ZN_OK;
    if (is_in && zn_event_wait(&in, clock) != ZN_OK)
        copied = ZN_ERR_IO;
    zn_event_fini(&out);
    zn_event_fini(&in);
    return status == ZN_OK ? copied : status;
}

/* Writes the operands, runs one way of computing the product, and compares. */
static void check_way(struct both *b, const struct zn_gemm_args *g, zn_status (*way)(struct both *, const struct zn_gemm_args *),
                      const char *shape, const char *name)
{
    char what[200];
    snprintf(what, sizeof what, "%s, %s", shape, name);
    if (b->status == ZN_OK)
        b->status = zn_device_write(b->device[1], b->base[1], b->image, b->used);
    if (b->status == ZN_OK)
        b->status = way(b, g);
    both_take(b, 1);
    both_compare(b, ZN_KERNEL_gemm, what);
}

static void check_shape(struct both *b, int round)
{
    struct zn_gemm_args g;
    char shape[120];
    both_begin(b);
    for (int64_t moves = round > 0 ? both_draw(b, 0, 40) : 0; moves > 0; moves--) /* begins anywhere */
        both_bytes(b, 8);
    choose_shape(b, round, &g);
    snprintf(shape, sizeof shape, "%lld x %lld x %lld%s%s%s, %s", (long long)g.m, (long long)g.n, (long long)g.k,
             g.transpose_a ? ", A'" : "", g.transpose_b ? ", B'" : "", g.adds ? ", adds" : "", zn_dtype_name(g.b_type));
    both_run(b, 0, ZN_KERNEL_gemm, &g, sizeof g);
    for (int i = 0; i < N_AGAIN; i++)
        check_way(b, &g, queue, shape, i ? "again" : "once");
    check_way(b, &g, queue_cut, shape, "cut");
    check_way(b, &g, run_beside_copies, shape, "beside copies");
}

/* The same operands 4 KiB further on. */
static void check_moved(struct both *b)
{
    enum { STEP = 4096 };
    struct zn_gemm_args g, further;
    unsigned char *image = b->image;
    both_begin(b);
    choose_shape(b, 0, &g);
    size_t used = b->used;
    both_run(b, 0, ZN_KERNEL_gemm, &g, sizeof g);
    if (b->status != ZN_OK)
        return;
    b->status = zn_device_write(b->device[1], b->base[1] + STEP, image, used);
    further = g;
    further.a += STEP;
    further.b += STEP;
    further.c += STEP;
    further.bias += further.bias ? STEP : 0;
    if (b->status == ZN_OK)
        b->status = queue(b, &further);
    if (b->status == ZN_OK)
        b->status = zn_device_read(b->device[1], b->result[1], b->base[1] + STEP, used);
    both_compare(b, ZN_KERNEL_gemm, "moved");
}

zn_status zn_check_products(zn_device *processor, zn_device *device, int n_rounds, uint64_t seed, struct zn_check *check)
{
    struct both b;
    b.status = both_init(&b, processor, device, seed, check);
    for (int round = 0; round < n_rounds && b.status == ZN_OK; round++) {
        check_shape(&b, round);
        if (b.status == ZN_OK)
            check_moved(&b);
    }
    both_fini(&b);
    return b.status;
}
