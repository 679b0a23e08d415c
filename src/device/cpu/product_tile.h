/* The innermost part of a matrix product: operands packed into strips, and one tile of C from two of them.
 *
 * A strip of op(A) is TILE_ROWS rows wide, one of op(B) TILE_COLS columns; k is outermost inside a strip, and zeros stand for what
 * a strip lacks. A tile's sums stay in registers while k passes; blocks of B's strip stay in the first cache. */
#ifndef ZN_DEVICE_CPU_PRODUCT_TILE_H
#define ZN_DEVICE_CPU_PRODUCT_TILE_H

#include "device/cpu/operand.h"
#include "device/cpu/ranges.h"

#if defined(__AVX512F__) || defined(__aarch64__)
enum { TILE_ROWS = 12 }; /* 24 of 32 registers hold sums */
#else
enum { TILE_ROWS = 6 }; /* 12 of 16 */
#endif

enum {
    TILE_VECTORS = 2,
    TILE_COLS = TILE_VECTORS * ZN_WIDTH,
    TILE_STEP = TILE_ROWS / 3, /* tiles may have one or two thirds of the rows */
};

/* ---- packing ---- */

/* The first n lanes, n a constant. */
ZN_INLINE void store_lanes(float *dst, zn_vector v, int n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(dst, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(dst, &v, (size_t)n * sizeof *dst);
#endif
}

/* Where lines lie along k: squares of ZN_WIDTH lines and as many k are transposed. The rest of k, and of lines that do not
 * fill a strip, goes one by one. */
ZN_INLINE void pack_along_k(float *dst, int width, const void *src, int64_t first, int64_t stride, zn_dtype type,
                            int64_t lines, int64_t depth)
{
    int64_t whole = lines == width ? depth / ZN_WIDTH * ZN_WIDTH : 0;
    for (int64_t k = 0; k < whole; k += ZN_WIDTH)
        for (int i = 0; i < width; i += ZN_WIDTH) {
            zn_vector v[ZN_WIDTH];
            int n = width - i < ZN_WIDTH ? width - i : ZN_WIDTH;
#pragma GCC unroll 16
            for (int j = 0; j < ZN_WIDTH; j++)
                v[j] = j < n ? zn_operand_load(src, first + (i + j) * stride + k, type) : (zn_vector){0};
            zn_transpose(v);
#pragma GCC unroll 16
            for (int j = 0; j < ZN_WIDTH; j++)
                store_lanes(dst + (k + j) * width + i, v[j], n);
        }
    for (int64_t k = whole; k < depth; k++)
        for (int64_t i = 0; i < width; i++)
            dst[k * width + i] = i < lines ? zn_operand_one(src, first + i * stride + k, type) : 0;
}

/* Where lines lie side by side. */
ZN_INLINE void pack_across_k(float *dst, int width, const void *src, int64_t first, int64_t stride, zn_dtype type,
                             int64_t lines, int64_t depth)
{
    for (int64_t k = 0; k < depth; k++) {
        int64_t from = first + k * stride;
        if (lines < width) {
            for (int64_t i = 0; i < width; i++)
                dst[k * width + i] = i < lines ? zn_operand_one(src, from + i, type) : 0;
        } else if (type == ZN_F32) {
            memcpy(dst + k * width, (const float *)src + from, (size_t)width * sizeof *dst);
        } else {
            for (int i = 0; i < width; i += ZN_WIDTH) /* only of B, whose width is whole vectors */
                zn_vector_store(dst + k * width + i, zn_operand_load(src, from + i, type));
        }
    }
}

/* One strip of `lines` lines; it begins at element `first`. */
ZN_INLINE void pack_strip(float *dst, int width, const void *src, int64_t first, int64_t stride, zn_dtype type, bool along_k,
                          int64_t lines, int64_t depth)
{
    if (along_k)
        pack_along_k(dst, width, src, first, stride, type, lines, depth);
    else
        pack_across_k(dst, width, src, first, stride, type, lines, depth);
}

/* Rows row … row+rows of op(A), k = at … at+depth; strip after strip, TILE_ROWS × `apart` floats apart. */
static inline void pack_a(float *dst, const struct zn_operand *a, int64_t row, int64_t rows, int64_t at, int64_t depth, int64_t apart)
{
    for (int64_t i = 0; i < rows; i += TILE_ROWS) {
        int64_t lines = zn_min_count(TILE_ROWS, rows - i), first = zn_operand_place(a, row + i, at);
        if (a->transposed)
            pack_strip(dst + i * apart, TILE_ROWS, a->at, first, a->stride, ZN_F32, false, lines, depth);
        else
            pack_strip(dst + i * apart, TILE_ROWS, a->at, first, a->stride, ZN_F32, true, lines, depth);
    }
}

/* The same of columns of op(B). */
static inline void pack_b(float *dst, const struct zn_operand *b, int64_t col, int64_t cols, int64_t at, int64_t depth, int64_t apart)
{
    for (int64_t j = 0; j < cols; j += TILE_COLS) {
        int64_t lines = zn_min_count(TILE_COLS, cols - j), first = zn_operand_place(b, at, col + j);
#define PACK(type)                                                                                                     \
    (b->transposed ? pack_strip(dst + j * apart, TILE_COLS, b->at, first, b->stride, type, true, lines, depth)         \
                   : pack_strip(dst + j * apart, TILE_COLS, b->at, first, b->stride, type, false, lines, depth))
        if (b->type == ZN_F32)
            PACK(ZN_F32);
        else if (b->type == ZN_BF16)
            PACK(ZN_BF16);
        else
            PACK(ZN_F16);
#undef PACK
    }
}

/* ---- the tile ---- */

/* C(rows,TILE_COLS) [+]= one chunk of a strip of A times one of B [+ bias]; rows is a constant. */
ZN_INLINE void tile(int rows, int64_t depth, const float *a, const float *b, float *c, int64_t stride, bool adds,
                    const float *bias)
{
    zn_vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(c + i * stride, 1);
        __builtin_prefetch(c + i * stride + TILE_COLS - 1, 1);
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++)
            sum[i][j] = (zn_vector){0};
    }
