/* The matrix product in its canonical order (device/kernels.h), which neither blocks nor threads nor vectors change.
 *
 * The smaller operand is packed by all threads for all of them, as much of it as the scratch holds. The other is packed a piece
 * and a chunk of k at a time by the thread that uses it at once: it goes from memory to the second cache and never back. C's
 * part of such a piece stays in that cache while the chunks pass. Few rows go another way, which packs nothing (product_few.h). */
#include <omp.h>
#include <stdatomic.h>

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cpu/product_few.h"
#include "device/cpu/product_tile.h"

enum {
    BLOCK_ROWS = 192,                    /* rows of A that stay in the second cache: whole strips */
    PIECE_STRIPS = 4,                    /* strips of B that a thread packs at most */
    OWN_FLOATS = ZN_GEMM_K * BLOCK_ROWS, /* of scratch, for what a thread packs for itself */
    SHARED_FLOATS = 1 << 21,             /* at most, for what all use: more would not stay in a cache */
    SERIAL_BELOW = 1 << 17,              /* multiplications that are done before a team has begun */
};

struct product {
    struct zn_operand a, b;
    float *c;
    int64_t c_stride, m, n, k;
    zn_addr bias;
    zn_dtype bias_type;
    bool adds;
};

/* Lines line … line+lines of the operand that all threads use, k = at … at+depth, packed. Strips are `depth` deep. */
struct slab {
    bool is_a;
    int64_t line, lines, at, depth;
    float *packed;
};

/* Strips of C at col, and rows row … row+rows of it, chunk k of the slab. a and b are the strips' chunks, those of A `apart`
 * floats a row apart. */
static void compute_strip(const struct product *p, int64_t row, int64_t rows, int64_t col, int64_t at, const float *a,
                          int64_t apart, const float *b)
{
    int64_t depth = zn_min_count(ZN_GEMM_K, p->k - at), cols = zn_min_count(TILE_COLS, p->n - col);
    float bias[TILE_COLS];
    bool has_bias = p->bias && at + depth == p->k;
    if (has_bias)
        zn_widen(bias, p->bias, p->bias_type, col, cols);
    for (int64_t i = 0; i < rows; i += TILE_ROWS)
        any_tile(zn_min_count(TILE_ROWS, rows - i), cols, depth, a + i * apart, b,
                 p->c + (row + i) * p->c_stride + col, p->c_stride, p->adds || at > 0, has_bias ? bias : NULL);
}

/* Columns col … col+cols of C: B is packed here. */
static void compute_columns(const struct product *p, const struct slab *a, int64_t first, int64_t end, int64_t col,
                            int64_t cols, float *own)
{
    for (int64_t k = 0; k < a->depth; k += ZN_GEMM_K) {
        int64_t depth = zn_min_count(ZN_GEMM_K, a->depth - k);
        pack_b(own, &p->b, col, cols, a->at + k, depth, depth);
        for (int64_t row = first; row < end; row += BLOCK_ROWS)
            for (int64_t j = 0; j < cols; j += TILE_COLS)
                compute_strip(p, a->line + row, zn_min_count(BLOCK_ROWS, end - row), col + j, a->at + k,
                              a->packed + row * a->depth + k * TILE_ROWS, a->depth, own + j * depth);
    }
}

/* Rows row … row+rows of C: A is packed here. */
static void compute_rows(const struct product *p, const struct slab *b, int64_t first, int64_t end, int64_t row,
                         int64_t rows, float *own)
{
    for (int64_t k = 0; k < b->depth; k += ZN_GEMM_K) {
        int64_t depth = zn_min_count(ZN_GEMM_K, b->depth - k);
        pack_a(own, &p->a, row, rows, b->at + k, depth, depth);
        for (int64_t j = first; j < end; j += TILE_COLS)
            compute_strip(p, row, rows, b->line + j, b->at + k, own, depth, b->packed + j * b->depth + k * TILE_COLS);
    }
}

/* How the other operand, and where it has too few strips for the threads the slab too, is cut into jobs. */
struct jobs {
    int64_t n_pieces, n_slab_pieces;
};

/* Where the i-th of n parts of these lines begins: whole strips, as even as can be. */
static int64_t part_begin(int64_t lines, int64_t strip, int64_t i, int64_t n)
{
    return zn_min_count(zn_pieces(lines, strip) * i / n * strip, lines);
}

/* So many pieces that none has more than `most` lines, and that all threads have as many. */
static struct jobs jobs_of(const struct product *p, const struct slab *s, int n_threads)
{
    int64_t lines = s->is_a ? p->n : p->m, strip = s->is_a ? TILE_COLS : TILE_ROWS, slab_strip = s->is_a ? TILE_ROWS : TILE_COLS;
    int64_t most = s->is_a ? PIECE_STRIPS * TILE_COLS : BLOCK_ROWS;
    struct jobs j = {zn_min_count(zn_pieces(lines, most * n_threads) * n_threads, zn_pieces(lines, strip)), 1};
    if (j.n_pieces < n_threads)
        j.n_slab_pieces = zn_min_count(zn_pieces(n_threads, j.n_pieces), zn_pieces(s->lines, slab_strip));
    return j;
}

