/* The prediction is that of the engine: bytes and traffic are what real ranks hold and send; limits and
 * shared links hold; searches find what they promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/registry.h"
#include "plan/dry_run.h"
#include "plan/planner.h"
#include "sanitized.h"
#include "zero/recorder.h"

enum { TIME = 16 };

static zn_model *make_model(bool tied)
{
    char text[512];
    zn_json *config;
    zn_model *model;
    snprintf(text, sizeof text,
             "{\"model_type\":\"gpt2\",\"vocab_size\":301,\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"n_positions\":32,"
             "\"tie_word_embeddings\":%s}",
             tied ? "true" : "false");
    assert_int_equal(zn_json_load_buffer(text, strlen(text), "config", &config), ZN_OK);
    assert_int_equal(zn_model_create(config, TIME, &model), ZN_OK);
    zn_json_destroy(config);
    return model;
}

static struct zn_plan_setup setup_of(const zn_model *model, const struct zn_cluster *cluster, int n_ranks, int n_nodes)
{
    return (struct zn_plan_setup){
        .model = model,
        .cluster = cluster,
        .n_ranks = n_ranks,
        .n_nodes = n_nodes,
        .engine = {.trains = true, .type = ZN_F32, .micro_batch = 2, .seq_len = TIME, .accumulate = 1,
                   .recompute = true, .delay_after = -1,
                   .optimizer = &zn_optimizer_adamw, .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                   .clip = 1}};
}

static struct zn_cluster load(const char *name)
{
    struct zn_cluster c;
    assert_int_equal(zn_cluster_load(name, &c), ZN_OK);
    return c;
}

static struct zn_prediction predict(const struct zn_plan_setup *s)
{
    struct zn_prediction p;
    if (zn_predict(s, &p) != ZN_OK)
        fail_msg("%s", zn_error_message());
    return p;
}

/* ---- Against the engine ---- */

enum { MAX_RANKS = 4 };

/* One rank of a real run of the engine, as a thread. */
struct rank {
    const struct zn_plan_setup *setup;
    const zn_engine_plan *plan;
    zn_comm *comm;
    zn_clock *clock;
    zn_status status;
    zn_storage *storage;
    uint64_t gathered, reduced, nvme_read, nvme_write;
    size_t ledger[ZN_N_TIERS];
};

static zn_status run_steps(struct rank *r, zn_engine *engine)
{
    static const int32_t tokens[64];
    struct zn_micro_batch batches[6];
    for (int i = 0; i < 6; i++)
        batches[i] = (struct zn_micro_batch){.ids = tokens, .targets = tokens};
    const struct zn_step step = {.batches = batches, .scale = 1, .lr = 1e-3, .loss_scale = 1};
    struct zn_verdict verdict;
    ZN_TRY(zn_engine_publish(engine));
    for (int i = 0; i < 3; i++) { /* the last counts: it is like all that would follow */
        r->gathered = zn_comm_sent(r->comm, ZN_COMM_GATHER_PARAM) + zn_comm_sent(r->comm, ZN_COMM_GATHER_GRAD);
        r->reduced = zn_comm_sent(r->comm, ZN_COMM_REDUCE_GRAD);
        r->nvme_read = zn_engine_moved(engine).read;
        r->nvme_write = zn_engine_moved(engine).written;
        ZN_TRY(zn_zero_step(engine, &step, &verdict));
    }
    r->nvme_read = zn_engine_moved(engine).read - r->nvme_read;
    r->nvme_write = zn_engine_moved(engine).written - r->nvme_write;
    r->gathered = zn_comm_sent(r->comm, ZN_COMM_GATHER_PARAM) + zn_comm_sent(r->comm, ZN_COMM_GATHER_GRAD) - r->gathered;
    r->reduced = zn_comm_sent(r->comm, ZN_COMM_REDUCE_GRAD) - r->reduced;
    return ZN_OK;
}

