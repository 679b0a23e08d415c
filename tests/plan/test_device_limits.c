/* The planner's view of a real device: memory that is the host's, too, counts in both limits; nothing is larger than what the device
 * allocates in one piece; and states go where an update has a kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "optim/registry.h"
#include "plan/planner.h"

enum { TIME = 16 };

static zn_model *model;

static struct zn_cluster cluster_of(void)
{
    struct zn_cluster c;
    assert_int_equal(zn_cluster_load("desktop-24gb", &c), ZN_OK);
    c.device.reserved = 1;
    return c;
}

static struct zn_plan_setup setup_of(const struct zn_cluster *cluster)
{
    return (struct zn_plan_setup){
        .model = model,
        .cluster = cluster,
        .n_ranks = 1,
        .n_nodes = 1,
        .engine = {.trains = true, .type = ZN_BF16, .micro_batch = 2, .seq_len = TIME, .accumulate = 1, .recompute = true,
                   .delay_after = -1, .stages_comm = true, .optimizer = &zn_optimizer_adamw,
                   .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}, .clip = 1,
                   .offload = {.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST}}};
}

static struct zn_prediction predict(const struct zn_plan_setup *s)
{
    struct zn_prediction p;
    if (zn_predict_memory(s, &p) != ZN_OK)
        fail_msg("%s", zn_error_message());
    return p;
}

static void shared_memory_counts_in_both_limits(void **state)
{
    (void)state;
    struct zn_cluster c = cluster_of();
    struct zn_plan_setup s = setup_of(&c);
    struct zn_prediction p = predict(&s);
    size_t device = p.tier[ZN_TIER_DEVICE] + p.reserved, host = p.tier[ZN_TIER_HOST];
    assert_true(p.fits && device > 0 && host > 0);
    zn_prediction_fini(&p);
    for (int shares = 0; shares < 2; shares++) {
        c.device.shares_memory = shares;
        for (int missing = 0; missing < 2; missing++) {
            c.host_memory = host + (shares ? device : 0) - (size_t)missing;
            p = predict(&s);
            assert_int_equal(p.fits, !missing);
            assert_true(p.fits || p.short_of == ZN_TIER_HOST);
            zn_prediction_fini(&p);
        }
    }
    s.memory_limit = device - 1; /* the device's own limit holds beside */
    c.host_memory *= 8;
    p = predict(&s);
    assert_true(!p.fits && p.short_of == ZN_TIER_DEVICE);
    zn_prediction_fini(&p);
}

static void no_buffer_is_larger_than_an_allocation(void **state)
{
    (void)state;
    struct zn_cluster c = cluster_of();
    struct zn_plan_setup s = setup_of(&c);
    struct zn_prediction p = predict(&s);
    size_t largest = p.largest_buffer;
    assert_true(largest > 0 && largest < p.tier[ZN_TIER_DEVICE]);
    zn_prediction_fini(&p);
    for (int missing = 0; missing < 2; missing++) {
        c.device.allocation = largest - (size_t)missing;
        p = predict(&s);
        assert_int_equal(p.fits, !missing);
        zn_prediction_fini(&p);
    }
}

static zn_tier tier_of_optimizer(const zn_optimizer *optimizer, int64_t delay_after)
{
    struct zn_cluster c = cluster_of();
    struct zn_plan_setup s = setup_of(&c);
    struct zn_choices open = zn_choices_open();
    struct zn_prediction p;
    s.engine.optimizer = optimizer;
    s.engine.delay_after = delay_after;
    assert_int_equal(zn_plan_choose(&s, &open, &p), ZN_OK);
    assert_true(p.fits);
    zn_prediction_fini(&p);
    return s.engine.offload.optimizer;
}

static void updates_are_where_they_can_be(void **state)
{
    (void)state;
    assert_int_equal(tier_of_optimizer(&zn_optimizer_adamw, -1), ZN_TIER_DEVICE);
    assert_int_equal(tier_of_optimizer(&zn_optimizer_lion, -1), ZN_TIER_HOST);
    assert_int_equal(tier_of_optimizer(&zn_optimizer_adamw8bit, -1), ZN_TIER_HOST);
    assert_int_equal(tier_of_optimizer(&zn_optimizer_adamw, 40), ZN_TIER_HOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory_counts_in_both_limits),
        cmocka_unit_test(no_buffer_is_larger_than_an_allocation),
        cmocka_unit_test(updates_are_where_they_can_be),
    };
    static const char config[] = "{\"model_type\":\"gpt2\",\"vocab_size\":301,\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"n_positions\":32}";
    zn_json *json;
    if (zn_json_load_buffer(config, strlen(config), "config", &json) != ZN_OK || zn_model_create(json, TIME, &model) != ZN_OK)
        return 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    zn_model_destroy(model);
    zn_json_destroy(json);
    return failures;
}
