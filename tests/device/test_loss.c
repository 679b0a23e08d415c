/* Cross-entropy over panels of the vocabulary and its gradient. */
#include "device/variants.h"

VARIANTS(loss_panel)
VARIANTS(loss_finish)
VARIANTS(loss_gradient)

enum { ROWS = 37, COLS = 1003, GAP = 5, STRIDE = COLS + GAP };

struct run {
    float *logits;
    int32_t targets[ROWS];
    float row_max[ROWS], row_sum[ROWS], target_logit[ROWS], lse[ROWS];
    double loss;
};

/* Every fifth position is ignored; the others have targets all over the columns. */
static void run_init(struct run *r, double stddev)
{
    r->logits = random_floats("logits", ROWS * STRIDE, stddev);
    r->loss = 0;
    for (int row = 0; row < ROWS; row++) {
        r->targets[row] = row % 5 == 4 ? -1 - row % 2 * 99 : row * 997 % COLS;
        r->row_max[row] = r->row_sum[row] = r->target_logit[row] = r->lse[row] = NAN;
    }
    r->targets[0] = 0;
    r->targets[1] = COLS - 1;
}

/* The loss, in panels of `panel` columns. */
static void run_loss(struct run *r, int v, int n_threads, int64_t panel)
{
    for (int64_t col = 0; col < COLS; col += panel) {
        struct zn_loss_panel_args args = {
            .logits = address_of(r->logits + col),
            .targets = address_of(r->targets),
            .row_max = address_of(r->row_max),
            .row_sum = address_of(r->row_sum),
            .target_logit = address_of(r->target_logit),
            .rows = ROWS,
            .cols = col + panel < COLS ? panel : COLS - col,
            .stride = STRIDE,
            .first_col = col,
            .first = col == 0,
        };
        run_variant(&loss_panel_variants[v], n_threads, &args);
    }
    struct zn_loss_finish_args args = {
        .lse = address_of(r->lse),
        .loss = address_of(&r->loss),
        .row_max = address_of(r->row_max),
        .row_sum = address_of(r->row_sum),
        .target_logit = address_of(r->target_logit),
        .targets = address_of(r->targets),
        .rows = ROWS,
    };
    run_variant(&loss_finish_variants[v], n_threads, &args);
}

/* The gradient in place of the logits. */
static void run_gradient(struct run *r, int v, int n_threads, int64_t panel, float scale)
{
    for (int64_t col = 0; col < COLS; col += panel) {
        struct zn_loss_gradient_args args = {
            .logits = address_of(r->logits + col),
            .targets = address_of(r->targets),
            .lse = address_of(r->lse),
            .rows = ROWS,
            .cols = col + panel < COLS ? panel : COLS - col,
            .stride = STRIDE,
            .first_col = col,
            .scale = scale,
        };
        run_variant(&loss_gradient_variants[v], n_threads, &args);
    }
}

