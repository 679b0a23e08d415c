/* Small matrix products in registers, for attention: C(rows,cols) from A(rows,depth) and B(depth,cols), each element one fma
 * chain from zero in ascending depth. Elements of A are broadcast and may lie at any strides; columns of B and C come in
 * groups of ZN_LANES. How the matrix is cut into register tiles shows in no bit. */
#ifndef ZN_DEVICE_CPU_ATTENTION_TILE_H
#define ZN_DEVICE_CPU_ATTENTION_TILE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/cpu/lanes.h"

/* As many rows as the registers hold sums of beside what is being multiplied. One row alone takes TILE_GROUPS groups of lanes at
 * once: several chains run beside each other where one would wait for itself. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 8 };
#elif defined(__AVX2__)
enum { TILE_ROWS = 6 };
#else
enum { TILE_ROWS = 3 };
#endif
enum { TILE_GROUPS = 4 };

#define TILE_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define TILE_UNROLL _Pragma("unroll")
#else
#define TILE_UNROLL _Pragma("GCC unroll 16")
#endif

typedef enum tile_end {
    TILE_SCALE, /* C = chain × scale */
    TILE_ADD,   /* C = C + chain */
    TILE_JOIN,  /* C = fma(C, factor of the row, chain) */
} tile_end;

/* A matrix product without its extents. */
struct tile_product {
    const float *a, *b;
    float *c;
    int64_t a_row, a_step, b_step, c_row; /* strides: of A along rows and depth, of B along depth, of C along rows */
    const float *factor;                  /* of each row, for TILE_JOIN */
    float scale;
    tile_end end;
    bool first; /* C counts as zero before TILE_ADD and TILE_JOIN */
};

/* The first row and column of a tile. */
struct tile_place {
    int64_t row, col;
};

TILE_INLINE zn_vector tile_end_of(const struct tile_product *p, int64_t row, const float *c, zn_vector chain)
{
    const zn_vector zero = {0};
    if (p->end == TILE_SCALE)
        return chain * p->scale;
    if (p->first)
        return chain + zero; /* not -0 */
    if (p->end == TILE_ADD)
        return zn_vector_load(c) + chain;
    return zn_vector_fma(zn_vector_load(c), zn_vector_all(p->factor[row]), chain);
}

/* `rows` and `groups` are constants where it is inlined: the sums stay in registers. Rows of A are addressed from every third one,
 * since two more lie within what one instruction can address. */
TILE_INLINE void tile_compute(const struct tile_product *p, struct tile_place at, int rows, int groups, int64_t depth, float *tile,
                              int64_t tile_row)
{
    zn_vector sum[TILE_ROWS][TILE_GROUPS * ZN_LANE_PARTS];
    const int64_t a_row = p->a_row, a_step = p->a_step, b_step = p->b_step;
    const float *a[(TILE_ROWS + 2) / 3], *b = p->b + at.col;
    TILE_UNROLL
    for (int i = 0; i < rows; i += 3)
        a[i / 3] = p->a + (at.row + i) * a_row;
    TILE_UNROLL
    for (int i = 0; i < rows; i++) {
        TILE_UNROLL
        for (int j = 0; j < groups * ZN_LANE_PARTS; j++)
            sum[i][j] = (zn_vector){0};
    }
    for (int64_t k = 0; k < depth; k++) {
        zn_vector line[TILE_GROUPS * ZN_LANE_PARTS];
        TILE_UNROLL
        for (int j = 0; j < groups * ZN_LANE_PARTS; j++)
            line[j] = zn_vector_load(b + j * ZN_LANE_FLOATS);
        TILE_UNROLL
        for (int i = 0; i < rows; i++) {
            zn_vector x = zn_vector_all(a[i / 3][i % 3 * a_row]);
            TILE_UNROLL
            for (int j = 0; j < groups * ZN_LANE_PARTS; j++)
                sum[i][j] = zn_vector_fma(x, line[j], sum[i][j]);
        }
        TILE_UNROLL
        for (int i = 0; i < rows; i += 3)
            a[i / 3] += a_step;
        b += b_step;
    }
    TILE_UNROLL
    for (int i = 0; i < rows; i++) {
        TILE_UNROLL
        for (int j = 0; j < groups * ZN_LANE_PARTS; j++) {
            float *c = tile + i * tile_row + j * ZN_LANE_FLOATS;
            zn_vector_store(c, tile_end_of(p, at.row + i, c, sum[i][j]));
        }
    }
}

/* Not inlined: all products of a kernel share its code. */
static __attribute__((noinline)) void tile_compute_rows(const struct tile_product *p, struct tile_place at, int64_t rows,
                                                       int64_t depth, float *tile, int64_t tile_row)
{
    switch (rows) {
    case 1: tile_compute(p, at, 1, 1, depth, tile, tile_row); break;
    case 2: tile_compute(p, at, 2, 1, depth, tile, tile_row); break;
#if defined(__AVX2__)
    case 3: tile_compute(p, at, 3, 1, depth, tile, tile_row); break;
    case 4: tile_compute(p, at, 4, 1, depth, tile, tile_row); break;
    case 5: tile_compute(p, at, 5, 1, depth, tile, tile_row); break;
#endif
#if defined(__AVX512F__)
    case 6: tile_compute(p, at, 6, 1, depth, tile, tile_row); break;
    case 7: tile_compute(p, at, 7, 1, depth, tile, tile_row); break;
#endif
    default: tile_compute(p, at, TILE_ROWS, 1, depth, tile, tile_row);
    }
}

/* A tile of fewer than ZN_LANES columns goes by a copy; B has ZN_LANES in any case. */
static inline void tile_compute_edge(const struct tile_product *p, struct tile_place at, int64_t rows, int64_t cols, int64_t depth)
{
    float copy[TILE_ROWS * ZN_LANES] = {0}, *c = p->c + at.row * p->c_row + at.col;
    size_t n_bytes = (size_t)cols * sizeof *copy;
    for (int64_t i = 0; i < rows && p->end != TILE_SCALE && !p->first; i++)
        memcpy(copy + i * ZN_LANES, c + i * p->c_row, n_bytes);
    tile_compute_rows(p, at, rows, depth, copy, ZN_LANES);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * p->c_row, copy + i * ZN_LANES, n_bytes);
}

static inline void tile_multiply(const struct tile_product *p, int64_t rows, int64_t cols, int64_t depth)
{
    struct tile_place at = {0, 0};
    for (; rows == 1 && cols - at.col >= TILE_GROUPS * ZN_LANES; at.col += TILE_GROUPS * ZN_LANES)
        tile_compute(p, at, 1, TILE_GROUPS, depth, p->c + at.col, p->c_row);
    for (; at.col < cols; at.col += ZN_LANES)
        for (at.row = 0; at.row < rows; at.row += TILE_ROWS) {
            int64_t n_rows = rows - at.row < TILE_ROWS ? rows - at.row : TILE_ROWS;
            if (cols - at.col >= ZN_LANES)
                tile_compute_rows(p, at, n_rows, depth, p->c + at.row * p->c_row + at.col, p->c_row);
            else
                tile_compute_edge(p, at, n_rows, cols - at.col, depth);
        }
}

#endif
