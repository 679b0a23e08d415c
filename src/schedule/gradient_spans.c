/* Where gradients lie, as spans, and the instructions that all of them need. */
#include "base/exact.h"
#include "schedule/gradients.h"

/* ---- Spans ---- */

uint64_t gradient_bytes(const struct reduction_pass *p, int unit)
{
    return (uint64_t)gradient_unit(p, unit)->n_elements * sizeof(float);
}

/* The whole of what is written now. */
struct zn_span gradient_written(const struct reduction_pass *p, int unit)
{
    const struct unit_gradient *g = &p->units[unit];
    if (g->in_slot)
        return (struct zn_span){ZN_BUFFER_SLOTS, false, g->slot, gradient_bytes(p, unit)};
    if (g->in_tied)
        return (struct zn_span){ZN_BUFFER_TIED, false, (uint64_t)p->tied_at[unit] * sizeof(float), gradient_bytes(p, unit)};
    return zn_span_of_unit(gradient_unit(p, unit), ZN_BUFFER_GRADIENTS, sizeof(float));
}

/* Where sums stay: the own partition, in memory or in the swap. */
struct zn_span gradient_home(const struct reduction_pass *p, int unit)
{
    return zn_span_of_partition(placement_of(p), gradient_unit(p, unit), ZN_BUFFER_GRADIENTS, placement_of(p)->gradients.form, sizeof(float));
}

/* Where the sum over ranks ends. */
struct zn_span gradient_sum(const struct reduction_pass *p, int unit)
{
    const struct unit_gradient *g = &p->units[unit];
    uint64_t n_bytes = (uint64_t)gradient_unit(p, unit)->partition * sizeof(float);
    if (!gradients_on_nvme(p) && !placement_of(p)->offloads_gradients)
        return gradient_home(p, unit);
    if (g->has_prior)
        return (struct zn_span){ZN_BUFFER_SLOTS, false, g->prior, n_bytes};
    return (struct zn_span){ZN_BUFFER_SLOTS, true, g->slot, n_bytes};
}

struct zn_span gradient_squares(const struct reduction_pass *p, int unit)
{
    const struct zn_unit *u = gradient_unit(p, unit);
    return (struct zn_span){ZN_BUFFER_SQUARES, false, (uint64_t)u->first_part * sizeof(zn_exact),
                            (uint64_t)u->n_parts * sizeof(zn_exact)};
}

/* ---- Instructions ---- */

int gradient_emit(struct reduction_pass *p, zn_op op, int unit, struct zn_span to, struct zn_span from, int flags)
{
    return zn_emit(p->writer, (struct zn_instr){.op = (uint8_t)op,
                                                .flags = (uint8_t)flags,
                                                .unit = unit,
                                                .after = -1,
                                                .from = from,
                                                .to = to});
}

void gradient_zero(struct reduction_pass *p, int unit, struct zn_span span, int flags)
{
    if (span.n_bytes > 0)
        gradient_emit(p, ZN_OP_ZERO, unit, span, ZN_NO_SPAN, flags);
}

/* The device that has the sums computes with them. */
int gradient_on_home(const struct reduction_pass *p)
{
    return placement_of(p)->gradients.on_host ? ZN_ON_HOST : 0;
}

void gradient_take_squares(struct reduction_pass *p, int unit, struct zn_span sum)
{
    gradient_emit(p, ZN_OP_SQUARES, unit, gradient_squares(p, unit), sum, gradient_on_home(p));
}
