/* Causal attention, backward: with the log-sum-exp of forward, a tile of weights is computed again
 * from its scores (Dao et al., FlashAttention, 2022, algorithm 4). One task is one query head; it
 * goes along tiles of keys, and for each along the queries that see them. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "device/cpu/attention.h"
#include "device/cpu/cpu.h"
#include "device/cpu/softmax.h"

/* One query head of one sequence. */
struct head {
    float *dq, *dk, *dv, *delta;
    const float *q, *k, *v, *out, *d_out, *lse;
    int64_t dk_stride, dv_stride;
    struct sight sight;
};

/* The weights of a tile and the gradients of its scores, before the scale. */
struct scratch {
    _Alignas(64) float weights[ATTENTION_LONG * ZN_ATTENTION_TILE];
    _Alignas(64) float d_scores[ATTENTION_LONG * ZN_ATTENTION_TILE];
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

/* One row of a tile: scores become weights, and d_weights becomes the gradient of the scores;
 * zero where the query does not see the key. */
static void weigh_row(float *restrict weights, float *restrict d_scores, int64_t n_keys,
                      struct key_range seen, float lse, float delta)
{
    for (int64_t j = 0; j < n_keys; j++) {
        float weight = zn_exp(weights[j] - lse);
        weights[j] = weight;
        d_scores[j] = weight * (d_scores[j] - delta);
    }
    int64_t from = attention_min(seen.from, n_keys), to = attention_max(seen.to, from);
    for (int64_t j = 0; j < from; j++)
        weights[j] = d_scores[j] = 0.0f;
    for (int64_t j = to; j < n_keys; j++)
        weights[j] = d_scores[j] = 0.0f;
}

/* Keys key … key+n_keys against queries query … query+rows: dq adds, dk and dv add when `adds`. */
static void differentiate_tile(const struct zn_attention_backward_args *a, const struct head *h,
                               struct scratch *s, int64_t key, int64_t n_keys, int64_t query,
                               int64_t rows, bool adds)
{
    struct zn_block q = {h->q + query * a->q_stride, a->q_stride, false};
    struct zn_block d_out = {h->d_out + query * a->out_stride, a->out_stride, false};
    struct zn_block k = {h->k + key * a->k_stride, a->k_stride, false}, k_turned = k;
    struct zn_block v_turned = {h->v + key * a->v_stride, a->v_stride, true};
    struct zn_block d_scores = {s->d_scores, ZN_ATTENTION_TILE, false}, d_scores_turned = d_scores;
    struct zn_block weights_turned = {s->weights, ZN_ATTENTION_TILE, true};
    k_turned.transposed = d_scores_turned.transposed = true;

    zn_sgemm_block(rows, n_keys, a->head_dim, a->scale, q, k_turned, false, s->weights,
                   ZN_ATTENTION_TILE);
    zn_sgemm_block(rows, n_keys, a->head_dim, 1.0f, d_out, v_turned, false, s->d_scores,
                   ZN_ATTENTION_TILE);
    for (int64_t r = 0; r < rows; r++)
        weigh_row(s->weights + r * ZN_ATTENTION_TILE, s->d_scores + r * ZN_ATTENTION_TILE, n_keys,
                  keys_in_tile(h->sight, query + r, key, n_keys), h->lse[query + r],
                  h->delta[query + r]);
    zn_sgemm_block(n_keys, a->head_dim, rows, 1.0f, weights_turned, d_out, adds,
                   h->dv + key * h->dv_stride, h->dv_stride);
    zn_sgemm_block(n_keys, a->head_dim, rows, a->scale, d_scores_turned, q, adds,
                   h->dk + key * h->dk_stride, h->dk_stride);
    zn_sgemm_block(rows, a->head_dim, n_keys, a->scale, d_scores, k, true,
                   h->dq + query * a->dq_stride, a->dq_stride);
}

static void differentiate_head(const struct zn_attention_backward_args *a, const struct head *h)
{
    struct scratch scratch;
    for (int64_t t = 0; t < a->seq_len; t++) {
        h->delta[t] =
            zn_row_dot(h->d_out + t * a->out_stride, h->out + t * a->out_stride, a->head_dim);
        memset(h->dq + t * a->dq_stride, 0, (size_t)a->head_dim * sizeof(float));
    }
    for (int64_t key = 0; key < a->seq_len; key += ZN_ATTENTION_TILE) {
        int64_t n_keys = attention_min(ZN_ATTENTION_TILE, a->seq_len - key);
        int64_t end = end_of_queries(h->sight, key + n_keys - 1, a->seq_len);
        for (int64_t query = key; query < end; query += ATTENTION_LONG)
            differentiate_tile(a, h, &scratch, key, n_keys, query,
                               attention_min(ATTENTION_LONG, end - query), query > key);
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
    const int64_t strides[] = {a->q_stride,  a->k_stride,  a->v_stride, a->out_stride,
                               a->dq_stride, a->dk_stride, a->dv_stride};
    ZN_TRY(attention_check(a->heads, a->kv_heads, strides, 7));
#pragma omp parallel num_threads(cpu->n_threads)
    {
        zn_blas_enter_team();
#pragma omp for schedule(dynamic)
        for (int64_t index = 0; index < a->batch * a->heads; index++) {
            struct head h = head_of(a, index / a->heads, index % a->heads);
            differentiate_head(a, &h);
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
