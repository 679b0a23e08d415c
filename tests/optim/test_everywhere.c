/* The optimizers of the registry beside AdamW: the same bits at every stage and in every tier, saved and gone on with. Ranks are
 * threads. */
#include "optim/runs.h"

static int set_up(void **state)
{
    (void)state;
    return make_folder();
}

static void lion_trains_alike_everywhere(void **state)
{
    (void)state;
    trains_alike_everywhere("lion", "bf16");
    goes_on_from_checkpoints("lion", "fp32");
}

static void adagrad_trains_alike_everywhere(void **state)
{
    (void)state;
    trains_alike_everywhere("adagrad", "fp32");
    goes_on_from_checkpoints("adagrad", "bf16");
}

static void bf16_moments_train_alike_everywhere(void **state)
{
    (void)state;
    trains_alike_everywhere("adamw-bf16", "bf16");
    goes_on_from_checkpoints("adamw-bf16", "bf16");
}

static void moments_of_8_bits_train_alike_everywhere(void **state)
{
    (void)state;
    trains_alike_everywhere("adamw8bit", "fp32");
    trains_alike_everywhere("adamw8bit", "bf16");
    goes_on_from_checkpoints("adamw8bit", "bf16");
}

/* Blocks count within the tensor: three ranks, whose partitions begin elsewhere, and a cache change none. */
static void blocks_are_the_tensors(void **state)
{
    (void)state;
    char base[128], output[128];
    struct zn_train_options o = options_of(base, "base", "adamw8bit", "bf16");
    train(&o, 3);
    for (int stage = 1; stage <= 3; stage++) {
        o = options_of(output, "other", "adamw8bit", "bf16");
        ZN_SET(o, stage, stage);
        ZN_SET(o, offload_optimizer, stage == 2 ? "nvme" : "none");
        ZN_SET(o, host_cache, 100000);
        train(&o, 3);
        assert_same(base, output);
    }
}

/* Updates that run in backward, or a step late, or after a step whose micro-batches run segment by segment. */
static void moments_of_8_bits_follow_every_schedule(void **state)
{
    (void)state;
    char base[128], output[128];
    for (int kind = 0; kind < 3; kind++) {
        for (int away = 0; away < 2; away++) {
            struct zn_train_options o = options_of(away ? output : base, away ? "other" : "base", "adamw8bit", "bf16");
            ZN_SET(o, stage, away ? 3 : 1);
            ZN_SET(o, offload_optimizer, away ? "nvme" : "none");
            ZN_SET(o, offload_param, away ? "nvme" : "none");
            ZN_SET(o, offload_gradients, away ? "nvme" : "none");
            ZN_SET(o, accumulate, 2);
            if (kind == 0) {
                ZN_SET(o, optimizer_in_backward, true);
                ZN_SET(o, clip, 0);
                ZN_SET(o, accumulate, 1);
            } else if (kind == 1) {
                ZN_SET(o, delayed_update, 1);
            } else {
                ZN_SET(o, schedule, "vertical");
                ZN_SET(o, reduce, "last");
            }
            train(&o, 2);
        }
        assert_same(base, output);
    }
}

static void narrow_states_take_few_bytes(void **state)
{
    (void)state;
    char output[128];
    struct zn_train_options o = options_of(output, "sizes", "adamw-bf16", "fp32");
    train(&o, 1);
    double parameters = last_number(output, "parameters"), states = last_number(output, "optimizer");
    assert_true(states == parameters);
    assert_int_equal(n_named(output, ".exp_avg.absmax\""), 0);
    ZN_SET(o, optimizer, "adamw8bit");
    train(&o, 1);
    states = last_number(output, "optimizer");
    assert_true(states >= parameters * (0.5 + 2.0 / 256) && states <= parameters * (0.5 + 2.0 / 256) + 4 * 4096);
    int n_params = n_named(output, ".exp_avg\"");
    assert_true(n_params > 10);
    assert_int_equal(n_named(output, ".exp_avg_sq\""), n_params);
    assert_int_equal(n_named(output, ".exp_avg.absmax\""), n_params);
    assert_int_equal(n_named(output, ".exp_avg_sq.absmax\""), n_params);
    assert_int_equal(n_named(output, "\"dtype\":\"U8\""), 2 * n_params);
}

/* A setting's number in run.json. */
static void assert_recorded(const char *output, const char *key, double value)
{
    size_t n_bytes;
    char *file = slurp(output, "run.json", &n_bytes), *at = file ? strstr(file, key) : NULL;
    assert_non_null(at);
    assert_true(strtod(at + strlen(key), NULL) == value);
    free(file);
}

static void optimizers_have_defaults_of_their_own(void **state)
{
    (void)state;
    char output[128];
    struct zn_train_options o = options_of(output, "defaults", "lion", "fp32");
    ZN_SET(o, steps, 1);
    train(&o, 1);
    assert_recorded(output, "\"beta1\": ", 0.9);
    assert_recorded(output, "\"beta2\": ", 0.99);
    ZN_SET(o, beta2, 0.97);
    train(&o, 1);
    assert_recorded(output, "\"beta2\": ", 0.97);
    ZN_SET(o, optimizer, "adagrad");
    train(&o, 1);
    assert_recorded(output, "\"eps\": ", 1e-10);
    ZN_SET(o, eps, 1e-6);
    train(&o, 1);
    assert_recorded(output, "\"eps\": ", 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lion_trains_alike_everywhere),
        cmocka_unit_test(adagrad_trains_alike_everywhere),
        cmocka_unit_test(bf16_moments_train_alike_everywhere),
        cmocka_unit_test(moments_of_8_bits_train_alike_everywhere),
        cmocka_unit_test(blocks_are_the_tensors),
        cmocka_unit_test(moments_of_8_bits_follow_every_schedule),
        cmocka_unit_test(narrow_states_take_few_bytes),
        cmocka_unit_test(optimizers_have_defaults_of_their_own),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
