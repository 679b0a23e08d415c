/* Causal attention, backward: with the log-sum-exp of forward, a block of weights is computed again from its scores (Dao et al.,
 * FlashAttention, 2022, algorithm 4). One task is one query head; it goes along blocks of keys, and for each along the blocks of
 * queries that see them. */
#include <omp.h>

#include "device/cpu/attention.h"
#include "device/cpu/attention_tile.h"
#include "device/cpu/softmax.h"
#include "device/cpu/vector_math.h"

/* One query head of one sequence. */
struct head {
    float *dq, *dk, *dv, *delta;
    const float *q, *k, *v, *out, *d_out, *lse;
    int64_t dk_stride, dv_stride;
    struct sight sight;
};

/* A thread's scratch: a block of keys and of values transposed, copies of the blocks of k, q and d_out, the weights of a block of
 * queries (rows) and keys (along the lanes) and the gradients of its scores. */
struct scratch {
    float *k_transposed, *v_transposed, *k, *q, *d_out, *weights, *d_scores;
};

/* Keys key … key+n_keys and queries query … query+rows; none from query+end on sees one of the keys. */
struct block {
    int64_t key, n_keys, query, rows, end;
};

static struct head head_of(const struct zn_attention_backward_args *a, int64_t batch, int64_t head)
{
    int64_t row = batch * a->seq_len, kv_head = head / (a->heads / a->kv_heads);
    int64_t at = head * a->head_dim, kv_at = kv_head * a->head_dim, index = batch * a->heads + head;
    struct head h = {
        .dq = zn_floats(a->dq) + row * a->dq_stride + at,
        .dk = zn_floats(a->dk) + row * a->dk_stride + kv_at,
        .dv = zn_floats(a->dv) + row * a->dv_stride + kv_at,
        .delta = zn_floats(a->delta) + index * a->seq_len,
        .q = zn_floats(a->q) + row * a->q_stride + at,
        .k = zn_floats(a->k) + row * a->k_stride + kv_at,
        .v = zn_floats(a->v) + row * a->v_stride + kv_at,
        .out = zn_floats(a->out) + row * a->out_stride + at,
        .d_out = zn_floats(a->d_out) + row * a->out_stride + at,
        .lse = zn_floats(a->lse) + index * a->seq_len,
        .dk_stride = a->dk_stride,
        .dv_stride = a->dv_stride,
        .sight = sight_of(a->window, zn_pointer(a->position_ids), batch, a->seq_len),
    };
    if (a->heads != a->kv_heads) {
        int64_t n = a->seq_len * a->head_dim;
        h.dk = zn_floats(a->partial) + index * n;
        h.dv = h.dk + a->batch * a->heads * n;
        h.dk_stride = h.dv_stride = a->head_dim;
    }
    return h;
}

static int64_t scratch_floats(int64_t head_dim)
{
    return BLOCK * (2 * head_dim + 3 * padded_dim(head_dim) + 2 * BLOCK);
}

static struct scratch scratch_of(float *at, int64_t head_dim)
{
    struct scratch s = {.k_transposed = at, .v_transposed = at + BLOCK * head_dim, .k = at + 2 * BLOCK * head_dim};
    s.q = s.k + BLOCK * padded_dim(head_dim);
    s.d_out = s.q + BLOCK * padded_dim(head_dim);
    s.weights = s.d_out + BLOCK * padded_dim(head_dim);
    s.d_scores = s.weights + BLOCK * BLOCK;
    return s;
}

/* The groups of lanes around the keys that some of the queries first … last see. */
static struct key_range lanes_in_block(struct sight sight, int64_t first, int64_t last, const struct block *b)
{
    struct key_range seen = keys_in_block(sight, first, last, b->key, b->n_keys);
    return (struct key_range){seen.from / ZN_LANES * ZN_LANES, (seen.to + ZN_LANES - 1) / ZN_LANES * ZN_LANES};
}

/* One row of a block: scores become weights, and d_scores, which holds the gradients of the weights, those of the scores; zero
 * where the query does not see the key. */
