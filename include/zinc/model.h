/* What is trained: a hub folder, or a network of one's own. */
#ifndef ZINC_MODEL_H
#define ZINC_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "zinc/network.h"
#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_model_handle zn_model;

/* Opens a hub folder, or ORG/NAME in the hub's local cache, and reads its config.json; weights are read by engines. Not collective;
 * blocks. The caller closes. */
ZN_API zn_status zn_model_open(const char *folder, zn_model **model);

/* Finds ORG/NAME in the hub's local cache: *folder is its snapshot there, which the caller frees with zn_free; NULL where the name is that of a
 * folder. Not collective; blocks. */
ZN_API zn_status zn_model_find(const char *name, char **folder);

/* A model of a network, which is borrowed as long as the model and engines of it live, and gets no more parameters. It begins with
 * random weights. Not collective. The caller closes. */
ZN_API zn_status zn_model_of_network(const zn_network *network, zn_model **model);

/* Forgets a model; engines of a hub folder do not need it any more, those of a network still need the network. Not collective; NULL is
 * legal. */
ZN_API void zn_model_close(zn_model *model);

struct zn_model_info {
    size_t size; /* sizeof(struct zn_model_info), set by the caller */
    const char *architecture, *folder; /* live as long as the model; folder is NULL for a network */
    size_t n_parameters;               /* tensors */
    int64_t n_elements;                /* of all of them */
    int64_t max_seq_len, vocabulary;
};

/* Tells what a model is. Not collective. */
ZN_API zn_status zn_model_info(const zn_model *model, struct zn_model_info *info);

struct zn_parameter_info {
    size_t size;      /* sizeof(struct zn_parameter_info), set by the caller */
    const char *name; /* lives as long as what it was asked of */
    int n_dims;
    int64_t dims[4], n_elements;
    int is_trained; /* of an engine's: 0 or 1; of a model's 1 */
};

/* Tells of parameter i, from 0 to n_parameters - 1. Not collective. */
ZN_API zn_status zn_model_parameter(const zn_model *model, size_t i, struct zn_parameter_info *info);

#ifdef __cplusplus
}
#endif
#endif