#pragma GCC unroll 4
    for (int64_t k = 0; k < depth; k++) {
        zn_vector line[TILE_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++)
            line[j] = zn_vector_load(b + k * TILE_COLS + j * ZN_WIDTH);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            zn_vector x = zn_vector_all(a[k * TILE_ROWS + i]);
#pragma GCC unroll 4
            for (int j = 0; j < TILE_VECTORS; j++)
                sum[i][j] = zn_vector_fma(x, line[j], sum[i][j]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            float *at = c + i * stride + j * ZN_WIDTH;
            zn_vector v = adds ? zn_vector_load(at) + sum[i][j] : sum[i][j];
            zn_vector_store(at, bias ? v + zn_vector_load(bias + j * ZN_WIDTH) : v);
        }
}

static inline void tile_of_rows(int64_t rows, int64_t depth, const float *a, const float *b, float *c, int64_t stride, bool adds,
                         const float *bias)
{
    if (rows > 2 * TILE_STEP)
        tile(3 * TILE_STEP, depth, a, b, c, stride, adds, bias);
    else if (rows > TILE_STEP)
        tile(2 * TILE_STEP, depth, a, b, c, stride, adds, bias);
    else
        tile(TILE_STEP, depth, a, b, c, stride, adds, bias);
}

/* The same for any rows and columns: what C's edge cuts off goes by a copy. */
static inline void any_tile(int64_t rows, int64_t cols, int64_t depth, const float *a, const float *b, float *c, int64_t stride,
                     bool adds, const float *bias)
{
    if (cols == TILE_COLS && rows % TILE_STEP == 0) {
        tile_of_rows(rows, depth, a, b, c, stride, adds, bias);
        return;
    }
    float copy[TILE_ROWS * TILE_COLS] = {0}, ends[TILE_COLS] = {0};
    if (bias)
        memcpy(ends, bias, (size_t)cols * sizeof *bias);
    for (int64_t i = 0; adds && i < rows; i++)
        memcpy(copy + i * TILE_COLS, c + i * stride, (size_t)cols * sizeof *c);
    tile_of_rows(rows, depth, a, b, copy, TILE_COLS, adds, bias ? ends : NULL);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * stride, copy + i * TILE_COLS, (size_t)cols * sizeof *c);
}

#endif