static double reference_lse(const float *logits)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < COLS; i++)
        max = fmax(max, (double)logits[i]);
    for (int i = 0; i < COLS; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

/* lse within 1e-6 relative, the mean loss within 1e-6. */
static void is_right_for_every_panel_width(void **state)
{
    (void)state;
    static const int64_t panels[] = {COLS, 1, 16, 100, 500, 1002};
    static const double spreads[] = {0.01, 2, 40};
    for (size_t i = 0; i < sizeof panels / sizeof *panels * 3; i++) {
        struct run r;
        run_init(&r, spreads[i % 3]);
        r.loss = 5.0; /* adds */
        run_loss(&r, 0, 2, panels[i / 3]);
        double expected = 5.0;
        for (int row = 0; row < ROWS; row++) {
            double lse = reference_lse(r.logits + row * STRIDE);
            assert_true(fabs((double)r.lse[row] - lse) <= 1e-6 * (1 + fabs(lse)));
            if (r.targets[row] >= 0)
                expected += lse - (double)r.logits[row * STRIDE + r.targets[row]];
        }
        assert_true(fabs(r.loss - expected) <= 1e-6 * (1 + expected));
        free(r.logits);
    }
}

/* Each element within 4e-6 of its size plus 1e-7 of the scale. */
static void gradient_is_softmax_less_target(void **state)
{
    (void)state;
    const double scale = 0.125;
    for (int64_t panel = 301; panel <= COLS; panel += COLS - 301) {
        struct run r;
        run_init(&r, 2);
        run_loss(&r, 0, 2, panel);
        float *before = random_floats("logits", ROWS * STRIDE, 2);
        run_gradient(&r, 0, 2, panel, (float)scale);
        for (int row = 0; row < ROWS; row++) {
            double lse = reference_lse(before + row * STRIDE);
            for (int i = 0; i < STRIDE; i++) {
                double x = (double)before[row * STRIDE + i], y = (double)r.logits[row * STRIDE + i];
                double softmax = exp(x - lse), expected = (softmax - (i == r.targets[row])) * scale;
                if (i >= COLS)
                    assert_true(y == x); /* the gap behind a row is not touched */
                else if (r.targets[row] < 0)
                    assert_true(y == 0.0);
                else
                    assert_true(fabs(y - expected) <= 4e-6 * softmax * scale + 1e-7 * scale);
            }
        }
        free(before);
        free(r.logits);
    }
}

static void has_the_same_bits_for_all_threads_and_instruction_sets(void **state)
{
    (void)state;
    struct run expected;
    run_init(&expected, 3);
    run_loss(&expected, 0, 1, 300);
    run_gradient(&expected, 0, 1, 300, 0.01f);
    for (int v = 0; loss_panel_variants[v].isa; v++)
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            const char *isa = loss_panel_variants[v].isa;
            if (!variant_runs_here(&loss_panel_variants[v]))
                continue;
            struct run r;
            run_init(&r, 3);
            run_loss(&r, v, n_threads, 300);
            run_gradient(&r, v, n_threads, 300, 0.01f);
            assert_memory_equal(&expected.loss, &r.loss, sizeof r.loss);
            assert_same_bits(isa, expected.lse, r.lse, ROWS);
            assert_same_bits(isa, expected.row_sum, r.row_sum, ROWS);
            assert_same_bits(isa, expected.logits, r.logits, ROWS * STRIDE);
            free(r.logits);
        }
    free(expected.logits);
}

static void writes_log_sum_exp_over_the_sum(void **state)
{
    (void)state;
    struct run r;
    run_init(&r, 1);
    run_loss(&r, 0, 1, COLS);
    double loss = r.loss;
    struct zn_loss_finish_args args = {
        .lse = address_of(r.row_sum),
        .loss = address_of(&r.loss),
        .row_max = address_of(r.row_max),
        .row_sum = address_of(r.row_sum),
        .target_logit = address_of(r.target_logit),
        .targets = address_of(r.targets),
        .rows = ROWS,
    };
    run_variant(&loss_finish_variants[0], 1, &args);
    assert_same_bits("lse", r.lse, r.row_sum, ROWS);
    assert_true(r.loss == 2 * loss);
    free(r.logits);
}

/* One bad logit, in a first, middle or last column of a first, middle or last panel. */
static void not_a_number_shows_in_the_loss(void **state)
{
    (void)state;
    static const int columns[] = {0, 15, 299, 300, 450, 900, COLS - 1};
    static const float bad[] = {NAN, INFINITY};
    for (size_t i = 0; i < sizeof columns / sizeof *columns * 2; i++) {
        for (int row = 3; row <= 4; row++) { /* row 4 is ignored */
            struct run r;
            run_init(&r, 1);
            r.logits[row * STRIDE + columns[i / 2]] = bad[i % 2];
            run_loss(&r, 0, 2, 300);
            assert_true(isnan(r.lse[row]));
            assert_true(isnan(r.loss) == (row == 3));
            free(r.logits);
        }
    }
}

/* A masked column, or a whole panel of them, has no weight. */
static void minus_infinity_has_no_weight(void **state)
{
    (void)state;
    struct run r;
    run_init(&r, 1);
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < COLS; i++)
            if (i < 300 || i >= 600)
                r.logits[row * STRIDE + i] = -INFINITY;
        r.targets[row] = 400;
    }
    run_loss(&r, 0, 2, 300);
    for (int row = 0; row < ROWS; row++)
        assert_true(fabs((double)r.lse[row] - reference_lse(r.logits + row * STRIDE)) <= 1e-5);
    assert_true(isfinite(r.loss));
    run_gradient(&r, 0, 2, 300, 1.0f);
    assert_true(r.logits[0] == 0.0f && r.logits[COLS - 1] == 0.0f);
    free(r.logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_right_for_every_panel_width),
        cmocka_unit_test(gradient_is_softmax_less_target),
        cmocka_unit_test(has_the_same_bits_for_all_threads_and_instruction_sets),
        cmocka_unit_test(writes_log_sum_exp_over_the_sum),
        cmocka_unit_test(not_a_number_shows_in_the_loss),
        cmocka_unit_test(minus_infinity_has_no_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
