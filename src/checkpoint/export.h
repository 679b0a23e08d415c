/* A checkpoint's weights as a plain hub folder. */
#ifndef ZN_CHECKPOINT_EXPORT_H
#define ZN_CHECKPOINT_EXPORT_H

#include "checkpoint/load.h"

/* Makes the folder; one that holds a model already is refused, naming --output. Blocks. */
zn_status zn_export_check_folder(const char *folder);

/* Writes the model of a checkpoint into a folder, which is made and must not hold one: config.json and the tokenizer's
 * files as they are, the weights rounded from the fp32 masters to `dtype`. Of adapters it is a PEFT folder. Memory does not grow with the model.
 * Not collective; blocks. */
zn_status zn_checkpoint_write_model(const zn_checkpoint *checkpoint, const char *folder, zn_dtype dtype);

#endif
