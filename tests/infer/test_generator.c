/* Extending a sequence with a cache gives what the forward of evaluation gives for the whole of it:
 * every architecture's fixture, windows included, at every position. */
#include "files.h"

#include <math.h>

#include "base/rng.h"
#include "checkpoint/weights.h"
#include "plan/dry_run.h"
#include "infer/sampler.h"

enum { TIME = 40 };

/* A fixture's folder opened. */
struct lab {
    char folder[512];
    zn_json *config;
    zn_model *model;
    zn_model_files *files;
    struct zn_weights_style style;
    zn_dtype type;
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device;
    zn_comm *comm;
    int64_t vocabulary;
    int32_t ids[TIME];
};

static void no_warning(void *self, const char *tensor)
{
    (void)self;
    fail_msg("tensor '%s' is not used", tensor);
}

static void lab_init(struct lab *l, const char *name)
{
    char path[600];
    *l = (struct lab){0};
    snprintf(l->folder, sizeof l->folder, "%s/parity/%s", ZN_TEST_DATA, name);
    snprintf(path, sizeof path, "%s/config.json", l->folder);
    OK(zn_json_load_file(path, 1 << 20, &l->config));
    OK(zn_model_create(l->config, TIME, &l->model));
    OK(zn_model_files_open(l->folder, &l->files));
    OK(zn_weights_check(l->model, l->files, no_warning, NULL, &l->style));
    OK(zn_weights_type(l->model, l->files, &l->style, &l->type));
    zn_ledger_init(&l->ledger);
    zn_clock_init_real(&l->clock);
    OK(zn_device_create_cpu(&l->ledger, &l->clock, 2, NULL, &l->device));
    OK(zn_comm_create_self(&l->clock, &l->comm));
    l->vocabulary = l->model->module->vocabulary;
    for (int i = 0; i < TIME; i++)
        l->ids[i] = (int32_t)zn_random_below(11, (uint64_t)i, (uint64_t)l->vocabulary);
}

static void lab_fini(struct lab *l)
{
    zn_comm_destroy(l->comm);
    zn_device_destroy(l->device);
    zn_model_files_close(l->files);
    zn_model_destroy(l->model);
    zn_json_destroy(l->config);
}

/* An engine that does not train, and its plan. */
struct run {
    zn_engine_plan plan;
    zn_engine *engine;
};

static void run_init_as(struct run *r, struct lab *l, struct zn_engine_options options)
{
    const struct zn_world world = {.device = l->device, .comm = l->comm};
    options.micro_batch = options.accumulate = 1;
    options.delay_after = -1;
    OK(zn_dry_run(l->model->module, &options, 1, &r->plan));
    OK(zn_zero_create(&world, l->model->module, &options, &r->plan, &r->engine));
    OK(zn_weights_load(r->engine, l->model, l->files, &l->style, NULL, NULL));
    OK(zn_engine_publish(r->engine));
}

/* One that extends a sequence, `rows` tokens at once. */
static void run_init(struct run *r, struct lab *l, zn_dtype type, int64_t rows)
{
    run_init_as(r, l, (struct zn_engine_options){.type = type, .seq_len = rows, .extends = TIME});
}

static void run_fini(struct run *r)
{
    zn_zero_destroy(r->engine);
    zn_engine_plan_fini(&r->plan);
}

/* Logits of every position, one token at a time; the caller frees. */
static float *step_by_step(struct lab *l, zn_dtype type)
{
    struct run r;
    float *logits = malloc((size_t)(TIME * l->vocabulary) * sizeof *logits);
    assert_non_null(logits);
    run_init(&r, l, type, TIME);
    for (int i = 0; i < TIME; i++)
        OK(zn_engine_extend(r.engine, &l->ids[i], 1, logits + i * l->vocabulary));
    assert_int_equal(zn_engine_length(r.engine), TIME);
    run_fini(&r);
    return logits;
}

/* The loss of one position alone, by the forward of evaluation. */
static double loss_at(struct run *evaluation, struct lab *l, int position, int32_t target)
{
    int32_t targets[TIME];
    double loss;
    for (int i = 0; i < TIME; i++)
        targets[i] = i == position ? target : -1;
    OK(zn_zero_evaluate(evaluation->engine, &(struct zn_micro_batch){.ids = l->ids, .targets = targets}, &loss));
    return loss;
}