static zn_status open_storage(struct rank *r)
{
    static const char *const paths[] = {"/tmp"};
    if (r->plan->swap_bytes == 0)
        return ZN_OK;
    return zn_storage_create_files(&(struct zn_storage_options){.paths = paths,
                                                                .n_paths = 1,
                                                                .n_bytes = r->plan->swap_bytes,
                                                                .allow_buffered = true,
                                                                .engine = ZN_STORAGE_THREADS,
                                                                .block_bytes = 1 << 20,
                                                                .depth = 2},
                                   &r->storage);
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    zn_ledger ledger;
    zn_device *device = NULL, *host = NULL;
    zn_engine *engine = NULL;
    zn_ledger_init(&ledger);
    r->status = zn_device_create_cpu(&ledger, r->clock, 1, NULL, &device);
    if (r->status == ZN_OK)
        r->status = open_storage(r);
    if (r->status == ZN_OK && zn_placement_wants_host(&r->setup->engine))
        r->status = zn_device_create_cpu(&ledger, r->clock, 1, NULL, &host);
    const struct zn_world world = {.device = device, .host = host, .comm = r->comm, .storage = r->storage};
    if (r->status == ZN_OK)
        r->status = zn_zero_create(&world, r->setup->model->module, &r->setup->engine, r->plan, &engine);
    const zn_module *module = r->setup->model->module;
    for (int i = 0; i < module->n_params && r->status == ZN_OK; i++)
        r->status = zn_engine_init_param(engine, &module->params[i], 1);
    if (r->status == ZN_OK)
        r->status = run_steps(r, engine);
    memcpy(r->ledger, ledger.tier_peak, sizeof r->ledger);
    zn_zero_destroy(engine);
    zn_storage_destroy(r->storage);
    zn_device_destroy(host);
    zn_device_destroy(device);
    zn_comm_destroy(r->comm);
    return NULL;
}

/* The engine itself on real ranks: what each sends in a step, and what it held. */
static void run_engine(const struct zn_plan_setup *s, struct rank ranks[MAX_RANKS])
{
    zn_engine_plan plan;
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    zn_clock_init_real(&clock);
    assert_int_equal(zn_dry_run(s->model->module, &s->engine, s->n_ranks, &plan), ZN_OK);
    assert_int_equal(zn_comm_create_threads(&clock, s->n_ranks, comms), ZN_OK);
    for (int r = 0; r < s->n_ranks; r++) {
        ranks[r] = (struct rank){.setup = s, .plan = &plan, .comm = comms[r], .clock = &clock};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < s->n_ranks; r++)
        pthread_join(threads[r], NULL);
    zn_engine_plan_fini(&plan);
}

static void same_as_engine(const struct zn_plan_setup *s)
{
    struct rank ranks[MAX_RANKS];
    struct zn_prediction p = predict(s);
    run_engine(s, ranks);
    for (int r = 0; r < s->n_ranks; r++) {
        assert_int_equal(ranks[r].status, ZN_OK);
        const struct {
            const char *name;
            uint64_t predicted, real;
        } figures[] = {{"gather", p.gather, ranks[r].gathered},
                       {"reduce", p.reduce, ranks[r].reduced},
                       {"nvme read", p.nvme_read, ranks[r].nvme_read},
                       {"nvme write", p.nvme_write, ranks[r].nvme_write},
                       {"device", p.tier[ZN_TIER_DEVICE], ranks[r].ledger[ZN_TIER_DEVICE]},
                       {"host", p.tier[ZN_TIER_HOST], ranks[r].ledger[ZN_TIER_HOST]},
                       {"nvme", p.tier[ZN_TIER_NVME], ranks[r].ledger[ZN_TIER_NVME]}};
        for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
            if (figures[i].predicted != figures[i].real)
                fail_msg("%d ranks, stage %d, reduce every %d, accumulate %d: %s %llu, in the engine %llu", s->n_ranks,
                         s->engine.stage, s->engine.reduce_every, (int)s->engine.accumulate, figures[i].name,
                         (unsigned long long)figures[i].predicted, (unsigned long long)figures[i].real);
    }
    zn_prediction_fini(&p);
}

