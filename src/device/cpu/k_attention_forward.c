/* Causal attention, forward: one block of queries at a time runs along its blocks of keys with an online softmax (Dao et al.,
 * FlashAttention, 2022, algorithm 1; queries outermost as in FlashAttention-2), so that no seq_len × seq_len matrix exists. The
 * output itself holds the running sum.
 *
 * Scores lie transposed, keys down and queries along the lanes: a query's maximum and sum then run down its own lane. */
#include <math.h>
#include <omp.h>

#include "device/cpu/attention.h"
#include "device/cpu/attention_tile.h"
#include "device/cpu/softmax.h"
#include "device/cpu/vector_math.h"

/* One head of one sequence. */
struct head {
    float *out, *lse;
    const float *q, *k, *v;
    struct sight sight;
};

/* A thread's scratch: the queries transposed, a block of values, scores that become weights. */
struct scratch {
    float *q_transposed, *v, *weights;
};

/* The softmax of a block's queries as far as it has run. */
struct running {
    _Alignas(64) float max[BLOCK], sum[BLOCK], factor[BLOCK];
};

/* A block of queries: `place` is where the first stands among the keys. */
struct queries {
    int64_t first, rows, place;
};

/* A group of at most ZN_LANES queries, from `first` of the block on, and the keys of a block that some of them see. */
struct group {
    int64_t first, rows;
    struct key_range seen;
};

static struct head head_of(const struct zn_attention_forward_args *a, int64_t batch, int64_t head)
{
    int64_t row = batch * a->seq_len, kv_row = batch * (a->past + a->seq_len);
    int64_t kv_head = head / (a->heads / a->kv_heads);
    struct head h = {
        .out = zn_floats(a->out) + row * a->out_stride + head * a->head_dim,
        .lse = zn_floats(a->lse) + (batch * a->heads + head) * a->seq_len,
        .q = zn_floats(a->q) + row * a->q_stride + head * a->head_dim,
        .k = zn_floats(a->k) + kv_row * a->k_stride + kv_head * a->head_dim,
        .v = zn_floats(a->v) + kv_row * a->v_stride + kv_head * a->head_dim,
        .sight = sight_of(a->window, zn_pointer(a->position_ids), batch, a->seq_len),
    };
    return h;
}

static int64_t scratch_floats(int64_t head_dim)
{
    return BLOCK * (head_dim + padded_dim(head_dim) + BLOCK);
}

static struct scratch scratch_of(float *at, int64_t head_dim)
{
    return (struct scratch){
        .q_transposed = at, .v = at + BLOCK * head_dim, .weights = at + BLOCK * (head_dim + padded_dim(head_dim))};
}

/* Scores of keys that a query does not see become -infinity. Lanes behind the last query count as that one. */
static void hide_keys(float *scores, const struct head *h, const struct group *g, int64_t place, int64_t key)
{
    int32_t from[ZN_LANES], last[ZN_LANES];
    for (int l = 0; l < ZN_LANES; l++) {
        int64_t query = place + g->first + attention_min(l, g->rows - 1);
        from[l] = (int32_t)attention_max(first_key(h->sight, query) - key, 0);
        last[l] = (int32_t)attention_min(query - key, BLOCK);
    }
    for (int64_t j = g->seen.from; j < g->seen.to; j++) {
        if (j >= from[ZN_LANES - 1] && j <= last[0])
            continue; /* all see it */
        float *row = scores + j * BLOCK;
        for (int l = 0; l < ZN_LANES; l++)
            row[l] = (int32_t)j < from[l] || (int32_t)j > last[l] ? -INFINITY : row[l];
    }
}

/* Turns scores into weights relative to the new maximum, one vector of queries. */
static void weigh_keys(float *scores, int64_t n_keys, float *max, float *sum, float *factor)
{
    const zn_vector none = zn_vector_all(-INFINITY);
    zn_vector old = zn_vector_load(max), greatest = old, total = {0};
    for (int64_t j = 0; j < n_keys; j++)
        greatest = zn_vector_max(zn_vector_load(scores + j * BLOCK), greatest);
    zn_vector shift = (zn_vector)((zn_vector_bits)greatest & ~(zn_vector_bits)(greatest == none)); /* 0 where nothing is seen yet */
    zn_vector scaled = zn_vector_exp(old - shift);
    for (int64_t j = 0; j < n_keys; j++) {
        zn_vector weight = zn_vector_exp(zn_vector_load(scores + j * BLOCK) - shift);
        zn_vector_store(scores + j * BLOCK, weight);
        total += weight;
    }
    zn_vector_store(max, greatest);
    zn_vector_store(factor, scaled);
    zn_vector_store(sum, zn_vector_fma(zn_vector_load(sum), scaled, total));
}

