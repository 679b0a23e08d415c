/* What a state is called and kept in, and its values in fp32 whatever they are kept in. */
#include "tensor/half.h"
#include "zero/engine_private.h"

enum { PIECE = 4096 }; /* values */

/* The optimizer's state that this one is, or has the scales of; NULL: it is not the optimizer's. */
static const struct zn_optimizer_state *find_state(const zn_engine *e, zn_state state)
{
    int i = (int)state - (state >= ZN_STATE_SCALES ? ZN_STATE_SCALES : ZN_STATE_OPTIMIZER);
    if (state == ZN_STATE_MASTER || state == ZN_STATE_PENDING || !e->options.trains || i >= e->options.optimizer->n_states)
        return NULL;
    return &e->options.optimizer->state[i];
}

bool unit_has_state(const zn_engine *e, int unit, zn_state state)
{
    const struct zn_optimizer_state *s = find_state(e, state);
    if (!is_trained(e, unit))
        return state == ZN_STATE_MASTER;
    return !s || zn_optimizer_keeps(s, e->units->units[unit].by_matrix);
}

const char *zn_engine_state_name(const zn_engine *e, zn_state state)
{
    const struct zn_optimizer_state *s = find_state(e, state);
    if (state == ZN_STATE_MASTER)
        return "master";
    if (state == ZN_STATE_PENDING)
        return e->updates.pending.is_there ? "pending" : NULL;
    return !s ? NULL : state >= ZN_STATE_SCALES ? s->scales : s->name;
}

zn_dtype zn_engine_state_type(const zn_engine *e, zn_state state)
{
    const struct zn_optimizer_state *s = find_state(e, state);
    return s && state < ZN_STATE_SCALES ? s->type : ZN_F32;
}

int64_t zn_engine_state_grain(const zn_engine *e, zn_state state)
{
    const struct zn_optimizer_state *s = find_state(e, state);
    return s && state >= ZN_STATE_SCALES && s->block ? s->block : 1;
}

zn_status values_write(zn_device *device, zn_addr to, zn_dtype type, const float *values, int64_t n_values)
{
    union {
        uint16_t halves[PIECE];
        uint8_t codes[PIECE];
    } kept;
    size_t width = zn_dtype_bytes(type);
    if (type == ZN_F32)
        return zn_device_write(device, to, values, (size_t)n_values * sizeof(float));
    for (int64_t at = 0; at < n_values; at += PIECE) {
        int64_t n = n_values - at < PIECE ? n_values - at : PIECE;
        for (int64_t i = 0; i < n; i++) {
            if (type == ZN_BF16)
                kept.halves[i] = zn_float_to_bf16(values[at + i]);
            else
                kept.codes[i] = (uint8_t)values[at + i];
        }
        ZN_TRY(zn_device_write(device, to + (zn_addr)at * width, &kept, (size_t)n * width));
    }
    return ZN_OK;
}

zn_status values_read(zn_device *device, float *values, zn_addr from, zn_dtype type, int64_t n_values)
{
    union {
        uint16_t halves[PIECE];
        uint8_t codes[PIECE];
    } kept;
    size_t width = zn_dtype_bytes(type);
    if (type == ZN_F32)
        return zn_device_read(device, values, from, (size_t)n_values * sizeof(float));
    for (int64_t at = 0; at < n_values; at += PIECE) {
        int64_t n = n_values - at < PIECE ? n_values - at : PIECE;
        ZN_TRY(zn_device_read(device, &kept, from + (zn_addr)at * width, (size_t)n * width));
        for (int64_t i = 0; i < n; i++)
            values[at + i] = type == ZN_BF16 ? zn_bf16_to_float(kept.halves[i]) : (float)kept.codes[i];
    }
    return ZN_OK;
}
