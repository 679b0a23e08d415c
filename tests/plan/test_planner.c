/* The planner: a larger limit never makes a step slower, what memory is left is used, and the order of sums that decides bits does
 * not depend on what is faster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "optim/registry.h"
#include "plan/calibrate_machine.h"
#include "plan/planner.h"
#include "sanitized.h"

enum { TIME = 128 };

static zn_model *model_of(int64_t layers, int64_t hidden)
{
    zn_model *model;
    const struct zn_shape shape = {.layers = layers, .hidden = hidden, .heads = 8, .vocabulary = 2000};
    assert_int_equal(zn_shape_model(&shape, TIME, &model), ZN_OK);
    return model;
}

static struct zn_plan_setup setup_of(const zn_model *model, const struct zn_cluster *cluster, int n_ranks, size_t limit)
{
    return (struct zn_plan_setup){.model = model,
                                  .cluster = cluster,
                                  .n_ranks = n_ranks,
                                  .n_nodes = 1,
                                  .memory_limit = limit,
                                  .overhead = 1,
                                  .engine = {.trains = true, .type = ZN_BF16, .micro_batch = 2, .seq_len = TIME, .accumulate = 1,
                                             .delay_after = -1, .optimizer = &zn_optimizer_adamw,
                                             .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .clip = 1}};
}

static struct zn_prediction choose(struct zn_plan_setup *s, const struct zn_choices *c)
{
    struct zn_prediction p;
    if (zn_plan_choose(s, c, &p) != ZN_OK || zn_predict_time(s, &p) != ZN_OK)
        fail_msg("%s", zn_error_message());
    return p;
}

static size_t memory_of(const struct zn_prediction *p)
{
    return p->tier[ZN_TIER_DEVICE] + p->tier[ZN_TIER_HOST] + p->reserved;
}

/* What the leanest needs: told where nothing fits. */
static size_t least_of(const zn_model *model, const struct zn_cluster *cluster, int n_ranks)
{
    struct zn_plan_setup s = setup_of(model, cluster, n_ranks, 1);
    const struct zn_choices c = zn_choices_open();
    struct zn_prediction p = choose(&s, &c);
    assert_false(p.fits);
    size_t need = memory_of(&p);
    zn_prediction_fini(&p);
    return need;
}

/* On a drive as fast as the processor computes, and on a slow one, where states in memory are worth more than activations. */
static void more_memory_is_never_slower(void **state)
{
    (void)state;
    static const double drives[] = {8e9, 0.2e9};
    zn_model *model = model_of(8, 512);
    const struct zn_choices c = zn_choices_open();
    for (int d = 0; d < 2; d++) {
        for (int n_ranks = 1; n_ranks <= (IS_SANITIZED ? 1 : 2); n_ranks++) {
            struct zn_cluster cluster = zn_calibration_usual(2);
            cluster.host_nvme.alone = cluster.host_nvme.node = drives[d];
            size_t limit = least_of(model, &cluster, n_ranks);
            double before = 1e9;
            int n_kept = 0, n_cached = 0;
            bool is_whole = false;
            for (int i = 0; i < 60 && !is_whole; i++, limit += limit / 12) {
                struct zn_plan_setup s = setup_of(model, &cluster, n_ranks, limit);
                struct zn_prediction p = choose(&s, &c);
                assert_true(p.fits && memory_of(&p) <= limit);
                if (p.step > before * 1.0015)
                    fail_msg("%d ranks, drive %g: %zu bytes take %.6g s, less took %.6g", n_ranks, drives[d], limit, p.step,
                             before);
                before = p.step < before ? p.step : before;
                n_kept += s.engine.recompute && s.engine.keep > 0;
                n_cached += s.engine.host_cache > 0;
                is_whole = s.engine.offload.optimizer == ZN_TIER_DEVICE && !s.engine.recompute;
                zn_prediction_fini(&p);
            }
            assert_true(n_kept > 0 && n_cached > 0 && is_whole);
        }
    }
    zn_model_destroy(model);
}

