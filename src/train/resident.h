/* All parameters of a model in memory, to be read only: what generation runs on. They keep the type of
 * their files, since reading them is what generation waits for. */
#ifndef ZN_TRAIN_RESIDENT_H
#define ZN_TRAIN_RESIDENT_H

#include "autograd/module.h"
#include "checkpoint/weights.h"

typedef struct zn_resident {
    zn_device *device;       /* borrowed */
    const zn_module *module; /* borrowed */
    zn_dtype type;
    zn_addr *params;         /* by index */
    zn_addr *constants;      /* by index */
    zn_addr base;            /* of the parameters, one block */
    size_t n_bytes;
} zn_resident;

/* What an operator reaches the parameters by; `self` is the zn_resident. */
extern const struct zn_param_hooks zn_resident_hooks;

/* The type that parameters can be kept in without a loss: the folder's, fp32 where it has several. */
zn_status zn_resident_type(const zn_model *model, const zn_model_files *files,
                           const struct zn_weights_style *style, zn_dtype *type);

/* Allocates on the device (charged to its ledger) and writes the constants. fini is legal after a
 * failure. */
zn_status zn_resident_init(zn_resident *resident, zn_device *device, const zn_module *module,
                           zn_dtype type);
void zn_resident_fini(zn_resident *resident);

/* Fills the parameters from the folder; blocks. `progress`, when not NULL, is told the bytes that
 * are there. */
zn_status zn_resident_load(zn_resident *resident, const zn_model *model, const zn_model_files *files,
                           const struct zn_weights_style *style,
                           void (*progress)(void *self, size_t done, size_t total), void *self);

#endif
