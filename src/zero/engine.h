/* The engine: holds the model states of a module, partitioned over the ranks of a communicator as
 * the stage says, and runs training steps. Where parameters are sliced (tensor parallelism), the ranks that hold the same slices
 * partition them; elements of parameters are counted as in the whole parameter here.
 *
 * Functions whose names the public engine (zinc/engine.h) has as well begin with zn_zero_.
 *
 * It is made from a plan (schedule/compile.h): it allocates the plan's buffers and runs its program along the tape. All functions
 * are collective unless said; they block until the device has done the work where they return values. */
#ifndef ZN_ZERO_ENGINE_H
#define ZN_ZERO_ENGINE_H

#include "autograd/module.h"
#include "base/progress.h"
#include "comm/comm.h"
#include "schedule/compile.h"
#include "storage/storage.h"

typedef struct zn_engine zn_engine;

/* What an engine runs on: the real machine, or a simulated one. */
struct zn_world {
    zn_device *device;
    zn_device *host;     /* for updates beside the device's work (zn_placement_wants_host); NULL: the device */
    zn_comm *comm;       /* all ranks */
    zn_comm *replica, *tensor; /* groups of them (ZN_REPLICA, ZN_TENSOR) where parameters are sliced; NULL: all hold the same */
    zn_storage *storage; /* NULL where the plan has no swap */
    zn_progress *progress; /* is told where a step is, and what is streamed; NULL: nobody asks */
};

/* Everything passed in is borrowed and outlives the engine. */
zn_status zn_zero_create(const struct zn_world *world, const zn_module *module, const struct zn_engine_options *options,
                         const zn_engine_plan *plan, zn_engine **engine);
void zn_zero_destroy(zn_engine *engine);

/* ---- Values of parameters (zero/states.c) ---- */

/* Not collective: the next range of a parameter's elements, from element `from` on, that this rank
 * brings at start; n is 0 after the last. Together the ranks bring all; at stage 0 each brings all. */
struct zn_range zn_engine_owned_range(const zn_engine *engine, const zn_param *param, int64_t from);

/* Not collective: sets the elements that this rank brings by the declaration. */
zn_status zn_engine_init_param(zn_engine *engine, const zn_param *param, uint64_t seed);

/* Not collective: whether this parameter is kept quantised (tensor/quantum.h), and setting the elements that this rank brings. `give`
 * is asked for any elements of the parameter, some of them twice: what one is quantised to depends on all. */
typedef zn_status (*zn_give_values)(void *self, const zn_param *param, int64_t first, float *values, int64_t n_elements);
bool zn_engine_is_quantised(const zn_engine *engine, const zn_param *param);
zn_status zn_engine_quantise_param(zn_engine *engine, const zn_param *param, zn_give_values give, void *self);

/* Ends the filling: from now on every rank has what its stage keeps. */
zn_status zn_engine_publish(zn_engine *engine);

/* The states of a parameter. The master is the parameter itself in fp32 training; `pending` is the gradient
 * of an update that is delayed; ZN_STATE_OPTIMIZER + i is the optimizer's state i, ZN_STATE_SCALES + i has a value for each of its
 * blocks. Values are handed over in fp32, which has those of bf16 states, and codes as numbers from 0 to 255, exactly. */
typedef enum zn_state {
    ZN_STATE_MASTER,
    ZN_STATE_OPTIMIZER,
    ZN_STATE_PENDING = ZN_STATE_OPTIMIZER + ZN_MAX_OPTIMIZER_STATES,
    ZN_STATE_SCALES,
    ZN_N_STATES = ZN_STATE_SCALES + ZN_MAX_OPTIMIZER_STATES
} zn_state;

/* Not collective: the name of this state, or NULL where there is none (`pending` is there only where an update is). */
const char *zn_engine_state_name(const zn_engine *engine, zn_state state);

/* Not collective: whether this parameter has it. One that is frozen has no state but its master. */
bool zn_engine_has_state(const zn_engine *engine, const zn_param *param, zn_state state);

/* Not collective: the type in which a state is kept, and how many elements of a parameter have one value of it: 1, or a block. */
zn_dtype zn_engine_state_type(const zn_engine *engine, zn_state state);
int64_t zn_engine_state_grain(const zn_engine *engine, zn_state state);

/* Values that so many elements have. */
static inline int64_t zn_state_values(int64_t n_elements, int64_t grain)
{
    return (n_elements + grain - 1) / grain;
}

