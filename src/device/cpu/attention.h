/* What the attention kernels share: which keys a query sees, copies of blocks, and weights.
 *
 * The order of all sums is that of device/kernels.h, one query and one key at a time: nothing here, nor how blocks are cut into
 * groups and tiles, shows in a bit. */
#ifndef ZN_DEVICE_CPU_ATTENTION_H
#define ZN_DEVICE_CPU_ATTENTION_H

#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cpu/lanes.h"
#include "device/kernels.h"

enum {
    BLOCK = ZN_ATTENTION_TILE,
    FEW_QUERIES = 4,        /* would leave most lanes idle: keys take the lanes instead */
    SERIAL_BELOW = 1 << 17, /* multiplications for which the team is not worth its start: one token after few others */
};

/* attention_forward for at most FEW_QUERIES queries of a sequence, with the same bits. */
zn_status ZN_K(attention_few)(const struct zn_cpu *cpu, const struct zn_attention_forward_args *args);

struct key_range {
    int64_t from, to; /* empty when to <= from */
};

static inline int64_t attention_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t attention_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What limits the sight of the queries of one sequence beside causality. */
struct sight {
    int64_t window;              /* 0: none */
    const int32_t *position_ids; /* within the examples of the sequence; NULL: it is one */
};

/* The sight in sequence `batch`. */
static inline struct sight sight_of(int64_t window, const int32_t *position_ids, int64_t batch, int64_t seq_len)
{
    return (struct sight){window, position_ids ? position_ids + batch * seq_len : NULL};
}

/* The first key that a query sees. It never falls from one query to the next. */
static inline int64_t first_key(struct sight sight, int64_t query)
{
    int64_t first = sight.position_ids ? query - sight.position_ids[query] : 0;
    return sight.window > 0 ? attention_max(first, query - sight.window + 1) : first;
}

/* One after the last query, of `seq_len`, that sees a key. */
static inline int64_t end_of_queries(struct sight sight, int64_t key, int64_t seq_len)
{
    int64_t end = sight.window > 0 ? attention_min(seq_len, key + sight.window) : seq_len;
    for (int64_t query = key + 1; sight.position_ids && query < end; query++)
        if (sight.position_ids[query] == 0) /* where the next example begins */
            return query;
    return end;
}

/* The keys that some of the queries first … last see, as places in a block of n_keys keys that begins at `key`. */
static inline struct key_range keys_in_block(struct sight sight, int64_t first, int64_t last, int64_t key, int64_t n_keys)
{
    return (struct key_range){attention_max(first_key(sight, first) - key, 0), attention_min(last + 1 - key, n_keys)};
}

/* head_dim up to whole groups of lanes: the row of a copied block. */
static inline int64_t padded_dim(int64_t head_dim)
{
    return (head_dim + ZN_LANES - 1) / ZN_LANES * ZN_LANES;
}

/* dst(rows, padded_dim) = rows of a matrix, zeros behind. */
static inline void copy_block(float *dst, const float *src, int64_t stride, int64_t rows, int64_t head_dim)
{
    int64_t width = padded_dim(head_dim);
    for (int64_t r = 0; r < rows; r++) {
        memcpy(dst + r * width, src + r * stride, (size_t)head_dim * sizeof *dst);
        memset(dst + r * width + head_dim, 0, (size_t)(width - head_dim) * sizeof *dst);
    }
}

struct rows {
    const float *at;
    int64_t stride;
};

/* Rows that can be read in whole groups of lanes: where they are, or copied. */
static inline struct rows rows_in_lanes(const float *src, int64_t stride, int64_t n, int64_t head_dim, float *copy)
{
    if (head_dim % ZN_LANES == 0)
        return (struct rows){src, stride};
    copy_block(copy, src, stride, n, head_dim);
    return (struct rows){copy, padded_dim(head_dim)};
}

static inline void scale_row(float *restrict x, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* Multiplications of one kind, about. */
static inline int64_t attention_work(const struct zn_attention_forward_args *a)
{
    return a->batch * a->heads * a->seq_len * (a->past + a->seq_len) * a->head_dim;
}

/* dst(4,TRANSPOSED_ROWS), of rows BLOCK apart, = the transpose of src(TRANSPOSED_ROWS,4). */
#if defined(__AVX2__)
enum { TRANSPOSED_ROWS = 8 };

static inline __m256 load_two_fours(const float *low, const float *high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

static inline void transpose_four(float *dst, const float *src, int64_t stride)
{
    __m256 a = load_two_fours(src, src + 4 * stride), b = load_two_fours(src + stride, src + 5 * stride);
    __m256 c = load_two_fours(src + 2 * stride, src + 6 * stride), d = load_two_fours(src + 3 * stride, src + 7 * stride);
    __m256 ab = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
    __m256 cd = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
    _mm256_storeu_ps(dst, _mm256_shuffle_ps(ab, cd, 0x44));
    _mm256_storeu_ps(dst + BLOCK, _mm256_shuffle_ps(ab, cd, 0xee));
    _mm256_storeu_ps(dst + 2 * BLOCK, _mm256_shuffle_ps(ab_high, cd_high, 0x44));
    _mm256_storeu_ps(dst + 3 * BLOCK, _mm256_shuffle_ps(ab_high, cd_high, 0xee));
}
#else
enum { TRANSPOSED_ROWS = 4 };

static inline void transpose_four(float *dst, const float *src, int64_t stride)
{
    for (int64_t r = 0; r < TRANSPOSED_ROWS; r++)
        for (int64_t i = 0; i < 4; i++)
            dst[i * BLOCK + r] = src[r * stride + i];
}
#endif

/* dst(head_dim, BLOCK) = the transpose of rows of a matrix, zeros behind. */
static inline void transpose_block(float *dst, const float *src, int64_t stride, int64_t rows, int64_t head_dim)
{
    int64_t whole_rows = rows / TRANSPOSED_ROWS * TRANSPOSED_ROWS, whole_dim = head_dim / 4 * 4;
    for (int64_t r = 0; r < whole_rows; r += TRANSPOSED_ROWS) {
        for (int64_t i = 0; i < whole_dim; i += 4)
            transpose_four(dst + i * BLOCK + r, src + r * stride + i, stride);
        for (int64_t i = whole_dim; i < head_dim; i++)
            for (int64_t j = r; j < r + TRANSPOSED_ROWS; j++)
                dst[i * BLOCK + j] = src[j * stride + i];
    }
    for (int64_t i = 0; i < head_dim; i++)
        for (int64_t r = whole_rows; r < BLOCK; r++)
            dst[i * BLOCK + r] = r < rows ? src[r * stride + i] : 0.0f;
}

/* Refuses heads that do not form groups, and those whose blocks exceed a thread's scratch. */
static inline zn_status attention_check(int64_t heads, int64_t kv_heads, int64_t n_floats)
{
    if (kv_heads < 1 || heads % kv_heads != 0)
        return zn_fail(ZN_ERR_UNSUPPORTED, "attention: %lld heads do not divide among %lld kv heads", (long long)heads,
                       (long long)kv_heads);
    if (n_floats > ZN_SCRATCH_FLOATS)
        return zn_fail(ZN_ERR_UNSUPPORTED, "attention: head_dim is too large: a block needs %lld floats of scratch, of %d",
                       (long long)n_floats, ZN_SCRATCH_FLOATS);
    return ZN_OK;
}

#endif
