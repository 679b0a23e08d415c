/* Activation checkpoints away from the device: in the host's memory or on NVMe, in the working
 * precision, to which they are rounded anyway. Written behind forward, read ahead of backward
 * through two staging buffers each way; from a device with memory of its own they are copied. */
#include "base/size.h"
#include "zero/engine_private.h"

static bool is_swapped(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.activations);
}

static bool is_copied(const zn_engine *e)
{
    return zn_device_is_apart(e->device);
}

size_t saved_bytes(const zn_engine *e)
{
    return zn_round_up((size_t)e->saved_elements * width_of_params(e), ZN_STORAGE_ALIGNMENT);
}

static zn_status cast(zn_engine *e, zn_addr to, zn_dtype to_type, zn_addr from, zn_dtype from_type, int64_t n)
{
    if (to_type == from_type)
        return zn_run_copy(e->device, &(struct zn_copy_args){
                                          .dst = to, .src = from, .n_bytes = n * (int64_t)zn_dtype_bytes(to_type)});
    return zn_run_cast(e->device, &(struct zn_cast_args){
                                      .dst = to, .src = from, .dst_type = to_type, .src_type = from_type, .n_elements = n});
}

static zn_status wait_if(zn_engine *e, bool *pending, zn_event *done)
{
    if (!*pending)
        return ZN_OK;
    *pending = false;
    return zn_device_wait(e->device, done);
}

/* Halves 0 and 1 are for saving, 2 and 3 for loading. */
static zn_addr staging(const zn_engine *e, int half)
{
    return e->save_staging.address + (zn_addr)half * saved_bytes(e);
}

/* The same in the host's memory, between a device apart and NVMe. */
static zn_addr landing(const zn_engine *e, int half)
{
    return is_copied(e) ? e->save_landing.address + (zn_addr)half * saved_bytes(e) : staging(e, half);
}

static zn_addr home(const zn_engine *e, int64_t index)
{
    return e->saved.address + (zn_addr)index * saved_bytes(e);
}

static uint64_t swap_at(const zn_engine *e, int64_t index)
{
    return e->swap_activations.offset + (uint64_t)index * saved_bytes(e);
}

/* Recording learns how large they are and how many. */
static zn_status check(zn_engine *e, int64_t index, int64_t n_elements)
{
    if (!e->plan) {
        e->saved_elements = n_elements > e->saved_elements ? n_elements : e->saved_elements;
        e->n_saved = index >= e->n_saved ? index + 1 : e->n_saved;
    }
    if (n_elements > e->saved_elements || index >= e->n_saved)
        return zn_fail(ZN_ERR_INTERNAL, "activation checkpoint %lld of %lld elements is not in the plan",
                       (long long)index, (long long)n_elements);
    return ZN_OK;
}

/* From the half that the device has filled. */
static zn_status submit_store(zn_engine *e, int64_t index, int half)
{
    zn_event *filled = &e->save_ready[half], *left = is_swapped(e) ? &e->save_left[half] : &e->save_done[half];
    ZN_TRY(zn_device_record(e->device, filled));
    if (is_copied(e)) {
        struct zn_transfer out = {.to = is_swapped(e) ? landing(e, half) : home(e, index),
                                  .from = staging(e, half),
                                  .n_bytes = saved_bytes(e),
                                  .after = {filled},
                                  .done = left};
        ZN_TRY(zn_device_copy(e->device, ZN_LANE_OUT, &out));
        filled = left;
    }
    if (!is_swapped(e))
        return ZN_OK;
    return zn_storage_write(e->storage, swap_at(e, index), pointer_of(landing(e, half)), saved_bytes(e), filled,
                            &e->save_done[half]);
}

static zn_status store(zn_engine *e, int64_t index, int half)
{
    e->save_pending[half] = true;
    zn_event_reset(&e->save_done[half]);
    return submitted(e, submit_store(e, index, half), &e->save_done[half]);
}

zn_status activations_save(zn_engine *e, int64_t index, zn_addr from, int64_t n_elements)
{
    ZN_TRY(check(e, index, n_elements));
    if (!is_swapped(e) && !is_copied(e))
        return cast(e, home(e, index), e->options.type, from, ZN_F32, n_elements);
    int half = e->next_save;
    e->next_save = 1 - half;
    ZN_TRY(wait_if(e, &e->save_pending[half], &e->save_done[half]));
    ZN_TRY(cast(e, staging(e, half), e->options.type, from, ZN_F32, n_elements));
    return e->plan ? store(e, index, half) : ZN_OK;
}

static zn_status submit_load(zn_engine *e, int64_t index, int half)
{
    zn_event *ready = &e->load_free[half], *arrived = is_copied(e) ? &e->load_left[half] : &e->load_done[half];
    ZN_TRY(zn_device_record(e->device, ready));
    if (is_swapped(e)) {
        zn_event_reset(arrived);
        ZN_TRY(zn_storage_read(e->storage, swap_at(e, index), pointer_of(landing(e, 2 + half)), saved_bytes(e), ready, arrived));
        ready = arrived;
    }
    if (!is_copied(e))
        return ZN_OK;
    struct zn_transfer in = {.to = staging(e, 2 + half),
                             .from = is_swapped(e) ? landing(e, 2 + half) : home(e, index),
                             .n_bytes = saved_bytes(e),
                             .after = {ready},
                             .done = &e->load_done[half]};
    return zn_device_copy(e->device, ZN_LANE_IN, &in);
}

/* A checkpoint that is still being written is waited for: it is the last, and read first. */
static zn_status start_load(zn_engine *e, int64_t index, int half)
{
    for (int s = 0; s < 2; s++)
        ZN_TRY(wait_if(e, &e->save_pending[s], &e->save_done[s]));
    e->loading[half] = index;
    if (!e->plan)
        return ZN_OK;
    e->load_pending[half] = true;
    zn_event_reset(&e->load_done[half]);
    return submitted(e, submit_load(e, index, half), &e->load_done[half]);
}

zn_status activations_prefetch(zn_engine *e, int64_t index, int64_t n_elements)
{
    ZN_TRY(check(e, index, n_elements));
    if ((!is_swapped(e) && !is_copied(e)) || e->loading[0] == index || e->loading[1] == index)
        return ZN_OK;
    return start_load(e, index, e->loading[0] < 0 ? 0 : 1);
}

zn_status activations_load(zn_engine *e, int64_t index, zn_addr to, int64_t n_elements)
{
    ZN_TRY(check(e, index, n_elements));
    if (!is_swapped(e) && !is_copied(e))
        return cast(e, to, ZN_F32, home(e, index), e->options.type, n_elements);
    int half = e->loading[0] == index ? 0 : e->loading[1] == index ? 1 : -1;
    if (half < 0) {
        half = 0;
        ZN_TRY(wait_if(e, &e->load_pending[half], &e->load_done[half]));
        ZN_TRY(start_load(e, index, half));
    }
    ZN_TRY(wait_if(e, &e->load_pending[half], &e->load_done[half]));
    e->loading[half] = -1;
    return cast(e, to, ZN_F32, staging(e, 2 + half), e->options.type, n_elements);
}

zn_status activations_end_pass(zn_engine *e)
{
    for (int s = 0; s < 2; s++) {
        ZN_TRY(wait_if(e, &e->save_pending[s], &e->save_done[s]));
        ZN_TRY(wait_if(e, &e->load_pending[s], &e->load_done[s]));
        e->loading[s] = -1;
    }
    return ZN_OK;
}
