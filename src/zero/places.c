/* Where an element lies. */
#include "zero/engine_private.h"

zn_device *states_device(const zn_engine *e)
{
    return e->placement->states.on_host ? e->host : e->device;
}

zn_device *gradients_device(const zn_engine *e)
{
    return e->placement->gradients.on_host ? e->host : e->device;
}

zn_device *values_device(const zn_engine *e, int unit)
{
    const struct zn_placement *p = e->placement;
    return (is_trained(e, unit) ? p->states.on_host : p->parameters.on_host) ? e->host : e->device;
}

bool is_trained(const zn_engine *e, int unit)
{
    return e->units->units[unit].is_trained;
}

size_t width_of_params(const zn_engine *e)
{
    return zn_dtype_bytes(e->placement->type);
}

int64_t own_first(const zn_engine *e, int unit)
{
    return zn_own_first(e->placement, &e->units->units[unit]);
}

int64_t own_count(const zn_engine *e, int unit)
{
    return zn_own_count(e->placement, &e->units->units[unit]);
}

struct zn_range own_range(const zn_engine *e, const struct zn_part *part)
{
    return e->placement->states.form == ZN_WHOLE ? (struct zn_range){0, part->n_elements}
                                                 : zn_units_owned(e->units, part, e->rank);
}

zn_addr own_values_at(const zn_engine *e, int unit, int64_t at)
{
    const struct zn_unit *u = &e->units->units[unit];
    const struct zn_placement *p = e->placement;
    struct zn_span span = zn_span_of_own_values(p, e->units, u);
    if (p->states.form == ZN_WHOLE) /* every rank has all of it as its own */
        span.is_own = false;
    return span_address(e, &span) + zn_dtype_size(u->type, at);
}

uint64_t own_values_in_swap(const zn_engine *e, int unit, int64_t at)
{
    const struct zn_unit *u = &e->units->units[unit];
    struct zn_span span = zn_span_of_own_values(e->placement, e->units, u);
    return span_in_swap(e, &span) + zn_dtype_size(u->type, at);
}

zn_addr own_at(const zn_engine *e, zn_buffer_id buffer, size_t width, zn_form form, int unit, int64_t at)
{
    const struct zn_unit *u = &e->units->units[unit];
    int64_t skipped = e->placement->states.form == ZN_WHOLE ? 0 : e->rank * u->partition;
    int64_t place = form == ZN_WHOLE ? u->first + skipped : u->first / e->n_ranks;
    return e->buffers[buffer].base + (zn_addr)(place + at) * width;
}

uint64_t span_offset(const zn_engine *e, const struct zn_span *span)
{
    int rank = e->buffers[span->buffer].is_of_slices ? e->slice : e->rank;
    return span->offset + (span->is_own ? (uint64_t)rank * span->n_bytes : 0);
}

zn_addr span_address(const zn_engine *e, const struct zn_span *span)
{
    return span->buffer < 0 ? 0 : e->buffers[span->buffer].base + span_offset(e, span);
}

struct zn_extent span_extent(const zn_engine *e, const struct zn_span *span)
{
    return zn_buffer_extent(&e->buffers[span->buffer], span_offset(e, span));
}

uint64_t span_in_swap(const zn_engine *e, const struct zn_span *span)
{
    return e->buffers[span->buffer].swap_offset + span_offset(e, span);
}
