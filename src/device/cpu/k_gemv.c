/* The product of few rows with a matrix, bounded by the speed at which the matrix is read.
 *
 * No copy of the matrix into panels as sgemm makes it, and no fp32 copy of 16-bit weights: elements
 * are widened in registers. Each thread reads the matrix from four places that are far apart, at
 * each in the order of its bytes: a processor's prefetching follows several such streams, and memory
 * answers them half as fast again as one. What was read stays in the cache while all rows of x pass
 * it. Which thread takes what does not show in the bits. */
#include <omp.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cpu/half.h"
#include "device/cpu/lanes.h"
#include "device/cpu/ranges.h"
#include "device/cpu/widen.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    SERIAL_BELOW = 1 << 17, /* elements of the matrix: less is read before a team has begun */
    DOTS = 4,      /* rows of the matrix multiplied at once */
    STRIPE = 4096, /* columns of one task where the matrix is (k,n) */
    STREAMS = 4,   /* its rows added at once, in order */
    SHARE = 256,   /* columns of y whose chunks are added by one task */
};

typedef uint16_t halves __attribute__((vector_size(ZN_VECTOR_BYTES / 2)));
typedef uint32_t words __attribute__((vector_size(ZN_VECTOR_BYTES)));
typedef float four __attribute__((vector_size(16)));

/* ZN_LANES elements of a matrix from element i on, and one of them. */
struct reader {
    zn_lanes (*lanes)(const void *w, int64_t i);
    float (*one)(const void *w, int64_t i);
};

INLINE zn_lanes lanes_f32(const void *w, int64_t i)
{
    return zn_lanes_load((const float *)w + i);
}

INLINE float one_f32(const void *w, int64_t i)
{
    return ((const float *)w)[i];
}

/* By intrinsics where there are some: not every compiler finds the one instruction. */
INLINE words widen(const uint16_t *h)
{
#if defined(__AVX512F__)
    return (words)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)h));
#elif defined(__AVX2__)
    return (words)_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)h));
#else
    halves v;
    memcpy(&v, h, sizeof v);
    return __builtin_convertvector(v, words);
#endif
}

INLINE zn_lanes lanes_bf16(const void *w, int64_t i)
{
    zn_lanes lanes;
    for (int p = 0; p < ZN_LANE_PARTS; p++) {
        words bits = widen((const uint16_t *)w + i + p * ZN_LANE_FLOATS) << 16;
        memcpy(&lanes.part[p], &bits, sizeof bits);
    }
    return lanes;
}

INLINE float one_bf16(const void *w, int64_t i)
{
    return zn_float_of_bf16(((const uint16_t *)w)[i]);
}

INLINE zn_lanes lanes_f16(const void *w, int64_t i)
{
    float x[ZN_LANES];
    zn_from_f16(x, (const uint16_t *)w + i, ZN_LANES);
    return zn_lanes_load(x);
}

INLINE float one_f16(const void *w, int64_t i)
{
    return zn_float_of_f16(((const uint16_t *)w)[i]);
}

/* The four sums of lanes, each by the tree of zn_lanes_total: l + (l+8), then + (l+4), and the last
 * two steps across the four at once. */
INLINE four totals(float lanes[DOTS][ZN_LANES])
{
    four v[DOTS];
    for (int d = 0; d < DOTS; d++) {
        four part[4];
        memcpy(part, lanes[d], sizeof part);
        v[d] = (part[0] + part[2]) + (part[1] + part[3]);
    }
    four even = {v[0][0], v[1][0], v[2][0], v[3][0]}, odd = {v[0][1], v[1][1], v[2][1], v[3][1]};
    four even2 = {v[0][2], v[1][2], v[2][2], v[3][2]}, odd2 = {v[0][3], v[1][3], v[2][3], v[3][3]};
    return (even + even2) + (odd + odd2);
}

