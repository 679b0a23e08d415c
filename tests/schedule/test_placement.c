/* What a rank keeps of each state, and where: settings in, homes and ways out as a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

static void add_home(zn_text *t, const char *name, const struct zn_home *home)
{
    static const char *const forms[] = {"absent", "partition", "whole"};
    zn_text_add(t, "%s %s", name, forms[home->form]);
    if (home->form != ZN_ABSENT)
        zn_text_add(t, " %s%s", zn_tier_name(home->tier), home->on_host ? " by the host" : "");
    zn_text_add(t, "; ");
}

/* The homes, then the names of all that is true. */
static void expect_placement(const struct zn_engine_options *o, int n_ranks, const char *homes, const char *ways)
{
    struct zn_placement p;
    zn_text t;
    OK(zn_placement_resolve(o, n_ranks, &p));
    zn_text_init(&t);
    add_home(&t, "parameters", &p.parameters);
    add_home(&t, "gradients", &p.gradients);
    add_home(&t, "states", &p.states);
    add_home(&t, "checkpoints", &p.checkpoints);
    assert_string_equal(t.data, homes);
    zn_text_fini(&t);
    zn_text_init(&t);
    const struct {
        const char *name;
        bool is_so;
    } all[] = {{"master", p.has_master},
               {"delayed", p.is_delayed},
               {"gathers", p.gathers_parameters},
               {"fetches", p.fetches_parameters},
               {"copies", p.copies_parameters},
               {"returns", p.returns_parameters},
               {"offloads", p.offloads_gradients},
               {"reduces", p.reduces_gradients},
               {"slots", p.has_slots},
               {"accumulates", p.accumulates},
               {"in backward", p.updates_in_backward},
               {"beside", p.updates_beside}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].is_so)
            zn_text_add(&t, "%s; ", all[i].name);
    assert_string_equal(t.data ? t.data : "", ways);
    zn_text_fini(&t);
}

static struct zn_engine_options at_stage(int stage)
{
    struct zn_engine_options o = written_options();
    o.stage = stage;
    o.reduce_every = stage >= 2;
    return o;
}

static void a_stage_says_what_is_partitioned(void **state)
{
    (void)state;
    struct zn_engine_options o = at_stage(0);
    expect_placement(&o, 2, "parameters whole device; gradients whole device; states whole device; checkpoints absent; ",
                     "reduces; ");
    o = at_stage(1);
    expect_placement(&o, 2, "parameters whole device; gradients whole device; states partition device; checkpoints absent; ",
                     "reduces; ");
    o = at_stage(2);
    expect_placement(&o, 2, "parameters whole device; gradients partition device; states partition device; checkpoints absent; ",
                     "reduces; slots; ");
    o = at_stage(3);
    expect_placement(&o, 2,
                     "parameters partition device; gradients partition device; states partition device; checkpoints absent; ",
                     "gathers; reduces; slots; ");
}

static void one_rank_keeps_all_at_every_stage(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        struct zn_engine_options o = at_stage(stage);
        expect_placement(&o, 1, "parameters whole device; gradients whole device; states whole device; checkpoints absent; ", "");
    }
}

static void sixteen_bits_have_masters_and_sums(void **state)
{
    (void)state;
    struct zn_engine_options o = at_stage(0);
    o.type = ZN_BF16;
    expect_placement(&o, 1, "parameters whole device; gradients whole device; states whole device; checkpoints absent; ",
                     "master; reduces; ");
    o.trains = false;
    o.optimizer = NULL;
    expect_placement(&o, 1, "parameters whole device; gradients whole device; states whole device; checkpoints absent; ",
                     "reduces; ");
}

static void what_is_on_nvme_passes_through_buffers(void **state)
{
    (void)state;
    struct zn_engine_options o = at_stage(3);
    o.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME};
    expect_placement(&o, 2, "parameters partition nvme; gradients partition nvme; states partition nvme; checkpoints whole nvme; ",
                     "gathers; fetches; reduces; slots; beside; ");
    expect_placement(&o, 1, "parameters partition nvme; gradients partition nvme; states whole nvme; checkpoints whole nvme; ",
                     "gathers; slots; beside; ");
}

static void micro_batches_that_follow_each_other_accumulate(void **state)
{
    (void)state;
    struct zn_engine_options o = at_stage(1);
    o.accumulate = 2;
    expect_placement(&o, 2, "parameters whole device; gradients whole device; states partition device; checkpoints absent; ",
                     "reduces; accumulates; ");
    o.vertical = true;
    expect_placement(&o, 2, "parameters whole device; gradients whole device; states partition device; checkpoints absent; ",
                     "reduces; ");
    o.vertical = false;
    o.reduce_every = true;
    expect_placement(&o, 2, "parameters whole device; gradients whole device; states partition device; checkpoints absent; ",
                     "reduces; slots; accumulates; ");
}