/* Tied and untied, 32 and 16 bits, one and three micro-batches, with and without reuse and persistence. */
static void memory_and_traffic_are_those_of_the_engine(void **state)
{
    (void)state;
    static const struct {
        bool tied, recompute;
        zn_dtype type;
        int64_t accumulate;
        size_t budget, persist;
    } variants[] = {{true, true, ZN_F32, 1, 0, 0},
                    {false, true, ZN_BF16, 1, 0, 0},
                    {true, false, ZN_BF16, 3, 1 << 18, 1 << 17},
                    {false, false, ZN_F32, 3, 64 << 20, 64 << 10},
                    {true, true, ZN_BF16, 2, 1 << 20, 1 << 20}};
    struct zn_cluster cluster = load("cpu-server");
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        zn_model *model = make_model(variants[v].tied);
        for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
            if (IS_SANITIZED && n_ranks != 1 + (int)v % MAX_RANKS)
                continue;
            for (int stage = 0; stage <= 3; stage++) {
                for (int every = 0; every <= 1; every++) { /* stages 2 and 3 always do */
                    struct zn_plan_setup s = setup_of(model, &cluster, n_ranks, 1);
                    s.engine.stage = stage;
                    s.engine.reduce_every = every;
                    s.engine.type = variants[v].type;
                    s.engine.recompute = variants[v].recompute;
                    s.engine.accumulate = variants[v].accumulate;
                    s.engine.prefetch_bytes = s.engine.reuse_bytes = variants[v].budget;
                    s.engine.persist_bytes = variants[v].persist;
                    same_as_engine(&s);
                }
            }
        }
        zn_model_destroy(model);
    }
}

/* Each kind of state in each tier, with tiles, a host cache, updates in backward, late ones, and the vertical
 * schedule; more micro-batches than are simulated one by one. */
static void offload_is_that_of_the_engine(void **state)
{
    (void)state;
    static const struct {
        struct zn_offload offload;
        size_t tile, cache;
        bool vertical, in_backward;
        int64_t delay, accumulate;
        zn_dtype type;
    } variants[] = {
        {{ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_HOST, ZN_TIER_HOST}, 0, 0, false, false, -1, 1, ZN_BF16},
        {{ZN_TIER_DEVICE, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_DEVICE}, 0, 0, false, false, -1, 6, ZN_F32},
        {{ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME}, 1 << 16, 0, false, false, -1, 2, ZN_BF16},
        {{ZN_TIER_HOST, ZN_TIER_DEVICE, ZN_TIER_NVME, ZN_TIER_NVME}, 0, 1 << 20, true, false, -1, 3, ZN_BF16},
        {{ZN_TIER_NVME, ZN_TIER_DEVICE, ZN_TIER_NVME, ZN_TIER_DEVICE}, 0, 0, false, true, -1, 2, ZN_F32},
        {{ZN_TIER_DEVICE, ZN_TIER_HOST, ZN_TIER_NVME, ZN_TIER_DEVICE}, 0, 0, false, false, 0, 1, ZN_BF16},
    };
    struct zn_cluster cluster = load("cpu-server");
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        zn_model *model = make_model(v % 2);
        for (int n_ranks = IS_SANITIZED ? 2 : 1; n_ranks <= (IS_SANITIZED ? 2 : 3); n_ranks++) {
            struct zn_plan_setup s = setup_of(model, &cluster, n_ranks, 1);
            s.engine.stage = 3;
            s.engine.reduce_every = !variants[v].vertical;
            s.engine.offload = variants[v].offload;
            s.engine.tile_bytes = variants[v].tile;
            s.engine.host_cache = variants[v].cache;
            s.engine.vertical = variants[v].vertical;
            s.engine.in_backward = variants[v].in_backward;
            s.engine.clip = variants[v].in_backward ? 0 : 1;
            s.engine.delay_after = variants[v].delay;
            s.engine.accumulate = variants[v].accumulate;
            s.engine.type = variants[v].type;
            s.engine.prefetch_bytes = s.engine.reuse_bytes = 1 << 17;
            same_as_engine(&s);
        }
        zn_model_destroy(model);
    }
}

/* ZeRO-Offload's optimum, on a device of its own: 2M bytes of gradients out and 2M of parameters back. */
static void offload_to_the_host_moves_four_bytes_a_parameter(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("desktop-24gb");
    zn_model *model = make_model(false);
    struct zn_plan_setup s = setup_of(model, &cluster, 1, 1);
    zn_units units;
    s.engine.type = ZN_BF16;
    s.engine.offload.optimizer = s.engine.offload.gradients = ZN_TIER_HOST;
    struct zn_prediction p = predict(&s);
    struct zn_params params = zn_module_params(model->module);
    assert_int_equal(zn_units_init(&units, &params, &(struct zn_units_options){.type = ZN_BF16, .n_ranks = 1}), ZN_OK);
    assert_int_equal(p.host_bytes, 4 * units.n_elements);
    assert_int_equal(p.kind[ZN_KIND_PARAMETERS], 2 * units.n_elements);
    assert_true(p.tier[ZN_TIER_HOST] > (size_t)units.n_elements * 16); /* gradients, masters, moments */
    zn_units_fini(&units);
    zn_prediction_fini(&p);
    zn_model_destroy(model);
}

