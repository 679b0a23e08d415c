/* From the settings to homes. */
#include "schedule/placement.h"

#include "base/size.h"

static bool is_nvme(zn_tier tier)
{
    return tier == ZN_TIER_NVME;
}

static bool waits_for_drives(const struct zn_offload *off)
{
    return is_nvme(off->optimizer) || is_nvme(off->parameters) || is_nvme(off->gradients);
}

bool zn_placement_wants_host(const struct zn_engine_options *o)
{
    return o->trains && (o->is_discrete || o->in_backward || o->delay_after >= 0 || waits_for_drives(&o->offload));
}

/* The update of a matrix needs the gradients of all its tiles, and collectives that no other thread's may come between. */
static zn_status check_by_matrix(const struct zn_engine_options *o)
{
    if (!o->trains || !zn_optimizer_is_by_matrix(o->optimizer))
        return ZN_OK;
    const char *name = o->optimizer->name;
    if (o->in_backward)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--optimizer-in-backward: --optimizer %s updates whole matrices, after backward", name);
    if (o->delay_after >= 0)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--delayed-update: --optimizer %s updates whole matrices, which cannot be a step late", name);
    if (o->n_slices > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel %d: --optimizer %s updates whole matrices, and each rank has a slice of them",
                       o->n_slices, name);
    if (o->is_discrete)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--optimizer %s: updates of whole matrices are not built for devices with memory of their own",
                       name);
    return ZN_OK;
}

/* On a discrete device states are updated where they are: what an update reads and writes is on one side of the link. */
static zn_status check(const struct zn_engine_options *o, int n_ranks)
{
    const struct zn_offload *off = &o->offload;
    bool leaves = is_nvme(off->gradients) || (o->is_discrete && off->gradients != ZN_TIER_DEVICE);
    if (o->trains && leaves && !o->reduce_every && !o->vertical && o->accumulate > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--reduce last: gradients that leave memory are summed every micro-batch");
    if (o->trains && o->in_backward && o->stage == 0 && n_ranks > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--optimizer-in-backward needs --stage 1, 2 or 3 with several ranks");
    ZN_TRY(check_by_matrix(o));
    if (o->partitions_activations && (o->n_slices < 2 || !o->recompute))
        return zn_fail(ZN_ERR_USAGE, "--partition-activations: needs --tensor-parallel and recompute");
    if (o->n_slices > 1 && o->stages_comm)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel %d: not in this build on a device that communication does not reach",
                       o->n_slices);
    if (o->is_discrete && o->quantised)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--base-quantize: not on a device with memory of its own in this build");
    if (!o->is_discrete || !o->trains)
        return ZN_OK;
    bool away = off->optimizer != ZN_TIER_DEVICE;
    if (away != (off->gradients != ZN_TIER_DEVICE))
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own the gradients go where the optimizer is: "
                                           "both on the device, or both away from it");
    if (off->parameters != ZN_TIER_DEVICE && !away)
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own parameters are offloaded only with the "
                                           "optimizer");
    if (away && o->stage < 2 && n_ranks > 1)
        return zn_fail(ZN_ERR_UNSUPPORTED, "on a device with memory of its own the optimizer leaves it only at stages 2 and 3");
    return ZN_OK;
}

static zn_form form_of(bool is_whole)
{
    return is_whole ? ZN_WHOLE : ZN_PARTITION;
}

static void place_parameters(const struct zn_engine_options *o, struct zn_placement *p)
{
    zn_tier tier = o->offload.parameters;
    bool is_swapped = is_nvme(tier), is_single = p->n_ranks == 1;
    p->copies_parameters = o->is_discrete && tier != ZN_TIER_DEVICE;
    p->returns_parameters = o->is_discrete && o->trains && o->offload.optimizer != ZN_TIER_DEVICE && !p->copies_parameters;
    bool is_whole = (o->stage < 3 || is_single) && !is_swapped && !p->copies_parameters;
    p->parameters = (struct zn_home){form_of(is_whole), tier, p->copies_parameters};
    p->gathers_parameters = !is_whole;
    p->fetches_parameters = (p->copies_parameters && !is_single) || (is_swapped && (p->copies_parameters || !is_single));
    p->persist_bytes = is_whole || is_swapped || p->copies_parameters ? 0 : o->persist_bytes;
}

