/* `--schedule auto`: vertical where it saves fetching parameters and fits, horizontal elsewhere, with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "models/model.h"
#include "optim/registry.h"
#include "plan/calibrate_machine.h"
#include "plan/planner.h"
#include "plan/vertical.h"

enum { TIME = 16 };

static zn_model *make_model(void)
{
    static const char text[] = "{\"model_type\":\"gpt2\",\"vocab_size\":301,\"n_embd\":64,\"n_layer\":3,\"n_head\":4,"
                               "\"n_positions\":32}";
    zn_json *config;
    zn_model *model;
    assert_int_equal(zn_json_load_buffer(text, strlen(text), "config", &config), ZN_OK);
    assert_int_equal(zn_model_create(config, TIME, &model), ZN_OK);
    zn_json_destroy(config);
    return model;
}

static struct zn_engine_options options_of(int64_t accumulate)
{
    return (struct zn_engine_options){.trains = true, .type = ZN_F32, .micro_batch = 2, .seq_len = TIME,
                                      .accumulate = accumulate, .delay_after = -1,
                                      .optimizer = &zn_optimizer_adamw, .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                      .clip = 1};
}

static struct zn_choices choices_of(int stage)
{
    struct zn_choices c = zn_choices_open();
    c.any_schedule = true;
    c.stage = stage;
    return c;
}

/* Fits and gives the bytes of a process. */
static size_t fit(const struct zn_choices *c, int n_ranks, size_t limit, struct zn_engine_options *o)
{
    zn_model *model = make_model();
    const struct zn_cluster cluster = zn_calibration_usual(2);
    struct zn_plan_setup s = {.model = model, .cluster = &cluster, .n_ranks = n_ranks, .n_nodes = 1, .engine = *o,
                              .memory_limit = limit};
    struct zn_prediction p;
    if (zn_plan_choose(&s, c, &p) != ZN_OK)
        fail_msg("%s", zn_error_message());
    assert_true(p.fits);
    size_t n_bytes = p.tier[ZN_TIER_DEVICE] + p.tier[ZN_TIER_HOST];
    zn_prediction_fini(&p);
    zn_model_destroy(model);
    *o = s.engine;
    return n_bytes;
}

static void expect(const struct zn_choices *c, int n_ranks, int64_t accumulate, bool vertical, const char *reason)
{
    struct zn_engine_options o = options_of(accumulate);
    fit(c, n_ranks, SIZE_MAX, &o);
    assert_int_equal(o.vertical, vertical);
    assert_string_equal(zn_schedule_reason(c, &o, n_ranks), reason);
    if (vertical)
        assert_true(o.recompute && !o.reduce_every);
    else if (o.stage >= 2)
        assert_true(o.reduce_every);
}

static void vertical_where_parameters_are_fetched_again(void **state)
{
    (void)state;
    struct zn_choices c = choices_of(3);
    expect(&c, 2, 4, true, "parameters are gathered once a step, not once a micro-batch");
    c = choices_of(-1);
    c.parameters = ZN_TIER_NVME;
    expect(&c, 1, 2, true, "parameters are read once a step, not once a micro-batch");
    c.parameters = ZN_TIER_HOST;
    expect(&c, 3, 2, true, "parameters are read once a step, not once a micro-batch");
}

static void horizontal_where_nothing_is_saved(void **state)
{
    (void)state;
    struct zn_choices c = choices_of(3);
    expect(&c, 2, 1, false, "a step is one micro-batch");
    expect(&c, 1, 4, false, "parameters are neither read nor gathered");
    c = choices_of(2);
    expect(&c, 2, 4, false, "parameters are neither read nor gathered");
    c = choices_of(-1);
    expect(&c, 2, 4, false, "parameters are neither read nor gathered");
}

static void what_is_given_binds(void **state)
{
    (void)state;
    struct zn_choices c = choices_of(3);
    c.keep = ZN_KEEP_ALL;
    expect(&c, 2, 4, false, "vertical does not go with --recompute off");
    c = choices_of(3);
    c.reduce_every = 1;
    expect(&c, 2, 4, false, "vertical does not go with --reduce every");
    c = choices_of(2);
    c.reduce_every = 0;
    expect(&c, 2, 4, true, "--reduce last needs it at this stage");
    c.keep = ZN_KEEP_ALL; /* then no schedule is left */
    zn_model *model = make_model();
    const struct zn_cluster cluster = zn_calibration_usual(2);
    struct zn_plan_setup s = {.model = model, .cluster = &cluster, .n_ranks = 2, .n_nodes = 1, .engine = options_of(4)};
    struct zn_prediction p;
    assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "--reduce last: stage 2"));
    zn_model_destroy(model);
}