/* What the message names as the least is enough, and a byte less is not. */
static void the_least_is_enough(void **state)
{
    (void)state;
    zn_model *model = model_of(4, 256);
    const struct zn_cluster cluster = zn_calibration_usual(2);
    const struct zn_choices c = zn_choices_open();
    size_t least = least_of(model, &cluster, 1);
    for (size_t less = 0; less <= 1; less++) {
        struct zn_plan_setup s = setup_of(model, &cluster, 1, least - less);
        struct zn_prediction p = choose(&s, &c);
        assert_int_equal(p.fits, less == 0);
        zn_prediction_fini(&p);
    }
    zn_model_destroy(model);
}

/* With several micro-batches the sums of stages 0 and 1 have other bits than those of 2 and 3: the first that fits decides. */
static void speed_does_not_decide_bits(void **state)
{
    (void)state;
    zn_model *model = model_of(4, 256);
    const struct zn_choices c = zn_choices_open();
    size_t limit = 0;
    for (int fast = 0; fast <= 1; fast++) {
        struct zn_cluster cluster = zn_calibration_usual(2);
        struct zn_choices zero = zn_choices_open();
        cluster.device_device.alone = cluster.device_device.node = fast ? 1e12 : 1e6;
        zero.stage = 1;
        zero.keep = 0;
        zero.optimizer = zero.parameters = zero.activations = ZN_TIER_DEVICE;
        struct zn_plan_setup s = setup_of(model, &cluster, 2, 0);
        s.engine.accumulate = 3;
        struct zn_prediction p = choose(&s, &zero);
        limit = memory_of(&p);
        zn_prediction_fini(&p);
        s = setup_of(model, &cluster, 2, limit);
        s.engine.accumulate = 3;
        p = choose(&s, &c);
        assert_true(p.fits && !s.engine.reduce_every && s.engine.stage <= 1);
        zn_prediction_fini(&p);
    }
    zn_model_destroy(model);
}

/* `--fit --reduce last --accumulate 4`: stages that sum every micro-batch are passed over. */
static void sums_that_are_given_bind_a_search(void **state)
{
    (void)state;
    zn_model *model = model_of(4, 256);
    const struct zn_cluster cluster = zn_calibration_usual(2);
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        struct zn_choices c = zn_choices_open();
        struct zn_plan_setup s = setup_of(model, &cluster, n_ranks, 0);
        c.reduce_every = 0;
        c.compares_all = c.any_micro_batch = true;
        s.engine.accumulate = 4;
        struct zn_prediction p = choose(&s, &c);
        assert_true(p.fits && !s.engine.reduce_every && s.engine.stage < 2);
        zn_prediction_fini(&p);
    }
    zn_model_destroy(model);
}

static void segments_that_are_given_bind(void **state)
{
    (void)state;
    zn_model *model = model_of(4, 256);
    const struct zn_cluster cluster = zn_calibration_usual(2);
    struct zn_choices c = zn_choices_open();
    struct zn_plan_setup s = setup_of(model, &cluster, 1, 0);
    char text[ZN_KEEP_TEXT];
    c.keep = zn_keep_parse("keep=3");
    struct zn_prediction p = choose(&s, &c);
    assert_string_equal(zn_keep_text(&s.engine, text), "keep=3");
    zn_prediction_fini(&p);
    s.engine.vertical = true;
    assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "--recompute keep=3"));
    assert_int_equal(zn_keep_parse("on"), 0);
    assert_int_equal(zn_keep_parse("off"), ZN_KEEP_ALL);
    zn_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_memory_is_never_slower),      cmocka_unit_test(the_least_is_enough),
        cmocka_unit_test(speed_does_not_decide_bits),       cmocka_unit_test(sums_that_are_given_bind_a_search),
        cmocka_unit_test(segments_that_are_given_bind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
