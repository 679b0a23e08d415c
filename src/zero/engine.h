/* The engine: holds the model states of a module on a device and runs training steps.
 *
 * An engine without a plan records: on the sim device it runs a step to learn the manifest and
 * the lifetimes of activations. An engine with that plan allocates exactly what it says.
 * Functions block until the device has done the work where they return values. */
#ifndef ZN_ZERO_ENGINE_H
#define ZN_ZERO_ENGINE_H

#include "autograd/module.h"
#include "memory/manifest.h"

typedef enum zn_optimizer { ZN_ADAMW, ZN_ADAM, ZN_SGD } zn_optimizer;

struct zn_engine_options {
    bool trains;    /* else it only evaluates: no gradients, no optimizer states */
    bool evaluates; /* a training engine that also evaluates */
    int64_t micro_batch, time;
    int64_t accumulate;
    bool recompute, keep_logits;
    zn_optimizer optimizer;
    double beta1, beta2, eps, weight_decay, momentum;
    double clip; /* 0 is off */
};

typedef struct zn_engine_plan {
    zn_manifest manifest;
    zn_lifetimes *train, *evaluate; /* NULL where not used */
    size_t arena_bytes;
    size_t slot_bytes; /* a gradient that is added to what is there; 0 when none is */
} zn_engine_plan;

void zn_engine_plan_fini(zn_engine_plan *plan);

typedef struct zn_engine zn_engine;

/* plan NULL: a recording engine. Everything passed in is borrowed and outlives the engine. */
zn_status zn_engine_create(zn_device *device, const zn_module *module,
                           const struct zn_engine_options *options, const zn_engine_plan *plan,
                           zn_engine **engine);
void zn_engine_destroy(zn_engine *engine);

/* Ends a recording: the plan is the caller's. */
zn_status zn_engine_take_plan(zn_engine *engine, zn_engine_plan *plan);

/* Values of a parameter, for loading and export: elements first … first+n. */
zn_status zn_engine_write_param(zn_engine *engine, const zn_param *param, int64_t first,
                                const float *values, int64_t n_elements);
zn_status zn_engine_read_param(zn_engine *engine, const zn_param *param, int64_t first,
                               float *values, int64_t n_elements);

/* Random values as the parameter's declaration says. */
zn_status zn_engine_init_param(zn_engine *engine, const zn_param *param, uint64_t seed);

/* Forward and backward of one micro-batch: ids and targets are (micro_batch, time). Gradients are
 * those of the sum of token losses × scale, added up until the step is finished. */
zn_status zn_engine_micro_batch(zn_engine *engine, const int32_t *ids, const int32_t *targets,
                                float scale);

struct zn_verdict {
    double loss; /* sum of the token losses of the step */
    double norm; /* of all gradients, before clipping */
    bool skipped;
    char reason[160]; /* the first tensor that is not finite */
};

/* Ends the step: norm, clipping, the update with this learning rate. A gradient that is not
 * finite skips the update. */
zn_status zn_engine_finish_step(zn_engine *engine, double lr, struct zn_verdict *verdict);

/* How many updates were made (Adam's t). */
int64_t zn_engine_updates(const zn_engine *engine);

/* Sum of the token losses of a batch, forward alone. */
zn_status zn_engine_evaluate(zn_engine *engine, const int32_t *ids, const int32_t *targets,
                             double *loss);

#endif