static void weigh_row(float *weights, float *d_scores, struct key_range seen, float lse, float delta, float scale)
{
    int64_t from = seen.from / ZN_LANE_FLOATS * ZN_LANE_FLOATS;
    int64_t to = (seen.to + ZN_LANE_FLOATS - 1) / ZN_LANE_FLOATS * ZN_LANE_FLOATS;
    for (int64_t j = from; j < to; j += ZN_LANE_FLOATS) {
        zn_vector weight = zn_vector_exp(zn_vector_load(weights + j) - lse);
        zn_vector_store(weights + j, weight);
        zn_vector_store(d_scores + j, weight * (zn_vector_load(d_scores + j) - delta) * scale);
    }
    for (int64_t j = 0; j < seen.from; j++)
        weights[j] = d_scores[j] = 0.0f;
    for (int64_t j = seen.to; j < BLOCK; j++)
        weights[j] = d_scores[j] = 0.0f;
}

/* Weights of a block, and the gradients of its scores. Tiles of queries meet only the keys that one of them sees. */
static void weigh_block(const struct zn_attention_backward_args *a, const struct head *h, const struct scratch *s,
                        const struct block *b)
{
    struct tile_product scores = {
        .a_row = padded_dim(a->head_dim), .a_step = 1, .b_step = BLOCK, .c_row = BLOCK, .end = TILE_SCALE};
    for (int64_t row = 0; row < b->rows; row += TILE_ROWS) {
        int64_t rows = attention_min(TILE_ROWS, b->rows - row);
        struct key_range lanes = lanes_in_block(h->sight, b->query + row, b->query + row + rows - 1, b);
        if (lanes.to <= lanes.from)
            continue;
        scores.a = s->q + row * scores.a_row;
        scores.b = s->k_transposed + lanes.from;
        scores.c = s->weights + row * BLOCK + lanes.from;
        scores.scale = a->scale;
        tile_multiply(&scores, rows, lanes.to - lanes.from, a->head_dim);
        scores.a = s->d_out + row * scores.a_row;
        scores.b = s->v_transposed + lanes.from;
        scores.c = s->d_scores + row * BLOCK + lanes.from;
        scores.scale = 1.0f;
        tile_multiply(&scores, rows, lanes.to - lanes.from, a->head_dim);
    }
    for (int64_t r = 0; r < b->rows; r++) {
        struct key_range seen = keys_in_block(h->sight, b->query + r, b->query + r, b->key, b->n_keys);
        seen.to = attention_max(seen.to, 0);
        seen.from = attention_min(seen.from, seen.to);
        weigh_row(s->weights + r * BLOCK, s->d_scores + r * BLOCK, seen, h->lse[b->query + r], h->delta[b->query + r], a->scale);
    }
}

/* dk and dv of the block's keys: tiles of keys meet the queries from the first that sees one of them on. */
static void add_to_keys(const struct zn_attention_backward_args *a, const struct head *h, const struct scratch *s,
                        const struct block *b, bool first)
{
    struct tile_product sum = {.a_row = 1, .a_step = BLOCK, .b_step = padded_dim(a->head_dim), .end = TILE_ADD, .first = first};
    for (int64_t row = 0; row < b->n_keys; row += TILE_ROWS) {
        int64_t rows = attention_min(TILE_ROWS, b->n_keys - row), from = attention_max(b->key + row - b->query, 0);
        int64_t depth = attention_max(b->end - from, 0);
        sum.a = s->weights + from * BLOCK + row;
        sum.b = s->d_out + from * sum.b_step;
        sum.c = h->dv + (b->key + row) * h->dv_stride;
        sum.c_row = h->dv_stride;
        tile_multiply(&sum, rows, a->head_dim, depth);
        sum.a = s->d_scores + from * BLOCK + row;
        sum.b = s->q + from * sum.b_step;
        sum.c = h->dk + (b->key + row) * h->dk_stride;
        sum.c_row = h->dk_stride;
        tile_multiply(&sum, rows, a->head_dim, depth);
    }
}