static void states_are_those_of_the_formulas(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx-a100");
    zn_model *model = make_model(true);
    for (int stage = 0; stage <= 3; stage++) {
        struct zn_plan_setup s = setup_of(model, &cluster, 4, 1);
        zn_units units;
        s.engine.type = ZN_BF16;
        s.engine.stage = stage;
        s.engine.reduce_every = stage >= 2;
        struct zn_prediction p = predict(&s);
        struct zn_params params = zn_module_params(model->module);
        assert_int_equal(zn_units_init(&units, &params, &(struct zn_units_options){.type = ZN_BF16, .n_ranks = 4}), ZN_OK);
        size_t n = (size_t)units.n_elements;
        assert_true(p.kind[ZN_KIND_PARAMETERS] == 2 * n / (stage >= 3 ? 4 : 1));
        assert_true(p.kind[ZN_KIND_GRADIENTS] == 4 * n / (stage >= 2 ? 4 : 1));
        assert_true(p.kind[ZN_KIND_OPTIMIZER] == 12 * n / (stage >= 1 ? 4 : 1));
        size_t sum = 0;
        for (int k = 0; k < ZN_N_KINDS; k++)
            sum += p.kind[k];
        assert_true(p.tier[ZN_TIER_DEVICE] == sum && p.tier[ZN_TIER_HOST] == 0 && p.tier[ZN_TIER_NVME] == 0);
        zn_units_fini(&units);
        zn_prediction_fini(&p);
    }
    zn_model_destroy(model);
}

/* ---- Limits and time ---- */

static void fits_up_to_the_last_byte(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx-a100");
    zn_model *model = make_model(true);
    struct zn_plan_setup s = setup_of(model, &cluster, 1, 1);
    struct zn_prediction p = predict(&s);
    size_t need = p.tier[ZN_TIER_DEVICE] + cluster.device.reserved;
    assert_true(p.fits);
    zn_prediction_fini(&p);
    for (int less = 0; less <= 1; less++) {
        cluster.device.memory = need - (size_t)less;
        p = predict(&s);
        assert_int_equal(p.fits, !less);
        assert_int_equal(p.bound == ZN_BOUND_MEMORY, less);
        zn_prediction_fini(&p);
        s.memory_limit = need - (size_t)less;
        cluster.device.memory = (size_t)1 << 40;
        p = predict(&s);
        assert_int_equal(p.fits, !less);
        zn_prediction_fini(&p);
        s.memory_limit = 0;
    }
    zn_model_destroy(model);
}

/* With just what it needs in every tier, and with a byte less in one of them. */
static void fits_by_tier(struct zn_plan_setup s)
{
    struct zn_cluster cluster = *s.cluster;
    struct zn_prediction p = predict(&s);
    size_t n_ranks = (size_t)s.n_ranks;
    for (int short_of = -1; short_of < ZN_N_TIERS; short_of++) {
        bool fits;
        if (short_of >= 0 && p.tier[short_of] == 0)
            continue;
        cluster.device.memory = p.tier[ZN_TIER_DEVICE] + cluster.device.reserved - (short_of == ZN_TIER_DEVICE);
        cluster.host_memory = (p.tier[ZN_TIER_HOST] - (short_of == ZN_TIER_HOST)) * n_ranks;
        cluster.nvme_memory = (p.tier[ZN_TIER_NVME] - (short_of == ZN_TIER_NVME)) * n_ranks;
        s.cluster = &cluster;
        assert_int_equal(zn_plan_fits(&s, &fits), ZN_OK);
        assert_int_equal(fits, short_of < 0);
    }
    zn_prediction_fini(&p);
}