static void run_job(const struct product *p, const struct slab *s, const struct jobs *jobs, int64_t job, float *own)
{
    int64_t lines = s->is_a ? p->n : p->m, strip = s->is_a ? TILE_COLS : TILE_ROWS, slab_strip = s->is_a ? TILE_ROWS : TILE_COLS;
    int64_t piece = job / jobs->n_slab_pieces, slab_piece = job % jobs->n_slab_pieces;
    int64_t at = part_begin(lines, strip, piece, jobs->n_pieces), end = part_begin(lines, strip, piece + 1, jobs->n_pieces);
    int64_t slab_at = part_begin(s->lines, slab_strip, slab_piece, jobs->n_slab_pieces);
    int64_t slab_end = part_begin(s->lines, slab_strip, slab_piece + 1, jobs->n_slab_pieces);
    if (s->is_a)
        compute_columns(p, s, slab_at, slab_end, at, end - at, own);
    else
        compute_rows(p, s, slab_at, slab_end, at, end - at, own);
}

static void pack_slab_strip(const struct product *p, const struct slab *s, int64_t line)
{
    if (s->is_a)
        pack_a(s->packed + line * s->depth, &p->a, s->line + line, zn_min_count(TILE_ROWS, s->lines - line), s->at, s->depth,
               s->depth);
    else
        pack_b(s->packed + line * s->depth, &p->b, s->line + line, zn_min_count(TILE_COLS, s->lines - line), s->at, s->depth,
               s->depth);
}

/* On every thread of the team. Counters go on from slab to slab: `packed` and `done` are those before this one. */
static void run_slab(const struct product *p, const struct slab *s, int n_threads, _Atomic int64_t next[2], float *own)
{
    int64_t strip = s->is_a ? TILE_ROWS : TILE_COLS;
    struct jobs jobs = jobs_of(p, s, n_threads);
    for (int64_t i; (i = atomic_fetch_add(&next[0], 1) * strip) < s->lines;)
        pack_slab_strip(p, s, i);
#pragma omp barrier
    for (int64_t i; (i = atomic_fetch_add(&next[1], 1)) < jobs.n_pieces * jobs.n_slab_pieces;)
        run_job(p, s, &jobs, i, own);
#pragma omp barrier
#pragma omp single
    next[0] = next[1] = 0;
}

/* The largest slabs that the scratch holds: as deep as k where not all lines fit, since C is then met once. */
static void run_packed(const struct zn_cpu *cpu, const struct product *p, int n_threads)
{
    bool is_a = p->m <= p->n;
    int64_t lines = is_a ? p->m : p->n, strip = is_a ? TILE_ROWS : TILE_COLS;
    int64_t room = zn_min_count(SHARED_FLOATS, (int64_t)n_threads * (ZN_SCRATCH_FLOATS - OWN_FLOATS));
    int64_t most_lines = zn_min_count(zn_pieces(lines, strip) * strip, room / ZN_GEMM_K / strip * strip);
    int64_t depth = zn_min_count(p->k, room / most_lines / ZN_GEMM_K * ZN_GEMM_K);
    _Atomic int64_t next[2] = {0, 0};
#pragma omp parallel num_threads(n_threads)
    {
        float *own = cpu->scratch + room + omp_get_thread_num() * OWN_FLOATS;
        for (int64_t line = 0; line < lines; line += most_lines)
            for (int64_t at = 0; at < p->k; at += depth) {
                struct slab s = {is_a, line, zn_min_count(most_lines, lines - line), at, zn_min_count(depth, p->k - at),
                                 cpu->scratch};
                run_slab(p, &s, n_threads, next, own);
            }
    }
}

/* No chunk at all: C or zero, and the bias. */
static void run_bias(const struct product *p)
{
    float bias[512];
    for (int64_t col = 0; col < p->n; col += 512) {
        int64_t cols = zn_min_count(512, p->n - col);
        if (p->bias)
            zn_widen(bias, p->bias, p->bias_type, col, cols);
        for (int64_t i = 0; i < p->m; i++) {
            float *c = p->c + i * p->c_stride + col;
            for (int64_t j = 0; j < cols; j++)
                c[j] = p->bias ? (p->adds ? c[j] : 0.0f) + bias[j] : p->adds ? c[j] : 0.0f;
        }
    }
}

zn_status ZN_K(gemm)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_gemm_args *g = args;
    ZN_TRY(zn_check_real(g->b_type, "gemm"));
    ZN_TRY(zn_check_real(g->bias_type, "gemm"));
    const struct product p = {.a = {zn_pointer(g->a), g->a_stride, ZN_F32, g->transpose_a},
                              .b = {zn_pointer(g->b), g->b_stride, g->b_type, g->transpose_b},
                              .c = zn_floats(g->c),
                              .c_stride = g->c_stride,
                              .m = g->m,
                              .n = g->n,
                              .k = g->k,
                              .bias = g->bias,
                              .bias_type = g->bias_type,
                              .adds = g->adds};
    bool is_small = (double)g->m * (double)g->n * (double)g->k < SERIAL_BELOW;
    if (g->m == 0 || g->n == 0)
        return ZN_OK;
    if (g->k == 0)
        run_bias(&p);
    else if (g->m <= FEW_ROWS && !g->transpose_a)
        run_few(cpu, g, is_small ? 1 : cpu->n_threads);
    else
        run_packed(cpu, &p, is_small ? 1 : cpu->n_threads);
    return ZN_OK;
}
