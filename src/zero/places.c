/* What a stage and the tiers keep where, and where an element lies. */
#include "zero/engine_private.h"

bool is_on_nvme(zn_tier tier)
{
    return tier == ZN_TIER_NVME;
}

bool is_apart(const zn_engine *e)
{
    return zn_device_is_apart(e->device);
}

bool parameters_come(const zn_engine *e)
{
    return is_apart(e) && e->options.offload.parameters != ZN_TIER_DEVICE;
}

bool parameters_return(const zn_engine *e)
{
    return is_apart(e) && e->options.offload.optimizer != ZN_TIER_DEVICE && !parameters_come(e);
}

bool gradients_leave(const zn_engine *e)
{
    return is_apart(e) && e->options.offload.gradients != ZN_TIER_DEVICE;
}

bool keeps_parameters(const zn_engine *e)
{
    bool whole = e->options.stage < 3 || e->n_ranks == 1;
    return whole && !is_on_nvme(e->options.offload.parameters) && !parameters_come(e);
}

bool keeps_gradients(const zn_engine *e)
{
    return (e->options.stage < 2 || e->n_ranks == 1) && !is_on_nvme(e->options.offload.gradients) && !gradients_leave(e);
}

bool keeps_optimizer(const zn_engine *e)
{
    return e->options.stage < 1 || e->n_ranks == 1;
}

bool has_master(const zn_engine *e)
{
    return e->options.trains && (e->options.type != ZN_F32 || parameters_return(e) || e->options.delay_after >= 0);
}

bool keeps_only_working(const zn_engine *e)
{
    return e->options.type != ZN_F32 && !has_master(e);
}

zn_device *states_device(const zn_engine *e)
{
    return parameters_return(e) || parameters_come(e) ? e->host : e->device;
}

zn_device *gradients_device(const zn_engine *e)
{
    return gradients_leave(e) ? e->host : e->device;
}

/* What a device apart has a path for: states are updated where they are, so what the update reads and writes is on one
 * side of the link. */
zn_status check_device(const zn_engine *e)
{
    const struct zn_offload *off = &e->options.offload;
    if (is_apart(e) != e->options.is_apart || (e->options.is_apart && e->host == e->device))
        return zn_fail(ZN_ERR_INTERNAL, "the engine was not made for such a device");
    if (e->options.trains && (is_on_nvme(off->gradients) || gradients_leave(e)) && !e->options.reduce_every &&
        !e->options.vertical && e->options.accumulate > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--reduce last: gradients that leave memory are summed every micro-batch");
    if (!e->options.is_apart || !e->options.trains)
        return ZN_OK;
    bool away = off->optimizer != ZN_TIER_DEVICE;
    if (away != (off->gradients != ZN_TIER_DEVICE))
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own the gradients go where the optimizer is: "
                                           "both on the device, or both away from it");
    if (off->parameters != ZN_TIER_DEVICE && !away)
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own parameters are offloaded only with the "
                                           "optimizer");
    if (away && e->options.stage < 2 && e->n_ranks > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own the optimizer leaves it only at stages 2 and 3");
    return ZN_OK;
}

bool is_frozen(const zn_engine *e, const struct zn_part *part)
{
    return e->options.frozen && e->options.frozen[part->param];
}

size_t width_of_params(const zn_engine *e)
{
    return zn_dtype_bytes(e->options.type);
}

void *pointer_of(zn_addr address)
{
    return (void *)(uintptr_t)address;
}

int64_t own_first(const zn_engine *e, int unit)
{
    return keeps_optimizer(e) ? e->units.units[unit].first : e->units.units[unit].first / e->n_ranks;
}

int64_t own_count(const zn_engine *e, int unit)
{
    return keeps_optimizer(e) ? e->units.units[unit].n_elements : e->units.units[unit].partition;
}

int64_t own_total(const zn_engine *e)
{
    return keeps_optimizer(e) ? e->units.n_elements : e->units.n_elements / e->n_ranks;
}

struct zn_range own_range(const zn_engine *e, const struct zn_part *part)
{
    return keeps_optimizer(e) ? (struct zn_range){0, part->n_elements} : zn_units_owned(&e->units, part, e->rank);
}

zn_addr own_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit, int64_t at)
{
    const struct zn_unit *u = &e->units.units[unit];
    int64_t place = whole ? u->first + (keeps_optimizer(e) ? 0 : e->rank * u->partition) : u->first / e->n_ranks;
    return region->address + (zn_addr)(place + at) * width;
}

zn_addr whole_at(const zn_engine *e, const struct region *region, size_t width, const struct zn_part *part,
                 int64_t first)
{
    (void)e;
    return region->address + (zn_addr)(part->place + first) * width;
}

zn_addr partition_at(const zn_engine *e, const struct region *region, size_t width, bool whole, int unit)
{
    const struct zn_unit *u = &e->units.units[unit];
    int64_t place = whole ? u->first + e->rank * u->partition : u->first / e->n_ranks;
    return region->address + (zn_addr)place * width;
}
