/* A network of one's own: parameters that are declared, and a function that computes with operators. It knows nothing of ranks,
 * stages and tiers: an engine partitions, gathers and offloads its parameters as those of any model.
 *
 * A network is a chain of segments. The first gets the tokens of a batch, each gets what the one before returned, the last returns
 * what zn_head makes of the batch's targets. A segment is the unit of gathering and of recompute: a block of a transformer is
 * a good one. Where the loss does not depend on a parameter that is declared, no engine is made.
 *
 * Operators are called within `forward` alone. They have no status: the first failure, of a shape that does not fit for instance,
 * sticks to the tape, and the function of the engine that ran it returns it. Tensors belong to the tape and need no release. */
#ifndef ZINC_NETWORK_H
#define ZINC_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_tape zn_tape;
typedef struct zn_tensor zn_tensor;
typedef struct zn_param zn_param;
typedef struct zn_network zn_network;
struct zn_batch; /* one micro-batch: B sequences of T tokens */

/* How a parameter begins: a normal distribution of the given spread, ones, zeros, or uniform within the spread. */
typedef enum zn_init { ZN_INIT_NORMAL, ZN_INIT_ONES, ZN_INIT_ZEROS, ZN_INIT_UNIFORM } zn_init;

struct zn_network_options {
    size_t size;      /* sizeof(struct zn_network_options) */
    const char *name; /* for logs and config.json: letters, digits, - and _ */
    int n_segments;
    int n_parameters;    /* how many will be declared, at the most */
    int64_t vocabulary;  /* ids are below it */
    int64_t max_seq_len; /* the longest sequence that it takes */
    /* Runs a segment; x is NULL for the first. Called from the thread that calls the engine, also for recompute and for dry
     * runs that compute nothing: the same calls of operators every time. */
    zn_tensor *(*forward)(void *self, zn_tape *tape, int segment, zn_tensor *x, const struct zn_batch *batch);
    void *self; /* handed to forward; borrowed as long as models of the network live */
};

/* Begins a network without parameters. The options are copied. Not collective. The caller destroys. */
ZN_API zn_status zn_network_create(const struct zn_network_options *options, zn_network **network);

/* Forgets it, after the models that were made of it. Not collective; NULL is legal. */
ZN_API void zn_network_destroy(zn_network *network);

/* Declares a parameter of one to four dimensions, which `segment` uses first. Its name is that of its tensor in files; the pointer
 * lives as long as the network. Before a model is made of it. Not collective. */
ZN_API zn_status zn_network_declare(zn_network *network, const char *name, int segment, int n_dims, const int64_t *dims,
                                    zn_init init, float spread, const zn_param **param);

/* The tokens of a batch, (B,T) ids. Not collective. */
ZN_API zn_tensor *zn_batch_ids(const struct zn_batch *batch);

/* How a weight matrix is stored. */
typedef enum zn_layout { ZN_OUT_IN, ZN_IN_OUT } zn_layout;

typedef enum zn_gelu_form { ZN_GELU_EXACT, ZN_GELU_TANH } zn_gelu_form;

/* Rows of a table by ids: (B,T) to (B,T,C), plus rows of `positions` (NULL: none) by place in the sequence. Within forward. */
ZN_API zn_tensor *zn_embedding(zn_tape *tape, zn_tensor *ids, const zn_param *table, const zn_param *positions);

/* A linear layer, (…,in) to (…,out); bias may be NULL. Within forward. */
ZN_API zn_tensor *zn_linear(zn_tape *tape, zn_tensor *x, const zn_param *weight, const zn_param *bias, zn_layout layout);

/* Layer normalisation over the last dimension; bias may be NULL. Within forward. */
ZN_API zn_tensor *zn_layernorm(zn_tape *tape, zn_tensor *x, const zn_param *weight, const zn_param *bias, float eps);

/* Root-mean-square normalisation over groups of as many elements as the weight has. Within forward. */
ZN_API zn_tensor *zn_rmsnorm(zn_tape *tape, zn_tensor *x, const zn_param *weight, float eps);

/* Causal attention: q (B,T,heads·D), k and v (B,T,kv_heads·D) give a tensor like q, with weights scaled by 1/√D. Of packed examples
 * each sees itself alone. Within forward. */
ZN_API zn_tensor *zn_causal_attention(zn_tape *tape, zn_tensor *q, zn_tensor *k, zn_tensor *v, int64_t heads, int64_t kv_heads);

/* Gaussian error linear units. Within forward. */
ZN_API zn_tensor *zn_gelu(zn_tape *tape, zn_tensor *x, zn_gelu_form form);

/* Gives silu(gate) × up. Within forward. */
ZN_API zn_tensor *zn_swiglu(zn_tape *tape, zn_tensor *gate, zn_tensor *up);

/* The sum of two tensors of one shape. Within forward. */
ZN_API zn_tensor *zn_add(zn_tape *tape, zn_tensor *a, zn_tensor *b);

/* Gives a + scale × b. Within forward. */
ZN_API zn_tensor *zn_add_scaled(zn_tape *tape, zn_tensor *a, zn_tensor *b, float scale);

/* The product of two tensors of one shape, element by element. Within forward. */
ZN_API zn_tensor *zn_mul(zn_tape *tape, zn_tensor *a, zn_tensor *b);

/* The output layer with the loss: x (B,T,C) and the weight (V,C) against the batch's targets by cross-entropy. The last segment
 * returns it. Logits exist for a chunk of tokens at a time. Within forward. */
ZN_API zn_tensor *zn_head(zn_tape *tape, zn_tensor *x, const zn_param *weight, const struct zn_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
