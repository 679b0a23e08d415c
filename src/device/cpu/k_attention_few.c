/* Causal attention, forward, for the few queries of a step of generation: what bounds it is the reading of keys and values, so
 * one task takes all query heads that share them. Keys lie along the lanes; each score, weight and sum has the order of
 * device/kernels.h, hence the bits that a longer sequence gives. */
#include <math.h>
#include <omp.h>

#include "device/cpu/attention.h"
#include "device/cpu/attention_tile.h"
#include "device/cpu/softmax.h"

/* The query heads of one kv head in one sequence. */
struct heads {
    float *out, *lse;
    const float *q, *k, *v;
    struct sight sight;
    int64_t n;
};

/* A thread's scratch: a block of keys transposed, a block of values, the scores of a query in all heads, which become weights, and
 * the running softmax of all queries. */
struct scratch {
    float *k_transposed, *v, *weights, *max, *sum, *factor;
};

static struct heads heads_of(const struct zn_attention_forward_args *a, int64_t batch, int64_t kv_head)
{
    int64_t row = batch * a->seq_len, kv_row = batch * (a->past + a->seq_len), n = a->heads / a->kv_heads, head = kv_head * n;
    return (struct heads){
        .out = zn_floats(a->out) + row * a->out_stride + head * a->head_dim,
        .lse = zn_floats(a->lse) + (batch * a->heads + head) * a->seq_len,
        .q = zn_floats(a->q) + row * a->q_stride + head * a->head_dim,
        .k = zn_floats(a->k) + kv_row * a->k_stride + kv_head * a->head_dim,
        .v = zn_floats(a->v) + kv_row * a->v_stride + kv_head * a->head_dim,
        .sight = sight_of(a->window, zn_pointer(a->position_ids), batch, a->seq_len),
        .n = n,
    };
}

static int64_t scratch_floats(const struct zn_attention_forward_args *a)
{
    return BLOCK * (a->head_dim + padded_dim(a->head_dim)) + a->heads / a->kv_heads * (BLOCK + 3 * FEW_QUERIES);
}

static struct scratch scratch_of(float *at, const struct zn_attention_forward_args *a)
{
    int64_t n = a->heads / a->kv_heads;
    struct scratch s = {.k_transposed = at, .v = at + BLOCK * a->head_dim};
    s.weights = s.v + BLOCK * padded_dim(a->head_dim);
    s.max = s.weights + n * BLOCK;
    s.sum = s.max + n * FEW_QUERIES;
    s.factor = s.sum + n * FEW_QUERIES;
    return s;
}

/* Turns the scores of one query into weights relative to the new maximum. */
static void weigh_keys(float *scores, int64_t n_keys, float *max, float *sum, float *factor)
{
    float greatest = zn_row_max(scores, n_keys), total = 0.0f;
    greatest = greatest > *max ? greatest : *max;
    float shift = greatest == -INFINITY ? 0.0f : greatest;
    *factor = zn_exp(*max - shift);
    for (int64_t j = 0; j < n_keys; j++)
        scores[j] = zn_exp(scores[j] - shift);
    for (int64_t j = 0; j < n_keys; j++)
        total += scores[j];
    *max = greatest;
    *sum = fmaf(*sum, *factor, total);
}

/* Query `query` of all heads against a block of keys, as far as it sees them. */
static void attend_query(const struct zn_attention_forward_args *a, const struct heads *h, const struct scratch *s, int64_t query,
                         int64_t key, struct key_range seen, struct rows v)
{
    int64_t n_keys = seen.to - seen.from, running = query * h->n;
    tile_multiply(&(struct tile_product){.a = h->q + query * a->q_stride,
                                         .b = s->k_transposed,
                                         .c = s->weights,
                                         .a_row = a->head_dim,
                                         .a_step = 1,
                                         .b_step = BLOCK,
                                         .c_row = BLOCK,
                                         .scale = a->scale,
                                         .end = TILE_SCALE},
                  h->n, BLOCK, a->head_dim);
    for (int64_t i = 0; i < h->n; i++)
        weigh_keys(s->weights + i * BLOCK + seen.from, n_keys, s->max + running + i, s->sum + running + i, s->factor + running + i);
    tile_multiply(&(struct tile_product){.a = s->weights + seen.from,
                                         .b = v.at + seen.from * v.stride,
                                         .c = h->out + query * a->out_stride,
                                         .a_row = BLOCK,
                                         .a_step = 1,
                                         .b_step = v.stride,
                                         .c_row = a->head_dim,
                                         .factor = s->factor + running,
                                         .end = TILE_JOIN,
                                         .first = key <= first_key(h->sight, a->past + query)},
                  h->n, a->head_dim, n_keys);
}

static void attend(const struct zn_attention_forward_args *a, const struct heads *h, const struct scratch *s)
{
    int64_t n_running = h->n * a->seq_len, end = a->past + a->seq_len;
    for (int64_t i = 0; i < n_running; i++) {
        s->max[i] = -INFINITY;
        s->sum[i] = 0.0f;
    }
    for (int64_t key = first_key(h->sight, a->past) / BLOCK * BLOCK; key < end; key += BLOCK) {
        int64_t n_keys = attention_min(BLOCK, end - key);
        struct rows v = rows_in_lanes(h->v + key * a->v_stride, a->v_stride, n_keys, a->head_dim, s->v);
        transpose_block(s->k_transposed, h->k + key * a->k_stride, a->k_stride, n_keys, a->head_dim);
        for (int64_t query = 0; query < a->seq_len; query++) {
            struct key_range seen = keys_in_block(h->sight, a->past + query, a->past + query, key, n_keys);
            if (seen.to > seen.from)
                attend_query(a, h, s, query, key, seen, v);
        }
    }
    for (int64_t query = 0; query < a->seq_len; query++)
        for (int64_t i = 0; i < h->n; i++) {
            int64_t running = query * h->n + i;
            scale_row(h->out + query * a->out_stride + i * a->head_dim, a->head_dim, 1.0f / s->sum[running]);
            h->lse[i * a->seq_len + query] = s->max[running] + zn_log(s->sum[running]);
        }
}

zn_status ZN_K(attention_few)(const struct zn_cpu *cpu, const struct zn_attention_forward_args *a)
{
    ZN_TRY(attention_check(a->heads, a->kv_heads, scratch_floats(a)));
#pragma omp parallel num_threads(cpu->n_threads) if (attention_work(a) >= SERIAL_BELOW)
    {
        struct scratch s = scratch_of(zn_scratch(cpu, omp_get_thread_num()), a);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < a->batch * a->kv_heads; task++) {
            struct heads h = heads_of(a, task / a->kv_heads, task % a->kv_heads);
            attend(a, &h, &s);
        }
    }
    return ZN_OK;
}
