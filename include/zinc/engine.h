/* An engine: a model with its optimizer, trained step by step.
 *
 *     zn_engine *engine;
 *     struct zn_engine_setup setup = {.size = sizeof setup, .context = context, .options = options, .model = model, .data = data};
 *     if (zn_engine_create(&setup, &engine) != ZN_OK) …
 *     while (!zn_engine_is_done(engine)) {
 *         struct zn_step_result step = {.size = sizeof step};
 *         if (zn_engine_step(engine, &step) != ZN_OK) …
 *     }
 *     zn_engine_finish(engine);
 *     zn_engine_destroy(engine);
 *
 * Its losses and weights are those of `zinc train` with the same options, to the last bit: both run the same functions. With the
 * option output it also writes what the command writes: the log, checkpoints, and the model after the last step. Without, it writes nothing
 * but a temporary folder that goes with it.
 *
 * Engines of one process do not touch each other; each is used by one thread at a time, and ranks call the functions of their engines
 * in the same order. After a failed step only zn_engine_destroy is left. */
#ifndef ZINC_ENGINE_H
#define ZINC_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "zinc/context.h"
#include "zinc/data.h"
#include "zinc/model.h"
#include "zinc/options.h"
#include "zinc/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_engine_handle zn_engine;

/* What an engine is made of. The context is borrowed as long as the engine lives; options, model and data for the call. */
struct zn_engine_setup {
    size_t size;         /* sizeof(struct zn_engine_setup) */
    zn_context *context;
    const zn_options *options; /* of "train" */
    const zn_model *model;     /* NULL: the option model names its folder */
    const zn_data *data;       /* NULL: the option data names files */
    const zn_data *eval_data;  /* NULL: the option eval-data, if it is given */
    const struct zn_train_listener *listener; /* copied; NULL: nobody listens */
    int (*stop)(void *self);   /* asked after each step, as of struct zn_train_options; may be NULL */
    void *stop_self;
};

/* Opens model and data, plans the memory of the whole run, allocates it and loads the weights. Collective; blocks. The caller
 * destroys. */
ZN_API zn_status zn_engine_create(const struct zn_engine_setup *setup, zn_engine **engine);

/* Frees all that it holds, before its context is destroyed. What was not saved or exported is lost. Collective; NULL is legal. */
ZN_API void zn_engine_destroy(zn_engine *engine);

struct zn_step_result {
    size_t size; /* sizeof(struct zn_step_result), set by the caller */
    int64_t step, steps; /* that were done, and in all */
    double loss, grad_norm, lr, seconds;
    double scale;            /* loss scale of the step */
    int64_t tokens, targets; /* of all ranks: processed, and those that count */
    double eval_loss;        /* where evaluated is 1 */
    int skipped, evaluated;  /* 0 or 1 */
    const char *reason;      /* of a skipped step, until the next; else empty */
    size_t device_bytes, host_bytes, nvme_bytes; /* peaks of what was planned */
};

/* The next step: forward and backward of its micro-batches, the update, and what is due after it. `result` may be NULL; all ranks
 * have the same losses. Fails with ZN_ERR_USAGE where all steps are done. Collective; blocks. */
ZN_API zn_status zn_engine_step(zn_engine *engine, struct zn_step_result *result);

/* Whether all steps are done: the option steps, or as many as epochs asks for. Not collective. */
ZN_API int zn_engine_is_done(const zn_engine *engine);

/* Ends a run whose steps are done: with the option output its log and run.json are finished. Collective; blocks. */
ZN_API zn_status zn_engine_finish(zn_engine *engine);

struct zn_evaluation {
    size_t size; /* sizeof(struct zn_evaluation), set by the caller */
    double loss, perplexity;
    int64_t windows, tokens, targets;
};

/* The mean loss on the held-out data with the present weights. Collective; blocks. */
ZN_API zn_status zn_engine_evaluate(zn_engine *engine, struct zn_evaluation *result);

/* How many parameters, which are tensors, the engine's model has, adapters among them. Not collective. */
ZN_API size_t zn_engine_n_parameters(const zn_engine *engine);

/* Tells of parameter i. Not collective. */
ZN_API zn_status zn_engine_parameter(const zn_engine *engine, size_t i, struct zn_parameter_info *info);

/* The name of state i of a trained parameter, from 0: "master", which are its values in fp32, then those of the optimizer ("exp_avg", …);
 * NULL after the last. Not collective. */
ZN_API const char *zn_engine_state(const zn_engine *engine, int i);

/* Copies all values of a parameter, or of a state of it, to `values` on every rank, wherever they lie. `state` NULL: the values
 * themselves. n_values is how many there are: n_elements, fewer of a state that has one for each block. Collective; blocks. */
ZN_API zn_status zn_engine_read(zn_engine *engine, const char *parameter, const char *state, float *values, int64_t n_values);

/* Saves a checkpoint as folder/step-N, all states in it. zn_engine_load and --resume=FOLDER go on from it with any number of ranks.
 * Collective; blocks. */
ZN_API zn_status zn_engine_save(zn_engine *engine, const char *folder);

/* Goes on from a checkpoint: one itself, or the newest whole one of a folder. One of another model, optimizer or data is refused, and the
 * engine is as it was. Collective; blocks. */
ZN_API zn_status zn_engine_load(zn_engine *engine, const char *folder);

/* Writes the model with its present weights, or its adapters, as a hub folder, which is made and must not hold one. Collective; blocks. */
ZN_API zn_status zn_engine_export(zn_engine *engine, const char *folder);

/* The value of an option as the run has it, with what the plan and the machine decided; as zn_options_get. The caller frees the text with
 * zn_free. Not collective. */
ZN_API zn_status zn_engine_get(const zn_engine *engine, const char *name, char **text);

/* The program of a step, one instruction a line, as `zinc plan --program` prints it. The caller frees the text with zn_free. Not
 * collective. */
ZN_API zn_status zn_engine_program(const zn_engine *engine, char **text);

#ifdef __cplusplus
}
#endif
#endif
