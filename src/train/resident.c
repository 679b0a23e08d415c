/* Parameters in one block, loaded through a bounded buffer. */
#include "train/resident.h"

#include <stdlib.h>

#include "base/size.h"

enum { ALIGNMENT = 64, PIECE = 1 << 20 };

static zn_status acquire(void *self, const zn_param *param, int64_t row, zn_addr *address)
{
    (void)row; /* never in tiles */
    *address = ((const zn_resident *)self)->params[param->index];
    return ZN_OK;
}

static zn_status open_gradient(void *self, const zn_param *param, int64_t row, zn_addr *address)
{
    (void)self, (void)row, (void)address;
    return zn_fail(ZN_ERR_INTERNAL, "%s: these parameters are only read", param->name);
}

static zn_status close_gradient(void *self, const zn_param *param, int64_t row)
{
    (void)self, (void)param, (void)row;
    return ZN_OK;
}

static zn_addr constant_at(void *self, const zn_constant *constant)
{
    return ((const zn_resident *)self)->constants[constant->index];
}

const struct zn_param_hooks zn_resident_hooks = {.acquire = acquire,
                                                 .open_gradient = open_gradient,
                                                 .close_gradient = close_gradient,
                                                 .constant = constant_at};

zn_status zn_resident_type(const zn_model *model, const zn_model_files *files,
                           const struct zn_weights_style *style, zn_dtype *type)
{
    zn_dtype common = style->dtype, one;
    for (int i = 0; i < model->module->n_params; i++) {
        struct zn_model_tensor found;
        ZN_TRY(zn_weights_find(model, files, style, &model->module->params[i], &found));
        if (!zn_st_dtype_is_float(found.tensor->dtype, &one) || one != common)
            common = ZN_F32;
    }
    *type = common;
    return ZN_OK;
}

static size_t param_bytes(const zn_resident *r, int i)
{
    return (size_t)r->module->params[i].n_elements * zn_dtype_bytes(r->type);
}

static zn_status place_params(zn_resident *r)
{
    size_t n_bytes = 0;
    for (int i = 0; i < r->module->n_params; i++) {
        r->params[i] = n_bytes;
        n_bytes += zn_round_up(param_bytes(r, i), ALIGNMENT);
    }
    zn_status status =
        zn_device_alloc(r->device, ZN_TIER_DEVICE, ZN_KIND_PARAMETERS, n_bytes, &r->base);
    if (status != ZN_OK)
        return zn_context(status, "parameters");
    r->n_bytes = n_bytes;
    for (int i = 0; i < r->module->n_params; i++)
        r->params[i] += r->base;
    return ZN_OK;
}

static size_t constant_bytes(const zn_resident *r, int i)
{
    return (size_t)r->module->constants[i].n_elements * sizeof(float);
}

static zn_status place_constants(zn_resident *r)
{
    for (int i = 0; i < r->module->n_constants; i++) {
        const zn_constant *c = &r->module->constants[i];
        size_t n_bytes = constant_bytes(r, i);
        ZN_TRY(zn_device_alloc(r->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, n_bytes, &r->constants[i]));
        ZN_TRY(zn_device_write(r->device, r->constants[i], c->values, n_bytes));
    }
    return ZN_OK;
}

zn_status zn_resident_init(zn_resident *r, zn_device *device, const zn_module *module,
                           zn_dtype type)
{
    *r = (zn_resident){.device = device, .module = module, .type = type};
    r->params = calloc((size_t)module->n_params, sizeof *r->params);
    r->constants = calloc((size_t)module->n_constants + 1, sizeof *r->constants);
    if (!r->params || !r->constants)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a list of parameters");
    ZN_TRY(place_params(r));
    return place_constants(r);
}

void zn_resident_fini(zn_resident *r)
{
    if (r->base)
        zn_device_free(r->device, ZN_TIER_DEVICE, ZN_KIND_PARAMETERS, r->base, r->n_bytes);
    for (int i = 0; r->constants && i < r->module->n_constants; i++)
        if (r->constants[i])
            zn_device_free(r->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, r->constants[i],
                           constant_bytes(r, i));
    free(r->params);
    free(r->constants);
    *r = (zn_resident){0};
}

/* Elements at … at+n: as they lie in the file where that is the type they are kept in. */
static zn_status load_piece(zn_resident *r, const zn_param *p, const struct zn_model_tensor *from,
                            int64_t at, int64_t n, float *piece)
{
    zn_dtype stored;
    size_t size = zn_dtype_bytes(r->type), n_bytes = (size_t)n * size;
    if (zn_st_dtype_is_float(from->tensor->dtype, &stored) && stored == r->type)
        ZN_TRY(zn_st_read_raw(from->file, from->tensor, (uint64_t)at * size, n_bytes, piece));
    else
        ZN_TRY(zn_st_read_f32(from->file, from->tensor, at, n, piece));
    return zn_device_write(r->device, r->params[p->index] + (zn_addr)at * size, piece, n_bytes);
}

zn_status zn_resident_load(zn_resident *r, const zn_model *model, const zn_model_files *files,
                           const struct zn_weights_style *style,
                           void (*progress)(void *self, size_t done, size_t total), void *self)
{
    float *piece = malloc(PIECE * sizeof *piece);
    if (!piece)
        return zn_fail(ZN_ERR_MEMORY, "no memory to load weights");
    zn_status status = ZN_OK;
    for (int i = 0; i < r->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &r->module->params[i];
        struct zn_model_tensor from;
        status = zn_weights_find(model, files, style, p, &from);
        for (int64_t at = 0; at < p->n_elements && status == ZN_OK; at += PIECE) {
            int64_t left = p->n_elements - at;
            status = load_piece(r, p, &from, at, left < PIECE ? left : PIECE, piece);
        }
        if (status == ZN_OK && progress)
            progress(self, (size_t)(r->params[i] - r->base) + param_bytes(r, i), r->n_bytes);
    }
    free(piece);
    return status;
}
