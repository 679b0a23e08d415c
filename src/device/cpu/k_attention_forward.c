/* Causal attention, forward: one tile of queries at a time runs along its keys with an online
 * softmax (Dao et al., FlashAttention, 2022, algorithm 1; queries outermost as in FlashAttention-2),
 * so that no seq_len × seq_len matrix exists. The output itself holds the running sum. */
#include <math.h>
#include <omp.h>

#include "device/cpu/attention.h"
#include "device/cpu/cpu.h"
#include "device/cpu/softmax.h"

/* Multiplications for which the team is not worth its start: one token after few others. */
enum { SERIAL_BELOW = 1 << 17 };

/* One head of one sequence. */
struct head {
    float *out, *lse;
    const float *q, *k, *v;
    struct sight sight;
};

/* The running softmax of a tile's queries. */
struct running {
    float max[ZN_ATTENTION_TILE];
    float sum[ZN_ATTENTION_TILE];
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

static void scale_row(float *restrict x, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* Turns one row of scores into weights relative to the running maximum; n_keys columns are left
 * filled, zero where the query does not see the key. Returns what earlier weights are scaled by. */
static float weigh_row(float *scores, int64_t n_keys, struct key_range seen, float *max, float *sum)
{
    if (seen.to <= seen.from) {
        for (int64_t j = 0; j < n_keys; j++)
            scores[j] = 0.0f;
        return 1.0f;
    }
    /* Whole groups of lanes around what is seen; a row of the tile has room for the last group. */
    int64_t from = seen.from / ZN_ROW_LANES * ZN_ROW_LANES;
    int64_t to = (seen.to + ZN_ROW_LANES - 1) / ZN_ROW_LANES * ZN_ROW_LANES;
    for (int64_t j = 0; j < from; j++)
        scores[j] = 0.0f;
    for (int64_t j = from; j < seen.from; j++)
        scores[j] = -INFINITY;
    for (int64_t j = seen.to; j < to; j++)
        scores[j] = -INFINITY;
    for (int64_t j = to; j < n_keys; j++)
        scores[j] = 0.0f;
    float tile_max = zn_row_max(scores + from, to - from);
    float new_max = tile_max > *max ? tile_max : *max;
    float factor = zn_exp(*max - new_max);
    *sum = *sum * factor + zn_row_exp(scores + from, to - from, new_max);
    *max = new_max;
    return factor;
}

/* Queries `first` … first+rows of one head. */
static void attend(const struct zn_attention_forward_args *a, struct head h, int64_t first,
                   int64_t rows)
{
    _Alignas(64) float scores[ZN_ATTENTION_TILE * ATTENTION_LONG];
    struct running running;
    for (int64_t r = 0; r < rows; r++) {
        running.max[r] = -INFINITY;
        running.sum[r] = 0.0f;
    }
    float *out = h.out + first * a->out_stride;
    struct zn_block q = {h.q + first * a->q_stride, a->q_stride, false};
    struct zn_block weights = {scores, ATTENTION_LONG, false};
    int64_t place = a->past + first; /* of the first query among the keys */
    int64_t begin = first_key(h.sight, place), end = place + rows;
    for (int64_t key = begin; key < end; key += ATTENTION_LONG) {
        int64_t n_keys = attention_min(ATTENTION_LONG, end - key);
        struct zn_block k = {h.k + key * a->k_stride, a->k_stride, true};
        struct zn_block v = {h.v + key * a->v_stride, a->v_stride, false};
        zn_sgemm_block(rows, n_keys, a->head_dim, a->scale, q, k, false, scores, ATTENTION_LONG);
        for (int64_t r = 0; r < rows; r++) {
            struct key_range seen = keys_in_tile(h.sight, place + r, key, n_keys);
            float factor = weigh_row(scores + r * ATTENTION_LONG, n_keys, seen, &running.max[r],
                                     &running.sum[r]);
            if (key > begin)
                scale_row(out + r * a->out_stride, a->head_dim, factor);
        }
        zn_sgemm_block(rows, a->head_dim, n_keys, 1.0f, weights, v, key > begin, out,
                       a->out_stride);
    }
    for (int64_t r = 0; r < rows; r++) {
        scale_row(out + r * a->out_stride, a->head_dim, 1.0f / running.sum[r]);
        h.lse[first + r] = running.max[r] + zn_log(running.sum[r]);
    }
}

zn_status ZN_K(attention_forward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_attention_forward_args *a = args;
    const int64_t strides[] = {a->q_stride, a->k_stride, a->v_stride, a->out_stride};
    ZN_TRY(attention_check(a->heads, a->kv_heads, strides, 4));
    int64_t n_tiles = (a->seq_len + ZN_ATTENTION_TILE - 1) / ZN_ATTENTION_TILE;
    int64_t n_tasks = a->batch * a->heads * n_tiles;
    int64_t work = n_tasks * attention_min(a->seq_len, ZN_ATTENTION_TILE) * (a->past + a->seq_len) * a->head_dim;
#pragma omp parallel num_threads(cpu->n_threads) if (work >= SERIAL_BELOW)
    {
        zn_blas_enter_team();
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < n_tasks; task++) {
            /* The last tiles see the most keys: they come first, so that short ones fill the end. */
            int64_t tile = n_tiles - 1 - task % n_tiles, head = task / n_tiles;
            int64_t first = tile * ZN_ATTENTION_TILE;
            attend(a, head_of(a, head / a->heads, head % a->heads), first,
                   attention_min(ZN_ATTENTION_TILE, a->seq_len - first));
        }
    }
    return ZN_OK;
}
