/* An optimizer that the engine has never heard of, with three states of its own names: it trains to the same bits at every stage
 * and in every tier, is saved and goes on. Ranks are threads. */
#include "optim/runs.h"

#include "device/device.h"

/* A step with momentum, then one of Adam. Every update needs what the last one left in each state. */
static zn_status update(zn_device *device, const struct zn_update *u)
{
    const struct zn_hyperparameters *h = u->hyperparameters;
    ZN_TRY(zn_run_sgd(device, &(struct zn_sgd_args){.param = u->param, .grad = u->grad, .momentum_buffer = u->state[0],
                                                    .n_elements = u->n_elements, .grad_scale = u->grad_scale,
                                                    .lr = (float)u->lr, .momentum = (float)h->momentum}));
    return zn_run_adam(device, &(struct zn_adam_args){.param = u->param, .grad = u->grad, .exp_avg = u->state[1],
                                                      .exp_avg_sq = u->state[2], .copy = u->copy, .copy_type = u->copy_type,
                                                      .n_elements = u->n_elements, .grad_scale = u->grad_scale,
                                                      .one_minus_beta1 = 0.1f, .beta2 = 0.99f, .one_minus_beta2 = 0.01f,
                                                      .eps = 1e-8f, .step_size = (float)(u->lr / (double)(1 + u->t)),
                                                      .root_correction = 1, .keep = (float)(1 - u->lr * u->decay)});
}

static const zn_optimizer twofold = {.name = "twofold",
                                     .title = "twofold",
                                     .n_states = 3,
                                     .state = {{.name = "velocity"}, {.name = "mean"}, {.name = "square"}},
                                     .update = update};

static int set_up(void **state)
{
    (void)state;
    return make_folder() == 0 && zn_optimizer_register(&twofold) == ZN_OK ? 0 : -1;
}

static void trains_alike_at_every_stage_and_tier(void **state)
{
    (void)state;
    trains_alike_everywhere("twofold", "fp32");
    trains_alike_everywhere("twofold", "bf16");
}

static void goes_on_from_its_checkpoint(void **state)
{
    (void)state;
    goes_on_from_checkpoints("twofold", "bf16");
}

static void its_states_have_its_names_and_sizes(void **state)
{
    (void)state;
    char output[128];
    struct zn_train_options o = options_of(output, "sizes", "twofold", "fp32");
    train(&o, 1);
    int n_params = n_named(output, ".velocity\"");
    assert_true(n_params > 10);
    assert_int_equal(n_named(output, ".mean\""), n_params);
    assert_int_equal(n_named(output, ".square\""), n_params);
    double parameters = last_number(output, "parameters");
    assert_true(last_number(output, "optimizer") == 3 * parameters);
    ZN_SET(o, optimizer, "adamw");
    train(&o, 1);
    assert_true(last_number(output, "optimizer") == 2 * parameters);
    assert_int_equal(n_named(output, ".velocity\""), 0);
}

/* A run that needs states which the checkpoint does not have says whose they are. */
static void states_that_are_not_there_are_told(void **state)
{
    (void)state;
    char output[128];
    struct zn_train_options o = options_of(output, "other", "twofold", "fp32");
    ZN_SET(o, optimizer, "sgd");
    ZN_SET(o, momentum, 0);
    ZN_SET(o, steps, 2);
    train(&o, 1);
    ZN_SET(o, overwrite, false);
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 4);
    ZN_SET(o, momentum, 0.9);
    assert_int_equal(train_on_ranks(&o, 1), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "has no momentum_buffer"));
    assert_non_null(strstr(zn_error_message(), "sgd with --momentum"));
    ZN_SET(o, optimizer, "twofold");
    assert_int_equal(train_on_ranks(&o, 1), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "--optimizer sgd, this run has twofold"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_alike_at_every_stage_and_tier),
        cmocka_unit_test(goes_on_from_its_checkpoint),
        cmocka_unit_test(its_states_have_its_names_and_sizes),
        cmocka_unit_test(states_that_are_not_there_are_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