/* What is known without a dry run is known of what does not fit alone. */
static void searches_know_what_fits(void **state)
{
    (void)state;
    static const zn_tier tiers[][2] = {{ZN_TIER_DEVICE, ZN_TIER_DEVICE}, {ZN_TIER_HOST, ZN_TIER_DEVICE},
                                       {ZN_TIER_NVME, ZN_TIER_DEVICE},   {ZN_TIER_NVME, ZN_TIER_NVME}};
    struct zn_cluster cluster = load("dgx-a100");
    zn_model *model = make_model(true);
    for (int i = 0; i < 4 * 4 * 2 * 2; i++) {
        struct zn_plan_setup s = setup_of(model, &cluster, 2, 1);
        const zn_tier *tier = tiers[i % 4];
        s.engine.stage = i / 4 % 4;
        s.engine.type = i / 16 % 2 ? ZN_BF16 : ZN_F32;
        s.engine.optimizer = i / 32 ? &zn_optimizer_sgd : &zn_optimizer_adamw;
        s.engine.reduce_every = s.engine.stage >= 2;
        s.engine.offload = (struct zn_offload){.optimizer = tier[0], .gradients = tier[0], .parameters = tier[1]};
        if ((tier[0] == ZN_TIER_DEVICE || s.engine.stage >= 2) && (tier[1] == ZN_TIER_DEVICE || s.engine.stage == 3))
            fits_by_tier(s);
    }
    zn_model_destroy(model);
}

/* Two ranks on each socket have half of its memory and speed; ranks of a device that is no host may not share it. */
static void ranks_of_a_processor_share_it(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("cpu-server"), gpus = load("dgx-a100");
    zn_model *model = make_model(true);
    struct zn_plan_setup s = setup_of(model, &cluster, 2, 1);
    struct zn_prediction two = predict(&s);
    s.n_ranks = 4;
    struct zn_prediction four = predict(&s);
    assert_true(four.limit[ZN_TIER_DEVICE] == two.limit[ZN_TIER_DEVICE] / 2);
    assert_true(four.simulated.flops == two.simulated.flops);
    assert_true(four.compute / two.compute > 1.95 && four.compute / two.compute <= 2); /* of the norm each has less */
    zn_prediction_fini(&two);
    zn_prediction_fini(&four);
    s.cluster = &gpus;
    s.n_ranks = 9;
    assert_int_equal(zn_predict(&s, &two), ZN_ERR_USAGE);
    s.n_ranks = 16;
    s.n_nodes = 200;
    assert_int_equal(zn_predict(&s, &two), ZN_ERR_USAGE);
    zn_model_destroy(model);
}

/* Flops by hand; seconds are those of the simulated step, in which devices compute at their rate and links move at theirs. */
static void seconds_follow_the_rates(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = make_model(false);
    struct zn_plan_setup s = setup_of(model, &cluster, 32, 2);
    s.engine.type = ZN_F16;
    s.engine.stage = 2;
    s.engine.reduce_every = true;
    struct zn_prediction p = predict(&s);
    double blocks = 3 * 12 * 64 * 64, head = 301 * 64, tokens = 2 * TIME;
    double attention = 2 * tokens * (TIME + 1) * 64 * 3;
    assert_true(fabs(p.simulated.flops / (8 * tokens * blocks + 4.5 * attention + 8 * tokens * head) - 1) < 1e-9);
    assert_true(p.compute > p.simulated.flops / 70e12 && p.step >= p.compute && p.step >= p.communication);
    double sent = (double)(p.gather + p.reduce), between = sent * 16 / 31 / 100e9, within = sent / 150e9;
    assert_true(p.communication >= 0.999 * (between > within ? between : within));
    assert_true(p.intra_node + p.inter_node == p.gather + p.reduce);
    assert_true(fabs((double)p.inter_node - sent * 16 / 31) < 1);
    assert_true(p.step == p.simulated.seconds);
    assert_true(fabs(p.tokens_per_second * p.step / (32 * tokens) - 1) < 1e-9);
    assert_true(fabs(p.efficiency - p.simulated.flops / p.step / 70e12) < 1e-12);
    assert_true(p.bound == (p.communication > p.compute ? ZN_BOUND_COMMUNICATION : ZN_BOUND_COMPUTE));
    zn_prediction_fini(&p);
    zn_model_destroy(model);
}

