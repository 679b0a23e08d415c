/* Checkpoints of runs whose states are on NVMe: the same bytes as without, and runs that go on from them in any
 * tier, bit for bit. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "zero/ranks.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zinc-offload-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A run in the folder's part `name`; it stays as long as the options are used. */
static struct zn_train_options options_of(char *output, const char *name, const char *tier)
{
    struct zn_train_options o;
    snprintf(output, 128, "%s/%s", folder, name);
    zn_train_options_init(&o);
    ZN_SET(o, model, ZN_TEST_DATA "/parity/gpt2");
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, steps, 6);
    ZN_SET(o, micro_batch, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, weight_decay, 0.1);
    ZN_SET(o, precision, "bf16");
    ZN_SET(o, output_dtype, "fp32");
    ZN_SET(o, stage, 3);
    ZN_SET(o, save, "all");
    ZN_SET(o, threads, 1);
    ZN_SET(o, allow_buffered_swap, true);
    ZN_SET(o, offload_optimizer, tier);
    ZN_SET(o, offload_param, tier);
    ZN_SET(o, offload_activations, tier);
    return o;
}

static void train(const struct zn_train_options *o, int n_ranks)
{
    if (train_on_ranks(o, n_ranks) != ZN_OK)
        fail_msg("training failed: %s", zn_error_message());
}

static void assert_same(const char *a, const char *b)
{
    static const char *const names[] = {"model.safetensors", "checkpoints/step-00000006/model.safetensors",
                                        "checkpoints/step-00000006/optimizer-00001-of-00001.safetensors"};
    char *x = losses_of(a), *y = losses_of(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
    for (size_t i = 0; i < 3; i++) {
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

/* Three steps in one tier, three more in another, against six in memory. */
static void go_on(int n_ranks, const char *first, const char *then, bool is_delayed)
{
    char whole[128], parts[128], name[32];
    snprintf(name, sizeof name, "whole-%d-%d", n_ranks, is_delayed);
    struct zn_train_options o = options_of(whole, name, "none");
    if (is_delayed)
        ZN_SET(o, delayed_update, 1);
    ZN_SET(o, overwrite, true);
    train(&o, n_ranks);
    o = options_of(parts, "parts", first);
    if (is_delayed)
        ZN_SET(o, delayed_update, 1);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 3);
    train(&o, n_ranks);
    o = options_of(parts, "parts", then);
    if (is_delayed)
        ZN_SET(o, delayed_update, 1);
    ZN_SET(o, resume, NULL);
    train(&o, n_ranks);
    assert_same(whole, parts);
}

static void a_run_goes_on_in_any_tier(void **state)
{
    (void)state;
    for (int n_ranks = 1; n_ranks <= 3; n_ranks += 2) {
        go_on(n_ranks, "nvme", "nvme", false);
        go_on(n_ranks, "nvme", "none", false);
        go_on(n_ranks, "cpu", "nvme", false);
    }
}

/* The last step's gradients are part of the checkpoint. Each part ends with its pending update applied to the
 * model that is written, not to the checkpoint. */
static void a_delayed_update_goes_on(void **state)
{
    (void)state;
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        go_on(n_ranks, "nvme", "nvme", true);
        go_on(n_ranks, "none", "nvme", true);
        go_on(n_ranks, "nvme", "none", true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_goes_on_in_any_tier),
        cmocka_unit_test(a_delayed_update_goes_on),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
