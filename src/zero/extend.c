/* Passes that extend a sequence with the keys and values of the tokens before kept (autograd/cache.h). Parameters come as in
 * any other pass: kept whole, gathered, or read along the trace of evaluation. Every pass goes to the end of that trace, so
 * that the plan of gathers holds for all: the logits of its last token are computed whether they are wanted or not. */
#include "zero/engine_private.h"

static zn_status check_ids(const zn_engine *e, const int32_t *ids, int64_t n)
{
    int64_t past = e->cache.past, capacity = e->options.extends;
    if (n < 1 || n > capacity - past)
        return zn_fail(ZN_ERR_INTERNAL, "%lld tokens after %lld: the engine was made for %lld", (long long)n,
                       (long long)past, (long long)capacity);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= e->module->vocabulary)
            return zn_fail(ZN_ERR_INPUT, "token %d is not in the model's vocabulary of %lld", ids[i],
                           (long long)e->module->vocabulary);
    return ZN_OK;
}

static zn_status run_pass(zn_engine *e, const int32_t *ids, int64_t n)
{
    ZN_TRY(zn_device_write(e->device, e->buffers[ZN_BUFFER_IDS].base, ids, (size_t)n * sizeof *ids));
    ZN_TRY(start_pass(e, ZN_SECTION_EVALUATE));
    e->cache.base = e->buffers[ZN_BUFFER_KEYS_AND_VALUES].base;
    e->cache.capacity = e->options.extends;
    zn_tape_use_cache(e->tape, &e->cache);
    struct zn_batch batch = {.ids = zn_tape_external(e->tape, ZN_I32, 2, (int64_t[]){1, n}, e->buffers[ZN_BUFFER_IDS].base),
                             .logits = e->buffers[ZN_BUFFER_LOGITS].base};
    ZN_TRY(zn_module_extend(e->module, e->tape, &batch));
    ZN_TRY(executor_end(e));
    e->cache.past += n;
    return ZN_OK;
}

zn_status zn_engine_extend(zn_engine *e, const int32_t *ids, int64_t n, float *logits)
{
    ZN_TRY(check_ids(e, ids, n));
    for (int64_t rows; n > 0; n -= rows, ids += rows) {
        rows = n < e->options.seq_len ? n : e->options.seq_len;
        ZN_TRY(run_pass(e, ids, rows));
    }
    if (!logits)
        return ZN_OK;
    return zn_device_read(e->device, logits, e->buffers[ZN_BUFFER_LOGITS].base, (size_t)e->module->vocabulary * sizeof *logits);
}

int64_t zn_engine_length(const zn_engine *e)
{
    return e->cache.past;
}

void zn_engine_rewind(zn_engine *e, int64_t length)
{
    if (length < e->cache.past)
        e->cache.past = length;
}
