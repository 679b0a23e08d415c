/* Making an engine: regions for states and buffers, each from the manifest. */
#include "zero/engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/size.h"
#include "zero/engine_private.h"

void zn_engine_plan_fini(zn_engine_plan *plan)
{
    zn_manifest_fini(&plan->manifest);
    zn_lifetimes_destroy(plan->train);
    zn_lifetimes_destroy(plan->evaluate);
    *plan = (zn_engine_plan){0};
}

zn_status region_alloc(zn_engine *e, struct region *region, const char *name, zn_kind kind,
                       size_t n_bytes)
{
    size_t rounded = zn_round_up(n_bytes, 4096);
    if (rounded == 0)
        return ZN_OK;
    if (e->plan)
        ZN_TRY(zn_manifest_check(&e->plan->manifest, name, ZN_TIER_DEVICE, kind, rounded));
    else
        ZN_TRY(zn_manifest_add(&e->manifest, name, ZN_TIER_DEVICE, kind, rounded));
    zn_addr address;
    zn_status status = zn_device_alloc(e->device, ZN_TIER_DEVICE, kind, rounded, &address);
    if (status != ZN_OK)
        return zn_context(status, "%s", name);
    *region = (struct region){.kind = kind, .address = address, .n_bytes = rounded};
    return ZN_OK;
}

static void region_free(zn_engine *e, struct region *region)
{
    if (region->address)
        zn_device_free(e->device, ZN_TIER_DEVICE, region->kind, region->address, region->n_bytes);
}

static zn_status alloc_states(zn_engine *e)
{
    const struct zn_engine_options *o = &e->options;
    size_t n = (size_t)e->units.n_elements * sizeof(float);
    ZN_TRY(region_alloc(e, &e->parameters, "parameters", ZN_KIND_PARAMETERS, n));
    if (!o->trains)
        return ZN_OK;
    ZN_TRY(region_alloc(e, &e->gradients, "gradients", ZN_KIND_GRADIENTS, n));
    if (o->optimizer != ZN_SGD) {
        ZN_TRY(region_alloc(e, &e->exp_avg, "exp_avg", ZN_KIND_OPTIMIZER, n));
        return region_alloc(e, &e->exp_avg_sq, "exp_avg_sq", ZN_KIND_OPTIMIZER, n);
    }
    if (o->momentum != 0)
        ZN_TRY(region_alloc(e, &e->exp_avg, "momentum", ZN_KIND_OPTIMIZER, n));
    return ZN_OK;
}

static zn_status alloc_constants(zn_engine *e)
{
    e->constants = calloc((size_t)e->module->n_constants + 1, sizeof *e->constants);
    if (!e->constants)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    for (int i = 0; i < e->module->n_constants; i++) {
        const zn_constant *c = &e->module->constants[i];
        size_t n_bytes = (size_t)c->n_elements * sizeof(float);
        ZN_TRY(region_alloc(e, &e->constants[i], c->name, ZN_KIND_BUFFERS, n_bytes));
        ZN_TRY(zn_device_write(e->device, e->constants[i].address, c->values, n_bytes));
    }
    return ZN_OK;
}

static zn_status alloc_buffers(zn_engine *e)
{
    const struct zn_engine_options *o = &e->options;
    size_t n_tokens = (size_t)(o->micro_batch * o->time) * sizeof(int32_t);
    int64_t n_partial = (e->units.n_elements + ZN_SUM_ELEMENTS - 1) / ZN_SUM_ELEMENTS;
    ZN_TRY(region_alloc(e, &e->ids, "ids", ZN_KIND_BUFFERS, n_tokens));
    ZN_TRY(region_alloc(e, &e->targets, "targets", ZN_KIND_BUFFERS, n_tokens));
    ZN_TRY(region_alloc(e, &e->sums, "sums", ZN_KIND_BUFFERS, N_SUMS * sizeof(double)));
    if (o->trains)
        ZN_TRY(region_alloc(e, &e->partial, "partial sums", ZN_KIND_BUFFERS,
                            (size_t)n_partial * sizeof(double)));
    if (!e->plan)
        return ZN_OK;
    ZN_TRY(region_alloc(e, &e->slot, "gradient slot", ZN_KIND_BUFFERS, e->plan->slot_bytes));
    return region_alloc(e, &e->arena, "arena", ZN_KIND_ACTIVATIONS, e->plan->arena_bytes);
}

static zn_status prepare_recording(zn_engine *e)
{
    if (e->plan)
        return ZN_OK;
    if (e->options.trains)
        ZN_TRY(zn_lifetimes_create(&e->train));
    if (e->options.evaluates || !e->options.trains)
        ZN_TRY(zn_lifetimes_create(&e->evaluate));
    return ZN_OK;
}