static void place_gradients(const struct zn_engine_options *o, struct zn_placement *p)
{
    zn_tier tier = o->offload.gradients;
    p->offloads_gradients = o->is_discrete && tier != ZN_TIER_DEVICE;
    bool is_whole = (o->stage < 2 || p->n_ranks == 1) && !is_nvme(tier) && !p->offloads_gradients;
    p->gradients = (struct zn_home){form_of(is_whole), tier, p->offloads_gradients};
    p->reduces_gradients = p->n_ranks > 1 || p->type != ZN_F32;
    p->has_slots = is_nvme(tier) || p->offloads_gradients || (p->reduces_gradients && (!is_whole || o->reduce_every));
    p->accumulates = o->accumulate > 1 && !o->vertical;
    p->reduces_every = o->reduce_every;
}

static void place_states(const struct zn_engine_options *o, struct zn_placement *p)
{
    bool on_host = p->returns_parameters || p->copies_parameters;
    p->states = (struct zn_home){form_of(o->stage < 1 || p->n_ranks == 1), o->offload.optimizer, on_host};
    p->is_delayed = o->delay_after >= 0;
    p->has_master = o->trains && (p->type != ZN_F32 || p->returns_parameters || p->is_delayed);
    p->optimizer = o->trains ? o->optimizer : NULL;
    p->updates_in_backward = o->in_backward;
    p->updates_beside = zn_placement_wants_host(o) && !o->in_backward && (waits_for_drives(&o->offload) || on_host);
    p->host_cache = o->host_cache;
}

zn_status zn_placement_resolve(const struct zn_engine_options *o, int n_ranks, struct zn_placement *placement)
{
    ZN_TRY(check(o, n_ranks));
    if (o->trains)
        ZN_TRY(zn_optimizer_check(o->optimizer));
    struct zn_placement p = {.n_ranks = n_ranks,
                             .type = o->trains_fp32 ? ZN_F32 : o->type,
                             .activation_type = o->type,
                             .frozen_type = o->trains || o->frozen ? o->frozen_type : o->type,
                             .quantised_type = o->quantised_type,
                             .trains = o->trains,
                             .is_discrete = o->is_discrete};
    place_parameters(o, &p);
    place_gradients(o, &p);
    place_states(o, &p);
    if (o->partitions_activations || o->offload.activations != ZN_TIER_DEVICE)
        p.checkpoints = (struct zn_home){form_of(!o->partitions_activations), o->offload.activations, false};
    *placement = p;
    return ZN_OK;
}

/* ---- Own elements ---- */

int64_t zn_own_first(const struct zn_placement *p, const struct zn_unit *unit)
{
    return p->states.form == ZN_WHOLE ? unit->first : unit->first / p->n_ranks;
}

int64_t zn_own_count(const struct zn_placement *p, const struct zn_unit *unit)
{
    return p->states.form == ZN_WHOLE ? unit->n_elements : unit->partition;
}

int64_t zn_own_total(const struct zn_placement *p, const zn_units *units)
{
    return p->states.form == ZN_WHOLE ? units->n_trained : units->n_trained / p->n_ranks;
}

int64_t zn_own_first_of_state(const struct zn_placement *p, const struct zn_unit *unit, const struct zn_optimizer_state *state)
{
    int64_t first = state->of == ZN_OF_ALL ? unit->first : unit->first_of_kind;
    return p->states.form == ZN_WHOLE ? first : first / p->n_ranks;
}

int64_t zn_own_with_state(const struct zn_placement *p, const zn_units *units, const struct zn_optimizer_state *state, int64_t end)
{
    int64_t sum = 0;
    for (int u = 0; u < units->n_units; u++) {
        const struct zn_unit *unit = &units->units[u];
        int64_t n = zn_own_count(p, unit), before = end - zn_own_first(p, unit);
        if (unit->is_trained && before > 0 && zn_optimizer_keeps(state, unit->by_matrix))
            sum += n < before ? n : before;
    }
    return sum;
}

size_t zn_state_bytes(const struct zn_placement *p, const struct zn_unit *unit, int64_t n_elements)
{
    return (p->optimizer ? zn_optimizer_bytes(p->optimizer, unit->by_matrix, n_elements) : 0) +
           (p->has_master ? (size_t)n_elements * sizeof(float) : 0);
}

size_t zn_swapped_bytes(const struct zn_placement *p, const struct zn_unit *unit, int64_t n_elements)
{
    return zn_round_up(zn_state_bytes(p, unit, n_elements), ZN_PARTITION_ALIGNMENT);
}

size_t zn_swapped_most(const struct zn_placement *p, const zn_units *units)
{
    size_t most = 0;
    for (int u = 0; u < units->n_units; u++) {
        size_t n_bytes = units->units[u].is_trained ? zn_swapped_bytes(p, &units->units[u], ZN_CHUNK_ELEMENTS) : 0;
        most = n_bytes > most ? n_bytes : most;
    }
    return most;
}

