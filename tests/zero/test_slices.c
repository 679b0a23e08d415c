/* Tensor parallelism: ranks that hold slices of each layer train as one process does, within the rounding of other sums; on a given
 * mesh stages, tiers, tiles, schedules and an interruption change no bit; and what they write is the whole model. Ranks are threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "zero/ranks.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static const char *const precisions[] = {"fp32", "bf16"};

static char folder[64], output[96];

/* No fixture is shared by three ranks: this one has only a config. Of its vocabulary a rank has 2049 rows, and the last of them is
 * a tile of nothing but padding. */
static char three[96];
static const char config_of_three[] =
    "{\"model_type\":\"llama\",\"hidden_size\":24,\"intermediate_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
    "\"num_key_value_heads\":1,\"vocab_size\":6145,\"max_position_embeddings\":40,\"rms_norm_eps\":1e-5,"
    "\"initializer_range\":0.3,\"tie_word_embeddings\":true}";

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zinc-slices-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(output, sizeof output, "%s/run", folder);
    snprintf(three, sizeof three, "%s/three", folder);
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", three);
    FILE *f = mkdir(three, 0777) == 0 ? fopen(path, "w") : NULL;
    if (!f || fputs(config_of_three, f) < 0)
        return -1;
    return fclose(f);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static struct zn_train_options plain(const char *model, const char *precision, int n_slices)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, model);
    ZN_SET(o, from_scratch, model == three);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 3);
    ZN_SET(o, micro_batch, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, weight_decay, 0.1);
    ZN_SET(o, precision, precision);
    ZN_SET(o, output_dtype, "fp32");
    ZN_SET(o, stage, 0);
    ZN_SET(o, reduce, "every");
    ZN_SET(o, threads, 1);
    ZN_SET(o, shuffle, false);
    ZN_SET(o, prefetch_bytes, 16 * 1024);
    ZN_SET(o, persist_below, 0);
    ZN_SET(o, allow_buffered_swap, true); /* wherever the test's folder is */
    ZN_SET(o, keep, 0);
    ZN_SET(o, recompute, "on");
    ZN_SET(o, offload_optimizer, "none");
    ZN_SET(o, offload_param, "none");
    ZN_SET(o, offload_activations, "none");
    ZN_SET(o, tile_limit, 0);
    ZN_SET(o, tensor_parallel, n_slices);
    return o;
}

struct result {
    char *losses, *weights;
    size_t n_weights;
    double loss, norm, sent;
};

static struct result run(const struct zn_train_options *o, int n_ranks)
{
    struct result r = {0};
    if (train_on_ranks(o, n_ranks) != ZN_OK)
        fail_msg("training failed: %s", zn_error_message());
    r.losses = losses_of(o->settings.output);
    r.weights = slurp(o->settings.output, "model.safetensors", &r.n_weights);
    r.loss = last_number(o->settings.output, "loss");
    r.norm = last_number(o->settings.output, "grad_norm");
    r.sent = last_number(o->settings.output, "comm_bytes");
    assert_non_null(r.losses);
    assert_non_null(r.weights);
    return r;
}

static void forget(struct result *r)
{
    free(r->losses);
    free(r->weights);
}

static void expect(const struct result *expected, const struct zn_train_options *o, int n_ranks, const char *what)
{
    struct result r = run(o, n_ranks);
    if (strcmp(r.losses, expected->losses) != 0)
        fail_msg("%d ranks, %lld slices, %s:\n%s\nand not\n%s", n_ranks, (long long)o->settings.tensor_parallel, what, r.losses,
                 expected->losses);
    assert_int_equal(r.n_weights, expected->n_weights);
    assert_memory_equal(r.weights, expected->weights, r.n_weights);
    forget(&r);
}

/* Models with all that is sliced: fused q, k and v, biases and tied tables (gpt2); head norms, and fewer heads of keys and values than
 * ranks (qwen3 at 4); one such head and three ranks (`three`); biases after the sum (llama-bias). No vocabulary divides. */