/* total[d] = x · row d of W, for DOTS rows that begin at `first` and are `apart` elements apart. */
INLINE void dots(struct reader read, const void *w, int64_t first, int64_t apart, int64_t k,
                 const float *x, float total[DOTS])
{
    zn_lanes sum[DOTS] = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= k; i += ZN_LANES) {
        zn_lanes at = zn_lanes_load(x + i);
        for (int d = 0; d < DOTS; d++)
            sum[d] = zn_lanes_add(sum[d], zn_lanes_mul(read.lanes(w, first + d * apart + i), at));
    }
    float lanes[DOTS][ZN_LANES];
    for (int d = 0; d < DOTS; d++)
        zn_lanes_store(lanes[d], sum[d]);
    for (int64_t l = 0; i + l < k; l++)
        for (int d = 0; d < DOTS; d++)
            lanes[d][l] += read.one(w, first + d * apart + i + l) * x[i + l];
    four sums = totals(lanes);
    memcpy(total, &sums, sizeof sums);
}

/* The same for one row. */
INLINE float dot(struct reader read, const void *w, int64_t first, int64_t k, const float *x)
{
    zn_lanes sum = {0};
    int64_t i = 0;
    for (; i + ZN_LANES <= k; i += ZN_LANES)
        sum = zn_lanes_add(sum, zn_lanes_mul(read.lanes(w, first + i), zn_lanes_load(x + i)));
    float lanes[ZN_LANES];
    zn_lanes_store(lanes, sum);
    for (int64_t l = 0; i + l < k; l++)
        lanes[l] += read.one(w, first + i + l) * x[i + l];
    return zn_lanes_total(lanes);
}

/* Columns col … end of y: rows of W (n,k), DOTS streams. */
INLINE void dot_rows(const struct zn_gemv_args *a, struct reader read, int64_t col, int64_t end)
{
    const void *w = zn_pointer(a->w);
    const float *x = zn_floats(a->x);
    float *y = zn_floats(a->y);
    int64_t n = a->y_stride, k = a->k, apart = (end - col) / DOTS;
    for (int64_t i = col; i < col + apart; i++)
        for (int64_t r = 0; r < a->rows; r++) {
            float total[DOTS];
            dots(read, w, i * k, apart * k, k, x + r * a->x_stride, total);
            for (int d = 0; d < DOTS; d++)
                y[r * n + i + d * apart] = total[d];
        }
    for (int64_t i = col + DOTS * apart; i < end; i++)
        for (int64_t r = 0; r < a->rows; r++)
            y[r * n + i] = dot(read, w, i * k, k, x + r * a->x_stride);
}

/* sum(cols) adds x(0) · W(row 0) + …, one row after the other. Row d begins at `first` + d · `apart` in
 * W, its factor lies at x[d · x_apart]. */
INLINE void add_rows(struct reader read, const void *w, int64_t first, int64_t apart, int depth,
                     int64_t cols, const float *x, int x_apart, float *sum)
{
    int64_t j = 0;
    for (; j + ZN_LANES <= cols; j += ZN_LANES) {
        zn_lanes lanes = zn_lanes_load(sum + j);
        for (int d = 0; d < depth; d++)
            lanes = zn_lanes_add(lanes, zn_lanes_mul_scalar(read.lanes(w, first + d * apart + j),
                                                            x[d * x_apart]));
        zn_lanes_store(sum + j, lanes);
    }
    for (; j < cols; j++)
        for (int d = 0; d < depth; d++)
            sum[j] += read.one(w, first + d * apart + j) * x[d * x_apart];
}

/* One chunk of k and one stripe of columns of W (k,n), into the chunk's part of `partial`. */
INLINE void add_chunk(const struct zn_gemv_args *a, struct reader read, int64_t chunk, int64_t col)
{
    const void *w = zn_pointer(a->w);
    enum { RUN = ZN_GEMV_DEPTH / STREAMS };
    int64_t n = a->n, k = a->k, row = chunk * ZN_GEMV_DEPTH;
    int64_t cols = zn_min_count(STRIPE, n - col), end = zn_min_count(k, row + ZN_GEMV_DEPTH);
    const float *x = zn_floats(a->x);
    float *sum = zn_floats(a->partial) + chunk * a->rows * n + col;
    for (int64_t r = 0; r < a->rows; r++)
        memset(sum + r * n, 0, (size_t)cols * sizeof *sum);
    if (end - row == ZN_GEMV_DEPTH) {
        for (int64_t i = row; i < row + RUN; i++)
            for (int64_t r = 0; r < a->rows; r++)
                add_rows(read, w, i * n + col, RUN * n, STREAMS, cols, x + r * a->x_stride + i, RUN, sum + r * n);
        return;
    }
    for (; row < end; row++)
        for (int64_t r = 0; r < a->rows; r++)
            add_rows(read, w, row * n + col, 0, 1, cols, x + r * a->x_stride + row, 0, sum + r * n);
}

