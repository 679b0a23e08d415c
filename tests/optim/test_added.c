/* An optimizer that the engine has never heard of, with three states of its own names: it trains to the same bits at every stage
 * and in every tier, is saved and goes on. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/device.h"
#include "optim/registry.h"
#include "zero/ranks.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static char folder[64];

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
    snprintf(folder, sizeof folder, "/tmp/zinc-optim-XXXXXX");
    return mkdtemp(folder) && zn_optimizer_register(&twofold) == ZN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A run in the folder's part `name`; `output` holds its path. */
static struct zn_train_options options_of(char output[128], const char *name, const char *precision)
{
    struct zn_train_options o;
    snprintf(output, 128, "%s/%s", folder, name);
    zn_train_options_init(&o);
    ZN_SET(o, model, ZN_TEST_DATA "/parity/gpt2");
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 4);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, weight_decay, 0.1);
    ZN_SET(o, optimizer, "twofold");
    ZN_SET(o, momentum, 0.5);
    ZN_SET(o, precision, precision);
    ZN_SET(o, output_dtype, "fp32");
    ZN_SET(o, reduce, "every");
    ZN_SET(o, save, "all");
    ZN_SET(o, threads, 1);
    ZN_SET(o, stage, 0);
    ZN_SET(o, allow_buffered_swap, true);
    ZN_SET(o, offload_optimizer, "none");
    ZN_SET(o, offload_param, "none");
    ZN_SET(o, offload_gradients, "none");
    ZN_SET(o, offload_activations, "none");
    return o;
}

static void train(const struct zn_train_options *o, int n_ranks)
{
    if (train_on_ranks(o, n_ranks) != ZN_OK)
        fail_msg("training failed: %s", zn_error_message());
}

#define STATES "checkpoints/step-00000004/optimizer-00001-of-00001.safetensors"

/* The same losses, weights and states. */
static void assert_same(const char *a, const char *b)
{
    static const char *const names[] = {"model.safetensors", STATES};
    char *x = losses_of(a), *y = losses_of(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
    for (size_t i = 0; i < 2; i++) {
        size_t n_a, n_b;
        char *p = slurp(a, names[i], &n_a), *q = slurp(b, names[i], &n_b);
        assert_non_null(p);
        assert_non_null(q);
        assert_int_equal(n_a, n_b);
        assert_memory_equal(p, q, n_a);
        free(p);
        free(q);
    }
}

/* Every stage in memory, then all states on NVMe, against stage 0. */
static void trains_alike_everywhere(const char *precision)
{
    char base[128], output[128];
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        struct zn_train_options o = options_of(base, "base", precision);
        train(&o, n_ranks);
        for (int stage = 1; stage <= 3; stage++) {
            o = options_of(output, "other", precision);
            ZN_SET(o, stage, stage);
            train(&o, n_ranks);
            assert_same(base, output);
            ZN_SET(o, offload_optimizer, "nvme");
            ZN_SET(o, offload_gradients, stage >= 2 ? "nvme" : "none");
            ZN_SET(o, offload_param, stage == 3 ? "nvme" : "none");
            train(&o, n_ranks);
            assert_same(base, output);
        }
    }
}

static void trains_alike_at_every_stage_and_tier(void **state)
{
    (void)state;
    trains_alike_everywhere("fp32");
    trains_alike_everywhere("bf16");
}

/* Two steps on NVMe, two more in memory, and the other way round, against four. */
static void goes_on_from_its_checkpoint(void **state)
{
    (void)state;
    char whole[128], parts[128];
    static const char *const tiers[] = {"nvme", "none"};
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        struct zn_train_options o = options_of(whole, "whole", "bf16");
        train(&o, n_ranks);
        for (int first = 0; first < 2; first++) {
            o = options_of(parts, "parts", "bf16");
            ZN_SET(o, stage, 2);
            ZN_SET(o, steps, 2);
            ZN_SET(o, offload_optimizer, tiers[first]);
            train(&o, n_ranks);
            ZN_SET(o, steps, 4);
            ZN_SET(o, resume, NULL);
            ZN_SET(o, overwrite, false);
            ZN_SET(o, offload_optimizer, tiers[!first]);
            train(&o, n_ranks);
            assert_same(whole, parts);
        }
    }
}

/* How many tensors of the saved states have this name's end. */
static int n_named(const char *output, const char *end)
{
    size_t n_bytes;
    char *file = slurp(output, STATES, &n_bytes);
    int n = 0;
    assert_non_null(file);
    for (const char *at = file + 8; (at = strstr(at, end)); at++)
        n++;
    free(file);
    return n;
}

static void its_states_have_its_names_and_sizes(void **state)
{
    (void)state;
    char output[128];
    struct zn_train_options o = options_of(output, "sizes", "fp32");
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
    struct zn_train_options o = options_of(output, "other", "fp32");
    ZN_SET(o, optimizer, "sgd");
    ZN_SET(o, momentum, 0);
    ZN_SET(o, steps, 2);
    train(&o, 1);
    ZN_SET(o, overwrite, false);
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 4);
    ZN_SET(o, momentum, 0.9);
    assert_int_equal(train_on_ranks(&o, 1), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "has no exp_avg"));
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