static const struct {
    const char *model;
    int n_data, n_slices;
} meshes[] = {
    {ZN_TEST_DATA "/parity/gpt2", 1, 2},       {ZN_TEST_DATA "/parity/gpt2", 2, 2},  {ZN_TEST_DATA "/parity/gpt2", 1, 4},
    {ZN_TEST_DATA "/parity/gpt2", 3, 2},       {ZN_TEST_DATA "/parity/qwen3", 2, 2}, {ZN_TEST_DATA "/parity/qwen3", 1, 4},
    {three, 1, 3},                             {three, 2, 3},                        {ZN_TEST_DATA "/parity/llama-bias", 1, 4},
    {ZN_TEST_DATA "/parity/qwen2", 3, 2},      {ZN_TEST_DATA "/parity/mistral", 1, 2}, {ZN_TEST_DATA "/parity/qwen2-window", 1, 4},
};
enum { N_MESHES = sizeof meshes / sizeof meshes[0] };

/* With the same global batch. */
static void meshes_train_as_one_process_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i += IS_SANITIZED ? 3 : 1) {
        for (int p = 0; p < 2; p++) {
            struct zn_train_options o = plain(meshes[i].model, precisions[p], 1);
            ZN_SET(o, micro_batch, 6);
            struct result alone = run(&o, 1);
            ZN_SET(o, micro_batch, 6 / meshes[i].n_data);
            ZN_SET(o, tensor_parallel, meshes[i].n_slices);
            struct result shared = run(&o, meshes[i].n_data * meshes[i].n_slices);
            double bound = p == 0 ? 2e-5 : 2e-2;
            if (!(fabs(alone.loss - shared.loss) < bound * alone.loss) || !(fabs(alone.norm - shared.norm) < 10 * bound * alone.norm))
                fail_msg("%s, %d × %d, %s: loss %.9g and %.9g, norm %.9g and %.9g", meshes[i].model, meshes[i].n_data,
                         meshes[i].n_slices, precisions[p], alone.loss, shared.loss, alone.norm, shared.norm);
            assert_int_equal(alone.n_weights, shared.n_weights);
            forget(&alone);
            forget(&shared);
        }
    }
}

static void stages_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i += IS_SANITIZED ? 4 : 1) {
        const char *precision = precisions[i % 2];
        int n_ranks = meshes[i].n_data * meshes[i].n_slices;
        struct zn_train_options o = plain(meshes[i].model, precision, meshes[i].n_slices);
        ZN_SET(o, accumulate, 2);
        struct result base = run(&o, n_ranks);
        for (int stage = 1; stage <= 3; stage++) {
            ZN_SET(o, stage, stage);
            expect(&base, &o, n_ranks, "another stage");
        }
        forget(&base);
    }
}

/* One thing after the other is changed, and stays so. */
static void tiers_tiles_and_schedules_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 1; i < 8; i += IS_SANITIZED ? 3 : 2) {
        int n_ranks = meshes[i].n_data * meshes[i].n_slices;
        struct zn_train_options o = plain(meshes[i].model, precisions[i / 2 % 2], meshes[i].n_slices);
        ZN_SET(o, accumulate, 2);
        struct result base = run(&o, n_ranks);
        ZN_SET(o, stage, 3);
        ZN_SET(o, recompute, "off");
        expect(&base, &o, n_ranks, "without recompute");
        ZN_SET(o, recompute, "on");
        ZN_SET(o, offload_activations, "cpu");
        expect(&base, &o, n_ranks, "activations on the host");
        ZN_SET(o, offload_optimizer, "nvme");
        expect(&base, &o, n_ranks, "optimizer on NVMe");
        ZN_SET(o, offload_param, "nvme");
        ZN_SET(o, offload_activations, "nvme");
        ZN_SET(o, offload_gradients, "nvme");
        expect(&base, &o, n_ranks, "all on NVMe");
        ZN_SET(o, tile_limit, 64 * 1024);
        expect(&base, &o, n_ranks, "tiles");
        forget(&base);
    }
}

