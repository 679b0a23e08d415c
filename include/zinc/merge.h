/* Adapters merged into the weights that they adapt. */
#ifndef ZINC_MERGE_H
#define ZINC_MERGE_H

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a hub folder and the adapters of a PEFT folder as one hub folder, which must not hold a model yet, rounded from fp32 to "fp32",
 * "bf16" or "fp16"; `type` NULL: that of the model. `note` hears what a person should know, and may be NULL. Not collective; blocks. */
ZN_API zn_status zn_merge(const char *model, const char *adapter, const char *output, const char *type,
                          void (*note)(void *self, const char *text), void *self);

#ifdef __cplusplus
}
#endif
#endif
