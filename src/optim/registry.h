/* The optimizers there are: one line each, by the name that people type. */
#ifndef ZN_OPTIM_REGISTRY_H
#define ZN_OPTIM_REGISTRY_H

#include "optim/optimizer.h"

#define ZN_OPTIMIZERS(X, BETWEEN)                                                                  \
    X(adamw, "adamw") BETWEEN                                                                      \
    X(adam, "adam") BETWEEN                                                                        \
    X(sgd, "sgd") BETWEEN                                                                          \
    X(lion, "lion") BETWEEN                                                                        \
    X(adagrad, "adagrad") BETWEEN                                                                  \
    X(adamw8bit, "adamw8bit") BETWEEN                                                              \
    X(adamw_bf16, "adamw-bf16") BETWEEN                                                            \
    X(muon, "muon")

#define ZN_OPTIMIZER_EXTERN(name, typed) extern const zn_optimizer zn_optimizer_##name;
ZN_OPTIMIZERS(ZN_OPTIMIZER_EXTERN, )
#undef ZN_OPTIMIZER_EXTERN

/* "adamw adam sgd": the choices of a flag. */
#define ZN_OPTIMIZER_NAME(name, typed) typed
#define ZN_OPTIMIZER_NAMES ZN_OPTIMIZERS(ZN_OPTIMIZER_NAME, " ")

/* The hyperparameters that this optimizer has where they are not given; 0: that of the setting. */
zn_status zn_optimizer_defaults(const char *name, struct zn_hyperparameters *defaults);

/* The optimizer of this name that the hyperparameters mean; a usage error where there is none. */
zn_status zn_optimizer_find(const char *name, const struct zn_hyperparameters *hyperparameters, const zn_optimizer **optimizer);

/* Adds one from outside this folder, which outlives all runs. Before the first run; not to be called from two threads at once. */
zn_status zn_optimizer_register(const zn_optimizer *optimizer);

#endif
