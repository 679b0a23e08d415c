/* The ledger's bytes and the counted traffic of a step are those of the formulas, to the byte, for
 * every stage and number of ranks, tied and untied. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "models/model.h"
#include "zero/ranks.h"
#include "zero/recorder.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};

/* The fixtures' units in elements, padded for n ranks. */
struct layout {
    zn_json *config;
    zn_model *model;
    zn_units units;
};

static void layout_init(struct layout *l, const char *folder, zn_dtype type, int n_ranks)
{
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(zn_json_load_file(path, 1 << 20, &l->config), ZN_OK);
    assert_int_equal(zn_model_create(l->config, 16, &l->model), ZN_OK);
    struct zn_params params = zn_module_params(l->model->module);
    assert_int_equal(zn_units_init(&l->units, &params,
                                   &(struct zn_units_options){.type = type, .n_ranks = n_ranks}), ZN_OK);
}

static void layout_fini(struct layout *l)
{
    zn_units_fini(&l->units);
    zn_model_destroy(l->model);
    zn_json_destroy(l->config);
}

static void train(const char *folder, const char *precision, int stage, int n_ranks, const char *output)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, folder);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, threads, 1);
    ZN_SET(o, precision, precision);
    ZN_SET(o, stage, stage);
    ZN_SET(o, recompute, "on");
    ZN_SET(o, prefetch_bytes, 0); /* no reuse either */
    ZN_SET(o, persist_below, 0);
    ZN_SET(o, keep, 0);
    assert_int_equal(train_on_ranks(&o, n_ranks), ZN_OK);
}

/* p + g + o bytes an element, each whole or a rank's share. */
static void check_states(const char *output, const zn_units *units, zn_dtype type, int stage, int n_ranks)
{
    double n = (double)units->n_elements, p = type == ZN_F32 ? 4 : 2, o = type == ZN_F32 ? 8 : 12;
    double share = n / n_ranks;
    assert_true(last_number(output, "parameters") == p * (stage >= 3 ? share : n));
    assert_true(last_number(output, "gradients") == 4 * (stage >= 2 ? share : n));
    assert_true(last_number(output, "optimizer") == o * (stage >= 1 ? share : n));
}

/* Σ padded size × (gathers + reductions) × (N-1)/N. Stage 0 gathers summed gradients in fp32. */
static void check_traffic(const char *output, const struct layout *l, zn_dtype type, int stage, int n_ranks)
{
    double p = type == ZN_F32 ? 4 : 2, bytes = 0;
    for (int u = 0; u < l->units.n_units; u++) {
        bool shared = u == 0 && l->model->tied; /* used by embedding and head */
        int reductions = shared ? 2 : 1;
        double gathered = stage == 0 ? 4 : stage < 3 ? p : p * (shared ? 3 : 2);
        bytes += (double)l->units.units[u].n_elements * (reductions * p + gathered);
    }
    assert_true(last_number(output, "comm_bytes") == bytes * (n_ranks - 1) / n_ranks);
}

static void check_all(const char *folder)
{
    static const struct {
        const char *name;
        zn_dtype type;
    } precisions[] = {{"fp32", ZN_F32}, {"bf16", ZN_BF16}};
    char output[] = "/tmp/zinc-accounting-XXXXXX", command[128];
    assert_non_null(mkdtemp(output));
    for (size_t k = 0; k < 2; k++) {
        for (int n_ranks = 1; n_ranks <= 4; n_ranks++) {
            struct layout l;
            layout_init(&l, folder, precisions[k].type, n_ranks);
            for (int stage = 0; stage <= 3; stage++) {
                train(folder, precisions[k].name, stage, n_ranks, output);
                check_states(output, &l.units, precisions[k].type, stage, n_ranks);
                check_traffic(output, &l, precisions[k].type, stage, n_ranks);
            }
            layout_fini(&l);
        }
    }
    snprintf(command, sizeof command, "rm -rf '%s'", output);
    assert_int_equal(system(command), 0);
}

static void tied_model(void **state)
{
    (void)state;
    check_all(ZN_TEST_DATA "/parity/gpt2");
}

static void untied_model(void **state)
{
    (void)state;
    check_all(ZN_TEST_DATA "/parity/qwen3");
}

/* Untied, in fp32: 2Ψ at stages 0–2 and 3Ψ at stage 3, of the padded Ψ. */
static void untied_traffic_is_two_and_three_psi(void **state)
{
    (void)state;
    char output[] = "/tmp/zinc-accounting-XXXXXX", command[128];
    assert_non_null(mkdtemp(output));
    struct layout l;
    layout_init(&l, ZN_TEST_DATA "/parity/qwen3", ZN_F32, 3);
    double psi = (double)l.units.n_elements * 4;
    for (int stage = 0; stage <= 3; stage++) {
        train(ZN_TEST_DATA "/parity/qwen3", "fp32", stage, 3, output);
        assert_true(last_number(output, "comm_bytes") == (stage < 3 ? 2 : 3) * psi * 2 / 3);
    }
    layout_fini(&l);
    snprintf(command, sizeof command, "rm -rf '%s'", output);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tied_model),
        cmocka_unit_test(untied_model),
        cmocka_unit_test(untied_traffic_is_two_and_three_psi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
