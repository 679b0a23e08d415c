/* The ids at which a model ends its text. */
#ifndef ZN_TEXT_STOP_H
#define ZN_TEXT_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

struct zn_stop {
    int32_t *ids;
    size_t n;
};

/* eos_token_id of config.json (its root) and of the folder's generation_config.json: each a number, a list or
 * absent; all of both count. Where neither names one, `otherwise` (-1: none). The caller calls fini,
 * also after a failure. */
zn_status zn_stop_init(struct zn_stop *stop, zn_json *config, const char *folder, int32_t otherwise);
void zn_stop_fini(struct zn_stop *stop);

bool zn_stop_has(const struct zn_stop *stop, int32_t id);

#endif