/* The greatest absolute value: what the error of a logit, and of a difference of two, is measured by. */
static double greatest(const float *x, int64_t n)
{
    double size = 0;
    for (int64_t i = 0; i < n; i++)
        size = fmax(size, fabs((double)x[i]));
    return size;
}

static double loss_of(const float *logits, int64_t n, int32_t target)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, (double)logits[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum) - (double)logits[target];
}

static void check_against_evaluation(struct lab *l, const char *name)
{
    float *logits = step_by_step(l, l->type);
    struct run e;
    run_init_as(&e, l, (struct zn_engine_options){.type = ZN_F32, .seq_len = TIME});
    for (int p = 0; p < TIME; p++) {
        const float *here = logits + p * l->vocabulary;
        int32_t target = (int32_t)zn_random_below(12, (uint64_t)p, (uint64_t)l->vocabulary);
        double want = loss_at(&e, l, p, target), got = loss_of(here, l->vocabulary, target);
        if (!(fabs(got - want) <= 1e-5 * greatest(here, l->vocabulary)))
            fail_msg("%s: token %d at position %d has loss %.9g, not %.9g", name, target, p, got, want);
    }
    run_fini(&e);
    free(logits);
}

/* Logits after the pieces, which add up to TIME or less, within 1e-5 of the greatest. */
static void check_pieces(struct lab *l, const float *want, int64_t rows, const int64_t *pieces, const char *name)
{
    struct run r;
    int64_t at = 0;
    float *logits = malloc((size_t)l->vocabulary * sizeof *logits);
    assert_non_null(logits);
    run_init(&r, l, l->type, rows);
    for (; *pieces; pieces++) {
        OK(zn_engine_extend(r.engine, l->ids + at, *pieces, logits));
        at += *pieces;
        const float *here = want + (at - 1) * l->vocabulary;
        double bound = 1e-5 * greatest(here, l->vocabulary);
        for (int64_t i = 0; i < l->vocabulary; i++)
            if (!(fabs((double)logits[i] - (double)here[i]) <= bound))
                fail_msg("%s: logit %lld after %lld tokens is %.9g, not %.9g", name, (long long)i,
                         (long long)at, (double)logits[i], (double)here[i]);
    }
    run_fini(&r);
    free(logits);
}

static void check_all_pieces(struct lab *l, const char *name)
{
    float *want = step_by_step(l, l->type);
    check_pieces(l, want, TIME, (int64_t[]){TIME, 0}, name);
    check_pieces(l, want, TIME, (int64_t[]){1, 9, 1, 2, 8, 10, 3, 0}, name);
    check_pieces(l, want, 13, (int64_t[]){33, 7, 0}, name); /* more than a pass takes */
    check_pieces(l, want, 3, (int64_t[]){20, 1, 19, 0}, name);
    free(want);
}

/* The loss of the whole sequence by the forward of evaluation. */
static double loss_in(struct lab *l, zn_dtype type)
{
    struct run r;
    double loss;
    run_init_as(&r, l, (struct zn_engine_options){.type = type, .seq_len = TIME});
    OK(zn_zero_evaluate(r.engine, &(struct zn_micro_batch){.ids = l->ids, .targets = l->ids}, &loss));
    run_fini(&r);
    return loss;
}

/* Weights in the type of the file or widened before: not a bit changes, of logits or of a loss. */
static void check_types(struct lab *l, const char *name)
{
    float *narrow = step_by_step(l, l->type), *wide = step_by_step(l, ZN_F32);
    if (memcmp(narrow, wide, (size_t)(TIME * l->vocabulary) * sizeof(float)) != 0)
        fail_msg("%s: weights in %s give other logits than in fp32", name, zn_dtype_name(l->type));
    double loss = loss_in(l, l->type), wide_loss = loss_in(l, ZN_F32);
    if (memcmp(&loss, &wide_loss, sizeof loss) != 0)
        fail_msg("%s: weights in %s give the loss %.17g, in fp32 %.17g", name, zn_dtype_name(l->type), loss, wide_loss);
    free(narrow);
    free(wide);
}