size_t zn_swapped_total(const struct zn_placement *p, const zn_units *units, int64_t first)
{
    size_t n_bytes = 0;
    for (int u = 0; u < units->n_units; u++) {
        int64_t begin = zn_own_first(p, &units->units[u]), end = begin + zn_own_count(p, &units->units[u]);
        for (int64_t at = begin < first ? first : begin; units->units[u].is_trained && at < end; at += ZN_CHUNK_ELEMENTS)
            n_bytes += zn_swapped_bytes(p, &units->units[u], end - at < ZN_CHUNK_ELEMENTS ? end - at : ZN_CHUNK_ELEMENTS);
    }
    return n_bytes;
}

int64_t zn_own_cached(const struct zn_placement *p, const zn_units *units)
{
    if (p->states.tier != ZN_TIER_NVME)
        return zn_own_total(p, units);
    size_t left = p->host_cache;
    int64_t cached = 0;
    for (int u = 0; u < units->n_units; u++) {
        const struct zn_unit *unit = &units->units[u];
        size_t row_bytes = zn_state_bytes(p, unit, ZN_PART_ALIGNMENT);
        int64_t count = zn_own_count(p, unit), most = row_bytes ? (int64_t)(left / row_bytes) * ZN_PART_ALIGNMENT : count;
        if (!unit->is_trained)
            continue;
        if (count > most) /* whole chunks of the unit that has the border */
            return cached + most / ZN_CHUNK_ELEMENTS * ZN_CHUNK_ELEMENTS;
        left -= zn_state_bytes(p, unit, count);
        cached += count;
    }
    return cached;
}

size_t zn_passed_bytes(const struct zn_placement *p, const zn_units *units)
{
    bool is_swapped = zn_is_swapped(&p->parameters);
    size_t trained = zn_passes_parameters(p) ? zn_dtype_size(p->type, ZN_CHUNK_ELEMENTS) : 0, most = trained;
    size_t frozen = is_swapped && units->n_plain > units->n_trained ? zn_dtype_size(p->frozen_type, ZN_CHUNK_ELEMENTS) : 0;
    size_t quantised = is_swapped && units->n_elements > units->n_plain ? zn_dtype_size(p->quantised_type, ZN_CHUNK_ELEMENTS) : 0;
    most = frozen > most ? frozen : most;
    return quantised > most ? quantised : most;
}

/* ---- Spans ---- */

struct zn_span zn_span_of_unit(const struct zn_unit *unit, zn_buffer_id buffer, size_t width)
{
    return (struct zn_span){(int16_t)buffer, false, (uint64_t)unit->first * width, (uint64_t)unit->n_elements * width};
}

struct zn_span zn_span_of_partition(const struct zn_placement *p, const struct zn_unit *unit, zn_buffer_id buffer,
                                    zn_form form, size_t width)
{
    int64_t first = form == ZN_WHOLE ? unit->first : unit->first / p->n_ranks;
    return (struct zn_span){(int16_t)buffer, form == ZN_WHOLE, (uint64_t)first * width, (uint64_t)unit->partition * width};
}

zn_buffer_id zn_buffer_of_values(const struct zn_unit *unit)
{
    static const zn_buffer_id buffers[] = {
        [ZN_UNIT_TRAINED] = ZN_BUFFER_PARAMETERS, [ZN_UNIT_FROZEN] = ZN_BUFFER_FROZEN, [ZN_UNIT_QUANTISED] = ZN_BUFFER_QUANTISED};
    return buffers[zn_unit_class_of(unit)];
}

/* The unit's first element as its buffer counts elements: from the first of its class. */
static int64_t first_in_buffer(const zn_units *units, const struct zn_unit *unit)
{
    return unit->first - zn_units_class_first(units, zn_unit_class_of(unit));
}

struct zn_span zn_span_of_values(const zn_units *units, const struct zn_unit *unit)
{
    return (struct zn_span){(int16_t)zn_buffer_of_values(unit), false, zn_dtype_size(unit->type, first_in_buffer(units, unit)),
                            zn_unit_bytes(unit)};
}

struct zn_span zn_span_of_own_values(const struct zn_placement *p, const zn_units *units, const struct zn_unit *unit)
{
    bool is_whole = p->parameters.form == ZN_WHOLE;
    int64_t first = first_in_buffer(units, unit) / (is_whole ? 1 : p->n_ranks);
    return (struct zn_span){(int16_t)zn_buffer_of_values(unit), is_whole, zn_dtype_size(unit->type, first),
                            zn_dtype_size(unit->type, unit->partition)};
}
