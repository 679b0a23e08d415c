/* Counting of traffic. */
#include "plan/traffic.h"

/* A unit's gradients are reduced once for each segment that writes them: the embedding of a tied model
 * by the head as well. */
static uint64_t reductions(const zn_model *model, const struct zn_engine_options *o, int unit)
{
    uint64_t segments = unit == 0 && model->tied ? 2 : 1;
    bool every = o->stage >= 2 || o->reduce_every;
    return segments * (every ? (uint64_t)o->accumulate : 1);
}

/* What is gathered apart from the trace: after each update the units that are kept whole. */
static uint64_t published_width(const struct zn_engine_options *o, const struct zn_unit *unit)
{
    uint64_t width = zn_dtype_bytes(o->type);
    if (o->stage == 0)
        return sizeof(float); /* sums of gradients, which every rank updates with */
    if (o->stage < 3)
        return width;
    return (uint64_t)unit->n_elements * width <= o->persist_bytes ? width : 0;
}

zn_status zn_traffic_count(const zn_model *model, const struct zn_engine_options *o, int n_ranks,
                           const zn_engine_plan *plan, struct zn_traffic *traffic)
{
    struct zn_traffic t = {0};
    zn_units units;
    uint64_t others = (uint64_t)n_ranks - 1, width = zn_dtype_bytes(o->type);
    ZN_TRY(zn_units_init(&units, model->module,
                         &(struct zn_units_options){.type = o->type, .n_ranks = n_ranks, .tile_bytes = o->tile_bytes}));
    for (int u = 0; u < units.n_units; u++) {
        uint64_t piece = others * (uint64_t)units.units[u].partition;
        t.reduce += piece * width * reductions(model, o, u);
        t.gather += piece * published_width(o, &units.units[u]);
    }
    const zn_trace *trace = &plan->train_trace;
    for (int g = 0; o->stage == 3 && g < trace->n_gathers; g++)
        t.gather += others * (uint64_t)units.units[trace->gathers[g].unit].partition * width * (uint64_t)o->accumulate;
    zn_units_fini(&units);
    *traffic = t;
    return ZN_OK;
}
