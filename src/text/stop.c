/* Reading eos_token_id in its two forms. */
#include "text/stop.h"

#include <stdlib.h>

#include "base/files.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024 };

static zn_status add(struct zn_stop *stop, int32_t id)
{
    if (zn_stop_has(stop, id))
        return ZN_OK;
    int32_t *grown = realloc(stop->ids, (stop->n + 1) * sizeof *grown);
    if (!grown)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a list of ids");
    stop->ids = grown;
    stop->ids[stop->n++] = id;
    return ZN_OK;
}

static zn_status add_from(struct zn_stop *stop, zn_json *config)
{
    static const char key[] = "eos_token_id";
    zn_json *list;
    int64_t id;
    if (zn_json_type_at(config, key) == ZN_JSON_NULL)
        return ZN_OK;
    if (zn_json_type_at(config, key) != ZN_JSON_ARRAY) {
        ZN_TRY(zn_json_get_int(config, key, 0, INT32_MAX, &id));
        return add(stop, (int32_t)id);
    }
    ZN_TRY(zn_json_get_array(config, key, &list));
    for (size_t i = 0; i < zn_json_n_items(list); i++) {
        ZN_TRY(zn_json_item_int(list, i, 0, INT32_MAX, &id));
        ZN_TRY(add(stop, (int32_t)id));
    }
    return ZN_OK;
}

static zn_status add_from_file(struct zn_stop *stop, const char *path)
{
    if (!zn_file_exists(path))
        return ZN_OK;
    zn_json *config;
    ZN_TRY(zn_json_load_file(path, CONFIG_BYTES, &config));
    zn_status status = add_from(stop, config);
    zn_json_destroy(config);
    return status;
}

zn_status zn_stop_init(struct zn_stop *stop, zn_json *config, const char *folder, int32_t otherwise)
{
    char *path;
    *stop = (struct zn_stop){0};
    ZN_TRY(add_from(stop, config));
    ZN_TRY(zn_path_join(folder, "generation_config.json", &path));
    zn_status status = add_from_file(stop, path);
    free(path);
    if (status == ZN_OK && stop->n == 0 && otherwise >= 0)
        status = add(stop, otherwise);
    return status;
}

void zn_stop_fini(struct zn_stop *stop)
{
    free(stop->ids);
    *stop = (struct zn_stop){0};
}

bool zn_stop_has(const struct zn_stop *stop, int32_t id)
{
    for (size_t i = 0; i < stop->n; i++)
        if (stop->ids[i] == id)
            return true;
    return false;
}
