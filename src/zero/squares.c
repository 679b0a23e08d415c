/* Sums of squares of gradients, part by part: the norm is the same whatever the stage, the tiles and the number of ranks. */
#include "base/exact.h"
#include "zero/engine_private.h"

zn_status squares_of_unit(zn_engine *e, int unit, zn_addr gradient)
{
    const struct zn_unit *u = &e->units->units[unit];
    zn_device *device = gradients_device(e);
    zn_addr sums = e->buffers[ZN_BUFFER_SQUARES].base + (zn_addr)u->first_part * sizeof(zn_exact);
    ZN_TRY(zn_run_zero(device, &(struct zn_zero_args){.dst = sums, .n_bytes = u->n_parts * (int64_t)sizeof(zn_exact)}));
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &e->units->parts[u->first_part + i];
        struct zn_range own = zn_units_owned(e->units, part, e->rank);
        int64_t at = part->place - u->first + own.first - e->rank * u->partition;
        if (own.n == 0)
            continue;
        ZN_TRY(zn_run_sum_squares(device, &(struct zn_sum_squares_args){.sum = sums + (zn_addr)i * sizeof(zn_exact),
                                                                        .src = gradient + (zn_addr)at * sizeof(float),
                                                                        .partial = e->buffers[ZN_BUFFER_PARTIAL_SUMS].base,
                                                                        .n_elements = own.n}));
    }
    return ZN_OK;
}
