/* The passes in the order of the trace. */
#include "schedule/compile.h"

#include <stdlib.h>

#include "schedule/layout.h"
#include "schedule/passes.h"

void zn_engine_plan_fini(zn_engine_plan *plan)
{
    zn_units_fini(&plan->units);
    zn_trace_fini(&plan->trace);
    zn_manifest_fini(&plan->manifest);
    zn_program_fini(&plan->program);
    zn_lifetimes_destroy(plan->slots);
    free(plan->persistent_at);
    free(plan->is_used);
    *plan = (zn_engine_plan){0};
}

zn_status zn_compile_units(const struct zn_params *params, const struct zn_engine_options *o, int n_ranks, zn_units *units)
{
    return zn_units_init(units, params,
                         &(struct zn_units_options){.type = o->trains_fp32 ? ZN_F32 : o->type,
                                                    .n_ranks = n_ranks,
                                                    .tile_bytes = o->tile_bytes,
                                                    .frozen_type = o->trains || o->frozen ? o->frozen_type : o->type,
                                                    .frozen = o->frozen,
                                                    .freezes_all = !o->trains && !o->frozen,
                                                    .by_matrix = o->trains && zn_optimizer_is_by_matrix(o->optimizer),
                                                    .quantised_type = o->quantised_type,
                                                    .quantised = o->quantised});
}

/* What is made on the way to the plan. */
struct compiler {
    const struct zn_engine_options *options;
    zn_engine_plan *plan;
    struct zn_ground ground;
    zn_gathers train, evaluate, reference;
    struct buckets buckets;
    struct layout_sizes sizes;
};

/* ---- What the passes need to know beforehand ---- */