/* Not collective: writes or reads values of elements that this rank brings, in whatever tier they are; `first` and the number count
 * values. Writing a master sets the working parameter too; zn_engine_publish ends the writing. A quantised parameter is not written
 * so. */
zn_status zn_engine_write_state(zn_engine *engine, const zn_param *param, zn_state state, int64_t first,
                                const float *values, int64_t n_values);
zn_status zn_engine_read_state(zn_engine *engine, const zn_param *param, zn_state state, int64_t first,
                               float *values, int64_t n_values);

/* Hands a state of all parameters that have it piece by piece to `take` on every rank, in the order of parameters;
 * memory does not grow with the model. A failure of take ends it on every rank. */
typedef zn_status (*zn_take_values)(void *self, const zn_param *param, int64_t first,
                                    const float *values, int64_t n_values);
zn_status zn_engine_stream_state(zn_engine *engine, zn_state state, zn_take_values take, void *self);

/* The same for the masters of trained parameters alone: a frozen base is not read. */
zn_status zn_engine_stream_trained(zn_engine *engine, zn_take_values take, void *self);

/* The same for one parameter: only its units are read. */
zn_status zn_engine_stream_param(zn_engine *engine, const zn_param *param, zn_state state, zn_take_values take, void *self);

/* Not collective: for a run that goes on where another ended. */
void zn_engine_set_updates(zn_engine *engine, int64_t n_updates);

/* The update that is delayed, if one is: its gradients are a state, and set after this. */
struct zn_pending {
    bool is_there;
    double lr, grad_scale;
};
struct zn_pending zn_engine_pending(const zn_engine *engine);
zn_status zn_engine_set_pending(zn_engine *engine, const struct zn_pending *pending);

/* ---- Steps ---- */

struct zn_verdict {
    double loss; /* sum of the token losses of the step, or of those of pairs, over all ranks */
    double n_right, margins; /* of pairs: how many prefer the chosen answer, and the sum of their margins */
    double norm; /* of all gradients, before clipping, unscaled */
    bool skipped;
    char reason[160]; /* the first tensor that is not finite */
};

/* The tokens of a micro-batch: ids and targets, each (micro_batch, seq_len). An engine that has examples also takes the
 * position of each token within its example, and as many tokens a sequence as the batch needs. */
struct zn_micro_batch {
    const int32_t *ids, *targets;
    const int32_t *position_ids; /* NULL: sequences are whole */
    const int32_t *sequences;    /* of pairs: which answer each token is of, as zn_pair_loss_args has it; else NULL */
    int64_t seq_len;                /* 0: the engine's */
};

/* What a step brings: `accumulate` micro-batches. Gradients are those of the sum of token losses × scale, divided
 * by loss_scale before the update. */
struct zn_step {
    const struct zn_micro_batch *batches;
    float scale;
    double lr, loss_scale;
};

/* Forward and backward of all micro-batches in the order of the schedule, then norm, clipping and the
 * update. A gradient that is not finite skips the update; where units are updated in backward it is a
 * failure. */
zn_status zn_zero_step(zn_engine *engine, const struct zn_step *step, struct zn_verdict *verdict);

/* Applies the update that is still pending, at the end of a run with delayed updates. */
zn_status zn_zero_finish(zn_engine *engine);

/* Not collective: how many updates were made (the optimizer's t), and how many were decided: one more while one is
 * pending. */
int64_t zn_engine_updates(const zn_engine *engine);
int64_t zn_engine_decided(const zn_engine *engine);

/* Not collective: bytes of storage moved up to the end of the last step, but for an update that goes on beside the
 * next, whose bytes are that step's. */
struct zn_moved {
    uint64_t read, written;
};
struct zn_moved zn_engine_moved(const zn_engine *engine);

/* Sum of the token losses of this rank's batch, forward alone. */
zn_status zn_zero_evaluate(zn_engine *engine, const struct zn_micro_batch *batch, double *loss);

/* ---- Extending a sequence (zero/extend.c): engines that do not train, with options.extends ---- */

/* Adds n tokens (n >= 1) to the sequence, the same on every rank. `logits` (V floats on the host), when not NULL, are
 * those of the last one. */
zn_status zn_engine_extend(zn_engine *engine, const int32_t *ids, int64_t n, float *logits);

/* Not collective: tokens of the sequence so far, and back to that many or fewer. */
int64_t zn_engine_length(const zn_engine *engine);
void zn_engine_rewind(zn_engine *engine, int64_t length);

#endif
