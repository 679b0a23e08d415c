/* Frozen parameters have no gradients, no masters, no optimizer states and no traffic for them, to the byte, and what leads to no
 * trained parameter is not computed in backward. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include <fnmatch.h>

#include "models/model.h"
#include "optim/registry.h"
#include "plan/dry_run.h"
#include "zero/ranks.h"
#include "zero/recorder.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static char output[64];

struct fixture {
    const char *folder, *pattern;
    zn_dtype type; /* of the folder */
    zn_json *config;
    zn_model *model;
    bool frozen[64];
};

static struct fixture open_fixture(const char *folder, zn_dtype type, const char *pattern)
{
    struct fixture f = {.folder = folder, .pattern = pattern, .type = type};
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(zn_json_load_file(path, 1 << 20, &f.config), ZN_OK);
    assert_int_equal(zn_model_create(f.config, 16, &f.model), ZN_OK);
    for (int i = 0; i < f.model->module->n_params; i++)
        f.frozen[i] = fnmatch(pattern, f.model->module->params[i].name, 0) == 0;
    return f;
}

static void close_fixture(struct fixture *f)
{
    zn_model_destroy(f->model);
    zn_json_destroy(f->config);
}

static void train_frozen(const char *folder, const char *precision, int stage, int n_ranks, const char *const *patterns, size_t n_patterns)
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
    ZN_SET(o, prefetch_bytes, 0);
    ZN_SET(o, persist_below, 0);
    ZN_SET(o, keep, 0);
    ZN_SET_WORDS(o, freeze, patterns, n_patterns);
    assert_int_equal(train_on_ranks(&o, n_ranks), ZN_OK);
}

static void train(const struct fixture *f, const char *precision, int stage, int n_ranks)
{
    train_frozen(f->folder, precision, stage, n_ranks, &f->pattern, 1);
}

static zn_units units_of(const struct fixture *f, zn_dtype type, int n_ranks)
{
    zn_units units;
    struct zn_params params = zn_module_params(f->model->module);
    assert_int_equal(zn_units_init(&units, &params,
                                   &(struct zn_units_options){
                                       .type = type, .n_ranks = n_ranks, .frozen_type = f->type, .frozen = f->frozen}),
                     ZN_OK);
    assert_in_range(units.n_trained, 1, units.n_elements - 1);
    return units;
}

/* p + g + o bytes an element that is trained, the folder's own type for one that is not. */
static void check_states(const struct fixture *f, const zn_units *units, zn_dtype type, int stage, int n_ranks)
{
    double n = (double)units->n_trained, n_frozen = (double)(units->n_elements - units->n_trained);
    double p = n * (double)zn_dtype_bytes(type) + n_frozen * (double)zn_dtype_bytes(f->type), o = type == ZN_F32 ? 8 : 12;
    assert_true(last_number(output, "parameters") == p / (stage >= 3 ? n_ranks : 1));
    assert_true(last_number(output, "gradients") == 4 * n / (stage >= 2 ? n_ranks : 1));
    assert_true(last_number(output, "optimizer") == o * n / (stage >= 1 ? n_ranks : 1));
}

/* At stages 1 and 2: what is trained is reduced and gathered. */
static void check_traffic(const struct fixture *f, const zn_units *units, zn_dtype type, int n_ranks)
{
    double p = (double)zn_dtype_bytes(type), bytes = 0;
    for (int u = 0; u < units->n_units; u++) {
        const struct zn_unit *unit = &units->units[u];
        bool is_shared = unit->first_part == 0 && f->model->tied; /* used by embedding and head */
        bytes += unit->is_trained ? (double)unit->n_elements * p * (is_shared ? 3 : 2) : 0;
    }
    assert_true(last_number(output, "comm_bytes") == bytes * (n_ranks - 1) / n_ranks);
}

static void check_all(const char *folder, zn_dtype folder_type, const char *pattern)
{
    struct fixture f = open_fixture(folder, folder_type, pattern);
    for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
        for (int stage = 0; stage <= 3; stage++) {
            zn_dtype type = stage % 2 ? ZN_BF16 : ZN_F32;
            zn_units units = units_of(&f, type, n_ranks);
            train(&f, zn_dtype_name(type), stage, n_ranks);
            check_states(&f, &units, type, stage, n_ranks);
            if (stage == 1 || stage == 2)
                check_traffic(&f, &units, type, n_ranks);
            zn_units_fini(&units);
        }
    }
    close_fixture(&f);
}