static void a_schedule_that_is_given_has_no_reason(void **state)
{
    (void)state;
    struct zn_choices c = zn_choices_open();
    c.stage = 3;
    for (int vertical = 0; vertical <= 1; vertical++) {
        struct zn_engine_options o = options_of(4);
        o.vertical = vertical;
        fit(&c, 2, SIZE_MAX, &o);
        assert_int_equal(o.vertical, vertical);
        assert_null(zn_schedule_reason(&c, &o, 2));
    }
}

/* All but the schedule is fixed, so that the limit decides it alone. */
static void the_limit_decides(void **state)
{
    (void)state;
    size_t need[2];
    struct zn_choices c = choices_of(3);
    c.keep = 0;
    c.keep_logits = 1;
    c.optimizer = c.gradients = c.parameters = c.activations = ZN_TIER_DEVICE;
    c.tile_bytes = c.prefetch_bytes = 0;
    for (int vertical = 0; vertical <= 1; vertical++) {
        struct zn_engine_options o = options_of(8);
        o.vertical = vertical;
        c.any_schedule = false;
        need[vertical] = fit(&c, 2, SIZE_MAX, &o);
    }
    assert_true(need[1] > need[0]);
    c.any_schedule = true;
    struct zn_engine_options o = options_of(8);
    assert_int_equal(fit(&c, 2, need[1], &o), need[1]);
    assert_true(o.vertical);
    assert_int_equal(fit(&c, 2, need[1] - 1, &o), need[0]);
    assert_false(o.vertical);
    assert_string_equal(zn_schedule_reason(&c, &o, 2), "vertical does not fit the limit");
}

/* The planner chooses as training does on processors, and by the same rule elsewhere. */
static void the_planner_has_the_same_rule(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu-server", "dgx-a100"};
    zn_model *model = make_model();
    for (int i = 0; i < 2; i++) {
        struct zn_cluster cluster;
        assert_int_equal(zn_cluster_load(names[i], &cluster), ZN_OK);
        struct zn_choices c = choices_of(3);
        struct zn_plan_setup s = {.model = model, .cluster = &cluster, .engine = options_of(4), .n_ranks = 2, .n_nodes = 1};
        struct zn_prediction p;
        assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
        assert_true(p.fits && s.engine.vertical && s.engine.recompute && !s.engine.reduce_every);
        zn_prediction_fini(&p);
        s.engine = options_of(1);
        assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
        assert_false(s.engine.vertical);
        zn_prediction_fini(&p);
        s.engine = options_of(4);
        assert_true(zn_plan_make_lean(&s, &c, 0));
        assert_false(s.engine.vertical);
    }
    zn_model_destroy(model);
}

/* --fit takes the faster of both. */
static void a_search_goes_over_both(void **state)
{
    (void)state;
    zn_model *model = make_model();
    struct zn_cluster cluster;
    assert_int_equal(zn_cluster_load("cpu-server", &cluster), ZN_OK);
    double rate[3];
    bool vertical[3];
    for (int i = 0; i < 3; i++) {
        struct zn_choices c = choices_of(3);
        struct zn_plan_setup s = {.model = model, .cluster = &cluster, .engine = options_of(4), .n_ranks = 4, .n_nodes = 2};
        struct zn_prediction p;
        c.any_schedule = i == 2;
        c.compares_all = true;
        s.engine.vertical = i == 1;
        assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
        assert_int_equal(zn_predict_time(&s, &p), ZN_OK);
        rate[i] = p.tokens_per_second;
        vertical[i] = s.engine.vertical;
        zn_prediction_fini(&p);
    }
    assert_true(!vertical[0] && vertical[1]);
    assert_true(rate[0] > 0 && rate[1] > 1.01 * rate[0]); /* bound by the links */
    assert_true(vertical[2] && rate[2] == rate[1]);
    zn_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vertical_where_parameters_are_fetched_again),
        cmocka_unit_test(horizontal_where_nothing_is_saved),
        cmocka_unit_test(what_is_given_binds),
        cmocka_unit_test(a_schedule_that_is_given_has_no_reason),
        cmocka_unit_test(the_limit_decides),
        cmocka_unit_test(the_planner_has_the_same_rule),
        cmocka_unit_test(a_search_goes_over_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