/* Small units stay gathered at stage 3. */
static zn_status place_persistent(struct compiler *c)
{
    const zn_units *units = &c->plan->units;
    int64_t *at = calloc((size_t)units->n_units + 1, sizeof *at);
    if (!at)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the plan");
    c->plan->persistent_at = c->ground.persistent_at = at;
    for (int u = 0; u < units->n_units; u++) {
        size_t n_bytes = zn_unit_bytes(&units->units[u]);
        bool stays = c->plan->placement.gathers_parameters && c->plan->placement.persist_bytes > 0 &&
                     n_bytes <= c->plan->placement.persist_bytes;
        at[u] = stays ? (int64_t)c->sizes.persistent : -1;
        c->sizes.persistent += stays ? n_bytes : 0;
    }
    return ZN_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* A pass of each kind: its gathers are those of all sections along it. */
static const zn_section_id gathered_passes[] = {ZN_SECTION_ONLY, ZN_SECTION_EVALUATE, ZN_SECTION_REFERENCE};
enum { N_GATHERED = sizeof gathered_passes / sizeof gathered_passes[0] };

static zn_gathers *gathers_of(struct compiler *c, zn_section_id id)
{
    return id == ZN_SECTION_EVALUATE ? &c->evaluate : id == ZN_SECTION_REFERENCE ? &c->reference : &c->train;
}

/* Gathers are planned from the uses of units; units that are always there need none. */
static zn_status plan_gathers(struct compiler *c)
{
    const zn_units *units = &c->plan->units;
    const struct zn_placement *p = &c->plan->placement;
    size_t *n_bytes = calloc((size_t)units->n_units + 1, sizeof *n_bytes);
    if (!n_bytes)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the plan of gathers");
    for (int u = 0; u < units->n_units; u++) {
        bool is_gathered = p->gathers_parameters && c->ground.persistent_at[u] < 0;
        n_bytes[u] = is_gathered ? zn_unit_bytes(&units->units[u]) : 0;
    }
    const struct zn_gathers_options options = {.prefetch_bytes = c->options->prefetch_bytes,
                                               .reuse_bytes = c->options->reuse_bytes,
                                               .fetch_ranks = p->fetches_parameters ? p->n_ranks : 0};
    zn_status status = ZN_OK;
    for (size_t i = 0; i < N_GATHERED && status == ZN_OK; i++) {
        zn_gathers *gathers = gathers_of(c, gathered_passes[i]);
        status = gathers_of_trace(&c->ground, zn_section_trace(&c->plan->trace, gathered_passes[i]), gathers);
        if (status == ZN_OK)
            status = zn_gathers_plan(gathers, n_bytes, &options);
        c->sizes.gathered = larger(c->sizes.gathered, gathers->region_bytes);
        c->sizes.fetched = larger(c->sizes.fetched, gathers->fetch_bytes);
        c->plan->largest_gather = larger(c->plan->largest_gather, gathers->largest_bytes);
    }
    free(n_bytes);
    return status;
}

/* ---- Sections ---- */

/* The passes of one section. */
struct passes {
    struct zn_writer writer;
    struct update_pass updates;
    struct gather_pass gathers;
    struct checkpoint_pass checkpoints;
    struct reduction_pass *reductions; /* NULL in a pass without backward */
};

static zn_status write_acquire(struct passes *p, const struct zn_ground *g, int part)
{
    int unit = g->units->parts[part].unit;
    update_pass_follow(&p->updates, unit);
    ZN_TRY(gather_pass_acquire(&p->gathers, part));
    if (!g->placement->gathers_parameters || g->persistent_at[unit] >= 0) /* else the gather comes after it */
        update_pass_use(&p->updates, unit);
    return ZN_OK;
}

static zn_status write_point(struct passes *p, const struct zn_ground *g, const struct zn_point *point)
{
    switch ((zn_point_kind)point->kind) {
    case ZN_POINT_ACQUIRE:
        return write_acquire(p, g, point->index);
    case ZN_POINT_OPEN:
        return reduction_pass_open(p->reductions, point->index);
    case ZN_POINT_CLOSE:
        return reduction_pass_close(p->reductions, point->index);
    case ZN_POINT_SAVE:
        checkpoint_pass_save(&p->checkpoints, point->index);
        break;
    case ZN_POINT_PREFETCH:
        checkpoint_pass_prefetch(&p->checkpoints, point->index);
        break;
    case ZN_POINT_LOAD:
        checkpoint_pass_load(&p->checkpoints, point->index);
        break;
    case ZN_POINT_FORWARD_END:
        gather_pass_forward_end(&p->gathers, point->index);
        break;
    case ZN_POINT_BACKWARD_END:
        update_pass_backward_end(&p->updates); /* first: the host updates the unit while its gradient is on its way */
        reduction_pass_backward_end(p->reductions);
        break;
    case ZN_POINT_SUM_SLICES:
        slice_pass_sum(g, &p->writer, point->index);
        break;
    case ZN_POINT_GATHER_SLICES:
        slice_pass_gather(g, &p->writer, point->index);
        break;
    case ZN_N_POINT_KINDS:
        break;
    }
    return ZN_OK;
}

static zn_status write_points(struct passes *p, const struct zn_ground *g, const struct zn_pass_trace *trace)
{
    for (int i = 0; i < trace->n_points; i++) {
        ZN_TRY(write_point(p, g, &trace->points[i]));
        zn_writer_next_point(&p->writer);
    }
    checkpoint_pass_end(&p->checkpoints);
    if (p->reductions)
        reduction_pass_end(p->reductions);
    zn_writer_next_point(&p->writer);
    return p->writer.status;
}

/* How the section's gradients find their slots. */
struct slot_use {
    zn_lifetimes *lifetimes;
    bool records;
};

static zn_status write_section(struct compiler *c, zn_program *program, zn_section_id id, struct reduction_pass *reductions,
                               const struct slot_use *slots)
{
    bool trains = reductions != NULL;
    const struct zn_pass_trace *trace = zn_section_trace(&c->plan->trace, id);
    struct passes p = {.reductions = reductions};
    ZN_TRY(zn_writer_start(&p.writer, program, id, trace->n_points));
    bool is_last = id == ZN_SECTION_ONLY || id == ZN_SECTION_LAST;
    zn_status status = update_pass_start(&p.updates, &c->ground, &p.writer, is_last);
    if (status == ZN_OK)
        status = gather_pass_start(&p.gathers, &c->ground, gathers_of(c, id), &p.writer);
    checkpoint_pass_start(&p.checkpoints, &c->ground, &p.writer);
    if (trains)
        reduction_pass_start(reductions, &p.writer, &p.updates, slots->lifetimes, slots->records, is_last);
    if (status == ZN_OK)
        status = write_points(&p, &c->ground, trace);
    update_pass_fini(&p.updates);
    gather_pass_fini(&p.gathers);
    return status;
}

/* The sections of a step in their order: what was written by one is added to by the next. */
static zn_status write_step(struct compiler *c, zn_program *program, struct reduction_pass *r, const struct slot_use *slots)
{
    struct zn_writer finish;
    if (!c->plan->placement.accumulates) {
        ZN_TRY(write_section(c, program, ZN_SECTION_ONLY, r, slots));
    } else {
        ZN_TRY(write_section(c, program, ZN_SECTION_FIRST, r, slots));
        ZN_TRY(write_section(c, program, ZN_SECTION_MIDDLE, r, slots));
        ZN_TRY(write_section(c, program, ZN_SECTION_LAST, r, slots));
    }
    ZN_TRY(zn_writer_start(&finish, program, ZN_SECTION_FINISH, 0));
    reduction_pass_finish(r, &finish);
    zn_writer_next_point(&finish);
    return finish.status;
}

/* ---- Slots ---- */

/* Lifetimes of slots are those of the last pass of a step, which uses the most of them; the others use the same, or fewer. */
static zn_status record_slots(struct compiler *c, zn_program *scratch, struct reduction_pass *r)
{
    if (c->plan->placement.accumulates) {
        zn_lifetimes *other;
        ZN_TRY(zn_lifetimes_create(&other));
        zn_status status = write_section(c, scratch, ZN_SECTION_FIRST, r, &(struct slot_use){other, true});
        zn_lifetimes_destroy(other);
        ZN_TRY(status);
    }
    zn_section_id last = c->plan->placement.accumulates ? ZN_SECTION_LAST : ZN_SECTION_ONLY;
    return write_section(c, scratch, last, r, &(struct slot_use){c->plan->slots, true});
}

static zn_status measure_slots(struct compiler *c)
{
    zn_program scratch = {0};
    struct reduction_pass r;
    ZN_TRY(zn_lifetimes_create(&c->plan->slots));
    zn_status status = reduction_pass_init(&r, &c->ground, &c->buckets);
    if (status == ZN_OK)
        status = record_slots(c, &scratch, &r);
    c->sizes.add = r.add_bytes;
    c->sizes.tied = (size_t)r.tied_elements * sizeof(float);
    reduction_pass_fini(&r);
    zn_program_fini(&scratch);
    ZN_TRY(status);
    if (c->options->has_examples || c->options->extends)
        zn_lifetimes_allow_smaller(c->plan->slots);
    ZN_TRY(zn_lifetimes_pack(c->plan->slots));
    c->sizes.slots = zn_lifetimes_peak(c->plan->slots);
    return ZN_OK;
}

/* ---- All of it ---- */

static zn_status list_used(struct compiler *c)
{
    c->plan->is_used = calloc((size_t)c->plan->units.n_units + 1, sizeof *c->plan->is_used);
    if (!c->plan->is_used)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the plan");
    for (int u = 0; u < c->plan->units.n_units; u++)
        c->plan->is_used[u] = c->buckets.n_of_unit[u] > 0;
    return ZN_OK;
}

static zn_status compile_training(struct compiler *c)
{
    struct reduction_pass r;
    ZN_TRY(reduction_pass_init(&r, &c->ground, &c->buckets));
    zn_status status = write_step(c, &c->plan->program, &r, &(struct slot_use){c->plan->slots, false});
    reduction_pass_fini(&r);
    return status;
}

static zn_status compile(struct compiler *c)
{
    const struct zn_placement *p = &c->plan->placement;
    ZN_TRY(place_persistent(c));
    ZN_TRY(plan_gathers(c));
    ZN_TRY(buckets_of_trace(&c->plan->units, &c->plan->trace.train, &c->buckets));
    ZN_TRY(list_used(c));
    if (p->trains)
        ZN_TRY(measure_slots(c));
    c->sizes.checkpoint = checkpoint_bytes(&c->ground);
    c->sizes.exchange = exchange_bytes(&c->plan->trace);
    c->plan->cached = zn_own_cached(p, &c->plan->units);
    ZN_TRY(layout_buffers(c->options, &c->sizes, c->plan));
    if (p->trains)
        ZN_TRY(compile_training(c));
    if (c->plan->trace.evaluate.lifetimes)
        ZN_TRY(write_section(c, &c->plan->program, ZN_SECTION_EVALUATE, NULL, NULL));
    if (c->plan->trace.reference.lifetimes)
        ZN_TRY(write_section(c, &c->plan->program, ZN_SECTION_REFERENCE, NULL, NULL));
    return ZN_OK;
}

zn_status zn_compile(const struct zn_params *params, const struct zn_engine_options *o, int n_ranks, zn_trace *trace,
                     zn_engine_plan *plan)
{
    zn_engine_plan made = {.trace = *trace};
    struct compiler c = {.options = o, .plan = &made};
    *trace = (zn_trace){0};
    zn_manifest_init(&made.manifest);
    c.ground = (struct zn_ground){.placement = &made.placement, .units = &made.units, .trace = &made.trace};
    zn_status status = zn_placement_resolve(o, n_ranks, &made.placement);
    if (status == ZN_OK)
        status = zn_compile_units(params, o, n_ranks, &made.units);
    if (status == ZN_OK)
        status = compile(&c);
    zn_gathers_fini(&c.train);
    zn_gathers_fini(&c.evaluate);
    zn_gathers_fini(&c.reference);
    buckets_fini(&c.buckets);
    if (status == ZN_OK)
        *plan = made;
    else
        zn_engine_plan_fini(&made);
    return status;
}