static void updates_in_backward_and_delayed_ones(void **state)
{
    (void)state;
    struct zn_engine_options o = at_stage(1);
    o.in_backward = true;
    expect_placement(&o, 2, "parameters whole device; gradients whole device; states partition device; checkpoints absent; ",
                     "reduces; in backward; ");
    o.in_backward = false;
    o.delay_after = 3;
    expect_placement(&o, 2, "parameters whole device; gradients whole device; states partition device; checkpoints absent; ",
                     "master; delayed; reduces; ");
}

/* ZeRO-Offload, and ZeRO-Infinity. */
static void a_discrete_device_has_the_host_for_updates(void **state)
{
    (void)state;
    struct zn_engine_options o = at_stage(2);
    o.is_discrete = true;
    o.offload = (struct zn_offload){.gradients = ZN_TIER_HOST, .optimizer = ZN_TIER_HOST};
    expect_placement(&o, 2,
                     "parameters whole device; gradients partition host by the host; states partition host by the host; "
                     "checkpoints absent; ",
                     "master; returns; offloads; reduces; slots; beside; ");
    o = at_stage(3);
    o.is_discrete = true;
    o.offload = (struct zn_offload){ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST};
    expect_placement(&o, 2,
                     "parameters partition host by the host; gradients partition host by the host; "
                     "states partition host by the host; checkpoints whole host; ",
                     "gathers; fetches; copies; offloads; reduces; slots; beside; ");
}

static void expect_refusal(const struct zn_engine_options *o, int n_ranks, const char *message)
{
    struct zn_placement p;
    assert_int_equal(zn_placement_resolve(o, n_ranks, &p), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), message));
}

static void what_has_no_path_is_refused_by_name(void **state)
{
    (void)state;
    struct zn_engine_options o = at_stage(1);
    o.accumulate = 2;
    o.offload.gradients = ZN_TIER_NVME;
    expect_refusal(&o, 1, "--reduce last: gradients that leave memory");
    o = at_stage(2);
    o.is_discrete = true;
    o.offload.optimizer = ZN_TIER_HOST;
    expect_refusal(&o, 2, "the gradients go where the optimizer is");
    o = at_stage(3);
    o.is_discrete = true;
    o.offload.parameters = ZN_TIER_HOST;
    expect_refusal(&o, 2, "parameters are offloaded only with the optimizer");
    o = at_stage(1);
    o.is_discrete = true;
    o.offload.gradients = o.offload.optimizer = ZN_TIER_HOST;
    expect_refusal(&o, 2, "only at stages 2 and 3");
    o = at_stage(1);
    o.optimizer = &zn_optimizer_muon;
    o.in_backward = true;
    expect_refusal(&o, 2, "--optimizer-in-backward: --optimizer muon updates whole matrices");
    o.in_backward = false;
    o.delay_after = 1;
    expect_refusal(&o, 2, "--delayed-update: --optimizer muon updates whole matrices");
    o.delay_after = -1;
    o.is_discrete = true;
    expect_refusal(&o, 2, "--optimizer muon: updates of whole matrices are not built for devices with memory of their own");
}

/* Whole chunks of the unit that has the border. */
static void the_host_cache_holds_the_first_own_elements(void **state)
{
    (void)state;
    struct written_model m;
    zn_units units;
    struct zn_placement p;
    struct zn_engine_options o = at_stage(0);
    o.offload.optimizer = ZN_TIER_NVME;
    write_model(&m, "a 1024x4 | b 1024x1024");
    OK(zn_compile_units(&m.list, &o, 1, &units));
    for (size_t chunks = 0; chunks <= 3; chunks++) {
        o.host_cache = (4096 + chunks * ZN_CHUNK_ELEMENTS + 7) * 8;
        OK(zn_placement_resolve(&o, 1, &p));
        assert_int_equal(zn_own_cached(&p, &units), 4096 + (int64_t)chunks * ZN_CHUNK_ELEMENTS);
    }
    o.host_cache = 4095 * 8;
    OK(zn_placement_resolve(&o, 1, &p));
    assert_int_equal(zn_own_cached(&p, &units), 0);
    zn_units_fini(&units);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_says_what_is_partitioned),
        cmocka_unit_test(one_rank_keeps_all_at_every_stage),
        cmocka_unit_test(sixteen_bits_have_masters_and_sums),
        cmocka_unit_test(what_is_on_nvme_passes_through_buffers),
        cmocka_unit_test(micro_batches_that_follow_each_other_accumulate),
        cmocka_unit_test(updates_in_backward_and_delayed_ones),
        cmocka_unit_test(a_discrete_device_has_the_host_for_updates),
        cmocka_unit_test(what_has_no_path_is_refused_by_name),
        cmocka_unit_test(the_host_cache_holds_the_first_own_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