/* A larger batch hides more: efficiency rises. */
static void efficiency_rises_with_the_batch(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    struct zn_shape shape = {.layers = 8, .hidden = 1024, .heads = 16, .vocabulary = 50257};
    zn_model *model;
    assert_int_equal(zn_shape_model(&shape, 1024, &model), ZN_OK);
    double before = 0;
    for (int64_t batch = 1; batch <= 8; batch *= 2) {
        struct zn_plan_setup s = setup_of(model, &cluster, 64, 4);
        s.engine.type = ZN_F16;
        s.engine.stage = 3;
        s.engine.reduce_every = true;
        s.engine.seq_len = 1024;
        s.engine.micro_batch = batch;
        struct zn_prediction p = predict(&s);
        assert_true(p.efficiency > before && p.efficiency < 1);
        before = p.efficiency;
        zn_prediction_fini(&p);
    }
    zn_model_destroy(model);
}

static void refuses_what_is_beyond_all_bytes(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = make_model(true);
    struct zn_prediction p;
    struct zn_plan_setup s = setup_of(model, &cluster, 1, 1);
    s.engine.micro_batch = (int64_t)1 << 60;
    assert_int_equal(zn_predict(&s, &p), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "2^63"));
    s = setup_of(model, &cluster, 1, 1);
    s.engine.type = ZN_BF16;
    assert_int_equal(zn_predict(&s, &p), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "bf16"));
    s = setup_of(model, &cluster, 1, 1);
    s.engine.seq_len = TIME + 1;
    assert_int_equal(zn_predict(&s, &p), ZN_ERR_USAGE);
    zn_model_destroy(model);
}

/* ---- Searches ---- */

static struct zn_choices all_free(void)
{
    struct zn_choices c = zn_choices_open();
    c.any_micro_batch = true;
    return c;
}

/* With room for stage 0 it is taken; with less, the next one that fits, as in training. */
static void the_first_that_fits_is_chosen(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx-a100");
    zn_model *model = make_model(false);
    size_t need[4];
    for (int stage = 0; stage <= 3; stage++) {
        struct zn_plan_setup s = setup_of(model, &cluster, 8, 1);
        struct zn_choices c = zn_choices_open();
        struct zn_prediction p;
        c.stage = stage;
        assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
        assert_int_equal(s.engine.stage, stage);
        assert_false(s.engine.recompute);
        need[stage] = p.tier[ZN_TIER_DEVICE] + cluster.device.reserved;
        zn_prediction_fini(&p);
    }
    assert_true(need[0] > need[1] && need[1] > need[2]);
    for (int stage = 0; stage <= 2; stage++) {
        struct zn_plan_setup s = setup_of(model, &cluster, 8, 1);
        struct zn_choices c = zn_choices_open();
        struct zn_prediction p;
        s.memory_limit = need[stage];
        assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
        assert_true(p.fits);
        assert_int_equal(s.engine.stage, stage);
        assert_int_equal(s.engine.reduce_every, stage >= 2);
        zn_prediction_fini(&p);
    }
    struct zn_plan_setup s = setup_of(model, &cluster, 8, 1);
    struct zn_choices c = zn_choices_open();
    struct zn_prediction p;
    s.memory_limit = cluster.device.reserved + 4096;
    assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
    assert_false(p.fits);
    assert_true(s.engine.recompute && !s.engine.keep_logits && s.engine.offload.optimizer == ZN_TIER_NVME);
    zn_prediction_fini(&p);
    zn_model_destroy(model);
}

/* An open micro-batch, and activations where the optimizer left room for them, fill the memory of the first that fits. */
static void what_memory_is_left_is_used(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("desktop-24gb");
    const struct zn_shape gpt2_xl = {.layers = 48, .hidden = 1600, .heads = 25, .vocabulary = 50257};
    zn_model *model;
    struct zn_prediction p;
    assert_int_equal(zn_shape_model(&gpt2_xl, 512, &model), ZN_OK);
    struct zn_plan_setup s = setup_of(model, &cluster, 1, 1);
    struct zn_choices c = zn_choices_open();
    s.engine.type = ZN_BF16;
    s.engine.seq_len = 512;
    s.engine.micro_batch = 1;
    assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
    assert_true(p.fits && s.engine.offload.optimizer == ZN_TIER_HOST && !s.engine.recompute && s.engine.micro_batch == 1);
    assert_int_equal(zn_predict_time(&s, &p), ZN_OK);
    double given = p.tokens_per_second;
    zn_prediction_fini(&p);
    c = all_free();
    assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
    assert_true(p.fits && s.engine.micro_batch > 1 && p.tokens_per_second > given);
    zn_prediction_fini(&p);
    zn_model_destroy(model);
}

