/* The optimizers there are: one line each, by the name that people type. */
#ifndef ZN_OPTIM_REGISTRY_H
#define ZN_OPTIM_REGISTRY_H

#include "optim/optimizer.h"

#define ZN_OPTIMIZERS(X, BETWEEN)                                                                  \
    X(adamw) BETWEEN                                                                               \
    X(adam) BETWEEN                                                                                \
    X(sgd)

#define ZN_OPTIMIZER_EXTERN(name) extern const zn_optimizer zn_optimizer_##name;
ZN_OPTIMIZERS(ZN_OPTIMIZER_EXTERN, )
#undef ZN_OPTIMIZER_EXTERN

/* "adamw adam sgd": the choices of a flag. */
#define ZN_OPTIMIZER_NAME(name) #name
#define ZN_OPTIMIZER_NAMES ZN_OPTIMIZERS(ZN_OPTIMIZER_NAME, " ")

/* The optimizer of this name that the hyperparameters mean; a usage error where there is none. */
zn_status zn_optimizer_find(const char *name, const struct zn_hyperparameters *hyperparameters, const zn_optimizer **optimizer);

/* Adds one from outside this folder, which outlives all runs. Before the first run; not to be called from two threads at once. */
zn_status zn_optimizer_register(const zn_optimizer *optimizer);

#endif
