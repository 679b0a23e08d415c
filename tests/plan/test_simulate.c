/* The simulated step: the engine's memory, its traffic in virtual time, and what the papers say of it. No figure here is
 * fitted to a result: each case is about a direction, a bound or a byte. */
#include <math.h>

#include "optim/registry.h"
#include "plan/predict.h"
#include "plan/shape.h"
#include "trace_file.h"

enum { TIME = 1024 };

static zn_model *model_of(int64_t layers, int64_t hidden, int64_t heads)
{
    zn_model *model;
    const struct zn_shape shape = {layers, hidden, heads, 0, 50257};
    OK(zn_shape_model(&shape, TIME, &model));
    return model;
}

static struct zn_cluster load(const char *name)
{
    struct zn_cluster c;
    OK(zn_cluster_load(name, &c));
    return c;
}

static struct zn_plan_setup setup_of(const zn_model *model, const struct zn_cluster *cluster, int n_ranks)
{
    return (struct zn_plan_setup){
        .model = model,
        .cluster = cluster,
        .n_ranks = n_ranks,
        .n_nodes = (n_ranks + cluster->devices - 1) / cluster->devices,
        .engine = {.trains = true, .stage = 3, .reduce_every = true, .type = ZN_F16, .micro_batch = 1, .seq_len = TIME,
                   .accumulate = 1, .recompute = true, .prefetch_bytes = 1 << 30, .reuse_bytes = 1 << 30,
                   .persist_bytes = 64 << 10, .delay_after = -1,
                   .optimizer = &zn_optimizer_adamw, .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                   .clip = 1}};
}

static struct zn_prediction predict(const struct zn_plan_setup *s)
{
    struct zn_prediction p;
    OK(zn_predict(s, &p));
    return p;
}

static struct zn_sim_step simulated(const struct zn_plan_setup *s)
{
    struct zn_prediction p = predict(s);
    struct zn_sim_step step = p.simulated;
    zn_prediction_fini(&p);
    return step;
}

/* The share of the device's peak that matrix products reach. */
static double efficiency(const struct zn_plan_setup *s)
{
    struct zn_prediction p = predict(s);
    double reached = p.simulated.flops / p.simulated.seconds / s->cluster->device.flops[s->engine.type];
    zn_prediction_fini(&p);
    return reached;
}

/* ---- Memory ---- */

static void check_memory(const struct zn_plan_setup *s)
{
    struct zn_prediction p = predict(s);
    for (int t = 0; t < ZN_N_TIERS; t++)
        assert_int_equal(p.simulated.tier_peak[t], p.tier[t]);
    for (int k = 0; k < ZN_N_KINDS; k++)
        assert_int_equal(p.simulated.kind_peak[k], p.kind[k]);
    zn_prediction_fini(&p);
}

static void the_ledger_is_the_plan_to_the_byte(void **state)
{
    (void)state;
    static const struct zn_offload offload[] = {
        {ZN_TIER_DEVICE, ZN_TIER_DEVICE, ZN_TIER_DEVICE, ZN_TIER_DEVICE},
        {ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_DEVICE},
        {ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST},
        {ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME},
        {ZN_TIER_NVME, ZN_TIER_HOST, ZN_TIER_NVME, ZN_TIER_HOST},
    };
    static const char *const clusters[] = {"dgx2-v100", "cpu-server", "desktop-24gb"};
    zn_model *model = model_of(4, 512, 8);
    for (size_t c = 0; c < COUNT(clusters); c++) {
        struct zn_cluster cluster = load(clusters[c]);
        for (size_t i = 0; i < COUNT(offload); i++) {
            struct zn_plan_setup s = setup_of(model, &cluster, cluster.devices * (cluster.nodes > 1 ? 2 : 1));
            s.engine.offload = offload[i];
            s.engine.accumulate = i % 2 ? 6 : 1; /* more than are run one by one */
            check_memory(&s);
        }
        for (int stage = 0; stage < 3; stage++) {
            struct zn_plan_setup s = setup_of(model, &cluster, cluster.devices);
            s.engine.stage = stage;
            s.engine.reduce_every = stage == 2;
            check_memory(&s);
        }
    }
    zn_model_destroy(model);
}

