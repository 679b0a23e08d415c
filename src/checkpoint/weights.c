/* Loading and export of weights through one bounded buffer. */
#include "checkpoint/weights.h"

#include <stdlib.h>
#include <string.h>

#include "formats/safetensors_write.h"

enum { PIECE = 1 << 20 }; /* elements */

/* The name of a parameter in the folder. */
static const char *folder_name(const zn_model *model, const zn_param *param, bool without_prefix)
{
    const char *prefix = model->optional_prefix;
    size_t n = prefix ? strlen(prefix) : 0;
    return without_prefix && n && strncmp(param->name, prefix, n) == 0 ? param->name + n : param->name;
}

/* Folders are consistent, so the first parameter decides. */
static bool lacks_prefix(const zn_model *model, const zn_model_files *files)
{
    const zn_param *first = &model->module->params[0];
    struct zn_model_tensor found;
    return !zn_model_files_find(files, folder_name(model, first, false), &found) &&
           zn_model_files_find(files, folder_name(model, first, true), &found);
}

static bool is_claimed(const zn_model *model, const struct zn_weights_style *style, const char *name)
{
    for (int i = 0; i < model->module->n_params; i++) {
        if (strcmp(folder_name(model, &model->module->params[i], style->without_prefix), name) == 0)
            return true;
    }
    return zn_model_ignores(model, name);
}

zn_status zn_weights_check(const zn_model *model, const zn_model_files *files,
                           void (*warn)(void *self, const char *tensor), void *self,
                           struct zn_weights_style *style)
{
    struct zn_weights_style s = {.without_prefix = lacks_prefix(model, files)};
    int64_t n_of_type[ZN_F64 + 1] = {0};
    for (int i = 0; i < model->module->n_params; i++) {
        const zn_param *p = &model->module->params[i];
        struct zn_model_tensor found;
        zn_dtype type;
        ZN_TRY(zn_model_files_get(files, folder_name(model, p, s.without_prefix), p->ndim, p->dims, &found));
        if (zn_st_dtype_is_float(found.tensor->dtype, &type))
            n_of_type[type] += p->n_elements;
    }
    s.dtype = ZN_F32;
    for (zn_dtype type = ZN_F32; type <= ZN_F16; type++) {
        if (n_of_type[type] > n_of_type[s.dtype])
            s.dtype = type;
    }
    for (size_t i = 0; i < zn_model_files_n_tensors(files); i++) {
        const char *name = zn_model_files_tensor_at(files, i).tensor->name;
        if (!is_claimed(model, &s, name))
            warn(self, name);
    }
    *style = s;
    return ZN_OK;
}

zn_status zn_weights_find(const zn_model *model, const zn_model_files *files,
                          const struct zn_weights_style *style, const zn_param *param,
                          struct zn_model_tensor *found)
{
    const char *name = folder_name(model, param, style->without_prefix);
    return zn_model_files_get(files, name, param->ndim, param->dims, found);
}

static int64_t piece_of(int64_t n_elements, int64_t first)
{
    return n_elements - first < PIECE ? n_elements - first : PIECE;
}

zn_status zn_weights_load(zn_engine *engine, const zn_model *model, const zn_model_files *files,
                          const struct zn_weights_style *style)
{
    float *piece = malloc(PIECE * sizeof *piece);
    if (!piece)
        return zn_fail(ZN_ERR_MEMORY, "no memory to load weights");
    zn_status status = ZN_OK;
    for (int i = 0; i < model->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &model->module->params[i];
        struct zn_model_tensor found;
        status = zn_model_files_get(files, folder_name(model, p, style->without_prefix), p->ndim, p->dims,
                                    &found);
        for (int64_t at = 0; at < p->n_elements && status == ZN_OK; at += PIECE) {
            int64_t n = piece_of(p->n_elements, at);
            status = zn_st_read_f32(found.file, found.tensor, at, n, piece);
            if (status == ZN_OK)
                status = zn_engine_write_param(engine, p, at, piece, n);
        }
    }
    free(piece);
    return status;
}

static zn_status write_all(zn_engine *engine, const zn_model *model, zn_st_writer *writer)
{
    float *piece = malloc(PIECE * sizeof *piece);
    if (!piece)
        return zn_fail(ZN_ERR_MEMORY, "no memory to export weights");
    zn_status status = ZN_OK;
    for (int i = 0; i < model->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &model->module->params[i];
        for (int64_t at = 0; at < p->n_elements && status == ZN_OK; at += PIECE) {
            int64_t n = piece_of(p->n_elements, at);
            status = zn_engine_read_param(engine, p, at, piece, n);
            if (status == ZN_OK)
                status = zn_st_writer_write_f32(writer, (size_t)i, at, n, piece);
        }
    }
    free(piece);
    return status == ZN_OK ? zn_st_writer_finish(writer) : status;
}

zn_status zn_weights_export(zn_engine *engine, const zn_model *model, const char *folder,
                            const struct zn_weights_style *style)
{
    size_t n = (size_t)model->module->n_params;
    struct zn_st_spec *specs = calloc(n, sizeof *specs);
    if (!specs)
        return zn_fail(ZN_ERR_MEMORY, "no memory to export weights");
    for (size_t i = 0; i < n; i++) {
        const zn_param *p = &model->module->params[i];
        specs[i].name = folder_name(model, p, style->without_prefix);
        specs[i].dtype = style->dtype;
        specs[i].n_dims = p->ndim;
        memcpy(specs[i].dims, p->dims, (size_t)p->ndim * sizeof p->dims[0]);
    }
    zn_st_writer *writer = NULL;
    zn_status status = zn_st_writer_create(folder, "model", specs, n, 0, &writer);
    if (status == ZN_OK)
        status = write_all(engine, model, writer);
    zn_st_writer_destroy(writer);
    free(specs);
    return status;
}
