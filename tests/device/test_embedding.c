/* Embeddings taken by id, and gradients that are sums in row order, to the bit. */
#include "device/halves.h"
#include "device/variants.h"

VARIANTS(embedding_forward)
VARIANTS(embedding_backward)

enum { ROWS = 150, PERIOD = 50, N_IDS = 137, N_POSITIONS = 61 };

/* Ids with many repetitions; the last id and some others never come. */
static void make_ids(int32_t ids[ROWS])
{
    uint64_t key = zn_random_key(1, "ids");
    for (int row = 0; row < ROWS; row++)
        ids[row] = (int32_t)zn_random_below(key, (uint64_t)row, N_IDS - 1);
    ids[0] = ids[1] = ids[ROWS - 1] = 0;
}

static const int64_t widths[] = {1, 7, 64, 100, 256};

static void forward_takes_rows_and_adds_positions(void **state)
{
    (void)state;
    int32_t ids[ROWS];
    make_ids(ids);
    for (size_t w = 0; w < sizeof widths / sizeof *widths * 2; w++) {
        int64_t width = widths[w / 2];
        bool has_positions = w % 2;
        float *table = random_floats("table", N_IDS * width, 1);
        float *positions = random_floats("positions", N_POSITIONS * width, 1);
        float *expected = filled_floats(ROWS * width, 0), *y = filled_floats(ROWS * width, NAN);
        for (int64_t row = 0; row < ROWS; row++)
            for (int64_t i = 0; i < width; i++)
                expected[row * width + i] = has_positions ? table[ids[row] * width + i] +
                                                                positions[row % PERIOD * width + i]
                                                          : table[ids[row] * width + i];
        struct zn_embedding_forward_args args = {
            .y = address_of(y),
            .table = address_of(table),
            .ids = address_of(ids),
            .positions = has_positions ? address_of(positions) : 0,
            .rows = ROWS,
            .width = width,
            .period = PERIOD,
            .n_ids = N_IDS,
        };
        for (const struct variant *v = embedding_forward_variants; v->isa; v++)
            for (int n_threads = 1; variant_runs_here(v) && n_threads <= 3; n_threads++) {
                run_variant(v, n_threads, &args);
                assert_same_bits(v->isa, expected, y, ROWS * width);
            }
        free(table);
        free(positions);
        free(expected);
        free(y);
    }
}

static void forward_of_16_bit_tables_has_the_bits_of_fp32(void **state)
{
    (void)state;
    enum { WIDTH = 1100 }; /* more than one block of positions, and a tail */
    int32_t ids[ROWS];
    make_ids(ids);
    for (int form = 0; form < 4; form++) {
        zn_dtype type = form & 1 ? ZN_BF16 : ZN_F16;
        float *table = random_floats("table", N_IDS * WIDTH, 1e-3);
        float *positions = random_floats("positions", N_POSITIONS * WIDTH, 1e-6);
        uint16_t *table_16 = round_to(table, N_IDS * WIDTH, type);
        uint16_t *positions_16 = round_to(positions, N_POSITIONS * WIDTH, type);
        float *expected = filled_floats(ROWS * WIDTH, 0), *y = filled_floats(ROWS * WIDTH, NAN);
        struct zn_embedding_forward_args args = {
            .y = address_of(expected),
            .table = address_of(table),
            .ids = address_of(ids),
            .positions = form & 2 ? address_of(positions) : 0,
            .rows = ROWS,
            .width = WIDTH,
            .period = PERIOD,
            .n_ids = N_IDS,
        };
        run_variant(&embedding_forward_variants[0], 1, &args);
        args.y = address_of(y);
        args.table = address_of(table_16);
        args.positions = form & 2 ? address_of(positions_16) : 0;
        args.table_type = type;
        for (const struct variant *v = embedding_forward_variants; v->isa; v++)
            for (int n_threads = 1; variant_runs_here(v) && n_threads <= 3; n_threads++) {
                memset(y, 0xff, ROWS * WIDTH * sizeof *y);
                run_variant(v, n_threads, &args);
                assert_same_bits(v->isa, expected, y, ROWS * WIDTH);
            }
        free(table);
        free(positions);
        free(table_16);
        free(positions_16);
        free(expected);
        free(y);
    }
}

/* sum(at[row],:) of dy in row order. */
static void sum_rows(float *sum, const float *dy, const int32_t *at, int64_t width)
{
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t i = 0; i < width; i++)
            sum[at[row] * width + i] += dy[row * width + i];
}

static void backward_sums_in_row_order(void **state)
{
    (void)state;
    int32_t ids[ROWS], positions[ROWS];
    make_ids(ids);
    for (int row = 0; row < ROWS; row++)
        positions[row] = row % PERIOD;
    for (size_t w = 0; w < sizeof widths / sizeof *widths * 2; w++) {
        int64_t width = widths[w / 2];
        bool has_positions = w % 2;
        float *dy = random_floats("dy", ROWS * width, 1);
        float *expected = filled_floats(N_IDS * width, 0), *got = filled_floats(N_IDS * width, NAN);
        float *expected_positions = filled_floats(N_POSITIONS * width, 0);
        float *got_positions = filled_floats(N_POSITIONS * width, NAN);
        sum_rows(expected, dy, ids, width);
        sum_rows(expected_positions, dy, positions, width);
        struct zn_embedding_backward_args args = {
            .d_table = address_of(got),
            .dy = address_of(dy),
            .ids = address_of(ids),
            .d_positions = has_positions ? address_of(got_positions) : 0,
            .rows = ROWS,
            .width = width,
            .period = PERIOD,
            .n_ids = N_IDS,
            .n_positions = N_POSITIONS,
        };
        for (const struct variant *v = embedding_backward_variants; v->isa; v++)
            for (int n_threads = 1; variant_runs_here(v) && n_threads <= 3; n_threads++) {
                run_variant(v, n_threads, &args);
                assert_same_bits(v->isa, expected, got, N_IDS * width);
                if (has_positions)
                    assert_same_bits(v->isa, expected_positions, got_positions,
                                     N_POSITIONS * width);
                else
                    assert_true(isnan(got_positions[0]));
            }
        free(dy);
        free(expected);
        free(got);
        free(expected_positions);
        free(got_positions);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_takes_rows_and_adds_positions),
        cmocka_unit_test(forward_of_16_bit_tables_has_the_bits_of_fp32),
        cmocka_unit_test(backward_sums_in_row_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