/* ---- Time ---- */

/* A part is never longer than the whole, and what is exposed is time that the device has not. */
static void the_account_adds_up(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = model_of(6, 2048, 16);
    for (int64_t accumulate = 1; accumulate <= 9; accumulate += 4) {
        struct zn_plan_setup s = setup_of(model, &cluster, 32);
        s.engine.accumulate = accumulate;
        s.engine.offload.optimizer = s.engine.offload.gradients = ZN_TIER_NVME;
        struct zn_sim_step r = simulated(&s);
        double idle = r.seconds - r.resource[ZN_COMPUTE].busy;
        assert_true(r.seconds > 0 && idle >= 0 && r.resource[ZN_COMPUTE].exposed == 0);
        assert_true(r.resource[ZN_COMMUNICATION].busy > 0 && r.resource[ZN_NVME].busy > 0);
        for (int i = 0; i < ZN_N_RESOURCES; i++) {
            assert_true(r.resource[i].busy <= r.seconds * (1 + 1e-9));
            assert_true(r.resource[i].exposed <= r.resource[i].busy * (1 + 1e-9));
            assert_true(r.resource[i].exposed <= idle * (1 + 1e-9));
        }
    }
    zn_model_destroy(model);
}

/* Bytes and seconds of many micro-batches are those of a step in which all of them are run: a trace runs them all. */
static void many_micro_batches_are_like_those_that_are_run(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = model_of(4, 1024, 16);
    struct zn_plan_setup s = setup_of(model, &cluster, 16);
    s.engine.accumulate = 9;
    struct zn_sim_step folded = simulated(&s);
    s.trace = &(struct zn_sim_trace){in_folder("all.json"), "all"};
    struct zn_sim_step all = simulated(&s);
    assert_int_equal(folded.gather, all.gather);
    assert_int_equal(folded.reduce, all.reduce);
    assert_true(fabs(folded.seconds / all.seconds - 1) < 1e-6);
    assert_true(fabs(folded.resource[ZN_COMPUTE].busy / all.resource[ZN_COMPUTE].busy - 1) < 1e-6);
    zn_model_destroy(model);
}

static void the_trace_is_the_step(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = model_of(3, 1024, 16);
    struct zn_plan_setup s = setup_of(model, &cluster, 16);
    const char *path = in_folder("step.json");
    s.engine.offload.optimizer = s.engine.offload.gradients = ZN_TIER_NVME;
    struct zn_sim_step quiet = simulated(&s);
    s.trace = &(struct zn_sim_trace){path, "one of 16"};
    struct zn_sim_step r = simulated(&s);
    assert_true(r.seconds == quiet.seconds); /* who looks on changes nothing */
    assert_true(trace_count(path, r.seconds, "compute", "gemm") > 3 * 4 * 3);
    assert_true(trace_count(path, r.seconds, "compute", "attention_backward") == 3);
    assert_true(trace_count(path, r.seconds, "communication", "gather parameters, unit") > 0);
    assert_true(trace_count(path, r.seconds, "communication", "reduce gradients, unit 1,") == 1);
    assert_true(trace_count(path, r.seconds, "nvme", "read") > 0 && trace_count(path, r.seconds, "nvme", "write") > 0);
    zn_model_destroy(model);
}

/* ---- Processors ---- */

static struct zn_cluster measured_processor(void)
{
    struct zn_cluster c = load("cpu-server");
    c.device.cores = 2;
    c.device.process = 1 << 24;
    c.device.launch = 1e-6;
    for (zn_dtype type = ZN_F32; type <= ZN_F16; type++) {
        c.device.flops[type] = 2e12;
        c.device.sum[type] = 1e10;
    }
    c.devices = 1;
    return c;
}

/* Two ranks on two cores: whoever copies and adds for a rank takes the time from its one core, so nothing is hidden. With
 * cores of its own the communication would be. */
