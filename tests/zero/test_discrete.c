/* A device with memory of its own: ZeRO-Offload's path. A device is the processor behind real copies, in time and late,
 * so that bits can be compared; a simulated one shows bytes and time. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sanitized.h"
#include "zero/discrete_job.h"
#include "zero/world.h"

/* The asynchronous device tries each combination once, and all with all where the environment has ZINC_TEST_LAGS, a seed. */
static uint64_t seed_of_lags(bool *whole)
{
    const char *seed = getenv("ZINC_TEST_LAGS");
    *whole = seed != NULL;
    return seed ? strtoull(seed, NULL, 10) : 1;
}

/* Every placement, with each number of ranks and precision or only with one. */
static void check_every_tier(bool once, uint64_t lags)
{
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    const zn_dtype types[] = {ZN_BF16, ZN_F32};
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int t = 0; t < 2; t++) {
            struct zn_engine_options o = options_of(3, 2), all[MAX_TIERS];
            o.type = types[t];
            int n = list_tiers(o, all);
            if (IS_SANITIZED)
                n = keep_share(all, n, lags ? 0 : 1, 2);
            if (once)
                n = keep_share(all, n, 2 * (n_ranks - 1) + t, 2 * MAX_RANKS);
            assert_same(model, &o, all, n, n_ranks, lags);
        }
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

static void every_tier_gives_the_same_bits(void **state)
{
    (void)state;
    check_every_tier(IS_SANITIZED, 0);
}

static void every_tier_gives_the_same_bits_on_an_asynchronous_device(void **state)
{
    (void)state;
    bool whole;
    uint64_t lags = seed_of_lags(&whole);
    check_every_tier(!whole, lags);
}

/* Four placements of each way, with each number of ranks, or two of them with one. */
static void check_other_ways(bool once, uint64_t lags)
{
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    const struct zn_offload tiers[] = {
        {ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST},
        {ZN_TIER_DEVICE, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_DEVICE},
        {ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_NVME, ZN_TIER_NVME},
        {ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME},
    };
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
        for (int way = once ? n_ranks - 1 : 0; way < N_WAYS + N_FROZEN_WAYS; way += once ? MAX_RANKS : 1) {
            struct zn_engine_options o = options_of_way(way), apart[4];
            int n = 0;
            for (int i = once ? way / 2 % 2 : 0; i < 4; i += once ? 2 : 1) {
                apart[n] = o;
                apart[n].is_discrete = true;
                apart[n].offload = tiers[i];
                n += o.stage == 3 || tiers[i].parameters == ZN_TIER_DEVICE;
            }
            assert_same(model, &o, apart, n, n_ranks, lags);
        }
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

static void other_ways_give_the_same_bits(void **state)
{
    (void)state;
    check_other_ways(IS_SANITIZED, 0);
}

static void other_ways_give_the_same_bits_on_an_asynchronous_device(void **state)
{
    (void)state;
    bool whole;
    uint64_t lags = seed_of_lags(&whole);
    check_other_ways(!whole, lags);
}

static void what_has_no_path_is_refused_by_name(void **state)
{
    (void)state;
    zn_json *json;
    zn_engine_plan plan;
    zn_model *model = new_model(config, TIME, &json);
    struct zn_engine_options o = options_of(3, 1);
    o.is_discrete = true;
    o.offload.optimizer = ZN_TIER_HOST;
    assert_int_equal(zn_dry_run(model->module, &o, 2, &plan), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "gradients go where the optimizer is"));
    o.offload = (struct zn_offload){.parameters = ZN_TIER_HOST};
    assert_int_equal(zn_dry_run(model->module, &o, 2, &plan), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "only with the optimizer"));
    o.offload = (struct zn_offload){.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST};
    o.stage = 1;
    assert_int_equal(zn_dry_run(model->module, &o, 2, &plan), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "stages 2 and 3"));
    zn_model_destroy(model);
    zn_json_destroy(json);
}

/* ---- Virtual time ---- */

static const char *const large =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":1024,\"num_hidden_layers\":8,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"intermediate_size\":4096,\"vocab_size\":4096,"
    "\"max_position_embeddings\":1024,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}";

static struct zn_engine_options large_options(void)
{
    struct zn_engine_options o = options_of(2, 1);
    o.seq_len = 1024;
    o.prefetch_bytes = 64 << 20;
    o.is_discrete = true;
    o.offload.optimizer = o.offload.gradients = ZN_TIER_HOST;
    return o;
}