static void blocks_alone(void **state)
{
    (void)state;
    check_all(ZN_TEST_DATA "/parity/qwen3", ZN_BF16, "model.layers.*");
}

/* Layer norms then have a frozen weight and a trained bias. */
static void weights_but_not_biases(void **state)
{
    (void)state;
    check_all(ZN_TEST_DATA "/parity/gpt2", ZN_F32, "*.weight");
}

/* One input of attention, or of the gated MLP, then wants a gradient and the others do not. The bits are the same at every stage. */
static void one_projection_alone(void **state)
{
    (void)state;
    static const char *const but_q[] = {"*embed*", "*norm*", "*k_proj*", "*v_proj*", "*o_proj*", "*mlp*", "lm_head*"};
    static const char *const but_gate[] = {"*embed*", "*norm*", "*self_attn*", "*up_proj*", "*down_proj*", "lm_head*"};
    for (int i = 0; i < 2; i++) {
        train_frozen(ZN_TEST_DATA "/parity/qwen3", "fp32", 0, 2, i ? but_gate : but_q, i ? 6 : 7);
        char *base = losses_of(output);
        assert_true(last_number(output, "grad_norm") > 0);
        train_frozen(ZN_TEST_DATA "/parity/qwen3", "fp32", 3, 2, i ? but_gate : but_q, i ? 6 : 7);
        char *partitioned = losses_of(output);
        assert_string_equal(base, partitioned);
        free(base);
        free(partitioned);
    }
}

static int count_points(const zn_engine_plan *plan, zn_point_kind kind)
{
    int n = 0;
    for (int i = 0; i < plan->trace.train.n_points; i++)
        n += plan->trace.train.points[i].kind == (int32_t)kind;
    return n;
}

static zn_engine_plan plan_of(const struct fixture *f, bool recompute, zn_tier activations)
{
    zn_engine_plan plan;
    const struct zn_engine_options o = {.trains = true, .type = ZN_F32, .micro_batch = 1, .seq_len = 16, .accumulate = 1,
                                        .recompute = recompute, .delay_after = -1, .offload.activations = activations,
                                        .optimizer = &zn_optimizer_adamw, .frozen = f->frozen, .frozen_type = f->type};
    assert_int_equal(zn_dry_run(f->model->module, &o, 1, &plan), ZN_OK);
    return plan;
}

/* Backward ends at the lowest segment that is trained: the layers below are used once, are not computed again, and their
 * checkpoints are not kept. */
static void nothing_below_is_computed_in_backward(void **state)
{
    (void)state;
    struct fixture all = open_fixture(ZN_TEST_DATA "/parity/qwen3", ZN_BF16, "nothing");
    struct fixture head = open_fixture(ZN_TEST_DATA "/parity/qwen3", ZN_BF16, "model.[el]*");
    int n_opens = 0;
    for (int i = 0; i < head.model->module->n_params; i++)
        n_opens += !head.frozen[i];
    assert_in_range(n_opens, 1, 2); /* the last norm and the head */
    for (int recompute = 0; recompute < 2; recompute++) {
        zn_engine_plan plan = plan_of(&head, recompute, recompute ? ZN_TIER_HOST : ZN_TIER_DEVICE);
        zn_engine_plan whole = plan_of(&all, recompute, recompute ? ZN_TIER_HOST : ZN_TIER_DEVICE);
        assert_int_equal(count_points(&plan, ZN_POINT_OPEN), n_opens);
        assert_in_range(count_points(&plan, ZN_POINT_ACQUIRE), 1, head.model->module->n_params + 4);
        assert_true(count_points(&whole, ZN_POINT_ACQUIRE) > count_points(&plan, ZN_POINT_ACQUIRE) * 3 / 2);
        assert_int_equal(count_points(&plan, ZN_POINT_SAVE), 0);
        assert_true(count_points(&whole, ZN_POINT_SAVE) > 0 || !recompute);
        assert_true(zn_trace_arena_bytes(&plan.trace) <= zn_trace_arena_bytes(&whole.trace));
        zn_engine_plan_fini(&plan);
        zn_engine_plan_fini(&whole);
    }
    close_fixture(&head);
    close_fixture(&all);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(output, "/tmp/zinc-frozen-XXXXXX");
    return mkdtemp(output) ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", output);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_alone),
        cmocka_unit_test(weights_but_not_biases),
        cmocka_unit_test(one_projection_alone),
        cmocka_unit_test(nothing_below_is_computed_in_backward),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
