/* Every large buffer of a run, by what the placement keeps and the passes measured. */
#include "schedule/layout.h"

#include "base/exact.h"
#include "base/size.h"
#include "schedule/matrices.h"

enum { ALIGNMENT = 4096, STAGING_ELEMENTS = ZN_CHUNK_ELEMENTS /* a rank's piece when states are streamed out */ };

static void add(zn_engine_plan *plan, zn_buffer_id id, const char *name, zn_tier tier, zn_kind kind, size_t n_bytes)
{
    plan->buffers[id] = (struct zn_buffer){.name = name, .tier = tier, .kind = kind, .n_bytes = zn_round_up(n_bytes, ALIGNMENT)};
}

static void add_buffer(zn_engine_plan *plan, zn_buffer_id id, const char *name, zn_tier tier, size_t n_bytes)
{
    add(plan, id, name, tier, ZN_KIND_BUFFERS, n_bytes);
}

static void share(zn_engine_plan *plan, zn_buffer_id id, bool is_shared)
{
    plan->buffers[id].is_shared = is_shared && plan->buffers[id].tier != ZN_TIER_NVME;
}

/* Of so many elements of units: all, or those of the own partitions. */
static size_t kept(const zn_engine_plan *plan, int64_t n_elements, zn_form form)
{
    return (size_t)(form == ZN_WHOLE ? n_elements : n_elements / plan->placement.n_ranks);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Small units that stay gathered are buffers, as a rank owns only its part of them. */
static void add_parameters(zn_engine_plan *plan, const struct layout_sizes *sizes)
{
    const struct zn_placement *p = &plan->placement;
    int64_t n_trained = plan->units.n_trained, n_frozen = plan->units.n_plain - n_trained;
    int64_t n_quantised = plan->units.n_elements - plan->units.n_plain;
    add(plan, ZN_BUFFER_PARAMETERS, "parameters", p->parameters.tier, ZN_KIND_PARAMETERS,
        kept(plan, n_trained, p->parameters.form) * zn_dtype_bytes(p->type));
    add(plan, ZN_BUFFER_FROZEN, p->trains ? "frozen parameters" : "parameters", p->parameters.tier, ZN_KIND_PARAMETERS,
        kept(plan, n_frozen, p->parameters.form) * zn_dtype_bytes(p->frozen_type));
    add(plan, ZN_BUFFER_QUANTISED, "quantised parameters", p->parameters.tier, ZN_KIND_PARAMETERS,
        n_quantised > 0 ? zn_dtype_size(p->quantised_type, (int64_t)kept(plan, n_quantised, p->parameters.form)) : 0);
    share(plan, ZN_BUFFER_PARAMETERS, !p->copies_parameters);
    share(plan, ZN_BUFFER_FROZEN, !p->copies_parameters);
    share(plan, ZN_BUFFER_QUANTISED, !p->copies_parameters);
    add_buffer(plan, ZN_BUFFER_PERSISTENT, "persistent units", ZN_TIER_DEVICE, sizes->persistent);
    bool are_narrow = (n_frozen > 0 && p->frozen_type != ZN_F32) || n_quantised > 0;
    if (are_narrow && (!p->trains || p->parameters.on_host)) /* else the staging serves */
        add_buffer(plan, ZN_BUFFER_WIDE, "wide values", p->parameters.on_host ? ZN_TIER_HOST : ZN_TIER_DEVICE,
                   ZN_CHUNK_ELEMENTS * sizeof(float));
}

static void add_pipeline(zn_engine_plan *plan)
{
    const struct zn_placement *p = &plan->placement;
    size_t n = ZN_CHUNK_ELEMENTS;
    size_t states = plan->cached < zn_own_total(p, &plan->units) ? zn_swapped_most(p, &plan->units) : 0;
    size_t gradient = zn_is_swapped(&p->gradients) ? n * sizeof(float) : 0;
    add_buffer(plan, ZN_BUFFER_PIPELINE, "optimizer pipeline", ZN_TIER_HOST,
               ZN_PIPELINE_BUFFERS * (states + gradient + zn_passed_bytes(p, &plan->units)));
}

/* With delayed updates there are two sets of gradients: the present ones and those to be applied. */
static void add_gradients(zn_engine_plan *plan)
{
    const struct zn_placement *p = &plan->placement;
    size_t n_bytes = kept(plan, plan->units.n_trained, p->gradients.form) * sizeof(float);
    add(plan, ZN_BUFFER_GRADIENTS, "gradients", p->gradients.tier, ZN_KIND_GRADIENTS, n_bytes);
    share(plan, ZN_BUFFER_GRADIENTS, p->gradients.form == ZN_WHOLE);
    if (!p->is_delayed)
        return;
    add(plan, ZN_BUFFER_PENDING, "pending gradients", p->gradients.tier, ZN_KIND_GRADIENTS, n_bytes);
    share(plan, ZN_BUFFER_PENDING, p->gradients.form == ZN_WHOLE);
    bool from_host = p->states.on_host && !zn_is_swapped(&p->parameters);
    add(plan, ZN_BUFFER_NEXT, "next parameters", from_host ? ZN_TIER_HOST : p->parameters.tier, ZN_KIND_PARAMETERS,
        (size_t)zn_own_total(p, &plan->units) * zn_dtype_bytes(p->type));
}

static void add_states(const struct zn_engine_options *o, zn_engine_plan *plan)
{
    const struct zn_placement *p = &plan->placement;
    zn_tier tier = p->states.tier == ZN_TIER_NVME ? ZN_TIER_HOST : p->states.tier;
    add(plan, ZN_BUFFER_SWAPPED_STATES, "optimizer states", ZN_TIER_NVME, ZN_KIND_OPTIMIZER,
        zn_swapped_total(p, &plan->units, plan->cached));
    if (p->has_master)
        add(plan, ZN_BUFFER_MASTER, "master", tier, ZN_KIND_OPTIMIZER, (size_t)plan->cached * sizeof(float));
    for (int i = 0; i < o->optimizer->n_states; i++) {
        const struct zn_optimizer_state *state = &o->optimizer->state[i];
        size_t n = (size_t)zn_own_with_state(p, &plan->units, state, plan->cached);
        add(plan, (zn_buffer_id)(ZN_BUFFER_STATES + i), state->name, tier, ZN_KIND_OPTIMIZER, n * zn_dtype_bytes(state->type));
        if (state->block)
            add(plan, (zn_buffer_id)(ZN_BUFFER_SCALES + i), state->scales, tier, ZN_KIND_OPTIMIZER,
                n / (size_t)state->block * sizeof(float));
    }
}

/* What updates by matrix work in. */
static void add_matrices(zn_engine_plan *plan)
{
    const struct zn_placement *p = &plan->placement;
    struct zn_matrices_sizes sizes = zn_matrices_measure(p, &plan->units);
    zn_tier tier = p->states.tier == ZN_TIER_DEVICE ? ZN_TIER_DEVICE : ZN_TIER_HOST;
    add_buffer(plan, ZN_BUFFER_DIRECTIONS, "directions of matrices", tier, sizes.directions);
    share(plan, ZN_BUFFER_DIRECTIONS, p->n_ranks > 1);
    add_buffer(plan, ZN_BUFFER_MATRICES, "gathered matrices", tier, sizes.gathered);
    share(plan, ZN_BUFFER_MATRICES, true);
    add_buffer(plan, ZN_BUFFER_MATRIX_WORK, "work on a matrix", tier, sizes.work);
}

/* Of trained units. */
static size_t largest_partition(const zn_units *units)
{
    size_t largest = 0;
    for (int u = 0; u < units->n_units; u++)
        if (units->units[u].is_trained)
            largest = larger(largest, (size_t)units->units[u].partition);
    return largest;
}

/* One rank's gradients leave in the bits to which they are rounded, sums over ranks in fp32. The host adds to what it has, or to
 * what it reads from NVMe. Two of each. */
static void add_offload(zn_engine_plan *plan, size_t n_elements)
{
    const struct zn_placement *p = &plan->placement;
    size_t width = p->n_ranks == 1 ? zn_dtype_bytes(p->type) : sizeof(float), wide = n_elements * sizeof(float);
    if (width < sizeof(float))
        add_buffer(plan, ZN_BUFFER_OFFLOAD_PACKED, "gradients that leave", ZN_TIER_DEVICE, 2 * n_elements * width);
    add_buffer(plan, ZN_BUFFER_OFFLOAD_ARRIVED, "gradients that arrive", ZN_TIER_HOST, 2 * n_elements * width);
    add_buffer(plan, ZN_BUFFER_OFFLOAD_WIDENED, "widened gradients", ZN_TIER_HOST, 2 * wide);
    if (zn_is_swapped(&p->gradients))
        add_buffer(plan, ZN_BUFFER_OFFLOAD_EARLIER, "gradients to add to", ZN_TIER_HOST, 2 * wide);
}

static void add_training(zn_engine_plan *plan)
{
    const struct zn_placement *p = &plan->placement;
    zn_tier tier = p->offloads_gradients ? ZN_TIER_HOST : ZN_TIER_DEVICE;
    size_t largest = largest_partition(&plan->units), n_pieces = p->n_ranks > 1 ? (size_t)p->n_ranks + 1 : 1;
    add_buffer(plan, ZN_BUFFER_SQUARES, "sums of squares", tier, (size_t)plan->units.n_parts * sizeof(zn_exact));
    add_buffer(plan, ZN_BUFFER_PARTIAL_SUMS, "partial sums", tier, (largest / ZN_SUM_ELEMENTS + 1) * sizeof(double));
    if (p->offloads_gradients)
        add_offload(plan, largest);
    add_buffer(plan, ZN_BUFFER_STAGING, "staging", ZN_TIER_DEVICE, n_pieces * STAGING_ELEMENTS * sizeof(float));
    share(plan, ZN_BUFFER_STAGING, true);
}

static void add_batch(const struct zn_engine_options *o, zn_engine_plan *plan)
{
    size_t n_batches = o->vertical ? (size_t)o->accumulate : 1;
    size_t n_bytes = n_batches * (size_t)(o->micro_batch * o->seq_len) * sizeof(int32_t);
    add_buffer(plan, ZN_BUFFER_IDS, "ids", ZN_TIER_DEVICE, n_bytes);
    add_buffer(plan, ZN_BUFFER_TARGETS, "targets", ZN_TIER_DEVICE, o->extends ? 0 : n_bytes);
    add_buffer(plan, ZN_BUFFER_POSITION_IDS, "position ids", ZN_TIER_DEVICE, o->has_examples ? n_bytes : 0);
    if (o->has_pairs) {
        size_t n_tokens = (size_t)(o->accumulate * o->micro_batch * o->seq_len);
        add_buffer(plan, ZN_BUFFER_SEQUENCES, "sequences", ZN_TIER_DEVICE, n_bytes);
        add_buffer(plan, ZN_BUFFER_REFERENCE, "reference", ZN_TIER_DEVICE, 2 * n_tokens * sizeof(float));
    }
    add_buffer(plan, ZN_BUFFER_SUMS, "sums", ZN_TIER_DEVICE, ZN_N_SUMS * sizeof(double));
    if (o->trains)
        add_training(plan);
    if (o->extends)
        add_buffer(plan, ZN_BUFFER_LOGITS, "logits", ZN_TIER_DEVICE, (size_t)plan->trace.vocabulary * sizeof(float));
}

/* Own partitions on their way to be gathered. */
static void add_fetched(zn_engine_plan *plan, size_t n_bytes)
{
    const struct zn_placement *p = &plan->placement;
    if (!p->copies_parameters || p->n_ranks > 1)
        add_buffer(plan, ZN_BUFFER_FETCHED, "fetched partitions", p->copies_parameters ? ZN_TIER_DEVICE : ZN_TIER_HOST, n_bytes);
    share(plan, ZN_BUFFER_FETCHED, true);
    if (p->copies_parameters && zn_is_swapped(&p->parameters))
        add_buffer(plan, ZN_BUFFER_LANDED, "partitions to copy", ZN_TIER_HOST, n_bytes);
}

/* A discrete device casts in its own memory; what goes on to NVMe passes through the host's. */
static void add_checkpoints(zn_engine_plan *plan, size_t n_bytes)
{
    const struct zn_placement *p = &plan->placement;
    if (p->checkpoints.form == ZN_ABSENT)
        return;
    if (p->is_discrete)
        add_buffer(plan, ZN_BUFFER_CHECKPOINT_COPIES, "checkpoints to copy", ZN_TIER_DEVICE, 4 * n_bytes);
    add(plan, ZN_BUFFER_CHECKPOINTS, "activation checkpoints", p->checkpoints.tier, ZN_KIND_ACTIVATIONS,
        (size_t)plan->trace.n_checkpoints * n_bytes);
    if (zn_is_swapped(&p->checkpoints))
        add_buffer(plan, ZN_BUFFER_CHECKPOINT_STAGING, "checkpoint staging", ZN_TIER_HOST, 4 * n_bytes);
    if (p->checkpoints.form == ZN_WHOLE)
        return;
    struct zn_buffer *given = &plan->buffers[p->is_discrete                    ? ZN_BUFFER_CHECKPOINT_COPIES
                                             : zn_is_swapped(&p->checkpoints) ? ZN_BUFFER_CHECKPOINT_STAGING
                                                                              : ZN_BUFFER_CHECKPOINTS];
    add_buffer(plan, ZN_BUFFER_CHECKPOINT_PIECES, "gathered checkpoints", ZN_TIER_DEVICE, 2 * (size_t)plan->trace.n_slices * n_bytes);
    given->is_shared = given->is_of_slices = true;
}

/* One half for the largest source of a request, one for the largest result: a unit of all ranks, or pieces of states. */
static void add_bridge(zn_engine_plan *plan)
{
    int64_t largest = plan->placement.trains ? STAGING_ELEMENTS * plan->placement.n_ranks : 0;
    for (int u = 0; u < plan->units.n_units; u++) {
        int64_t n_elements = plan->units.units[u].partition * plan->placement.n_ranks;
        largest = n_elements > largest ? n_elements : largest;
    }
    add_buffer(plan, ZN_BUFFER_BRIDGE, "communication staging", ZN_TIER_HOST, 2 * zn_round_up((size_t)largest * sizeof(float), ALIGNMENT));
    share(plan, ZN_BUFFER_BRIDGE, true);
}

/* What all ranks that hold slices read of each other. States are handed out of all slices, piece by piece. */
static void add_slices(const struct zn_engine_options *o, zn_engine_plan *plan, size_t n_bytes)
{
    size_t n_slices = (size_t)plan->trace.n_slices;
    if (n_slices == 0)
        return;
    add_buffer(plan, ZN_BUFFER_EXCHANGE, "exchange of slices", ZN_TIER_DEVICE, n_bytes);
    if (o->trains)
        add_buffer(plan, ZN_BUFFER_SLICES, "staging of slices", ZN_TIER_DEVICE, n_slices * STAGING_ELEMENTS * sizeof(float));
    plan->buffers[ZN_BUFFER_EXCHANGE].is_shared = plan->buffers[ZN_BUFFER_SLICES].is_shared = true;
    plan->buffers[ZN_BUFFER_EXCHANGE].is_of_slices = plan->buffers[ZN_BUFFER_SLICES].is_of_slices = true;
}

static void add_measured(zn_engine_plan *plan, const struct layout_sizes *sizes)
{
    add_buffer(plan, ZN_BUFFER_TIED, "gradients of second uses", ZN_TIER_DEVICE, sizes->tied);
    share(plan, ZN_BUFFER_TIED, true);
    add_buffer(plan, ZN_BUFFER_ADD, "gradients to add", ZN_TIER_DEVICE, sizes->add);
    add_buffer(plan, ZN_BUFFER_SLOTS, "gradient slots", ZN_TIER_DEVICE, sizes->slots);
    share(plan, ZN_BUFFER_SLOTS, true);
    add_buffer(plan, ZN_BUFFER_GATHERED, "gathered units", ZN_TIER_DEVICE, sizes->gathered);
    add_fetched(plan, sizes->fetched);
    add_checkpoints(plan, sizes->checkpoint);
    add_buffer(plan, ZN_BUFFER_KEYS_AND_VALUES, "keys and values", ZN_TIER_DEVICE, plan->trace.cache_bytes);
    add(plan, ZN_BUFFER_ARENA, "arena", ZN_TIER_DEVICE, ZN_KIND_ACTIVATIONS, zn_trace_arena_bytes(&plan->trace));
}

static zn_status list_tables(zn_engine_plan *plan)
{
    for (int i = 0; i < plan->trace.n_tables; i++)
        ZN_TRY(zn_manifest_add(&plan->manifest, ZN_MANIFEST_TABLE, plan->trace.tables[i].name, ZN_TIER_DEVICE,
                               ZN_KIND_BUFFERS, zn_round_up(plan->trace.tables[i].n_bytes, ALIGNMENT)));
    return ZN_OK;
}

/* In the order of allocation. Ranges of the swap follow each other. */
static zn_status list_buffers(zn_engine_plan *plan)
{
    for (int id = 0; id < ZN_N_BUFFERS; id++) {
        struct zn_buffer *b = &plan->buffers[id];
        if (id == ZN_BUFFER_IDS)
            ZN_TRY(list_tables(plan));
        if (b->n_bytes == 0)
            continue;
        ZN_TRY(zn_manifest_add(&plan->manifest, id, b->name, b->tier, b->kind, b->n_bytes));
        if (b->tier != ZN_TIER_NVME)
            continue;
        b->swap_offset = plan->swap_bytes;
        plan->swap_bytes += b->n_bytes;
    }
    return ZN_OK;
}

zn_status layout_buffers(const struct zn_engine_options *o, const struct layout_sizes *sizes, zn_engine_plan *plan)
{
    add_parameters(plan, sizes);
    add_pipeline(plan);
    if (o->trains) {
        add_gradients(plan);
        add_states(o, plan);
        add_matrices(plan);
    }
    add_batch(o, plan);
    add_measured(plan, sizes);
    add_slices(o, plan, sizes->exchange);
    if (o->stages_comm)
        add_bridge(plan);
    return list_buffers(plan);
}
