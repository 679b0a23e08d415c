/* Models by their name on the hub, in the cache that the hub's own tools keep on this machine. Nothing is fetched. */
#ifndef ZN_FORMATS_HUB_CACHE_H
#define ZN_FORMATS_HUB_CACHE_H

#include <stdbool.h>

#include "base/status.h"

/* Whether a model on the hub may be called so: "ORG/NAME", or "NAME" as the first ones. */
bool zn_hub_is_name(const char *text);

/* Sets *folder to the snapshot of "ORG/NAME" that the cache has as its main revision (the caller frees it), or to NULL where
 * `model` is to be taken as it is: it is a folder, or no such name. A name that is not in the cache is an error that says how it
 * is fetched. The cache is $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, or huggingface/hub in $XDG_CACHE_HOME or
 * ~/.cache. Blocks. */
zn_status zn_hub_cache_find(const char *model, char **folder);

/* Fails where the folder holds no config.json, by what it has instead: GGUF files, an adapter, another format. Blocks. */
zn_status zn_hub_check_folder(const char *folder);

#endif
