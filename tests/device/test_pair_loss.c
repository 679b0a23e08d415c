/* The loss of pairs of answers against a plain loop in double, its bits on every instruction set, and gradients with a weight a row. */
#include "device/variants.h"

VARIANTS(pair_loss)
VARIANTS(loss_gradient)

enum { ROWS = 41, COLS = 70 };

static const float BETA = 0.3f, SCALE = 0.125f;

struct run {
    float *lse, *logit, *reference_lse, *reference_logit;
    int32_t targets[ROWS], sequences[ROWS];
    float weights[ROWS];
    double sums[3];
};

/* Three pairs of several lengths with padding between and behind them, in two rows of a batch; some rows are prompts. */
static void run_init(struct run *r, double stddev)
{
    static const int lengths[] = {5, 3, 1, 7, -4, 9, 2, -10};
    r->lse = random_floats("lse", ROWS, stddev);
    r->logit = random_floats("logit", ROWS, stddev);
    r->reference_lse = random_floats("reference lse", ROWS, stddev);
    r->reference_logit = random_floats("reference logit", ROWS, stddev);
    int row = 0, sequence = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int k = 0; k < abs(lengths[i]); k++, row++) {
            r->sequences[row] = lengths[i] < 0 ? -1 : sequence;
            r->targets[row] = lengths[i] < 0 || (k == 0 && lengths[i] > 1) ? -1 : row % COLS;
        }
        sequence += lengths[i] > 0;
    }
    assert_int_equal(row, ROWS);
    for (int i = 0; i < ROWS; i++)
        r->weights[i] = NAN;
    r->sums[0] = 5; /* adds */
    r->sums[1] = r->sums[2] = 0;
}

static void run_fini(struct run *r)
{
    free(r->lse);
    free(r->logit);
    free(r->reference_lse);
    free(r->reference_logit);
}

static void run_pairs(struct run *r, int v, int n_threads)
{
    struct zn_pair_loss_args args = {.weights = address_of(r->weights),
                                     .sums = address_of(r->sums),
                                     .lse = address_of(r->lse),
                                     .target_logit = address_of(r->logit),
                                     .reference_lse = address_of(r->reference_lse),
                                     .reference_logit = address_of(r->reference_logit),
                                     .targets = address_of(r->targets),
                                     .sequences = address_of(r->sequences),
                                     .rows = ROWS,
                                     .beta = BETA,
                                     .scale = SCALE};
    run_variant(&pair_loss_variants[v], n_threads, &args);
}

/* beta × the difference of pair p. */
static double difference(const struct run *r, int p)
{
    double sum = 0;
    for (int i = 0; i < ROWS; i++) {
        double ratio = ((double)r->logit[i] - (double)r->lse[i]) - ((double)r->reference_logit[i] - (double)r->reference_lse[i]);
        if (r->targets[i] >= 0 && r->sequences[i] / 2 == p && r->sequences[i] >= 0)
            sum += r->sequences[i] % 2 ? -ratio : ratio;
    }
    return (double)BETA * sum;
}

/* Small differences, and ones where the sigmoid is 0 or 1 in fp32. */
static void is_that_of_the_paper(void **state)
{
    (void)state;
    static const double spreads[] = {0.01, 1, 30};
    for (size_t s = 0; s < 3; s++) {
        struct run r;
        double loss = 5, n_right = 0, margins = 0;
        run_init(&r, spreads[s]);
        run_pairs(&r, 0, 2);
        for (int p = 0; p < 3; p++) {
            double x = difference(&r, p), sigmoid = 1 / (1 + exp(x));
            loss += x < 0 ? -x + log1p(exp(x)) : log1p(exp(-x));
            n_right += x > 0;
            margins += x;
            for (int i = 0; i < ROWS; i++) {
                double weight = (double)BETA * sigmoid * (double)SCALE;
                if (r.sequences[i] >= 0 && r.sequences[i] / 2 == p)
                    assert_true(fabs((double)r.weights[i] - (r.sequences[i] % 2 ? -weight : weight)) <= 1e-6 * weight + 1e-12);
            }
        }
        for (int i = 0; i < ROWS; i++)
            assert_true(r.sequences[i] >= 0 || r.weights[i] == 0.0f);
        assert_true(fabs(r.sums[0] - loss) <= 1e-6 * loss);
        assert_true(r.sums[1] == n_right);
        assert_true(fabs(r.sums[2] - margins) <= 1e-12 * (1 + fabs(margins)));
        run_fini(&r);
    }
}

static void has_the_same_bits_for_all_threads_and_instruction_sets(void **state)
{
    (void)state;
    struct run expected;
    run_init(&expected, 1);
    run_pairs(&expected, 0, 1);
    for (int v = 0; pair_loss_variants[v].isa; v++) {
        if (!variant_runs_here(&pair_loss_variants[v]))
            continue;
        struct run r;
        run_init(&r, 1);
        run_pairs(&r, v, 3);
        assert_memory_equal(expected.sums, r.sums, sizeof r.sums);
        assert_same_bits(pair_loss_variants[v].isa, expected.weights, r.weights, ROWS);
        run_fini(&r);
    }
    run_fini(&expected);
}

/* The same as one scale, row by row. */
static void a_weight_takes_the_place_of_the_scale(void **state)
{
    (void)state;
    struct run r;
    run_init(&r, 1);
    run_pairs(&r, 0, 1);
    float *all = random_floats("logits", ROWS * COLS, 2), *each = random_floats("logits", ROWS * COLS, 2);
    struct zn_loss_gradient_args args = {.logits = address_of(all), .targets = address_of(r.targets), .lse = address_of(r.lse),
                                         .weights = address_of(r.weights), .rows = ROWS, .cols = COLS, .stride = COLS, .scale = NAN};
    for (int v = 0; loss_gradient_variants[v].isa; v++) {
        if (!variant_runs_here(&loss_gradient_variants[v]))
            continue;
        float *again = random_floats("logits", ROWS * COLS, 2);
        memcpy(all, again, ROWS * COLS * sizeof *all);
        memcpy(each, again, ROWS * COLS * sizeof *all);
        run_variant(&loss_gradient_variants[v], 2, &args);
        for (int row = 0; row < ROWS; row++) {
            struct zn_loss_gradient_args one = {.logits = address_of(each + row * COLS), .targets = address_of(r.targets + row),
                                                .lse = address_of(r.lse + row), .rows = 1, .cols = COLS, .stride = COLS,
                                                .scale = r.weights[row]};
            run_variant(&loss_gradient_variants[v], 1, &one);
        }
        assert_same_bits(loss_gradient_variants[v].isa, each, all, ROWS * COLS);
        free(again);
    }
    free(all);
    free(each);
    run_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_that_of_the_paper),
        cmocka_unit_test(has_the_same_bits_for_all_threads_and_instruction_sets),
        cmocka_unit_test(a_weight_takes_the_place_of_the_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
