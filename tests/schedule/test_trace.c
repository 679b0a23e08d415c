/* What a recorded trace is: the points of a model in order, whatever the stage, the ranks and the tiers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/json.h"
#include "models/model.h"
#include "schedule/written.h"
#include "zero/recorder.h"

static const char *const config =
    "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":1,\"n_head\":2,\"n_positions\":16,"
    "\"vocab_size\":300}";

static void record(const struct zn_engine_options *o, int n_ranks, zn_trace *trace)
{
    zn_json *json;
    zn_model *model;
    zn_units units;
    OK(zn_json_load_buffer(config, strlen(config), "config", &json));
    OK(zn_model_create(json, o->seq_len, &model));
    struct zn_params params = zn_module_params(model->module);
    OK(zn_compile_units(&params, o, n_ranks, &units));
    OK(zn_record(model->module, o, &units, trace));
    zn_units_fini(&units);
    zn_model_destroy(model);
    zn_json_destroy(json);
}

static int count(const struct zn_pass_trace *pass, zn_point_kind kind)
{
    int n = 0;
    for (int i = 0; i < pass->n_points; i++)
        n += pass->points[i].kind == (int32_t)kind;
    return n;
}

static void a_trace_does_not_depend_on_stage_ranks_or_tiers(void **state)
{
    (void)state;
    zn_trace first, other;
    struct zn_engine_options o = written_options();
    record(&o, 1, &first);
    o.stage = 3;
    o.offload = (struct zn_offload){.parameters = ZN_TIER_NVME, .gradients = ZN_TIER_HOST, .optimizer = ZN_TIER_NVME};
    record(&o, 3, &other);
    assert_int_equal(first.train.n_points, other.train.n_points);
    assert_memory_equal(first.train.points, other.train.points, (size_t)first.train.n_points * sizeof *first.train.points);
    zn_trace_fini(&first);
    zn_trace_fini(&other);
}

/* Segments end in order and in reverse; each gradient is opened and closed. */
static void a_pass_has_every_segment_and_every_gradient(void **state)
{
    (void)state;
    zn_trace trace;
    struct zn_engine_options o = written_options();
    o.evaluates = true;
    record(&o, 1, &trace);
    int forward = 0, backward = trace.n_segments - 1;
    for (int i = 0; i < trace.train.n_points; i++) {
        if (trace.train.points[i].kind == ZN_POINT_FORWARD_END)
            assert_int_equal(trace.train.points[i].index, forward++);
        if (trace.train.points[i].kind == ZN_POINT_BACKWARD_END)
            assert_int_equal(trace.train.points[i].index, backward--);
    }
    assert_int_equal(forward, 3);
    assert_int_equal(backward, -1);
    assert_int_equal(count(&trace.train, ZN_POINT_OPEN), 2 + 12 + 3); /* of embedding, block and head, the tied one twice */
    assert_int_equal(count(&trace.train, ZN_POINT_CLOSE), 17);
    assert_int_equal(count(&trace.train, ZN_POINT_SAVE), 0);
    assert_int_equal(count(&trace.evaluate, ZN_POINT_OPEN), 0);
    assert_int_equal(count(&trace.evaluate, ZN_POINT_FORWARD_END), 3);
    zn_trace_fini(&trace);
}

static void checkpoints_that_leave_are_points(void **state)
{
    (void)state;
    zn_trace trace;
    struct zn_engine_options o = written_options();
    o.offload.activations = ZN_TIER_HOST;
    o.accumulate = 2;
    o.vertical = true;
    record(&o, 1, &trace);
    assert_int_equal(count(&trace.train, ZN_POINT_SAVE), 2);
    assert_int_equal(count(&trace.train, ZN_POINT_LOAD), 2);
    assert_int_equal(trace.checkpoint_elements, 8 * 32);
    zn_trace_fini(&trace);
}

static void frozen_parameters_have_no_gradients(void **state)
{
    (void)state;
    zn_trace trace;
    bool frozen[32] = {[0] = true, [1] = true};
    struct zn_engine_options o = written_options();
    o.frozen = frozen;
    record(&o, 1, &trace);
    assert_int_equal(count(&trace.train, ZN_POINT_OPEN), 12 + 2);
    zn_trace_fini(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_does_not_depend_on_stage_ranks_or_tiers),
        cmocka_unit_test(a_pass_has_every_segment_and_every_gradient),
        cmocka_unit_test(checkpoints_that_leave_are_points),
        cmocka_unit_test(frozen_parameters_have_no_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
