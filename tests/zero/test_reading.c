/* Engines that only read: the loss of a batch and the logits of a sequence that is extended have the same bits wherever the
 * parameters are, in whatever tiles they come and over however many ranks they are partitioned. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "plan/dry_run.h"
#include "sanitized.h"

enum { TIME = 24, PROMPT = 13, PASS = 10, VOCABULARY = 2311, MOST_RANKS = 3 };

/* Rows enough for tiles: of the table and head, of one matrix stored (in,out) with a bias, and of some stored (out,in). */
static const char *const models[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":2311,\"n_embd\":264,\"n_layer\":2,\"n_head\":4,\"n_positions\":32}",
    "{\"model_type\":\"qwen2\",\"vocab_size\":2311,\"hidden_size\":64,\"intermediate_size\":1100,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":32,\"tie_word_embeddings\":false}"};

static char folder[64];

struct result {
    double loss;
    float logits[2][VOCABULARY]; /* after the prompt, and after the last token */
};

/* One rank of a run. */
struct job {
    const zn_module *module;
    struct zn_engine_options options;
    zn_comm *comm;
    struct result result;
    zn_status status;
    char message[512];
};

static zn_status with_engine(struct job *j, const zn_engine_plan *plan, const struct zn_world *world)
{
    zn_engine *e;
    int32_t ids[TIME];
    for (int i = 0; i < TIME; i++)
        ids[i] = (int32_t)(i * 7919 % VOCABULARY);
    ZN_TRY(zn_zero_create(world, j->module, &j->options, plan, &e));
    zn_status status = ZN_OK;
    for (int i = 0; i < j->module->n_params && status == ZN_OK; i++)
        status = zn_engine_init_param(e, &j->module->params[i], 5);
    if (status == ZN_OK)
        status = zn_engine_publish(e);
    if (status == ZN_OK && !j->options.extends)
        status = zn_zero_evaluate(e, &(struct zn_micro_batch){.ids = ids, .targets = ids}, &j->result.loss);
    if (status == ZN_OK && j->options.extends)
        status = zn_engine_extend(e, ids, PROMPT, j->result.logits[0]);
    for (int i = PROMPT; i < TIME && status == ZN_OK && j->options.extends; i++)
        status = zn_engine_extend(e, ids + i, 1, j->result.logits[1]);
    zn_zero_destroy(e);
    return status;
}

static zn_status run_job(struct job *j)
{
    zn_engine_plan plan;
    zn_ledger ledger;
    zn_clock clock;
    struct zn_world world = {.comm = j->comm};
    const char *paths[] = {folder};
    zn_ledger_init(&ledger);
    zn_clock_init_real(&clock);
    ZN_TRY(zn_dry_run(j->module, &j->options, zn_comm_n_ranks(j->comm), &plan));
    zn_status status = zn_device_create_cpu(&ledger, &clock, 1, NULL, &world.device);
    if (status == ZN_OK && plan.swap_bytes > 0)
        status = zn_storage_create_files(&(struct zn_storage_options){.paths = paths, .n_paths = 1,
                                                                      .n_bytes = plan.swap_bytes, .allow_buffered = true,
                                                                      .block_bytes = 1 << 16, .depth = 4},
                                         &world.storage);
    if (status == ZN_OK)
        status = with_engine(j, &plan, &world);
    zn_storage_destroy(world.storage);
    zn_device_destroy(world.device);
    zn_engine_plan_fini(&plan);
    return status;
}

static void *run_rank(void *arg)
{
    struct job *j = arg;
    j->status = run_job(j);
    if (j->status != ZN_OK) {
        snprintf(j->message, sizeof j->message, "%s", zn_error_message());
        zn_comm_abort(j->comm, j->status);
    }
    zn_comm_destroy(j->comm);
    return NULL;
}

/* Every rank has the same result. */
static struct result run(const zn_module *module, const struct zn_engine_options *options, int n_ranks)
{
    static struct job jobs[MOST_RANKS];
    zn_clock clock;
    zn_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    zn_clock_init_real(&clock);
    assert_int_equal(zn_comm_create_threads(&clock, n_ranks, comms), ZN_OK);
    for (int r = 0; r < n_ranks; r++) {
        jobs[r] = (struct job){.module = module, .options = *options, .comm = comms[r]};
        pthread_create(&threads[r], NULL, run_rank, &jobs[r]);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < n_ranks; r++) {
        if (jobs[r].status != ZN_OK)
            fail_msg("rank %d of %d: %s", r, n_ranks, jobs[r].message);
        assert_memory_equal(&jobs[r].result, &jobs[0].result, sizeof jobs[0].result);
    }
    return jobs[0].result;
}

static const struct {
    int stage;
    zn_tier tier;
    size_t tile, budget;
} placements[] = {
    {0, ZN_TIER_DEVICE, 0, 0},        {3, ZN_TIER_DEVICE, 0, 0}, {3, ZN_TIER_DEVICE, 1, 1 << 20},
    {3, ZN_TIER_HOST, 0, 1 << 20},    {3, ZN_TIER_NVME, 0, 0},   {3, ZN_TIER_NVME, 1, 1 << 20},
};

static void check_model(const zn_module *module, zn_dtype type, int64_t extends)
{
    static struct result want, got;
    struct zn_engine_options o = {.type = type, .micro_batch = 1, .accumulate = 1, .seq_len = extends ? PASS : TIME,
                                  .extends = extends, .delay_after = -1};
    want = run(module, &o, 1);
    assert_true(extends ? want.logits[1][0] != 0 : want.loss > 0);
    for (int n_ranks = 1; n_ranks <= MOST_RANKS - IS_SANITIZED; n_ranks++) {
        for (size_t i = 0; i < sizeof placements / sizeof placements[0]; i++) {
            o.stage = placements[i].stage;
            o.offload.parameters = placements[i].tier;
            o.tile_bytes = placements[i].tile;
            o.prefetch_bytes = o.reuse_bytes = placements[i].budget;
            got = run(module, &o, n_ranks);
            if (memcmp(&got, &want, sizeof got) != 0)
                fail_msg("placement %zu on %d ranks in %s: other bits", i, n_ranks, zn_dtype_name(type));
        }
    }
}

static void check_models(int64_t extends)
{
    static const zn_dtype types[] = {ZN_F32, ZN_BF16};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        zn_json *config;
        zn_model *model;
        assert_int_equal(zn_json_load_buffer(models[m], strlen(models[m]), "model", &config), ZN_OK);
        assert_int_equal(zn_model_create(config, TIME, &model), ZN_OK);
        for (int t = 0; t < 2; t++)
            check_model(model->module, types[t], extends);
        zn_model_destroy(model);
        zn_json_destroy(config);
    }
}

static void a_loss_has_the_same_bits_wherever_parameters_are(void **state)
{
    (void)state;
    check_models(0);
}

static void logits_have_the_same_bits_wherever_parameters_are(void **state)
{
    (void)state;
    check_models(TIME);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zinc-reading-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_has_the_same_bits_wherever_parameters_are),
        cmocka_unit_test(logits_have_the_same_bits_wherever_parameters_are),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
