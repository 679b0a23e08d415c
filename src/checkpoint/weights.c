/* Loading and export of weights through one bounded buffer. */
#include "checkpoint/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/peft.h"

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

/* What GPTQ, AWQ, bitsandbytes, fp8 and compressed-tensors put beside or in the place of a weight. */
static bool is_quantised(const char *name)
{
    static const char *const ends[] = {
        "qweight",   "qzeros",        "scales",           "g_idx",             "SCB",
        "absmax",    "nested_absmax", "nested_quant_map", "quant_map",         "bitsandbytes__nf4",
        "weight_scale", "weight_scale_inv", "weight_packed", "weight_zero_point", "bitsandbytes__fp4"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (dot && strcmp(dot + 1, ends[i]) == 0)
            return true;
    return false;
}

static zn_status check_not_quantised(const zn_model_files *files)
{
    for (size_t i = 0; i < zn_model_files_n_tensors(files); i++) {
        struct zn_model_tensor at = zn_model_files_tensor_at(files, i);
        if (is_quantised(at.tensor->name))
            return zn_fail(ZN_ERR_UNSUPPORTED, "%s: tensor '%s' is of quantised weights, which cannot be read; take the "
                           "unquantised model that they were made from", zn_st_path(at.file),
                           zn_shown(at.tensor->name).text);
    }
    return ZN_OK;
}

zn_status zn_weights_check(const zn_model *model, const zn_model_files *files,
                           void (*warn)(void *self, const char *tensor), void *self,
                           struct zn_weights_style *style)
{
    struct zn_weights_style s = {.without_prefix = lacks_prefix(model, files)};
    int64_t n_of_type[ZN_F64 + 1] = {0};
    ZN_TRY(check_not_quantised(files));
    for (int i = 0; i < model->module->n_params; i++) {
        const zn_param *p = &model->module->params[i];
        struct zn_model_tensor found;
        zn_dtype type;
        if (zn_is_adapter(p))
            continue;
        ZN_TRY(zn_model_files_get(files, folder_name(model, p, s.without_prefix), p->ndim, zn_param_shape(p), &found));
        if (zn_st_dtype_is_float(found.tensor->dtype, &type))
            n_of_type[type] += zn_param_n_whole(p);
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
    return zn_model_files_get(files, name, param->ndim, zn_param_shape(param), found);
}

zn_status zn_weights_type(const zn_model *model, const zn_model_files *files, const struct zn_weights_style *style,
                          zn_dtype *type)
{
    zn_dtype common = style->dtype, one;
    for (int i = 0; i < model->module->n_params; i++) {
        struct zn_model_tensor found;
        if (zn_is_adapter(&model->module->params[i]))
            continue;
        ZN_TRY(zn_weights_find(model, files, style, &model->module->params[i], &found));
        if (!zn_st_dtype_is_float(found.tensor->dtype, &one) || one != common)
            common = ZN_F32;
    }
    *type = common;
    return ZN_OK;
}

/* Values that have no finite scale are not quantised. */
static zn_status give_values(void *self, const zn_param *p, int64_t first, float *values, int64_t n)
{
    const struct zn_model_tensor *from = self;
    bool are_finite = true;
    ZN_TRY(zn_st_read_f32(from->file, from->tensor, first, n, values));
    for (int64_t i = 0; i < n; i++)
        are_finite &= values[i] - values[i] == 0;
    if (!are_finite)
        return zn_fail(ZN_ERR_INPUT, "%s: '%s' has a value that is not finite: --base-quantize cannot take it", zn_st_path(from->file),
                       p->name);
    return ZN_OK;
}

/* Only the bytes this rank brings are read; of a quantised parameter all, for their mean. */
zn_status zn_weights_load(zn_engine *engine, const zn_model *model, const zn_model_files *files,
                          const struct zn_weights_style *style, void (*progress)(void *self, int64_t done, int64_t total),
                          void *self)
{
    int64_t done = 0, total = zn_model_n_elements(model);
    float *piece = malloc(PIECE * sizeof *piece);
    if (!piece)
        return zn_fail(ZN_ERR_MEMORY, "no memory to load weights");
    zn_status status = ZN_OK;
    for (int i = 0; i < model->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &model->module->params[i];
        struct zn_model_tensor found;
        if (zn_is_adapter(p))
            continue;
        status = zn_model_files_get(files, folder_name(model, p, style->without_prefix), p->ndim, zn_param_shape(p),
                                    &found);
        bool is_quantised = zn_engine_is_quantised(engine, p);
        struct zn_range range = is_quantised ? (struct zn_range){0} : zn_engine_owned_range(engine, p, 0);
        if (is_quantised && status == ZN_OK)
            status = zn_engine_quantise_param(engine, p, give_values, &found);
        while (range.n > 0 && status == ZN_OK) {
            int64_t n = range.n < PIECE ? range.n : PIECE;
            status = zn_st_read_f32(found.file, found.tensor, range.first, n, piece);
            if (status == ZN_OK)
                status = zn_engine_write_state(engine, p, ZN_STATE_MASTER, range.first, piece, n);
            range = zn_engine_owned_range(engine, p, range.first + n);
        }
        done += zn_param_n_whole(p);
        if (status == ZN_OK && progress)
            progress(self, done, total);
    }
    free(piece);
    return status;
}

struct zn_st_spec zn_weights_spec(const zn_model *model, const struct zn_weights_style *style, const zn_param *p)
{
    struct zn_st_spec spec = {.name = folder_name(model, p, style->without_prefix), .dtype = style->dtype,
                              .n_dims = p->ndim};
    memcpy(spec.dims, zn_param_shape(p), (size_t)p->ndim * sizeof p->dims[0]);
    return spec;
}

zn_status zn_weights_writer(const zn_model *model, const char *folder, const struct zn_weights_style *style,
                            const struct zn_st_cut *cut, zn_st_writer **writer)
{
    int first = zn_model_first_written(model);
    size_t n = (size_t)(model->module->n_params - first);
    struct zn_st_spec *specs = calloc(n, sizeof *specs);
    if (!specs)
        return zn_fail(ZN_ERR_MEMORY, "no memory to write weights");
    for (size_t i = 0; i < n; i++)
        specs[i] = zn_weights_spec(model, style, &model->module->params[first + (int)i]);
    const char *stem = model->module->n_adapters > 0 ? ZN_PEFT_STEM : "model";
    zn_status status = cut ? zn_st_writer_create_part(folder, stem, specs, n, cut, writer)
                           : zn_st_writer_create(folder, stem, specs, n, 0, writer);
    free(specs);
    return status;
}

/* Rank 0 writes; the others give their partitions. */
struct exporting {
    zn_st_writer *writer; /* NULL: another rank's */
    int first;
};

static zn_status write_piece(void *self, const zn_param *param, int64_t first, const float *values, int64_t n_elements)
{
    const struct exporting *x = self;
    if (!x->writer)
        return ZN_OK;
    return zn_st_writer_write_f32(x->writer, (size_t)(param->index - x->first), first, n_elements, values);
}

zn_status zn_weights_export(zn_engine *engine, zn_comm *comm, const zn_model *model, const char *folder,
                            const struct zn_weights_style *style)
{
    struct exporting x = {.first = zn_model_first_written(model)};
    bool writes = zn_comm_rank(comm) == 0;
    zn_status status = writes ? zn_weights_writer(model, folder, style, NULL, &x.writer) : ZN_OK;
    status = zn_comm_agree(comm, status);
    if (status == ZN_OK)
        status = zn_weights_stream(engine, model, write_piece, &x);
    if (status == ZN_OK)
        status = zn_comm_agree(comm, writes ? zn_st_writer_finish(x.writer) : ZN_OK);
    zn_st_writer_destroy(x.writer);
    return status;
}

zn_status zn_weights_stream(zn_engine *engine, const zn_model *model, zn_take_values take, void *self)
{
    return model->module->n_adapters > 0 ? zn_engine_stream_trained(engine, take, self)
                                         : zn_engine_stream_state(engine, ZN_STATE_MASTER, take, self);
}