static void communication_takes_the_cores_it_runs_on(void **state)
{
    (void)state;
    struct zn_cluster cluster = measured_processor();
    zn_model *model = model_of(4, 512, 8);
    struct zn_plan_setup s = setup_of(model, &cluster, 2);
    s.n_nodes = 1;
    struct zn_sim_step shared = simulated(&s);
    double communication = shared.resource[ZN_COMMUNICATION].busy;
    cluster.device.cores = 64; /* 32 a rank, which strips of a product fill evenly */
    struct zn_sim_step apart = simulated(&s);
    assert_int_equal(shared.gather, apart.gather);
    assert_true(communication > 0.01 * shared.seconds);
    assert_true(shared.seconds > apart.seconds && shared.seconds - apart.seconds < 1.5 * communication);
    assert_true(shared.resource[ZN_COMPUTE].busy > 0.999 * shared.seconds);
    zn_model_destroy(model);
}

/* One rank rounds its gradients to 16 bits itself; in fp32 there is nothing to do. */
static void a_rank_alone_rounds_its_gradients(void **state)
{
    (void)state;
    struct zn_cluster cluster = measured_processor();
    zn_model *model = model_of(2, 512, 8);
    struct zn_plan_setup s = setup_of(model, &cluster, 1);
    assert_true(simulated(&s).resource[ZN_COMMUNICATION].busy > 4.0 * (double)zn_model_n_elements(model) / 1e10);
    s.engine.type = ZN_F32;
    assert_true(simulated(&s).resource[ZN_COMMUNICATION].busy < 0.5 * 4.0 * (double)zn_model_n_elements(model) / 1e10);
    zn_model_destroy(model);
}

/* All that is in memory and what others have there that is read in place; the NVMe tier is no memory. */
static void resident_memory_counts_what_is_touched(void **state)
{
    (void)state;
    struct zn_cluster cluster = measured_processor(), gpus = load("dgx2-v100");
    zn_model *model = model_of(2, 512, 8);
    struct zn_plan_setup s = setup_of(model, &cluster, 1);
    s.engine.offload.optimizer = s.engine.offload.gradients = ZN_TIER_NVME;
    struct zn_prediction one = predict(&s);
    assert_int_equal(one.resident, one.tier[ZN_TIER_DEVICE] + one.tier[ZN_TIER_HOST] + cluster.device.process);
    s.n_ranks = 2;
    struct zn_prediction two = predict(&s);
    size_t own = two.tier[ZN_TIER_DEVICE] + two.tier[ZN_TIER_HOST] + cluster.device.process;
    assert_true(two.resident >= own + two.kind[ZN_KIND_PARAMETERS]); /* the other's partitions, and slots */
    assert_true(two.resident < 2 * own);
    s.cluster = &gpus;
    struct zn_prediction none = predict(&s);
    assert_int_equal(none.resident, 0);
    zn_prediction_fini(&one);
    zn_prediction_fini(&two);
    zn_prediction_fini(&none);
    zn_model_destroy(model);
}

/* ---- The mechanisms of ZeRO-Infinity ---- */

/* Parameters are gathered once for a micro-batch of any size: intensity grows with it (section 4.1). */
static void efficiency_rises_with_the_micro_batch(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = model_of(4, 4096, 32);
    struct zn_plan_setup s = setup_of(model, &cluster, 64);
    s.engine.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_DEVICE};
    double before = 0;
    for (s.engine.micro_batch = 1; s.engine.micro_batch <= 16; s.engine.micro_batch *= 2) {
        double now = efficiency(&s);
        assert_true(now > 1.05 * before && now < 1);
        before = now;
    }
    zn_model_destroy(model);
}

static void efficiency_rises_with_prefetch(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = model_of(8, 2048, 16);
    const zn_tier tiers[] = {ZN_TIER_DEVICE, ZN_TIER_NVME};
    for (int i = 0; i < 2; i++) {
        struct zn_plan_setup s = setup_of(model, &cluster, 64);
        s.engine.micro_batch = 4;
        s.engine.reuse_bytes = 0;
        s.engine.offload.parameters = s.engine.offload.optimizer = s.engine.offload.gradients = tiers[i];
        s.engine.prefetch_bytes = 0;
        struct zn_sim_step without = simulated(&s);
        double low = efficiency(&s);
        s.engine.prefetch_bytes = (size_t)512 << 20;
        struct zn_sim_step with = simulated(&s);
        assert_true(efficiency(&s) > 1.02 * low);
        assert_int_equal(with.gather, without.gather); /* the same bytes, earlier */
        int link = i ? ZN_NVME : ZN_COMMUNICATION; /* on the drive most of what is seen is the update */
        assert_true(with.resource[link].exposed < (i ? 0.98 : 0.7) * without.resource[link].exposed);
    }
    zn_model_destroy(model);
}