/* Greedy tokens after the first `prompt` ids, with the cache or computed anew for each. */
static void write_greedily(struct lab *l, int64_t prompt, bool anew, int32_t out[TIME])
{
    struct run r;
    struct zn_sampling greedy = {.top_p = 1};
    float *logits = malloc((size_t)l->vocabulary * sizeof *logits);
    assert_non_null(logits);
    memcpy(out, l->ids, sizeof l->ids);
    run_init(&r, l, l->type, TIME);
    OK(zn_engine_extend(r.engine, out, prompt, logits));
    for (int64_t n = prompt; n < TIME; n++) {
        OK(zn_sample(&greedy, logits, l->vocabulary, n, NULL, &out[n]));
        if (anew)
            zn_engine_rewind(r.engine, 0);
        OK(zn_engine_extend(r.engine, anew ? out : out + n, anew ? n + 1 : 1, logits));
    }
    run_fini(&r);
    free(logits);
}

static void check_greedy(struct lab *l, const char *name)
{
    int32_t cached[TIME], anew[TIME];
    for (int64_t prompt = 1; prompt < 10; prompt += 8) {
        write_greedily(l, prompt, false, cached);
        write_greedily(l, prompt, true, anew);
        for (int i = 0; i < TIME; i++)
            if (cached[i] != anew[i])
                fail_msg("%s: token %d is %d, not %d", name, i, cached[i], anew[i]);
    }
}

static void for_each_fixture(void (*check)(struct lab *l, const char *name))
{
    char path[512], **names;
    size_t n, n_checked = 0;
    snprintf(path, sizeof path, "%s/parity", ZN_TEST_DATA);
    OK(zn_folder_list(path, &names, &n));
    for (size_t i = 0; i < n; i++) {
        if (strchr(names[i], '.'))
            continue; /* the token file */
        struct lab l;
        lab_init(&l, names[i]);
        check(&l, names[i]);
        assert_int_equal(zn_ledger_tier(&l.ledger, ZN_TIER_DEVICE), 0);
        lab_fini(&l);
        n_checked++;
    }
    assert_true(n_checked >= 11);
    zn_names_free(names, n);
}

static void every_position_has_the_loss_of_evaluation(void **state)
{
    (void)state;
    for_each_fixture(check_against_evaluation);
}

static void pieces_of_any_size_give_the_same_logits(void **state)
{
    (void)state;
    for_each_fixture(check_all_pieces);
}

static void the_type_of_the_weights_changes_no_bit(void **state)
{
    (void)state;
    for_each_fixture(check_types);
    struct lab l;
    lab_init(&l, "qwen3-window"); /* so that a 16-bit folder was among them */
    assert_int_equal(l.type, ZN_BF16);
    lab_fini(&l);
}

static void greedy_tokens_are_those_computed_anew(void **state)
{
    (void)state;
    for_each_fixture(check_greedy);
}

static void the_plan_is_what_is_allocated(void **state)
{
    (void)state;
    struct lab l;
    struct run r;
    lab_init(&l, "gpt2");
    run_init(&r, &l, l.type, TIME);
    assert_int_equal(zn_ledger_tier(&l.ledger, ZN_TIER_DEVICE),
                     zn_manifest_bytes(&r.plan.manifest, ZN_TIER_DEVICE, ZN_N_KINDS));
    run_fini(&r);
    lab_fini(&l);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct lab l;
    struct run r;
    lab_init(&l, "llama2");
    run_init(&r, &l, l.type, TIME);
    int32_t wrong = (int32_t)l.vocabulary;
    FAILS(zn_engine_extend(r.engine, &wrong, 1, NULL), ZN_ERR_INPUT, "vocabulary", "token");
    OK(zn_engine_extend(r.engine, l.ids, TIME, NULL));
    FAILS(zn_engine_extend(r.engine, l.ids, 1, NULL), ZN_ERR_INTERNAL, "1 tokens after 40", "made for 40");
    zn_engine_rewind(r.engine, TIME - 1);
    OK(zn_engine_extend(r.engine, l.ids, 1, NULL));
    run_fini(&r);
    lab_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_has_the_loss_of_evaluation),
        cmocka_unit_test(pieces_of_any_size_give_the_same_logits),
        cmocka_unit_test(the_type_of_the_weights_changes_no_bit),
        cmocka_unit_test(greedy_tokens_are_those_computed_anew),
        cmocka_unit_test(the_plan_is_what_is_allocated),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