/* Each rank keeps its part of an activation checkpoint, in any tier. */
static void partitioned_activations_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const tiers[] = {"none", "cpu", "nvme"};
    for (size_t i = 0; i < 8; i += IS_SANITIZED ? 5 : 1) {
        int n_ranks = meshes[i].n_data * meshes[i].n_slices;
        struct zn_train_options o = plain(meshes[i].model, precisions[i % 2], meshes[i].n_slices);
        ZN_SET(o, accumulate, 2);
        struct result base = run(&o, n_ranks);
        ZN_SET(o, partition_activations, true);
        for (int tier = 0; tier < 3; tier++) {
            ZN_SET(o, stage, tier + 1);
            ZN_SET(o, offload_activations, tiers[tier]);
            expect(&base, &o, n_ranks, "partitioned activations");
            ZN_SET(o, recompute, "keep=1");
            expect(&base, &o, n_ranks, "partitioned activations but for a segment's");
            ZN_SET(o, recompute, "on");
        }
        forget(&base);
        ZN_SET(o, schedule, "vertical");
        ZN_SET(o, reduce, "last");
        ZN_SET(o, partition_activations, false);
        base = run(&o, n_ranks);
        ZN_SET(o, partition_activations, true);
        expect(&base, &o, n_ranks, "partitioned activations of the vertical schedule");
        forget(&base);
    }
}

static void vertical_and_in_backward_give_their_bits_on_every_tier(void **state)
{
    (void)state;
    struct zn_train_options o = plain(meshes[1].model, "fp32", 2);
    ZN_SET(o, accumulate, 2);
    ZN_SET(o, schedule, "vertical");
    ZN_SET(o, reduce, "last");
    ZN_SET(o, clip, 0.0);
    struct result base = run(&o, 4);
    ZN_SET(o, stage, 3);
    expect(&base, &o, 4, "vertical at stage 3");
    ZN_SET(o, optimizer_in_backward, true);
    expect(&base, &o, 4, "updates in backward");
    ZN_SET(o, offload_optimizer, "nvme");
    expect(&base, &o, 4, "updates in backward on NVMe");
    forget(&base);
    o = plain(meshes[1].model, "bf16", 2);
    ZN_SET(o, delayed_update, 1);
    base = run(&o, 4);
    ZN_SET(o, stage, 2);
    ZN_SET(o, offload_optimizer, "nvme");
    expect(&base, &o, 4, "a delayed update");
    forget(&base);
}

/* What was saved on one mesh goes on at any other; on the same, to the last bit. */
static void runs_go_on_on_any_mesh(void **state)
{
    (void)state;
    for (size_t i = 1; i < 8; i += IS_SANITIZED ? 5 : 3) {
        int n_ranks = meshes[i].n_data * meshes[i].n_slices;
        struct zn_train_options o = plain(meshes[i].model, precisions[i % 2], meshes[i].n_slices);
        ZN_SET(o, stage, 2);
        ZN_SET(o, steps, 4);
        struct result whole = run(&o, n_ranks);
        ZN_SET(o, steps, 2);
        ZN_SET(o, keep, 2);
        ZN_SET(o, save, "all");
        struct result half = run(&o, n_ranks);
        char other[128], command[512];
        snprintf(other, sizeof other, "%s/other", folder);
        snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", other, output, other);
        assert_int_equal(system(command), 0);
        ZN_SET(o, overwrite, false);
        ZN_SET(o, resume, NULL);
        ZN_SET(o, steps, 4);
        ZN_SET(o, stage, 3);
        expect(&whole, &o, n_ranks, "resumed");
        /* One process with the same global batch. */
        ZN_SET(o, output, other);
        ZN_SET(o, tensor_parallel, 1);
        ZN_SET(o, micro_batch, 2 * meshes[i].n_data);
        struct result alone = run(&o, 1);
        double bound = i % 2 == 0 ? 2e-5 : 2e-2;
        if (!(fabs(alone.loss - whole.loss) < bound * whole.loss))
            fail_msg("%s resumed on one process: loss %.9g and not %.9g", meshes[i].model, alone.loss, whole.loss);
        forget(&whole);
        forget(&half);
        forget(&alone);
    }
}