/* A group of queries against the keys of a block that it sees. */
static void attend_group(const struct zn_attention_forward_args *a, const struct head *h, const struct queries *q,
                         const struct group *g, const struct scratch *s, struct running *running, int64_t key, struct rows v)
{
    int64_t n_keys = g->seen.to - g->seen.from;
    float *weights = s->weights + g->first, *seen = weights + g->seen.from * BLOCK;
    tile_multiply(&(struct tile_product){.a = h->k + (key + g->seen.from) * a->k_stride,
                                         .b = s->q_transposed + g->first,
                                         .c = seen,
                                         .a_row = a->k_stride,
                                         .a_step = 1,
                                         .b_step = BLOCK,
                                         .c_row = BLOCK,
                                         .scale = a->scale,
                                         .end = TILE_SCALE},
                  n_keys, ZN_LANES, a->head_dim);
    hide_keys(weights, h, g, q->place, key);
    for (int l = 0; l < ZN_LANES; l += ZN_LANE_FLOATS)
        weigh_keys(seen + l, n_keys, running->max + g->first + l, running->sum + g->first + l, running->factor + g->first + l);
    tile_multiply(&(struct tile_product){.a = seen,
                                         .b = v.at + g->seen.from * v.stride,
                                         .c = h->out + (q->first + g->first) * a->out_stride,
                                         .a_row = 1,
                                         .a_step = BLOCK,
                                         .b_step = v.stride,
                                         .c_row = a->out_stride,
                                         .factor = running->factor + g->first,
                                         .end = TILE_JOIN,
                                         .first = key <= first_key(h->sight, q->place + g->first)},
                  g->rows, a->head_dim, n_keys);
}

/* Keys key … key+n_keys for all queries of a block. */
static void attend_keys(const struct zn_attention_forward_args *a, const struct head *h, const struct queries *q,
                        const struct scratch *s, struct running *running, int64_t key, int64_t n_keys)
{
    struct rows v = rows_in_lanes(h->v + key * a->v_stride, a->v_stride, n_keys, a->head_dim, s->v);
    for (int64_t first = 0; first < q->rows; first += ZN_LANES) {
        struct group g = {.first = first, .rows = attention_min(ZN_LANES, q->rows - first)};
        g.seen = keys_in_block(h->sight, q->place + first, q->place + first + g.rows - 1, key, n_keys);
        if (g.seen.to > g.seen.from)
            attend_group(a, h, q, &g, s, running, key, v);
    }
}

/* One block of queries of one head. */
static void attend(const struct zn_attention_forward_args *a, const struct head *h, const struct queries *q,
                   const struct scratch *s)
{
    struct running running;
    for (int64_t r = 0; r < BLOCK; r++) {
        running.max[r] = -INFINITY;
        running.sum[r] = 0.0f;
    }
    transpose_block(s->q_transposed, h->q + q->first * a->q_stride, a->q_stride, q->rows, a->head_dim);
    int64_t end = q->place + q->rows;
    for (int64_t key = first_key(h->sight, q->place) / BLOCK * BLOCK; key < end; key += BLOCK)
        attend_keys(a, h, q, s, &running, key, attention_min(BLOCK, end - key));
    for (int64_t r = 0; r < q->rows; r++) {
        scale_row(h->out + (q->first + r) * a->out_stride, a->head_dim, 1.0f / running.sum[r]);
        h->lse[q->first + r] = running.max[r] + zn_log(running.sum[r]);
    }
}

zn_status ZN_K(attention_forward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_attention_forward_args *a = args;
    ZN_TRY(attention_check(a->heads, a->kv_heads, scratch_floats(a->head_dim)));
    if (a->seq_len <= FEW_QUERIES)
        return ZN_K(attention_few)(cpu, a);
    int64_t n_blocks = (a->seq_len + BLOCK - 1) / BLOCK;
    int64_t n_tasks = a->batch * a->heads * n_blocks;
#pragma omp parallel num_threads(cpu->n_threads) if (attention_work(a) >= SERIAL_BELOW)
    {
        struct scratch s = scratch_of(zn_scratch(cpu, omp_get_thread_num()), a->head_dim);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < n_tasks; task++) {
            /* The last blocks see the most keys: they come first, so that short ones fill the end. */
            int64_t head = task / n_blocks, first = (n_blocks - 1 - task % n_blocks) * BLOCK;
            struct head h = head_of(a, head / a->heads, head % a->heads);
            struct queries q = {.first = first, .rows = attention_min(BLOCK, a->seq_len - first), .place = a->past + first};
            attend(a, &h, &q, &s);
        }
    }
    return ZN_OK;
}
