/* Models as handles: which folder or network, and what it declares. */
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/files.h"
#include "formats/hub_cache.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024 };

static zn_status describe_folder(zn_model *m)
{
    char *path, *text;
    size_t n_bytes;
    ZN_TRY(zn_hub_check_folder(m->folder));
    ZN_TRY(zn_path_join(m->folder, "config.json", &path));
    zn_status status = zn_file_read(path, CONFIG_BYTES, &text, &n_bytes);
    if (status == ZN_OK) {
        status = zn_description_init(&m->description, text, n_bytes, path);
        free(text);
    }
    free(path);
    return status;
}

static zn_status open_folder(zn_model *m, const char *folder)
{
    ZN_TRY(zn_hub_cache_find(folder, &m->folder));
    if (!m->folder)
        m->folder = strdup(folder);
    return m->folder ? describe_folder(m) : zn_fail(ZN_ERR_MEMORY, "no memory for a model");
}

zn_status zn_model_find(const char *name, char **folder)
{
    return zn_hub_cache_find(name, folder);
}

zn_status zn_model_open(const char *folder, zn_model **model)
{
    zn_model *m = calloc(1, sizeof *m);
    zn_status status = m ? open_folder(m, folder) : zn_fail(ZN_ERR_MEMORY, "no memory for a model");
    if (status != ZN_OK) {
        zn_model_close(m);
        return status;
    }
    *model = m;
    return ZN_OK;
}

zn_status zn_model_of_network(const zn_network *network, zn_model **model)
{
    zn_model *m = calloc(1, sizeof *m);
    zn_status status = m ? zn_description_of_network(&m->description, network) : zn_fail(ZN_ERR_MEMORY, "no memory for a model");
    if (status != ZN_OK) {
        free(m);
        return status;
    }
    m->network = network;
    *model = m;
    return ZN_OK;
}

void zn_model_close(zn_model *model)
{
    if (!model)
        return;
    zn_description_fini(&model->description);
    free(model->folder);
    free(model);
}

zn_status zn_model_info(const zn_model *model, struct zn_model_info *info)
{
    const zn_description *d = &model->description;
    if (info->size != sizeof *info)
        return zn_fail(ZN_ERR_USAGE, "zn_model_info: size is %zu, not %zu: set it to sizeof", info->size, sizeof *info);
    *info = (struct zn_model_info){.size = sizeof *info,
                                   .architecture = d->architecture,
                                   .folder = model->folder,
                                   .n_parameters = d->n_parameters,
                                   .n_elements = d->n_elements,
                                   .max_seq_len = d->max_seq_len,
                                   .vocabulary = d->vocabulary};
    return ZN_OK;
}

zn_status parameter_check(const struct zn_parameter_info *info, size_t i, size_t n)
{
    if (info->size != sizeof *info)
        return zn_fail(ZN_ERR_USAGE, "zn_parameter_info: size is %zu, not %zu: set it to sizeof", info->size, sizeof *info);
    return i < n ? ZN_OK : zn_fail(ZN_ERR_USAGE, "there are %zu parameters, none is number %zu", n, i);
}

zn_status zn_model_parameter(const zn_model *model, size_t i, struct zn_parameter_info *info)
{
    ZN_TRY(parameter_check(info, i, model->description.n_parameters));
    const struct zn_described_parameter *p = &model->description.parameters[i];
    *info = (struct zn_parameter_info){
        .size = sizeof *info, .name = p->name, .n_dims = p->n_dims, .n_elements = p->n_elements, .is_trained = 1};
    memcpy(info->dims, p->dims, sizeof info->dims);
    return ZN_OK;
}
