/* The layout of units. */
#include "zero/unit.h"

#include <stdlib.h>

#include "base/size.h"

void zn_units_fini(zn_units *units)
{
    free(units->units);
    free(units->unit_of);
    free(units->place_of);
    *units = (zn_units){0};
}

/* Parameters come in the order of their segments, so a unit is a run of them. */
zn_status zn_units_init(zn_units *units, const zn_module *module, int n_ranks)
{
    size_t n_params = (size_t)module->n_params;
    *units = (zn_units){.n_units = module->n_segments};
    units->units = calloc((size_t)units->n_units, sizeof *units->units);
    units->unit_of = calloc(n_params, sizeof *units->unit_of);
    units->place_of = calloc(n_params, sizeof *units->place_of);
    if (!units->units || !units->unit_of || !units->place_of) {
        zn_units_fini(units);
        return zn_fail(ZN_ERR_MEMORY, "no memory for the units of %zu parameters", n_params);
    }
    size_t multiple = (size_t)n_ranks * ZN_PARTITION_ALIGNMENT;
    int64_t at = 0;
    int i = 0;
    for (int u = 0; u < units->n_units; u++) {
        struct zn_unit *unit = &units->units[u];
        unit->first = at;
        for (; i < module->n_params && module->params[i].segment == u; i++) {
            units->unit_of[i] = u;
            units->place_of[i] = at;
            at += (int64_t)zn_round_up((size_t)module->params[i].n_elements, ZN_PARAM_ALIGNMENT);
        }
        unit->n_elements = (int64_t)zn_round_up((size_t)(at - unit->first), multiple);
        at = unit->first + unit->n_elements;
    }
    units->n_elements = at;
    if (i != module->n_params) {
        zn_units_fini(units);
        return zn_fail(ZN_ERR_INTERNAL, "the model's parameters are not in the order of segments");
    }
    return ZN_OK;
}
