/* The small files of a hub folder: config.json and what the tokenizer needs. They are read once and held in memory:
 * what a run writes does not depend on what becomes of the folder meanwhile. */
#ifndef ZN_CHECKPOINT_HUB_FILES_H
#define ZN_CHECKPOINT_HUB_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "tensor/dtype.h"

typedef struct zn_hub_files zn_hub_files;

/* Reads them; files that are not there are left out, but config.json must be. A file too large to be one of these, and
 * a dtype in config.json that is not a text, are errors. Where `for_writing` is false only config.json is held, the
 * sizes are still known. The caller closes. Blocks. */
zn_status zn_hub_files_open(const char *folder, bool for_writing, zn_hub_files **files);
void zn_hub_files_close(zn_hub_files *files); /* NULL is legal */

/* Of all files together, whether they are held or not: the same on every rank. */
size_t zn_hub_files_bytes(const zn_hub_files *files);

/* config.json as it was read. The caller destroys it. */
zn_status zn_hub_files_config(const zn_hub_files *files, zn_json **config);

/* What a card of a model made from this one says of it (formats/card.h): its name on the hub, NULL for none, and the lines of its
 * licence. Borrowed. */
const char *zn_hub_files_name(const zn_hub_files *files);
const char *zn_hub_files_license(const zn_hub_files *files);

/* Writes them to a folder that is there; config.json says the dtype that the weights have now. Only where they were
 * opened for writing. Blocks. */
zn_status zn_hub_files_write(const zn_hub_files *files, const char *folder, zn_dtype dtype);

/* The tokenizer's alone: beside an adapter, whose base has the rest. */
zn_status zn_hub_files_write_tokenizer(const zn_hub_files *files, const char *folder);

#endif
