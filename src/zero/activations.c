/* Activation checkpoints away from the device: in the host's memory or on NVMe, in the working
 * precision, to which they are rounded anyway. Written behind forward, read ahead of backward
 * through two staging buffers each way. */
#include "base/size.h"
#include "zero/engine_private.h"

static bool is_swapped(const zn_engine *e)
{
    return is_on_nvme(e->options.offload.activations);
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

zn_status activations_save(zn_engine *e, int64_t index, zn_addr from, int64_t n_elements)
{
    ZN_TRY(check(e, index, n_elements));
    if (!is_swapped(e))
        return cast(e, e->saved.address + (zn_addr)index * saved_bytes(e), e->options.type, from, ZN_F32, n_elements);
    int half = e->next_save;
    e->next_save = 1 - half;
    ZN_TRY(wait_if(e, &e->save_pending[half], &e->save_done[half]));
    ZN_TRY(cast(e, staging(e, half), e->options.type, from, ZN_F32, n_elements));
    if (!e->storage)
        return ZN_OK;
    ZN_TRY(zn_device_record(e->device, &e->save_ready[half]));
    zn_event_reset(&e->save_done[half]);
    ZN_TRY(zn_storage_write(e->storage, e->swap_activations.offset + (uint64_t)index * saved_bytes(e),
                            pointer_of(staging(e, half)), saved_bytes(e), &e->save_ready[half], &e->save_done[half]));
    e->save_pending[half] = true;
    return ZN_OK;
}

/* A checkpoint that is still being written is waited for: it is the last, and read first. */
static zn_status start_load(zn_engine *e, int64_t index, int half)
{
    for (int s = 0; s < 2; s++)
        ZN_TRY(wait_if(e, &e->save_pending[s], &e->save_done[s]));
    e->loading[half] = index;
    if (!e->storage)
        return ZN_OK;
    ZN_TRY(zn_device_record(e->device, &e->load_free[half]));
    zn_event_reset(&e->load_done[half]);
    ZN_TRY(zn_storage_read(e->storage, e->swap_activations.offset + (uint64_t)index * saved_bytes(e),
                           pointer_of(staging(e, 2 + half)), saved_bytes(e), &e->load_free[half], &e->load_done[half]));
    e->load_pending[half] = true;
    return ZN_OK;
}

zn_status activations_prefetch(zn_engine *e, int64_t index, int64_t n_elements)
{
    ZN_TRY(check(e, index, n_elements));
    if (!is_swapped(e) || e->loading[0] == index || e->loading[1] == index)
        return ZN_OK;
    return start_load(e, index, e->loading[0] < 0 ? 0 : 1);
}

zn_status activations_load(zn_engine *e, int64_t index, zn_addr to, int64_t n_elements)
{
    ZN_TRY(check(e, index, n_elements));
    if (!is_swapped(e))
        return cast(e, to, ZN_F32, e->saved.address + (zn_addr)index * saved_bytes(e), e->options.type, n_elements);
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
