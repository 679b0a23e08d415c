/* Runs of an optimizer, in a folder that goes with the test. */
#ifndef ZN_TESTS_OPTIM_RUNS_H
#define ZN_TESTS_OPTIM_RUNS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "optim/registry.h"
#include "zero/ranks.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static char folder[64];

static inline int make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/zinc-optim-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A run in the folder's part `name`; `output` holds its path. */
static inline struct zn_train_options options_of(char output[128], const char *name, const char *optimizer, const char *precision)
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
    ZN_SET(o, optimizer, optimizer);
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

static inline void train(const struct zn_train_options *o, int n_ranks)
{
    if (train_on_ranks(o, n_ranks) != ZN_OK)
        fail_msg("training failed: %s", zn_error_message());
}

#define STATES "checkpoints/step-00000004/optimizer-00001-of-00001.safetensors"

static inline void assert_same_file(const char *a, const char *b, const char *name)
{
    size_t n_a, n_b;
    char *p = slurp(a, name, &n_a), *q = slurp(b, name, &n_b);
    assert_non_null(p);
    assert_non_null(q);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(p, q, n_a);
    free(p);
    free(q);
}

/* The same losses, weights and states. */
static inline void assert_same(const char *a, const char *b)
{
    char *x = losses_of(a), *y = losses_of(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
    assert_same_file(a, b, "model.safetensors");
    assert_same_file(a, b, STATES);
}

/* How many tensors of the saved states have this name's end. */
static inline int n_named(const char *output, const char *end)
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

/* Every stage in memory, then all states on NVMe, against stage 0. */
static inline void trains_alike_everywhere(const char *optimizer, const char *precision)
{
    char base[128], output[128];
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        struct zn_train_options o = options_of(base, "base", optimizer, precision);
        train(&o, n_ranks);
        for (int stage = 1; stage <= 3; stage++) {
            o = options_of(output, "other", optimizer, precision);
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

/* Two steps on NVMe, two more in memory, and the other way round, against four. */
static inline void goes_on_from_checkpoints(const char *optimizer, const char *precision)
{
    char whole[128], parts[128];
    static const char *const tiers[] = {"nvme", "none"};
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        struct zn_train_options o = options_of(whole, "whole", optimizer, precision);
        train(&o, n_ranks);
        for (int first = 0; first < 2; first++) {
            o = options_of(parts, "parts", optimizer, precision);
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

#endif
