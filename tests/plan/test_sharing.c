/* What ranks that share each layer hold and send: of P sliced and R other elements a rank has the stage's bytes for P/T + R, partitioned
 * over the ranks with the same slices; sums and activation checkpoints travel as the formulas say. Nothing is allocated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "optim/registry.h"
#include "plan/calibrate_machine.h"
#include "plan/dry_run.h"
#include "plan/predict.h"
#include "plan/shape.h"

#define OK(call) assert_int_equal(call, ZN_OK)

enum { LAYERS = 2, HIDDEN = 1024, VOCABULARY = 32768, SEQ_LEN = 64, BATCH = 2 };

static const char config[] = "{\"model_type\":\"llama\",\"hidden_size\":1024,\"intermediate_size\":4096,\"num_hidden_layers\":2,"
                             "\"num_attention_heads\":16,\"num_key_value_heads\":16,\"vocab_size\":32768,"
                             "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}";

static zn_model *model_of(int n_slices)
{
    zn_json *json;
    zn_model *model;
    OK(zn_json_load_buffer(config, strlen(config), "config", &json));
    OK(zn_model_create_sliced(json, SEQ_LEN, (struct zn_tensor_rank){n_slices - 1, n_slices}, &model));
    zn_json_destroy(json);
    return model;
}

static struct zn_engine_options options_of(int stage, int n_slices)
{
    return (struct zn_engine_options){.trains = true,
                                      .stage = stage,
                                      .type = ZN_BF16,
                                      .reduce_every = stage >= 2,
                                      .micro_batch = BATCH,
                                      .seq_len = SEQ_LEN,
                                      .accumulate = 1,
                                      .recompute = true,
                                      .delay_after = -1,
                                      .optimizer = &zn_optimizer_adamw,
                                      .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                      .n_slices = n_slices > 1 ? n_slices : 0};
}

/* Elements of the model: the norms are on every rank. */
static const int64_t WHOLE = (2 * LAYERS + 1) * HIDDEN, SLICED = LAYERS * (4 * HIDDEN * HIDDEN + 3 * 4 * HIDDEN * HIDDEN) + 2 * VOCABULARY * HIDDEN;

static void expect_bytes(const zn_engine_plan *plan, zn_kind kind, int64_t n_bytes, int n_ranks)
{
    size_t has = zn_manifest_bytes(&plan->manifest, ZN_N_TIERS, kind), padding = (size_t)plan->units.n_units * (size_t)n_ranks * 4096 * 6;
    if (has < (size_t)n_bytes || has > (size_t)n_bytes + padding)
        fail_msg("%s: %zu bytes and not %lld", zn_kind_name(kind), has, (long long)n_bytes);
}

static void ranks_hold_their_part_of_every_state(void **state)
{
    (void)state;
    for (int n_slices = 1; n_slices <= 16; n_slices *= 4) {
        zn_model *model = model_of(n_slices);
        int64_t held = SLICED / n_slices + WHOLE;
        assert_int_equal(zn_model_n_held(model), held);
        assert_int_equal(zn_model_n_elements(model), SLICED + WHOLE);
        for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
            for (int stage = 0; stage <= 3; stage++) {
                zn_engine_plan plan;
                struct zn_engine_options o = options_of(stage, n_slices);
                OK(zn_dry_run(model->module, &o, n_ranks, &plan));
                expect_bytes(&plan, ZN_KIND_PARAMETERS, 2 * held / (stage == 3 ? n_ranks : 1), n_ranks);
                expect_bytes(&plan, ZN_KIND_GRADIENTS, 4 * held / (stage >= 2 ? n_ranks : 1), n_ranks);
                expect_bytes(&plan, ZN_KIND_OPTIMIZER, 12 * held / (stage >= 1 ? n_ranks : 1), n_ranks);
                zn_engine_plan_fini(&plan);
            }
        }
        zn_model_destroy(model);
    }
}

static struct zn_prediction predict(const zn_model *model, int n_data, int n_slices, bool partitions)
{
    struct zn_cluster cluster = zn_calibration_usual(8);
    struct zn_plan_setup setup = {.model = model, .cluster = &cluster, .engine = options_of(1, n_slices), .n_ranks = n_data * n_slices,
                                  .n_nodes = 1, .memory_limit = (size_t)1 << 40, .overhead = 1};
    struct zn_prediction p;
    setup.engine.partitions_activations = partitions;
    cluster.nodes = 1;
    OK(zn_predict(&setup, &p));
    return p;
}

static void exchanges_are_those_of_the_formulas(void **state)
{
    (void)state;
    const uint64_t elements = BATCH * SEQ_LEN * HIDDEN, tokens = BATCH * SEQ_LEN;
    for (int n_slices = 2; n_slices <= 4; n_slices *= 2) {
        zn_model *model = model_of(n_slices);
        uint64_t others = (uint64_t)n_slices - 1, sums = 6 * LAYERS + 2;
        struct zn_prediction p = predict(model, 2, n_slices, false), a = predict(model, 2, n_slices, true);
        assert_int_equal(p.tensor, sums * 2 * elements * 4 * others / (uint64_t)n_slices + 2 * tokens * 4 * others);
        assert_int_equal(a.tensor - p.tensor, LAYERS * elements * 2 * others / (uint64_t)n_slices);
        assert_int_equal(p.intra_node, p.gather + p.reduce + p.tensor);
        /* What is kept between forward and backward is a part of each checkpoint, in the working precision. */
        const struct zn_manifest_entry *kept = zn_manifest_find(&a.plan.manifest, ZN_BUFFER_CHECKPOINTS);
        assert_non_null(kept);
        assert_int_equal(kept->n_bytes, (LAYERS + 1) * elements * 2 / (uint64_t)n_slices);
        assert_true(a.step > 0 && p.step > 0);
        zn_prediction_fini(&p);
        zn_prediction_fini(&a);
        zn_model_destroy(model);
    }
}

static void shapes_are_made_so_that_ranks_can_share_them(void **state)
{
    (void)state;
    struct zn_shape s;
    zn_model *model;
    OK(zn_shape_near(8e9, ZN_SHAPE_VOCABULARY, &s));
    assert_int_not_equal(s.heads % 16, 0);
    OK(zn_shape_share(&s, 16));
    assert_int_equal(s.heads % 16, 0);
    OK(zn_shape_model_sliced(&s, 1024, 16, &model));
    assert_true(zn_model_n_held(model) < zn_model_n_elements(model) / 15);
    zn_model_destroy(model);
    assert_int_equal(zn_shape_share(&s, 7), ZN_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_hold_their_part_of_every_state),
        cmocka_unit_test(exchanges_are_those_of_the_formulas),
        cmocka_unit_test(shapes_are_made_so_that_ranks_can_share_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
