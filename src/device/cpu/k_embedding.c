/* Rows of a table taken by id, and the gradient of the table.
 *
 * Backward adds in row order: threads share the columns, never the rows, so an id that comes
 * twice is always summed in the same order. */
#include <omp.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ranges.h"
#include "device/cpu/widen.h"

enum {
    STRIPE = 64,     /* columns of one task: whole cache lines */
    CLEAR_ROWS = 64, /* rows of a table cleared by one task */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void add_to(float *restrict sum, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

static int64_t position_of(zn_addr position_ids, int64_t row, int64_t period)
{
    const int32_t *ids = zn_pointer(position_ids);
    return ids ? ids[row] : row % period;
}

/* y(n) += elements first … first+n of a table */
static void add_widened(float *y, zn_addr table, zn_dtype type, int64_t first, int64_t n)
{
    enum { BLOCK = 512 };
    float block[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t length = smaller(BLOCK, n - i);
        zn_widen(block, table, type, first + i, length);
        add_to(y + i, block, length);
    }
}

zn_status ZN_K(embedding_forward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_embedding_forward_args *a = args;
    ZN_TRY(zn_check_real(a->table_type, "embedding"));
    const int32_t *ids = zn_pointer(a->ids);
    int64_t width = a->width;
#pragma omp parallel for num_threads(cpu->n_threads) if (a->rows * width >= ZN_SERIAL_BELOW)
    for (int64_t row = 0; row < a->rows; row++) {
        float *y = zn_floats(a->y) + row * width;
        int64_t id = a->table ? ids[row] - a->first_id : 0;
        if (a->table && id >= 0 && id < a->n_ids)
            zn_widen(y, a->table, a->table_type, id * width, width);
        if (a->positions)
            add_widened(y, a->positions, a->table_type, position_of(a->position_ids, row, a->period) * width, width);
    }
    return ZN_OK;
}

/* Called by every thread of a team; ends with a barrier. */
static void clear_table(float *table, int64_t rows, int64_t width)
{
#pragma omp for
    for (int64_t row = 0; row < rows; row += CLEAR_ROWS)
        memset(table + row * width, 0,
               (size_t)(smaller(CLEAR_ROWS, rows - row) * width) * sizeof *table);
}

/* Columns col … col+n of both gradients; either may be NULL. */
static void add_stripe(const struct zn_embedding_backward_args *a, int64_t col, int64_t n)
{
    const int32_t *ids = zn_pointer(a->ids);
    const float *dy = zn_floats(a->dy) + col;
    float *d_table = zn_floats(a->d_table), *d_positions = zn_floats(a->d_positions);
    for (int64_t row = 0; row < a->rows && d_table; row++) {
        int64_t id = ids[row] - a->first_id;
        if (id >= 0 && id < a->n_ids)
            add_to(d_table + id * a->width + col, dy + row * a->width, n);
    }
    for (int64_t row = 0; row < a->rows && d_positions; row++)
        add_to(d_positions + position_of(a->position_ids, row, a->period) * a->width + col, dy + row * a->width, n);
}

zn_status ZN_K(embedding_backward)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_embedding_backward_args *a = args;
#pragma omp parallel num_threads(cpu->n_threads)
    {
        if (a->d_table)
            clear_table(zn_floats(a->d_table), a->n_ids, a->width);
        if (a->d_positions)
            clear_table(zn_floats(a->d_positions), a->n_positions, a->width);
#pragma omp for schedule(dynamic)
        for (int64_t col = 0; col < a->width; col += STRIPE)
            add_stripe(a, col, smaller(STRIPE, a->width - col));
    }
    return ZN_OK;
}