/* Weights that are born or read in slices are those of one process, and so is what is written of them. */
static void slices_are_born_read_and_written_as_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESHES; i += IS_SANITIZED ? 5 : 1) {
        for (int scratch = 0; scratch < 2; scratch++) {
            struct zn_train_options o = plain(meshes[i].model, "fp32", 1);
            ZN_SET(o, from_scratch, scratch || meshes[i].model == three);
            ZN_SET(o, steps, 0);
            struct result alone = run(&o, 1);
            ZN_SET(o, tensor_parallel, meshes[i].n_slices);
            ZN_SET(o, stage, (int)(i % 4));
            expect(&alone, &o, meshes[i].n_data * meshes[i].n_slices, scratch ? "born" : "read");
            forget(&alone);
        }
    }
}

/* Six sums of activations a block with recompute, one for the embedding and one for the head, each sent twice but for the own piece;
 * and two numbers of each token from every other rank. */
static void sums_are_sent_to_the_byte(void **state)
{
    (void)state;
    const double elements = 2 * 16 * 32, tokens = 2 * 16;
    for (int n_slices = 2; n_slices <= 4; n_slices += 2) {
        struct zn_train_options o = plain(meshes[0].model, "fp32", n_slices);
        ZN_SET(o, steps, 1);
        struct result r = run(&o, n_slices);
        double sums = 2 * 6 + 2;
        double sent = sums * 2 * elements * 4 * (n_slices - 1) / n_slices + 2 * tokens * 4 * (n_slices - 1);
        assert_true(r.sent == sent);
        forget(&r);
        ZN_SET(o, partition_activations, true); /* what goes into each of the two blocks is gathered once */
        r = run(&o, n_slices);
        assert_true(r.sent == sent + 2 * elements * 4 * (n_slices - 1) / n_slices);
        ZN_SET(o, partition_activations, false);
        ZN_SET(o, recompute, "off");
        forget(&r);
        r = run(&o, n_slices);
        assert_true(r.sent == (sums - 4) * 2 * elements * 4 * (n_slices - 1) / n_slices + 2 * tokens * 4 * (n_slices - 1));
        forget(&r);
    }
}

static void refuse(struct zn_train_options o, int n_ranks, const char *text)
{
    assert_int_not_equal(train_on_ranks(&o, n_ranks), ZN_OK);
    if (!strstr(zn_error_message(), text))
        fail_msg("'%s' and not '%s'", zn_error_message(), text);
}

static void what_cannot_be_shared_is_refused_by_name(void **state)
{
    (void)state;
    refuse(plain(meshes[0].model, "fp32", 2), 3, "--tensor-parallel 2: does not divide the 3 ranks");
    refuse(plain(meshes[0].model, "fp32", 3), 3, "--tensor-parallel 3: does not divide the model's 4 heads");
    struct zn_train_options o = plain(meshes[0].model, "fp32", 2);
    ZN_SET(o, keep_logits, true);
    refuse(o, 2, "--tensor-parallel 2: not in this build with --keep-logits on");
    o = plain(meshes[0].model, "fp32", 2);
    ZN_SET(o, partition_activations, true);
    ZN_SET(o, recompute, "off");
    refuse(o, 2, "--partition-activations: needs --recompute on");
    o = plain(meshes[0].model, "fp32", 1);
    ZN_SET(o, partition_activations, true);
    refuse(o, 2, "--partition-activations: needs --tensor-parallel above 1");
    o = plain(meshes[0].model, "fp32", 2);
    ZN_SET(o, optimizer, "adamw8bit");
    refuse(o, 2, "--tensor-parallel 2: not in this build with --optimizer adamw8bit");
    o = plain(meshes[0].model, "fp32", 2);
    ZN_SET(o, lora_rank, 4);
    refuse(o, 2, "--tensor-parallel 2: not in this build with --lora-rank");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meshes_train_as_one_process_does),
        cmocka_unit_test(stages_give_the_same_bits),
        cmocka_unit_test(tiers_tiles_and_schedules_give_the_same_bits),
        cmocka_unit_test(partitioned_activations_give_the_same_bits),
        cmocka_unit_test(vertical_and_in_backward_give_their_bits_on_every_tier),
        cmocka_unit_test(runs_go_on_on_any_mesh),
        cmocka_unit_test(slices_are_born_read_and_written_as_the_whole),
        cmocka_unit_test(sums_are_sent_to_the_byte),
        cmocka_unit_test(what_cannot_be_shared_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
