/* A parameter as a model declares it. Declarations are constant once the model is made, so several engines can share one
 * model. */
#ifndef ZN_TENSOR_PARAM_H
#define ZN_TENSOR_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "zinc/network.h"

enum { ZN_MAX_DIMS = 4, ZN_PARAM_NAME = 128 };

/* A low-rank adapter of a weight (LoRA): the linear operator gives W x + scale × B A x. */
struct zn_adapter {
    const zn_param *a, *b; /* (rank, in) and (out, rank) */
    float scale;
};

/* What a rank of a tensor-parallel group holds of a parameter: along one dimension the `index`-th of `count` equal slices. Where
 * `parts` pieces lie side by side along it (q, k and v), each is cut. The rows that the last slice has beyond the parameter are
 * padding: they stay zero. Several ranks may hold the same values: slice i is held by ranks i · copies … i · copies + copies - 1. */
struct zn_slice {
    int dim, index, count; /* count below 2: the whole parameter */
    int parts;
    int copy, copies;      /* which of them this rank has */
    bool sums_gradients;   /* each copy's gradient is a part of it; else all copies compute the same one */
};

struct zn_param {
    char name[ZN_PARAM_NAME]; /* as in the hub's files */
    int index;                /* in the module's list */
    int segment;              /* the first that uses it */
    int ndim;
    int64_t dims[ZN_MAX_DIMS]; /* of what this rank holds */
    int64_t n_elements;
    int64_t shape[ZN_MAX_DIMS]; /* of the whole parameter where this is a slice */
    struct zn_slice slice;
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

static inline bool zn_is_sliced(const zn_param *param)
{
    return param->slice.count > 1;
}

/* Dimensions and elements of the whole parameter, as files have it. */
const int64_t *zn_param_shape(const zn_param *param);
int64_t zn_param_n_whole(const zn_param *param);

/* Elements that this rank holds without padding, which comes last. */
int64_t zn_param_n_held(const zn_param *param);

/* Which element of the whole parameter the one at `held` is, and how many from it on follow each other there, too. Later ones come
 * later in the whole. */
int64_t zn_param_whole(const zn_param *param, int64_t held, int64_t *n);

/* The same for what the ranks with another slice hold. */
int64_t zn_param_whole_of(const zn_param *param, int slice, int64_t held, int64_t *n);
int64_t zn_param_n_held_of(const zn_param *param, int slice);

/* The first held element that is `whole` or comes after it; n_held where there is none. */
int64_t zn_param_held(const zn_param *param, int64_t whole);

#endif
