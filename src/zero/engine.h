/* The engine: holds the model states of a module, partitioned over the ranks of a communicator as
 * the stage says, and runs training steps.
 *
 * An engine without a plan records: on the sim device and communicator it runs a step to learn the
 * manifest, the lifetimes of activations and gradient slots, and the trace of units. An engine with
 * that plan allocates exactly what it says. All functions are collective unless said; they block
 * until the device has done the work where they return values. */
#ifndef ZN_ZERO_ENGINE_H
#define ZN_ZERO_ENGINE_H

#include "autograd/module.h"
#include "comm/comm.h"
#include "memory/manifest.h"
#include "zero/coordinator.h"
#include "zero/unit.h"

typedef enum zn_optimizer { ZN_ADAMW, ZN_ADAM, ZN_SGD } zn_optimizer;

struct zn_engine_options {
    bool trains;    /* else it only evaluates: no gradients, no optimizer states */
    bool evaluates; /* a training engine that also evaluates */
    int stage;      /* 0 … 3 */
    zn_dtype type;  /* working precision: of parameters, and of gradients between ranks */
    bool reduce_every; /* gradients are reduced every micro-batch (always at stages 2 and 3) */
    int64_t micro_batch, time; /* of this rank */
    int64_t accumulate;
    bool recompute, keep_logits;
    size_t prefetch_bytes, reuse_bytes; /* stage 3: see coordinator.h */
    size_t persist_bytes; /* stage 3: units up to this size stay gathered */
    zn_optimizer optimizer;
    double beta1, beta2, eps, weight_decay, momentum;
    double clip; /* 0 is off */
    const bool *frozen; /* by parameter index: not trained; NULL: none. Borrowed */
};

typedef struct zn_engine_plan {
    zn_manifest manifest;
    zn_lifetimes *train, *evaluate; /* activations; NULL where not used */
    zn_lifetimes *slots;            /* gradients on their way to be reduced; NULL where none are */
    zn_trace train_trace, evaluate_trace; /* stage 3 */
    size_t arena_bytes;
    size_t add_bytes; /* gradients of parameters used again before they are reduced */
} zn_engine_plan;

void zn_engine_plan_fini(zn_engine_plan *plan);

typedef struct zn_engine zn_engine;

/* plan NULL: a recording engine. Everything passed in is borrowed and outlives the engine. */
zn_status zn_engine_create(zn_device *device, zn_comm *comm, const zn_module *module,
                           const struct zn_engine_options *options, const zn_engine_plan *plan,
                           zn_engine **engine);
void zn_engine_destroy(zn_engine *engine);

/* Ends a recording: the plan is the caller's. */
zn_status zn_engine_take_plan(zn_engine *engine, zn_engine_plan *plan);

/* ---- Values of parameters (zero/states.c) ---- */

/* Not collective: which elements of a parameter this rank brings at start. Together the ranks
 * bring all; at stage 0 each brings all of them. */
struct zn_range zn_engine_brings(const zn_engine *engine, const zn_param *param);

/* Not collective: sets the elements that this rank brings by the declaration. */
zn_status zn_engine_init_param(zn_engine *engine, const zn_param *param, uint64_t seed);

/* Ends the filling: from now on every rank has what its stage keeps. */
zn_status zn_engine_publish(zn_engine *engine);

/* The fp32 states of a parameter. The master is the parameter itself in fp32 training. */
typedef enum zn_state { ZN_STATE_MASTER, ZN_STATE_EXP_AVG, ZN_STATE_EXP_AVG_SQ, ZN_N_STATES } zn_state;

/* Not collective: whether the optimizer keeps this state (SGD has no second moment, and a first only with momentum). */
bool zn_engine_has_state(const zn_engine *engine, zn_state state);

/* Not collective: writes or reads elements that this rank brings, in whatever tier they are. Writing a
 * master sets the working parameter too; zn_engine_publish ends the writing. */
zn_status zn_engine_write_state(zn_engine *engine, const zn_param *param, zn_state state, int64_t first,
                                const float *values, int64_t n_elements);
zn_status zn_engine_read_state(zn_engine *engine, const zn_param *param, zn_state state, int64_t first,
                               float *values, int64_t n_elements);

/* Hands a state of all parameters piece by piece to `take` on every rank, in the order of parameters;
 * memory does not grow with the model. A failure of take ends it on every rank. */
typedef zn_status (*zn_take_values)(void *self, const zn_param *param, int64_t first,
                                    const float *values, int64_t n_elements);
zn_status zn_engine_stream_state(zn_engine *engine, zn_state state, zn_take_values take, void *self);

/* Not collective: for a run that goes on where another ended. */
void zn_engine_set_updates(zn_engine *engine, int64_t n_updates);

/* ---- Steps ---- */

/* Forward and backward of one micro-batch of this rank: ids and targets are (micro_batch, time).
 * Gradients are those of the sum of token losses × scale, added up until the step is finished; `last`
 * says that this is the step's last micro-batch. */
zn_status zn_engine_micro_batch(zn_engine *engine, const int32_t *ids, const int32_t *targets,
                                float scale, bool last);

struct zn_verdict {
    double loss; /* sum of the token losses of the step, over all ranks */
    double norm; /* of all gradients, before clipping, unscaled */
    bool skipped;
    char reason[160]; /* the first tensor that is not finite */
};

/* Ends the step: norm, clipping, the update with this learning rate. Gradients are divided by
 * loss_scale. One that is not finite skips the update. */
zn_status zn_engine_finish_step(zn_engine *engine, double lr, double loss_scale,
                                struct zn_verdict *verdict);

/* Not collective: how many updates were made (Adam's t). */
int64_t zn_engine_updates(const zn_engine *engine);

/* Sum of the token losses of this rank's batch, forward alone. */
zn_status zn_engine_evaluate(zn_engine *engine, const int32_t *ids, const int32_t *targets,
                             double *loss);

#endif
