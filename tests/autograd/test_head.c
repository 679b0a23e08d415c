/* The output layer with its loss: against finite differences, against sums in double over
 * several panels and chunks, and the two ways to hold logits bit for bit. */
#include "autograd/lab.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, 0})

enum { X, WEIGHT };

static void run_head(struct lab *lab, zn_tape *t)
{
    zn_tensor *targets = lab_ids(lab, t, lab->targets);
    struct zn_head head = {.weight = lab_at(lab, WEIGHT),
                           .targets = targets,
                           .loss = (zn_addr)(uintptr_t)&lab->head_loss,
                           .scale = lab->scale,
                           .keep_logits = lab->keep_logits};
    zn_head_loss(t, lab_input(lab, t, X), &head);
}

/* Every fifth position is ignored where `ignores`; targets reach over the whole vocabulary. */
static struct lab *head_lab(int64_t batch, int64_t seq_len, int64_t width, int64_t vocabulary,
                            bool ignores)
{
    struct lab *lab = lab_create(batch, seq_len);
    lab_param(lab, "x", DIMS(batch * seq_len, width), 0, 1);
    lab_param(lab, "weight", DIMS(vocabulary, width), 0, 0.7);
    for (int64_t i = 0; i < batch * seq_len; i++)
        lab->targets[i] = (int32_t)zn_random_below(5, (uint64_t)i, (uint64_t)vocabulary);
    lab->targets[0] = (int32_t)vocabulary - 1;
    for (int64_t i = 3; i < batch * seq_len && ignores; i += 5)
        lab->targets[i] = -1;
    lab->forward = run_head;
    return lab;
}

static void check_differences(bool keep_logits, bool ignores)
{
    struct lab *lab = head_lab(2, 4, 5, 7, ignores);
    lab->keep_logits = keep_logits;
    lab->scale = 0.25f;
    lab_check_gradients(lab, 1e-3);
    lab_destroy(lab);
}

static void gradients_with_logits_computed_again(void **state)
{
    (void)state;
    check_differences(false, false);
}

static void gradients_with_logits_kept(void **state)
{
    (void)state;
    check_differences(true, false);
}

static void gradients_with_ignored_positions(void **state)
{
    (void)state;
    check_differences(false, true);
    check_differences(true, true);
}

/* ---- Pairs ---- */

enum { PAIR_ROWS = 16 };

static float reference[2 * PAIR_ROWS];

/* Two pairs a row of the batch, of two and two, and three and one tokens. */
static void run_pairs(struct lab *lab, zn_tape *t)
{
    static int32_t sequences[PAIR_ROWS] = {0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 5, 6, 6, 6, 7};
    static double unread, sums[3];
    memset(sums, 0, sizeof sums);
    struct zn_head head = {.weight = lab_at(lab, WEIGHT),
                           .targets = lab_ids(lab, t, lab->targets),
                           .loss = (zn_addr)(uintptr_t)&unread,
                           .scale = lab->scale,
                           .keep_logits = lab->keep_logits,
                           .pairs = {.sequences = lab_ids(lab, t, sequences),
                                     .reference = (zn_addr)(uintptr_t)reference,
                                     .sums = (zn_addr)(uintptr_t)sums,
                                     .beta = 0.7f}};
    zn_head_loss(t, lab_input(lab, t, X), &head);
    lab->head_loss = sums[0];
}

static void gradients_of_pairs(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        struct lab *lab = head_lab(2, 8, 5, 7, true);
        for (int i = 0; i < 2 * PAIR_ROWS; i++)
            reference[i] = (float)(i * 7 % 11) * 0.3f - 1.5f;
        lab->forward = run_pairs;
        lab->keep_logits = keeps; /* as if it were not given */
        lab->scale = 0.25f;
        lab_check_gradients(lab, 1e-3);
        lab_destroy(lab);
    }
}

/* ---- Several panels (of 4096 entries) and chunks (of 256 tokens) ---- */

struct result {
    double loss, evaluated;
    float *dx, *dw;
};