/* Section 6.1: with each parameter on one rank that broadcasts it, all bytes come over one link; partitioned, every rank
 * brings 1/N over its own. The first is a node whose links together are as fast as one of them: each of N ranks then
 * brings its 1/N at 1/N of the rate, which takes as long as one rank that brings it all. */
static void partitioned_reads_use_every_link(void **state)
{
    (void)state;
    struct zn_cluster partitioned = load("dgx2-v100"), broadcast = partitioned;
    zn_model *model = model_of(4, 4096, 32);
    partitioned.host_nvme.node = 16 * partitioned.host_nvme.alone;
    broadcast.host_nvme.node = broadcast.host_nvme.alone;
    broadcast.device_host.node = broadcast.device_host.alone;
    double before = 0;
    for (int n_ranks = 2; n_ranks <= 16; n_ranks *= 2) {
        struct zn_plan_setup s = setup_of(model, &partitioned, n_ranks);
        s.engine.offload.parameters = s.engine.offload.optimizer = s.engine.offload.gradients = ZN_TIER_NVME;
        struct zn_sim_step all_links = simulated(&s);
        double own = efficiency(&s);
        s.cluster = &broadcast;
        struct zn_sim_step one_link = simulated(&s);
        double other = efficiency(&s), alone = (double)one_link.nvme_read * n_ranks / broadcast.host_nvme.alone;
        assert_int_equal(all_links.nvme_read, one_link.nvme_read);
        assert_true(one_link.seconds >= 0.99 * alone);                 /* all of them over one link */
        assert_true(own > other && own / other > 1.05 * before); /* the more ranks, the more it gives */
        before = own / other;
    }
    zn_model_destroy(model);
}

/* ---- ZeRO-Offload's delayed update ---- */

static double offloaded_step(struct zn_plan_setup s, int64_t delay_after)
{
    s.engine.delay_after = delay_after;
    return simulated(&s).seconds;
}

/* 10B parameters on one V100, all but parameters and activations on the host: an update that hides behind the next step gains the
 * way back, which is longer than forward where batches are small, and never costs. */
static void a_delayed_update_gains_the_way_back(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, kept;
        double gain;
    } cases[] = {{1, 30, 1.5}, {2, 13, 1.2}, {4, 5, 1}, {8, 1, 0.99}, {32, 0, 0.99}};
    struct zn_cluster v100 = load("dgx2-v100");
    zn_model *model = model_of(37, 4736, 37);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zn_plan_setup s = setup_of(model, &v100, 1);
        s.engine.stage = 0;
        s.engine.micro_batch = cases[i].batch;
        s.engine.keep = cases[i].kept;
        s.engine.keep_logits = true;
        s.engine.offload = (struct zn_offload){.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST};
        double at_once = offloaded_step(s, -1), delayed = offloaded_step(s, 0);
        print_message("batch %d: %.3f s, delayed %.3f s, %.3f times as fast\n", (int)cases[i].batch, at_once, delayed, at_once / delayed);
        assert_true(at_once >= cases[i].gain * delayed);
    }
    zn_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ledger_is_the_plan_to_the_byte),
        cmocka_unit_test(the_account_adds_up),
        cmocka_unit_test(many_micro_batches_are_like_those_that_are_run),
        cmocka_unit_test(the_trace_is_the_step),
        cmocka_unit_test(communication_takes_the_cores_it_runs_on),
        cmocka_unit_test(a_rank_alone_rounds_its_gradients),
        cmocka_unit_test(resident_memory_counts_what_is_touched),
        cmocka_unit_test(efficiency_rises_with_the_micro_batch),
        cmocka_unit_test(efficiency_rises_with_prefetch),
        cmocka_unit_test(partitioned_reads_use_every_link),
        cmocka_unit_test(a_delayed_update_gains_the_way_back),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