/* dq of the block's queries: tiles of queries meet the keys that one of them sees. */
static void add_to_queries(const struct zn_attention_backward_args *a, const struct head *h, const struct scratch *s,
                           const struct block *b)
{
    struct tile_product sum = {
        .a_row = BLOCK, .a_step = 1, .b_step = padded_dim(a->head_dim), .c_row = a->dq_stride, .end = TILE_ADD};
    for (int64_t row = 0; row < b->rows; row += TILE_ROWS) {
        int64_t query = b->query + row, rows = attention_min(TILE_ROWS, b->rows - row);
        struct key_range seen = keys_in_block(h->sight, query, query + rows - 1, b->key, b->n_keys);
        if (seen.to <= seen.from)
            continue;
        sum.a = s->d_scores + row * BLOCK + seen.from;
        sum.b = s->k + seen.from * sum.b_step;
        sum.c = h->dq + query * a->dq_stride;
        sum.first = b->key <= first_key(h->sight, query);
        tile_multiply(&sum, rows, a->head_dim, seen.to - seen.from);
    }
}

static void differentiate_head(const struct zn_attention_backward_args *a, const struct head *h, const struct scratch *s)
{
    for (int64_t t = 0; t < a->seq_len; t++)
        h->delta[t] = zn_row_dot(h->d_out + t * a->out_stride, h->out + t * a->out_stride, a->head_dim);
    for (int64_t key = 0; key < a->seq_len; key += BLOCK) {
        struct block b = {.key = key, .n_keys = attention_min(BLOCK, a->seq_len - key)};
        int64_t end = end_of_queries(h->sight, key + b.n_keys - 1, a->seq_len);
        copy_block(s->k, h->k + key * a->k_stride, a->k_stride, b.n_keys, a->head_dim);
        transpose_block(s->k_transposed, h->k + key * a->k_stride, a->k_stride, b.n_keys, a->head_dim);
        transpose_block(s->v_transposed, h->v + key * a->v_stride, a->v_stride, b.n_keys, a->head_dim);
        for (b.query = key; b.query < end; b.query += BLOCK) {
            b.rows = attention_min(BLOCK, a->seq_len - b.query);
            b.end = attention_min(BLOCK, end - b.query);
            copy_block(s->q, h->q + b.query * a->q_stride, a->q_stride, b.rows, a->head_dim);
            copy_block(s->d_out, h->d_out + b.query * a->out_stride, a->out_stride, b.rows, a->head_dim);
            weigh_block(a, h, s, &b);
            add_to_keys(a, h, s, &b, b.query == key);
            add_to_queries(a, h, s, &b);
        }
    }
}

/* One row of dk or dv: for each kv head the sum over its query heads, in head order. */
static void sum_groups(float *dst, const float *partial, const struct zn_attention_backward_args *a)
{
    int64_t group = a->heads / a->kv_heads, head_size = a->seq_len * a->head_dim;
    for (int64_t kv_head = 0; kv_head < a->kv_heads; kv_head++) {
        float *restrict sum = dst + kv_head * a->head_dim;
        const float *restrict part = partial + kv_head * group * head_size;
        memcpy(sum, part, (size_t)a->head_dim * sizeof *sum);
        for (int64_t g = 1; g < group; g++)
            for (int64_t i = 0; i < a->head_dim; i++)
                sum[i] += part[g * head_size + i];
    }
}

zn_status ZN_K(attention_backward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_attention_backward_args *a = args;
    ZN_TRY(attention_check(a->heads, a->kv_heads, scratch_floats(a->head_dim)));
#pragma omp parallel num_threads(cpu->n_threads)
    {
        struct scratch s = scratch_of(zn_scratch(cpu, omp_get_thread_num()), a->head_dim);
#pragma omp for schedule(dynamic)
        for (int64_t index = 0; index < a->batch * a->heads; index++) {
            struct head h = head_of(a, index / a->heads, index % a->heads);
            differentiate_head(a, &h, &s);
        }
    }
    if (a->heads == a->kv_heads)
        return ZN_OK;
    const float *dk_parts = zn_floats(a->partial);
    const float *dv_parts = dk_parts + a->batch * a->heads * a->seq_len * a->head_dim;
#pragma omp parallel for num_threads(cpu->n_threads)
    for (int64_t row = 0; row < a->batch * a->seq_len; row++) {
        int64_t at = (row / a->seq_len * a->heads * a->seq_len + row % a->seq_len) * a->head_dim;
        sum_groups(zn_floats(a->dk) + row * a->dk_stride, dk_parts + at, a);
        sum_groups(zn_floats(a->dv) + row * a->dv_stride, dv_parts + at, a);
    }
    return ZN_OK;
}
