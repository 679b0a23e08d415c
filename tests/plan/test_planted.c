/* The simulation runs the engine's own code: a gather that is planted in it is seen in the simulated bytes and seconds.
 *
 * This program has the executor from zero/executor.c in a build of its own, in which a unit can be gathered
 * once more each time the plan gathers it; all else is linked from the library. */
#include <math.h>

#include "comm/comm.h"

static zn_status gather_again(zn_comm *comm, const struct zn_gather *gather, zn_event *done);

#define zn_comm_gather gather_again
#include "zero/executor.c"
#undef zn_comm_gather

#include "files.h"
#include "optim/registry.h"
#include "plan/predict.h"
#include "plan/shape.h"
#include "zero/recorder.h"

static int planted_unit = -1; /* the unit that is gathered twice; -1: none */
static int n_planted;

static zn_status gather_again(zn_comm *comm, const struct zn_gather *gather, zn_event *done)
{
    if (gather->tag.unit == planted_unit) {
        n_planted++;
        ZN_TRY(zn_comm_gather(comm, gather, done));
        zn_event_reset(done);
    }
    return zn_comm_gather(comm, gather, done);
}

static struct zn_sim_step simulate(const zn_model *model, const struct zn_cluster *cluster)
{
    const struct zn_plan_setup s = {
        .model = model,
        .cluster = cluster,
        .n_ranks = 32,
        .n_nodes = 2,
        .engine = {.trains = true, .stage = 3, .reduce_every = true, .type = ZN_F16, .micro_batch = 1, .seq_len = 1024,
                   .accumulate = 1, .recompute = true, .delay_after = -1,
                   .optimizer = &zn_optimizer_adamw, .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                   .clip = 1}};
    struct zn_prediction p;
    OK(zn_predict(&s, &p));
    struct zn_sim_step step = p.simulated;
    zn_prediction_fini(&p);
    return step;
}

static void a_planted_gather_is_seen(void **state)
{
    (void)state;
    enum { LAYERS = 3, HIDDEN = 2048, RANKS = 32, BLOCK = 1 };
    const struct zn_shape shape = {LAYERS, HIDDEN, 16, 0, 50257};
    struct zn_cluster cluster;
    zn_model *model;
    zn_units units;
    OK(zn_cluster_load("dgx2-v100", &cluster));
    OK(zn_shape_model(&shape, 1024, &model));
    struct zn_params params = zn_module_params(model->module);
    OK(zn_units_init(&units, &params, &(struct zn_units_options){.type = ZN_F16, .n_ranks = RANKS}));
    struct zn_sim_step honest = simulate(model, &cluster);
    planted_unit = BLOCK;
    struct zn_sim_step more = simulate(model, &cluster);
    planted_unit = -1;
    struct zn_sim_step again = simulate(model, &cluster);
    assert_true(n_planted > 0);
    /* Forward and backward gather the block: two more in a step, without prefetch all of their time is seen. */
    uint64_t piece = (uint64_t)units.units[BLOCK].partition * 2, extra = 2 * piece * (RANKS - 1);
    assert_int_equal(more.gather - honest.gather, extra);
    assert_int_equal(more.reduce, honest.reduce);
    double between = (double)piece * (RANKS - 16) / cluster.node_node.node; /* then handed on within the node */
    double inside = (double)piece * (RANKS - 1) / zn_link_rate(&cluster.device_device, 16), seconds = 2 * fmax(between, inside);
    assert_true(fabs((more.seconds - honest.seconds) / seconds - 1) < 1e-6);
    assert_true(fabs((more.resource[ZN_COMMUNICATION].exposed - honest.resource[ZN_COMMUNICATION].exposed) / seconds - 1) < 1e-6);
    assert_int_equal(again.gather, honest.gather);
    assert_true(again.seconds == honest.seconds);
    zn_units_fini(&units);
    zn_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_planted_gather_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