zn_status zn_engine_create(zn_device *device, const zn_module *module,
                           const struct zn_engine_options *options, const zn_engine_plan *plan,
                           zn_engine **engine)
{
    zn_engine *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    e->device = device;
    e->module = module;
    e->options = *options;
    e->plan = plan;
    zn_manifest_init(&e->manifest);
    zn_status status = ZN_OK;
    e->slot_bytes = plan ? plan->slot_bytes : 0;
    e->gradient_state = calloc((size_t)module->n_params, 1);
    e->slot_address = calloc((size_t)module->n_params, sizeof *e->slot_address);
    if (!e->gradient_state || !e->slot_address)
        status = zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    if (status == ZN_OK)
        status = zn_units_init(&e->units, module, 1);
    if (status == ZN_OK)
        status = zn_tape_create(device, &zn_engine_hooks, e, ZN_F32, &e->tape);
    if (status == ZN_OK)
        status = prepare_recording(e);
    if (status == ZN_OK)
        status = alloc_states(e);
    if (status == ZN_OK)
        status = alloc_constants(e);
    if (status == ZN_OK)
        status = alloc_buffers(e);
    if (status != ZN_OK) {
        zn_engine_destroy(e);
        return status;
    }
    *engine = e;
    return ZN_OK;
}

void zn_engine_destroy(zn_engine *e)
{
    if (!e)
        return;
    struct region *regions[] = {&e->parameters, &e->gradients, &e->exp_avg, &e->exp_avg_sq,
                                &e->ids,        &e->targets,   &e->sums,    &e->partial,
                                &e->slot,       &e->arena};
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        region_free(e, regions[i]);
    for (int i = 0; e->constants && i < e->module->n_constants; i++)
        region_free(e, &e->constants[i]);
    free(e->constants);
    zn_lifetimes_destroy(e->train);
    zn_lifetimes_destroy(e->evaluate);
    zn_lifetimes_destroy(e->repeat);
    zn_manifest_fini(&e->manifest);
    zn_tape_destroy(e->tape);
    zn_units_fini(&e->units);
    free(e->gradient_state);
    free(e->slot_address);
    free(e);
}

zn_status zn_engine_take_plan(zn_engine *e, zn_engine_plan *plan)
{
    zn_engine_plan p = {0};
    zn_lifetimes *passes[] = {e->train, e->evaluate};
    for (int i = 0; i < 2; i++) {
        if (!passes[i])
            continue;
        ZN_TRY(zn_lifetimes_pack(passes[i]));
        if (zn_lifetimes_peak(passes[i]) > p.arena_bytes)
            p.arena_bytes = zn_lifetimes_peak(passes[i]);
    }
    p.slot_bytes = e->slot_bytes;
    ZN_TRY(region_alloc(e, &e->slot, "gradient slot", ZN_KIND_BUFFERS, p.slot_bytes));
    ZN_TRY(region_alloc(e, &e->arena, "arena", ZN_KIND_ACTIVATIONS, p.arena_bytes));
    p.manifest = e->manifest;
    p.train = e->train;
    p.evaluate = e->evaluate;
    zn_manifest_init(&e->manifest);
    e->train = e->evaluate = NULL;
    *plan = p;
    return ZN_OK;
}

zn_status zn_engine_write_param(zn_engine *e, const zn_param *param, int64_t first,
                                const float *values, int64_t n_elements)
{
    return zn_device_write(e->device, state_at(&e->parameters, e->units.place_of[param->index] + first),
                           values, (size_t)n_elements * sizeof(float));
}

zn_status zn_engine_read_param(zn_engine *e, const zn_param *param, int64_t first, float *values,
                               int64_t n_elements)
{
    return zn_device_read(e->device, values,
                          state_at(&e->parameters, e->units.place_of[param->index] + first),
                          (size_t)n_elements * sizeof(float));
}

zn_status zn_engine_init_param(zn_engine *e, const zn_param *param, uint64_t seed)
{
    zn_addr at = state_at(&e->parameters, e->units.place_of[param->index]);
    if (param->init == ZN_INIT_NORMAL)
        return zn_run_fill_normal(e->device,
                                  &(struct zn_fill_normal_args){.dst = at,
                                                                .n_elements = param->n_elements,
                                                                .key = zn_random_key(seed, param->name),
                                                                .stddev = param->stddev});
    return zn_run_fill(e->device,
                       &(struct zn_fill_args){.dst = at,
                                              .n_elements = param->n_elements,
                                              .value = param->init == ZN_INIT_ONES ? 1.0f : 0.0f});
}
