/* Gradients that leave a device with memory of its own, while backward goes on (ZeRO-Offload): through two halves of
 * buffers to the host, which adds them to what it has in memory or on NVMe. */
#include "zero/gradients.h"

/* One rank's are rounded to the working precision and need no more. */
static zn_dtype leaving_type(const zn_engine *e)
{
    return e->n_ranks == 1 ? e->options.type : ZN_F32;
}

static zn_addr half_of(const struct region *region, int half)
{
    return region->address + (zn_addr)half * (region->n_bytes / 2);
}

static zn_status widen(zn_engine *e, zn_addr to, zn_addr from, zn_dtype type, int64_t n)
{
    if (type == ZN_F32)
        return zn_run_copy(e->host, &(struct zn_copy_args){.dst = to, .src = from, .n_bytes = n * (int64_t)sizeof(float)});
    return zn_run_cast(e->host, &(struct zn_cast_args){
                                    .dst = to, .src = from, .dst_type = ZN_F32, .src_type = type, .n_elements = n});
}

/* The host adds what arrives to what it has of this step, in memory or from NVMe. */
static zn_status take_in(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    int64_t n = e->units.units[unit].partition;
    zn_addr wide = half_of(&e->widened, us->half);
    zn_addr home = gradients_on_nvme(e) ? wide : partition_at(e, &e->gradients, sizeof(float), false, unit);
    ZN_TRY(zn_device_wait(e->host, &us->done));
    ZN_TRY(widen(e, us->adds ? wide : home, half_of(&e->unpack, us->half), leaving_type(e), n));
    if (us->adds && gradients_on_nvme(e))
        ZN_TRY(zn_device_wait(e->host, &us->prior_read));
    if (us->adds)
        ZN_TRY(zn_run_add(e->host, &(struct zn_add_args){.y = home,
                                                         .a = gradients_on_nvme(e) ? half_of(&e->earlier, us->half) : home,
                                                         .b = wide,
                                                         .n_elements = n}));
    if (us->final)
        ZN_TRY(squares_of_unit(e, unit, home));
    if (us->final && e->options.in_backward) {
        us->update.gradient = home;
        ZN_TRY(optimizer_update_unit(e, unit, &us->update));
    } else if (gradients_on_nvme(e)) {
        ZN_TRY(zn_device_record(e->host, &us->taken));
        return zn_storage_write(e->storage, swap_at(e, unit), pointer_of(home), (size_t)n * sizeof(float), &us->taken,
                                &us->stored);
    }
    return zn_device_record(e->host, &us->stored);
}

/* Whoever waits for it hears of a failure. */
static zn_status run_take_in(void *arg)
{
    struct unit_state *us = arg;
    zn_status status = take_in(us->engine, (int)(us - us->engine->unit_state));
    if (status != ZN_OK)
        zn_event_set(&us->stored, status, zn_error_message(), zn_clock_now(us->engine->host->clock));
    return status;
}

zn_status wait_stored(zn_engine *e, int unit)
{
    struct unit_state *us = &e->unit_state[unit];
    if (!us->storing)
        return ZN_OK;
    us->storing = false;
    return zn_event_wait(&us->stored, e->device->clock);
}

/* A half of the buffers is in use until the host has stored what came through it. */
static zn_status take_half(zn_engine *e, int unit)
{
    int half = e->next_leave;
    if (e->leaving[half] >= 0)
        ZN_TRY(wait_stored(e, e->leaving[half]));
    ZN_TRY(wait_stored(e, unit));
    e->next_leave = 1 - half;
    e->leaving[half] = unit;
    e->unit_state[unit].half = half;
    return ZN_OK;
}

/* ZeRO-Offload: the sum leaves the device while backward goes on. */
zn_status leave_device(zn_engine *e, int unit, zn_addr sum)
{
    struct unit_state *us = &e->unit_state[unit];
    zn_dtype type = leaving_type(e);
    size_t n = (size_t)e->units.units[unit].partition;
    bool packs = e->pack.n_bytes > 0;
    ZN_TRY(take_half(e, unit));
    us->adds = us->arrived;
    us->final = is_final(e, us);
    us->arrived = true;
    us->update = (struct update){.device = e->host, .lr = e->lr, .grad_scale = e->grad_scale};
    if (us->adds && gradients_on_nvme(e)) {
        zn_event_reset(&us->prior_read);
        ZN_TRY(zn_storage_read(e->storage, swap_at(e, unit), pointer_of(half_of(&e->earlier, us->half)), n * sizeof(float),
                               NULL, &us->prior_read));
    }
    if (packs)
        ZN_TRY(zn_run_cast(e->device, &(struct zn_cast_args){.dst = half_of(&e->pack, us->half),
                                                             .src = sum,
                                                             .dst_type = type,
                                                             .src_type = ZN_F32,
                                                             .n_elements = (int64_t)n}));
    ZN_TRY(zn_device_record(e->device, &us->written));
    struct zn_transfer out = {.to = half_of(&e->unpack, us->half),
                              .from = packs ? half_of(&e->pack, us->half) : sum,
                              .n_bytes = n * zn_dtype_bytes(type),
                              .after = {&us->written},
                              .done = &us->done};
    ZN_TRY(zn_device_copy(e->device, ZN_LANE_OUT, &out));
    zn_event_reset(&us->stored);
    if (us->final && e->options.in_backward)
        update_starts(e, unit);
    if (e->updater)
        ZN_TRY(zn_stream_submit(e->updater, &(struct zn_task){.run = run_take_in, .arg = us}));
    else
        ZN_TRY(run_take_in(us));
    us->storing = true; /* only now is there someone who sets it */
    return ZN_OK;
}