static float *copy_floats(const float *from, int64_t n)
{
    float *to = lab_floats(n);
    memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

static struct result run(struct lab *lab, bool keep_logits)
{
    lab->keep_logits = keep_logits;
    struct lab_plan train = lab_record(lab, true), evaluate = lab_record(lab, false);
    struct result r = {0};
    lab_replay(lab, &evaluate, false);
    r.evaluated = lab->head_loss;
    lab_replay(lab, &train, true);
    r.loss = lab->head_loss;
    r.dx = copy_floats(lab->params[X].gradient, lab->params[X].param.n_elements);
    r.dw = copy_floats(lab->params[WEIGHT].gradient, lab->params[WEIGHT].param.n_elements);
    lab_plan_fini(&train);
    lab_plan_fini(&evaluate);
    return r;
}

static void result_fini(struct result *r)
{
    free(r->dx);
    free(r->dw);
}

static void check_same_bits(int64_t seq_len, int64_t vocabulary)
{
    struct lab *lab = head_lab(1, seq_len, 6, vocabulary, true);
    struct result kept = run(lab, true), again = run(lab, false);
    assert_memory_equal(&kept.loss, &again.loss, sizeof kept.loss);
    assert_memory_equal(kept.dx, again.dx, (size_t)(seq_len * 6) * sizeof(float));
    assert_memory_equal(kept.dw, again.dw, (size_t)(vocabulary * 6) * sizeof(float));
    /* The loss without gradients is the same one. */
    assert_memory_equal(&kept.loss, &kept.evaluated, sizeof kept.loss);
    assert_memory_equal(&kept.loss, &again.evaluated, sizeof kept.loss);
    result_fini(&kept);
    result_fini(&again);
    lab_destroy(lab);
}

static void kept_and_computed_again_give_the_same_bits(void **state)
{
    (void)state;
    check_same_bits(300, 9001);
}

/* A panel of one entry and a chunk of one token: products with a single row. */
static void same_bits_at_the_edges_of_panels_and_chunks(void **state)
{
    (void)state;
    check_same_bits(257, 4097);
    check_same_bits(256, 4096);
    check_same_bits(1, 4097);
    check_same_bits(257, 1);
}

/* Adds one row's loss and gradients, in double. */
static double add_row(const struct lab *lab, int64_t row, double *dx, double *dw)
{
    int64_t width = lab->params[X].param.dims[1], vocabulary = lab->params[WEIGHT].param.dims[0];
    const float *x = lab->params[X].values + row * width, *w = lab->params[WEIGHT].values;
    double *logits = calloc((size_t)vocabulary, sizeof *logits), sum = 0;
    assert_non_null(logits);
    for (int64_t v = 0; v < vocabulary; v++) {
        for (int64_t i = 0; i < width; i++)
            logits[v] += (double)x[i] * (double)w[v * width + i];
        sum += exp(logits[v]);
    }
    for (int64_t v = 0; v < vocabulary; v++) {
        double d = exp(logits[v]) / sum - (v == lab->targets[row] ? 1 : 0);
        for (int64_t i = 0; i < width; i++) {
            dx[row * width + i] += d * (double)lab->scale * (double)w[v * width + i];
            dw[v * width + i] += d * (double)lab->scale * (double)x[i];
        }
    }
    double loss = log(sum) - logits[lab->targets[row]];
    free(logits);
    return loss;
}

/* |got - want| ≤ bound × (|want| + largest |want|) */
static void check_near(const char *what, const float *got, const double *want, int64_t n,
                       double bound)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= bound * (fabs(want[i]) + largest)))
            fail_msg("%s[%lld] is %.8g, not %.8g", what, (long long)i, (double)got[i], want[i]);
}

static void several_panels_and_chunks_match_double(void **state)
{
    (void)state;
    enum { TIME = 300, WIDTH = 6, VOCABULARY = 5000 };
    struct lab *lab = head_lab(1, TIME, WIDTH, VOCABULARY, true);
    lab->scale = 0.125f;
    double *dx = calloc(TIME * WIDTH, sizeof *dx), *dw = calloc(VOCABULARY * WIDTH, sizeof *dw),
           loss = 0;
    assert_true(dx && dw);
    for (int64_t row = 0; row < TIME; row++)
        if (lab->targets[row] >= 0)
            loss += add_row(lab, row, dx, dw);
    struct result r = run(lab, false);
    assert_true(fabs(r.loss - loss) <= 1e-6 * loss);
    check_near("dx", r.dx, dx, TIME * WIDTH, 2e-6);
    check_near("dw", r.dw, dw, VOCABULARY * WIDTH, 2e-6);
    for (int64_t i = 0; i < WIDTH; i++)
        assert_true(r.dx[3 * WIDTH + i] == 0); /* an ignored position */
    result_fini(&r);
    free(dx);
    free(dw);
    lab_destroy(lab);
}

static void run_head_twice(struct lab *lab, zn_tape *t)
{
    run_head(lab, t);
    run_head(lab, t);
}

static void losses_and_gradients_add_up(void **state)
{
    (void)state;
    struct lab *lab = head_lab(2, 3, 4, 9, true);
    struct result once = run(lab, false);
    lab->forward = run_head_twice;
    struct result twice = run(lab, false);
    assert_true(fabs(twice.loss - 2 * once.loss) <= 1e-14 * once.loss);
    for (int64_t i = 0; i < 9 * 4; i++)
        assert_true(twice.dw[i] == 2 * once.dw[i]);
    for (int64_t i = 0; i < 6 * 4; i++)
        assert_true(twice.dx[i] == 2 * once.dx[i]);
    result_fini(&once);
    result_fini(&twice);
    lab_destroy(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_with_logits_computed_again),
        cmocka_unit_test(gradients_with_logits_kept),
        cmocka_unit_test(gradients_with_ignored_positions),
        cmocka_unit_test(gradients_of_pairs),
        cmocka_unit_test(kept_and_computed_again_give_the_same_bits),
        cmocka_unit_test(same_bits_at_the_edges_of_panels_and_chunks),
        cmocka_unit_test(several_panels_and_chunks_match_double),
        cmocka_unit_test(losses_and_gradients_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
