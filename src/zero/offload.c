/* Gradient offload: sums leave a device with memory of its own while backward goes on (ZeRO-Offload), through two halves of
 * buffers to the host, which adds them to what it has in memory or on NVMe. */
#include "zero/engine_private.h"

/* One rank's are rounded to the working precision and need no more. */
static zn_dtype type_on_link(const zn_engine *e)
{
    return e->n_ranks == 1 ? e->placement->type : ZN_F32;
}

static struct zn_extent extent_of_half(const zn_engine *e, zn_buffer_id buffer, int half)
{
    return zn_buffer_extent(&e->buffers[buffer], (uint64_t)half * (e->buffers[buffer].n_bytes / 2));
}

static zn_addr half_of(const zn_engine *e, zn_buffer_id buffer, int half)
{
    return extent_of_half(e, buffer, half).address;
}

static bool is_on_nvme(const zn_engine *e)
{
    return zn_is_swapped(&e->placement->gradients);
}

/* Where the host keeps the unit's gradient. */
static struct zn_span home(const zn_engine *e, int unit)
{
    return zn_span_of_partition(e->placement, &e->units->units[unit], ZN_BUFFER_GRADIENTS, ZN_PARTITION, sizeof(float));
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
    int64_t n = e->units->units[unit].partition;
    struct zn_span span = home(e, unit);
    zn_addr wide = half_of(e, ZN_BUFFER_OFFLOAD_WIDENED, us->half), sum = is_on_nvme(e) ? wide : span_address(e, &span);
    ZN_TRY(zn_device_wait(e->host, us->left));
    ZN_TRY(widen(e, us->adds ? wide : sum, half_of(e, ZN_BUFFER_OFFLOAD_ARRIVED, us->half), type_on_link(e), n));
    if (us->adds && is_on_nvme(e))
        ZN_TRY(zn_device_wait(e->host, &us->prior_read));
    if (us->adds)
        ZN_TRY(zn_run_add(e->host, &(struct zn_add_args){.y = sum,
                                                         .a = is_on_nvme(e) ? half_of(e, ZN_BUFFER_OFFLOAD_EARLIER, us->half) : sum,
                                                         .b = wide,
                                                         .n_elements = n}));
    if (us->final)
        ZN_TRY(squares_of_unit(e, unit, sum));
    if (us->final && e->placement->updates_in_backward) {
        us->update.gradient = sum;
        ZN_TRY(optimizer_update_unit(e, unit, &us->update));
    } else if (is_on_nvme(e)) {
        ZN_TRY(zn_device_record(e->host, &us->taken));
        return zn_storage_write(e->storage, span_in_swap(e, &span), extent_of_half(e, ZN_BUFFER_OFFLOAD_WIDENED, us->half),
                                span.n_bytes, &us->taken, &us->stored);
    }
    return zn_device_record(e->host, &us->stored);
}

/* Whoever waits for it hears of a failure. */
static zn_status run_take_in(void *arg)
{
    struct unit_state *us = arg;
    return zn_event_fail(&us->stored, take_in(us->engine, (int)(us - us->engine->unit_state)));
}

zn_status offload_wait(zn_engine *e, int unit)
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
    struct offload_halves *halves = &e->offload;
    int half = halves->next;
    if (halves->user[half] >= 0)
        ZN_TRY(offload_wait(e, halves->user[half]));
    ZN_TRY(offload_wait(e, unit));
    halves->next = 1 - half;
    halves->user[half] = unit;
    e->unit_state[unit].half = half;
    return ZN_OK;
}

static zn_status read_prior(zn_engine *e, struct unit_state *us, int unit)
{
    struct zn_span span = home(e, unit);
    zn_event_reset(&us->prior_read);
    return zn_storage_read(e->storage, span_in_swap(e, &span), extent_of_half(e, ZN_BUFFER_OFFLOAD_EARLIER, us->half), span.n_bytes,
                           NULL, &us->prior_read);
}

/* The copy to the host. */
static zn_status send(zn_engine *e, const struct unit_state *us, zn_addr sum, int64_t n, zn_event *ready, zn_event *left)
{
    zn_dtype type = type_on_link(e);
    bool packs = e->buffers[ZN_BUFFER_OFFLOAD_PACKED].n_bytes > 0;
    zn_addr packed = half_of(e, ZN_BUFFER_OFFLOAD_PACKED, us->half);
    if (packs)
        ZN_TRY(zn_run_cast(e->device, &(struct zn_cast_args){
                                          .dst = packed, .src = sum, .dst_type = type, .src_type = ZN_F32, .n_elements = n}));
    ZN_TRY(zn_device_record(e->device, ready));
    struct zn_transfer out = {.to = half_of(e, ZN_BUFFER_OFFLOAD_ARRIVED, us->half),
                              .from = packs ? packed : sum,
                              .n_bytes = (size_t)n * zn_dtype_bytes(type),
                              .after = {ready},
                              .done = left};
    return zn_device_copy(e->device, ZN_LANE_OUT, &out);
}

zn_status offload_gradient(zn_engine *e, const struct zn_instr *i, zn_event *ready, zn_event *left)
{
    struct unit_state *us = &e->unit_state[i->unit];
    ZN_TRY(take_half(e, i->unit));
    us->adds = i->flags & ZN_ADDS;
    us->final = i->flags & ZN_FINAL;
    us->left = left;
    us->update = (struct update){.device = e->host, .lr = e->updates.lr, .grad_scale = e->updates.grad_scale};
    if (us->adds && is_on_nvme(e))
        ZN_TRY(read_prior(e, us, i->unit));
    ZN_TRY(send(e, us, span_address(e, &i->from), e->units->units[i->unit].partition, ready, left));
    zn_event_reset(&us->stored);
    if (us->final && e->placement->updates_in_backward)
        update_starts(e, i->unit);
    if (e->updater)
        ZN_TRY(zn_stream_submit(e->updater, &(struct zn_task){.run = run_take_in, .arg = us}));
    else
        ZN_TRY(run_take_in(us));
    us->storing = true; /* only now is there someone who sets it */
    return ZN_OK;
}
