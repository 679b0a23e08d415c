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
    bool muon_original; /* muon's updates are scaled as first published, not to the size of AdamW's */
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
    zn_addr direction;     /* by matrix: fp32, what `prepare` writes and `apply` takes */
    int64_t rows, columns; /* … of the whole matrix */
};

/* The direction of one whole matrix, row after row, and `work_bytes` of memory, aligned to 4096. */
struct zn_matrix {
    zn_addr direction, work;
    int64_t rows, columns;
};

/* The parameters that have a state. An optimizer by matrix takes hidden matrices so (zn_param_is_hidden_matrix), and the rest by
 * element. */
typedef enum zn_state_of { ZN_OF_ALL, ZN_OF_MATRICES, ZN_OF_REST } zn_state_of;

/* One state for each element of a parameter: fp32, bf16, or codes of 8 bits in blocks that have a scale each. All its bytes are zero
 * before the first update. */
struct zn_optimizer_state {
    const char *name; /* in checkpoints: what follows the parameter's name and a dot */
    zn_dtype type;
    int block;          /* so many consecutive elements of a parameter share one scale; 0: there are no scales */
    const char *scales; /* their name in checkpoints: the state's with ZN_SCALES_SUFFIX */
    zn_state_of of;
};

#define ZN_SCALES_SUFFIX ".absmax"

typedef enum zn_granularity {
    ZN_BY_ELEMENT, /* an element's update needs that element alone, so any range can be updated on any rank */
    ZN_BY_MATRIX   /* a hidden matrix is updated as a whole: three steps, of which the second needs all of it on one rank */
} zn_granularity;

typedef struct zn_optimizer zn_optimizer;

struct zn_optimizer {
    const char *name;  /* as people type it */
    const char *title; /* with what else makes it this one: "sgd with --momentum" */
    int n_states;
    struct zn_optimizer_state state[ZN_MAX_OPTIMIZER_STATES];
    zn_granularity granularity;
    bool on_device; /* devices with memory of their own have its kernel; else they have the host update */

    /* Where not given; 0: the default of the setting. */
    struct zn_hyperparameters defaults;

    /* Which of several of this name the hyperparameters mean; NULL: this one. */
    const zn_optimizer *(*choose)(const struct zn_hyperparameters *hyperparameters);

    /* Only queues kernels: it reads no memory and does not wait. May run on the thread of updates. */
    zn_status (*update)(zn_device *device, const struct zn_update *update);

    /* By matrix alone. The first and the last take any range of elements: states and direction from the gradient; parameters from the
     * direction. In between the direction of each whole matrix is transformed in place, which may read memory and wait. */
    zn_status (*prepare)(zn_device *device, const struct zn_update *update);
    size_t (*work_bytes)(int64_t rows, int64_t columns);
    zn_status (*transform)(zn_device *device, const struct zn_matrix *matrix);
    zn_status (*apply)(zn_device *device, const struct zn_update *update);
};

/* Refuses by name what the engine has no path for. */
zn_status zn_optimizer_check(const zn_optimizer *optimizer);

/* Whether elements that are updated by matrix, or by element, have the state. */
static inline bool zn_optimizer_keeps(const struct zn_optimizer_state *state, bool by_matrix)
{
    return state->of == ZN_OF_ALL || (state->of == ZN_OF_MATRICES) == by_matrix;
}

static inline bool zn_optimizer_is_by_matrix(const zn_optimizer *optimizer)
{
    return optimizer && optimizer->granularity == ZN_BY_MATRIX;
}

/* Bytes of all states, scales included, that so many elements have: whole blocks. */
size_t zn_optimizer_bytes(const zn_optimizer *optimizer, bool by_matrix, int64_t n_elements);

/* Whether a state is rounded when it is stored. */
bool zn_optimizer_is_lossy(const zn_optimizer *optimizer);

#endif