/* One task, compiled for each type of element. */
#define TASK(type)                                                                                 \
    static void dot_rows_##type(const struct zn_gemv_args *a, int64_t from, int64_t to)            \
    {                                                                                              \
        dot_rows(a, (struct reader){lanes_##type, one_##type}, from, to);                          \
    }                                                                                              \
    static void add_chunk_##type(const struct zn_gemv_args *a, int64_t chunk, int64_t col)         \
    {                                                                                              \
        add_chunk(a, (struct reader){lanes_##type, one_##type}, chunk, col);                       \
    }
TASK(f32)
TASK(bf16)
TASK(f16)

typedef void (*task)(const struct zn_gemv_args *a, int64_t, int64_t);

/* Elements i … end of y, all rows: the chunks in order. */
static void add_partial(const struct zn_gemv_args *a, int64_t i, int64_t end)
{
    float *restrict y = zn_floats(a->y);
    if (!a->adds)
        memset(y + i, 0, (size_t)(end - i) * sizeof *y);
    for (int64_t chunk = 0; chunk < zn_pieces(a->k, ZN_GEMV_DEPTH); chunk++) {
        const float *restrict sum = zn_floats(a->partial) + chunk * a->rows * a->n;
        for (int64_t j = i; j < end; j++)
            y[j] += sum[j];
    }
}

static void add_bias(const struct zn_gemv_args *a)
{
    float bias[STRIPE];
    for (int64_t col = 0; col < a->n; col += STRIPE) {
        int64_t cols = zn_min_count(STRIPE, a->n - col);
        zn_widen(bias, a->bias, a->bias_type, col, cols);
        for (int64_t r = 0; r < a->rows; r++)
            for (int64_t j = 0; j < cols; j++)
                zn_floats(a->y)[r * a->y_stride + col + j] += bias[j];
    }
}

static void by_columns(const struct zn_cpu *cpu, const struct zn_gemv_args *a, task run)
{
#pragma omp parallel num_threads(cpu->n_threads) if (a->n * a->k >= SERIAL_BELOW)
    {
        int64_t share = omp_get_thread_num(), n_shares = omp_get_num_threads();
        run(a, a->n * share / n_shares, a->n * (share + 1) / n_shares);
    }
}

static void by_chunks(const struct zn_cpu *cpu, const struct zn_gemv_args *a, task run)
{
    int64_t n_stripes = zn_pieces(a->n, STRIPE), n_chunks = zn_pieces(a->k, ZN_GEMV_DEPTH);
    int64_t n_elements = a->rows * a->n;
#pragma omp parallel num_threads(cpu->n_threads) if (a->n * a->k >= SERIAL_BELOW)
    {
#pragma omp for schedule(static)
        for (int64_t t = 0; t < n_stripes * n_chunks; t++)
            run(a, t / n_stripes, t % n_stripes * STRIPE);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n_elements; i += SHARE)
            add_partial(a, i, zn_min_count(n_elements, i + SHARE));
    }
}

zn_status ZN_K(gemv)(const struct zn_cpu *cpu, const void *args)
{
    static const task tasks[][2] = {[ZN_F32] = {add_chunk_f32, dot_rows_f32},
                                    [ZN_BF16] = {add_chunk_bf16, dot_rows_bf16},
                                    [ZN_F16] = {add_chunk_f16, dot_rows_f16}};
    const struct zn_gemv_args *a = args;
    if (a->rows > ZN_GEMV_ROWS)
        return zn_fail(ZN_ERR_INTERNAL, "gemv: %lld rows are too many", (long long)a->rows);
    ZN_TRY(zn_check_real(a->w_type, "gemv"));
    ZN_TRY(zn_check_real(a->bias_type, "gemv"));
    if (a->transpose_w)
        by_columns(cpu, a, tasks[a->w_type][1]);
    else
        by_chunks(cpu, a, tasks[a->w_type][0]);
    if (a->bias)
        add_bias(a);
    return ZN_OK;
}
