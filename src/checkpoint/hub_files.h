/* The small files of a hub folder: config.json and what the tokenizer needs. */
#ifndef ZN_CHECKPOINT_HUB_FILES_H
#define ZN_CHECKPOINT_HUB_FILES_H

#include "tensor/dtype.h"

/* Copies them from one folder to another, which is there; files that are not there are left out. config.json says
 * the dtype that the weights have now. Blocks. */
zn_status zn_hub_files_copy(const char *from, const char *to, zn_dtype dtype);

#endif