/* Nothing that fits is more than a hundredth faster than what is found. */
static void the_fastest_that_fits_is_found(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("dgx2-v100");
    zn_model *model = make_model(false);
    struct zn_plan_setup s = setup_of(model, &cluster, 32, 2), trial;
    struct zn_prediction best, p;
    s.engine.type = ZN_F16;
    s.memory_limit = cluster.device.reserved + ((size_t)48 << 20);
    trial = s;
    struct zn_choices c = all_free();
    c.compares_all = true;
    assert_int_equal(zn_plan_choose(&s, &c, &best), ZN_OK);
    assert_int_equal(zn_predict_time(&s, &best), ZN_OK);
    assert_true(best.fits);
    int n_fit = 0;
    for (int stage = 0; stage <= 3; stage++) {
        for (int recompute = 0; recompute <= 1; recompute++) {
            for (int64_t batch = 1; batch <= 64; batch *= 2) {
                trial.engine.stage = stage;
                trial.engine.reduce_every = stage >= 2;
                trial.engine.recompute = recompute;
                trial.engine.keep_logits = true;
                trial.engine.micro_batch = batch;
                p = predict(&trial);
                n_fit += p.fits;
                if (p.fits && p.tokens_per_second > 1.03 * best.tokens_per_second)
                    fail_msg("stage %d, recompute %d, batch %d is faster", stage, recompute, (int)batch);
                zn_prediction_fini(&p);
            }
        }
    }
    assert_true(n_fit > 0 && n_fit < 4 * 2 * 7);
    zn_prediction_fini(&best);
    zn_model_destroy(model);
}

/* One layer more would not fit. */
static void the_largest_that_fits_is_found(void **state)
{
    (void)state;
    struct zn_cluster cluster = load("desktop-24gb");
    const struct zn_family family = {.hidden = 512, .heads = 8, .vocabulary = 1000};
    struct zn_plan_setup s = setup_of(NULL, &cluster, 1, 1);
    struct zn_choices c = zn_choices_open();
    c.optimizer = c.parameters = c.gradients = c.activations = ZN_TIER_DEVICE;
    c.tile_bytes = 0;
    struct zn_shape shape;
    struct zn_prediction p;
    zn_model *model;
    s.memory_limit = cluster.device.reserved + ((size_t)1 << 30);
    assert_int_equal(zn_plan_largest(&s, &c, &family, &shape, &model, &p), ZN_OK);
    assert_true(p.fits && shape.layers > 1 && shape.layers == model->n_layers);
    zn_prediction_fini(&p);
    zn_model_destroy(model);
    shape.layers++;
    assert_int_equal(zn_shape_model(&shape, TIME, &model), ZN_OK);
    s.model = model;
    assert_int_equal(zn_plan_choose(&s, &c, &p), ZN_OK);
    assert_false(p.fits);
    zn_prediction_fini(&p);
    zn_model_destroy(model);
    s.memory_limit = cluster.device.reserved + 4096;
    assert_int_equal(zn_plan_largest(&s, &c, &family, &shape, &model, &p), ZN_ERR_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_traffic_are_those_of_the_engine),
        cmocka_unit_test(offload_is_that_of_the_engine),
        cmocka_unit_test(offload_to_the_host_moves_four_bytes_a_parameter),
        cmocka_unit_test(states_are_those_of_the_formulas),
        cmocka_unit_test(fits_up_to_the_last_byte),
        cmocka_unit_test(searches_know_what_fits),
        cmocka_unit_test(ranks_of_a_processor_share_it),
        cmocka_unit_test(seconds_follow_the_rates),
        cmocka_unit_test(efficiency_rises_with_the_batch),
        cmocka_unit_test(refuses_what_is_beyond_all_bytes),
        cmocka_unit_test(the_first_that_fits_is_chosen),
        cmocka_unit_test(what_memory_is_left_is_used),
        cmocka_unit_test(the_fastest_that_fits_is_found),
        cmocka_unit_test(the_largest_that_fits_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
