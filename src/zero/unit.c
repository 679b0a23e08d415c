/* The layout of units and their partition. */
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
static int lay_out_unit(zn_units *units, const zn_module *module, int u, int first_param,
                        int64_t multiple)
{
    struct zn_unit *unit = &units->units[u];
    int i = first_param;
    unit->first = units->n_elements;
    unit->first_param = first_param;
    int64_t at = unit->first;
    for (; i < module->n_params && module->params[i].segment == u; i++) {
        units->unit_of[i] = u;
        units->place_of[i] = at;
        at += (int64_t)zn_round_up((size_t)module->params[i].n_elements, ZN_PARAM_ALIGNMENT);
    }
    unit->n_params = i - first_param;
    unit->n_elements = (int64_t)zn_round_up((size_t)(at - unit->first), (size_t)multiple);
    unit->partition = unit->n_elements / units->n_ranks;
    units->n_elements += unit->n_elements;
    return i;
}

zn_status zn_units_init(zn_units *units, const zn_module *module, zn_dtype type, int n_ranks)
{
    size_t n_params = (size_t)module->n_params;
    *units = (zn_units){.n_units = module->n_segments, .n_ranks = n_ranks};
    units->units = calloc((size_t)units->n_units, sizeof *units->units);
    units->unit_of = calloc(n_params, sizeof *units->unit_of);
    units->place_of = calloc(n_params, sizeof *units->place_of);
    if (!units->units || !units->unit_of || !units->place_of) {
        zn_units_fini(units);
        return zn_fail(ZN_ERR_MEMORY, "no memory for the units of %zu parameters", n_params);
    }
    int64_t multiple = n_ranks * (ZN_PARTITION_ALIGNMENT / (int64_t)zn_dtype_bytes(type));
    int i = 0;
    for (int u = 0; u < units->n_units; u++)
        i = lay_out_unit(units, module, u, i, multiple);
    if (i != module->n_params) {
        zn_units_fini(units);
        return zn_fail(ZN_ERR_INTERNAL, "the model's parameters are not in the order of segments");
    }
    return ZN_OK;
}

struct zn_range zn_units_owned(const zn_units *units, const zn_param *param, int rank)
{
    const struct zn_unit *unit = &units->units[units->unit_of[param->index]];
    int64_t place = units->place_of[param->index] - unit->first;
    int64_t begin = rank * unit->partition - place, end = begin + unit->partition;
    if (begin < 0)
        begin = 0;
    if (end > param->n_elements)
        end = param->n_elements;
    return begin < end ? (struct zn_range){begin, end - begin} : (struct zn_range){0, 0};
}

int64_t zn_units_owned_place(const zn_units *units, const zn_param *param, int64_t first, int rank)
{
    const struct zn_unit *unit = &units->units[units->unit_of[param->index]];
    int64_t in_unit = units->place_of[param->index] - unit->first + first;
    return unit->first / units->n_ranks + in_unit - rank * unit->partition;
}
