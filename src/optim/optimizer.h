/* An optimizer as a descriptor: its states and its update rule. Memory, swap, checkpoints and the planner follow from it;
 * nothing else knows which optimizer it is. Masters are the engine's, not the optimizer's. */
#ifndef ZN_OPTIM_OPTIMIZER_H
#define ZN_OPTIM_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "memory/address.h"
#include "tensor/dtype.h"

typedef struct zn_device zn_device;

enum { ZN_MAX_OPTIMIZER_STATES = 3 };

/* What people may set; an optimizer uses those that it names in its file. */
struct zn_hyperparameters {
    double beta1, beta2, eps, weight_decay, momentum;
};

/* One update of a range of elements; all of them belong to one parameter. Addresses are those of its first element. A range begins
 * at a multiple of ZN_SUM_ELEMENTS of the parameter and ends at one, or with the parameter: no block is cut. */
struct zn_update {
    zn_addr param, grad; /* fp32 */
    zn_addr state[ZN_MAX_OPTIMIZER_STATES];
    zn_addr scales[ZN_MAX_OPTIMIZER_STATES]; /* of block-wise states: fp32, one for each block from that of the first element on */
    zn_addr copy; /* receives the new values in copy_type; 0: nothing does */
    zn_dtype copy_type;
    int64_t n_elements;
    int64_t t; /* its number, from 1 */
    double lr;
    double decay;     /* weight decay of this parameter */
    float grad_scale; /* the gradient is grad × grad_scale */
    const struct zn_hyperparameters *hyperparameters;
};

/* One state for each element of a parameter: fp32, bf16, or codes of 8 bits in blocks that have a scale each. All its bytes are zero
 * before the first update. */
struct zn_optimizer_state {
    const char *name; /* in checkpoints: what follows the parameter's name and a dot */
    zn_dtype type;
    int block;          /* so many consecutive elements of a parameter share one scale; 0: there are no scales */
    const char *scales; /* their name in checkpoints: the state's with ZN_SCALES_SUFFIX */
};

#define ZN_SCALES_SUFFIX ".absmax"

typedef enum zn_granularity {
    ZN_BY_ELEMENT, /* an element's update needs that element alone, so any range can be updated on any rank */
    ZN_BY_MATRIX
} zn_granularity;

typedef struct zn_optimizer zn_optimizer;

struct zn_optimizer {
    const char *name;  /* as people type it */
    const char *title; /* with what else makes it this one: "sgd with --momentum" */
    int n_states;
    struct zn_optimizer_state state[ZN_MAX_OPTIMIZER_STATES];
    zn_granularity granularity;

    /* Where not given; 0: the default of the setting. */
    struct zn_hyperparameters defaults;

    /* Which of several of this name the hyperparameters mean; NULL: this one. */
    const zn_optimizer *(*choose)(const struct zn_hyperparameters *hyperparameters);

    /* Only queues kernels: it reads no memory and does not wait. May run on the thread of updates. */
    zn_status (*update)(zn_device *device, const struct zn_update *update);
};

/* Refuses by name what the engine has no path for. */
zn_status zn_optimizer_check(const zn_optimizer *optimizer);

/* Bytes of all its states, scales included, for so many elements: whole blocks. */
size_t zn_optimizer_bytes(const zn_optimizer *optimizer, int64_t n_elements);

/* Whether a state is rounded when it is stored. */
bool zn_optimizer_is_lossy(const zn_optimizer *optimizer);

#endif