static struct world_rates rates_of(int n_ranks, double link, double host)
{
    return (struct world_rates){.device = {.flops = 1e12, .memory_bytes = 1e13, .link_bytes = link},
                                .host = {.flops = 1e12, .memory_bytes = host},
                                .links = {.n_ranks = n_ranks, .ranks_per_node = n_ranks, .node_bytes = 1e15, .network_bytes = 1e15},
                                .read_bytes = 1e15,
                                .write_bytes = 1e15};
}

/* Two bytes a parameter each way, the least that any placement moves; with several ranks each moves its part, the
 * sums over ranks in fp32. */
static void four_bytes_a_parameter_cross_the_link(void **state)
{
    (void)state;
    struct zn_engine_options o = large_options();
    for (int n_ranks = 1; n_ranks <= 4; n_ranks *= 2) {
        struct world_rates rates = rates_of(n_ranks, 1e10, 1e11);
        struct world_result r = simulate(large, &o, &rates);
        uint64_t own = r.own_elements;
        assert_int_equal(r.bytes_in, 2 * 2 * own); /* two steps */
        assert_int_equal(r.bytes_out, 2 * (n_ranks == 1 ? 2u : 4u) * own);
    }
}

/* Seconds of a step with links of this speed beyond those of one that nothing holds up. */
static double exposed(const struct zn_engine_options *o, const struct world_rates *rates)
{
    struct world_rates endless = rates_of(rates->links.n_ranks, 1e15, 1e15);
    return simulate(large, o, rates).second - simulate(large, o, &endless).second;
}

/* Gradients leave while backward computes; updated parameters return while the next forward does. */
static void both_ways_hide_behind_computing(void **state)
{
    (void)state;
    struct zn_engine_options o = large_options();
    struct world_rates rates = rates_of(1, 2e9, 1e15);
    double one_way = 2.0 * (double)simulate(large, &o, &rates).own_elements / 2e9;
    double shown = exposed(&o, &rates);
    assert_true(shown > 0 && shown < 0.35 * one_way); /* a unit at either end */
    /* A host as slow as the link: its update is one pipeline with the way back. */
    rates.host.memory_bytes = 30.0 * (double)simulate(large, &o, &rates).own_elements / one_way;
    shown = exposed(&o, &rates);
    assert_true(shown < 0.7 * one_way);
}

/* The host takes as long as the device: a delayed update costs no more than the way back. */
static void a_delayed_update_goes_on_beside_the_step(void **state)
{
    (void)state;
    struct zn_engine_options o = large_options();
    struct world_rates rates = rates_of(1, 1e12, 1e15);
    struct world_result r = simulate(large, &o, &rates);
    rates.host.memory_bytes = 40.0 * (double)r.own_elements / (0.8 * r.second); /* of update and gradients */
    double at_once = simulate(large, &o, &rates).second;
    o.delay_after = 0;
    double delayed = simulate(large, &o, &rates).second;
    assert_true(at_once > 1.3 * r.second);
    assert_true(delayed < 1.05 * r.second);
}

/* Parameters and activation checkpoints that live on the host, or on drives behind it, come ahead of their use. */
static void what_comes_from_the_host_comes_in_time(void **state)
{
    (void)state;
    for (int tier = ZN_TIER_HOST; tier <= ZN_TIER_NVME; tier++) {
        for (int n_ranks = 1; n_ranks <= 4; n_ranks *= 4) {
            struct zn_engine_options o = large_options();
            o.stage = 3;
            o.offload.parameters = o.offload.activations = (zn_tier)tier;
            struct world_rates rates = rates_of(n_ranks, 4e9, 1e15);
            struct world_result r = simulate(large, &o, &rates);
            double shown = exposed(&o, &rates), copied = (double)(r.bytes_in + r.bytes_out) / 2 / 4e9;
            assert_true(shown < 0.25 * copied);
            /* Every unit comes for forward and for backward; a checkpoint leaves and comes back once. */
            assert_true(r.bytes_in > 4 * r.own_elements);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tier_gives_the_same_bits),
        cmocka_unit_test(other_ways_give_the_same_bits),
        cmocka_unit_test(every_tier_gives_the_same_bits_on_an_asynchronous_device),
        cmocka_unit_test(other_ways_give_the_same_bits_on_an_asynchronous_device),
        cmocka_unit_test(what_has_no_path_is_refused_by_name),
        cmocka_unit_test(four_bytes_a_parameter_cross_the_link),
        cmocka_unit_test(both_ways_hide_behind_computing),
        cmocka_unit_test(a_delayed_update_goes_on_beside_the_step),
        cmocka_unit_test(what_comes_from_the_host_comes_in_time),
    };
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = bark}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
