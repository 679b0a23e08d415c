/* A whole step of the real engine in virtual time: communication and storage are hidden behind computing where
 * the links allow it, and nothing but the remainder shows where they do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "optim/registry.h"
#include "zero/world.h"

static const char *const llama =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":1024,\"num_hidden_layers\":8,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"intermediate_size\":4096,\"vocab_size\":4096,"
    "\"max_position_embeddings\":1024,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}";

static struct zn_engine_options options_of(int stage)
{
    return (struct zn_engine_options){.trains = true,
                                      .stage = stage,
                                      .type = ZN_BF16,
                                      .reduce_every = stage >= 2,
                                      .micro_batch = 1,
                                      .seq_len = 1024,
                                      .accumulate = 1,
                                      .recompute = true,
                                      .prefetch_bytes = 64 << 20,
                                      .optimizer = &zn_optimizer_adamw, .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                      .clip = 1,
                                      .delay_after = -1};
}

static struct world_rates rates_of(int n_ranks, double link)
{
    return (struct world_rates){.device = {.flops = 1e12, .memory_bytes = 1e12},
                                .host = {.flops = 1e12, .memory_bytes = 1e12},
                                .links = {.n_ranks = n_ranks,
                                          .ranks_per_node = n_ranks,
                                          .node_bytes = link,
                                          .network_bytes = link},
                                .read_bytes = 1e15,
                                .write_bytes = 1e15};
}

static const double ENDLESS = 1e15; /* bytes a second */

static double step_seconds(int n_ranks, double link, const struct zn_engine_options *o, struct world_result *r)
{
    struct world_rates rates = rates_of(n_ranks, link);
    *r = simulate(llama, o, &rates);
    return r->second;
}

/* Nothing can hide the first gathers (embedding and first block: nothing is computed before them) and the
 * last reductions (the same two units: nothing is computed after them). All others are hidden. */
static void gathers_and_reductions_hide_behind_computing(void **state)
{
    (void)state;
    enum { RANKS = 4, HIDDEN = 1024, FFN = 4096, VOCABULARY = 4096 };
    struct world_result r;
    struct zn_engine_options o = options_of(3);
    double computing = step_seconds(RANKS, ENDLESS, &o, &r), link = 1e9;
    double seconds = step_seconds(RANKS, link, &o, &r), communication = (double)r.sent / 2 / link;
    double block = 4.0 * HIDDEN * HIDDEN + 3.0 * HIDDEN * FFN, embedding = (double)VOCABULARY * HIDDEN;
    double exposed = 2 * 2 * (block + embedding) * (RANKS - 1) / RANKS / link; /* two ways, two bytes */
    assert_true(communication > 0.5 * computing); /* there was something to hide */
    assert_true(seconds - computing > 0.97 * exposed && seconds - computing < 1.03 * exposed);
}

static void a_slow_link_shows_all_of_its_time_and_no_more(void **state)
{
    (void)state;
    struct world_result r;
    struct zn_engine_options o = options_of(3);
    double seconds = step_seconds(4, 1e8, &o, &r), communication = (double)r.sent / 2 / 1e8;
    assert_true(seconds >= communication && seconds < 1.01 * communication);
}

/* Without prefetch each gather is waited for. */
static void prefetch_is_what_hides_them(void **state)
{
    (void)state;
    struct world_result r;
    struct zn_engine_options o = options_of(3);
    double with = step_seconds(4, 1e9, &o, &r);
    o.prefetch_bytes = 0;
    assert_true(step_seconds(4, 1e9, &o, &r) > with + 0.2);
}

static struct zn_engine_options offloaded(void)
{
    struct zn_engine_options o = options_of(3);
    o.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME};
    return o;
}

static struct world_result on_disk(double disk, const struct zn_engine_options *o)
{
    struct world_rates rates = rates_of(1, ENDLESS);
    rates.read_bytes = rates.write_bytes = disk;
    return simulate(llama, o, &rates);
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* With updates in backward all traffic with the disk runs beside the computing: that of forward, a quarter of the
 * computing, and that of the rest. */
static void storage_hides_behind_computing(void **state)
{
    (void)state;
    struct zn_engine_options o = offloaded();
    o.in_backward = true;
    o.clip = 0;
    double computing = on_disk(ENDLESS, &o).second;
    static const double disks[] = {1e9, 2e9, 4e9, 1e10, 1e11};
    for (size_t i = 0; i < sizeof disks / sizeof disks[0]; i++) {
        struct world_result r = on_disk(disks[i], &o);
        double io = (double)(r.read + r.written) / 2 / disks[i], io_forward = io / 15; /* parameters once: 2 of 30 bytes */
        double bound = longer(computing / 4, io_forward) + longer(computing * 3 / 4, io - io_forward);
        if (r.second > 1.1 * bound)
            fail_msg("disk %g: %g s, computing %g, io %g, bound %g", disks[i], r.second, computing, io, bound);
    }
}

/* With clipping the update waits for the norm: it runs beside the next forward, a quarter of the computing, and what
 * is longer shows. In backward gradients are written, and parameters read. */
static void with_clipping_the_update_hides_behind_the_next_forward(void **state)
{
    (void)state;
    struct zn_engine_options o = offloaded();
    double computing = on_disk(ENDLESS, &o).second;
    static const double disks[] = {1e9, 2e9, 4e9, 1e10, 1e11};
    for (size_t i = 0; i < sizeof disks / sizeof disks[0]; i++) {
        struct world_result r = on_disk(disks[i], &o);
        /* Bytes a parameter: states both ways, gradients both ways, parameters twice and back; backward has 2 + 4. */
        double io = (double)r.own_elements * (24 + 8 + 6) / disks[i], io_backward = io * 6 / 38;
        double bound = longer(computing / 4, io - io_backward) + longer(computing * 3 / 4, io_backward);
        if (r.second > 1.15 * bound)
            fail_msg("disk %g: %g s, computing %g, io %g, bound %g", disks[i], r.second, computing, io, bound);
    }
}

/* What the ledger held at its peak is what was planned, in every tier. */
static void the_ledger_is_the_plan(void **state)
{
    (void)state;
    struct zn_engine_options o = offloaded();
    struct world_result r = on_disk(1e10, &o);
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        assert_int_equal(r.ledger.tier_peak[tier], r.planned[tier]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_and_reductions_hide_behind_computing),
        cmocka_unit_test(a_slow_link_shows_all_of_its_time_and_no_more),
        cmocka_unit_test(prefetch_is_what_hides_them),
        cmocka_unit_test(storage_hides_behind_computing),
        cmocka_unit_test(with_clipping_the_update_hides_behind_the_next_forward),
        cmocka_unit_test(the_ledger_is_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
