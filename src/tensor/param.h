/* A parameter as a model declares it. Declarations are constant once the model is made, so several engines can share one
 * model. */
#ifndef ZN_TENSOR_PARAM_H
#define ZN_TENSOR_PARAM_H

#include <stdbool.h>
#include <stdint.h>

enum { ZN_MAX_DIMS = 4, ZN_PARAM_NAME = 128 };

typedef enum zn_init { ZN_INIT_NORMAL, ZN_INIT_ONES, ZN_INIT_ZEROS, ZN_INIT_UNIFORM } zn_init;

typedef struct zn_param zn_param;

/* A low-rank adapter of a weight (LoRA): the linear operator gives W x + scale × B A x. */
struct zn_adapter {
    const zn_param *a, *b; /* (rank, in) and (out, rank) */
    float scale;
};

struct zn_param {
    char name[ZN_PARAM_NAME]; /* as in the hub's files */
    int index;                /* in the module's list */
    int segment;              /* the first that uses it */
    int ndim;
    int64_t dims[ZN_MAX_DIMS];
    int64_t n_elements;
    zn_init init;
    float spread; /* ZN_INIT_NORMAL: the standard deviation; ZN_INIT_UNIFORM: values lie in (−spread, spread) */
    bool stays_whole; /* its operator cannot take it in tiles */
    const struct zn_adapter *adapter; /* of a weight; NULL: none */
};

/* A matrix of a block: of a linear layer, or of its adapter. The segments of the embedding and the head have none. */
static inline bool zn_param_is_hidden_matrix(const zn_param *p, int n_segments)
{
    return p->ndim == 2 && p->segment > 0 && p->segment < n_segments - 1;
}

#endif
