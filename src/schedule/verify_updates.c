/* Where units lie between their uses, and the updates of the step before, which go on beside the section. */
#include "base/exact.h"
#include "schedule/verify_private.h"

/* ---- Where units lie ---- */

static const struct zn_unit *unit_at(const struct verifier *v, int unit)
{
    return &v->plan->units.units[unit];
}

static struct zn_span parameters_of(const struct verifier *v, int unit)
{
    const struct zn_placement *p = placement_of(v);
    return p->parameters.form == ZN_WHOLE ? zn_span_of_values(&v->plan->units, unit_at(v, unit))
                                          : zn_span_of_own_values(p, &v->plan->units, unit_at(v, unit));
}

/* Adapters of an engine that does not train have none. */
static bool has_gradient(const struct verifier *v, int unit)
{
    return unit_at(v, unit)->is_trained && placement_of(v)->trains;
}

static struct zn_span gradients_of(const struct verifier *v, int unit)
{
    const struct zn_placement *p = placement_of(v);
    if (!has_gradient(v, unit))
        return ZN_NO_SPAN;
    return p->gradients.form == ZN_WHOLE ? zn_span_of_unit(unit_at(v, unit), ZN_BUFFER_GRADIENTS, sizeof(float))
                                         : zn_span_of_partition(p, unit_at(v, unit), ZN_BUFFER_GRADIENTS, ZN_PARTITION, sizeof(float));
}

/* Where it begins each step without any: where whole units are kept the padding stays zero. */
static struct zn_span gradient_of_part(const struct verifier *v, const struct zn_part *part)
{
    if (!has_gradient(v, part->unit) || placement_of(v)->gradients.form != ZN_WHOLE)
        return gradients_of(v, part->unit);
    return (struct zn_span){ZN_BUFFER_GRADIENTS, false, (uint64_t)part->place * sizeof(float),
                            (uint64_t)part->n_elements * sizeof(float)};
}

static struct zn_span squares_of(const struct verifier *v, int unit)
{
    const struct zn_unit *u = unit_at(v, unit);
    if (!has_gradient(v, unit))
        return ZN_NO_SPAN;
    return (struct zn_span){ZN_BUFFER_SQUARES, false, (uint64_t)u->first_part * sizeof(zn_exact),
                            (uint64_t)u->n_parts * sizeof(zn_exact)};
}

/* Where ranks have the whole unit between its uses. */
static struct zn_span whole_of(const struct verifier *v, int unit)
{
    int64_t at = v->plan->persistent_at[unit];
    if (at < 0)
        return placement_of(v)->gathers_parameters ? ZN_NO_SPAN : parameters_of(v, unit);
    return (struct zn_span){ZN_BUFFER_PERSISTENT, false, (uint64_t)at, zn_unit_bytes(unit_at(v, unit))};
}

zn_status verify_add_homes(struct verifier *v)
{
    for (int u = 0; u < v->plan->units.n_units; u++) {
        struct zn_span spans[] = {parameters_of(v, u), gradients_of(v, u), squares_of(v, u), whole_of(v, u)};
        for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
            ZN_TRY(order_add_span(&v->order, &spans[i]));
    }
    for (int i = 0; i < v->plan->units.n_parts; i++) {
        struct zn_span span = gradient_of_part(v, &v->plan->units.parts[i]);
        ZN_TRY(order_add_span(&v->order, &span));
    }
    return ZN_OK;
}

/* ---- Updates and what follows them ---- */

zn_status verify_update(struct verifier *v, int unit, int task)
{
    struct zn_span parameters = parameters_of(v, unit);
    v->update_of[unit] = task;
    v->are_updates_ended = false;
    return order_access(&v->order, task, WRITES, &parameters, unit_content(unit, &parameters));
}

zn_status verify_return(struct verifier *v, int unit)
{
    struct zn_span parameters = parameters_of(v, unit);
    struct task copy = {.queue = QUEUE_NONE, .after = {-1, -1}, .name = "return of new parameters", .unit = unit, .instr = v->instr};
    int task = order_issue(&v->order, copy, true);
    return order_access(&v->order, task, WRITES, &parameters, unit_content(unit, &parameters));
}

zn_status verify_squares(struct verifier *v, int unit, int task)
{
    struct zn_span squares = squares_of(v, unit);
    return order_access(&v->order, task, WRITES, &squares, unit_content(unit, &squares));
}

zn_status verify_publish(struct verifier *v, int unit)
{
    struct zn_span whole = whole_of(v, unit), own = parameters_of(v, unit);
    int update = v->update_of[unit];
    if (!zn_publishes_updates(placement_of(v)) || whole.buffer < 0 || !unit_at(v, unit)->is_trained)
        return ZN_OK;
    struct task gather = {.queue = QUEUE_NONE, .after = {update, -1}, .name = "gather after the update", .unit = unit, .instr = -1};
    int task = order_issue(&v->order, gather, update < 0);
    v->published_by[unit] = task;
    ZN_TRY(order_access(&v->order, task, READS, &own, unit_content(unit, &own)));
    return order_access(&v->order, task, WRITES, &whole, unit_content(unit, &whole));
}

/* An update that may still be under way, or was made by the device, and its gather. The host is done with the gradient before the
 * parameters are where they are read from. */
static zn_status start_unit(struct verifier *v, int unit)
{
    struct zn_span gradients = gradients_of(v, unit), whole = whole_of(v, unit);
    int computed = BY_COMPUTE, updated = BY_COMPUTE;
    v->offload_of[unit] = v->published_by[unit] = -1;
    ZN_TRY(order_access(&v->order, BY_COMPUTE, WRITES, &gradients, unit_content(unit, &gradients)));
    ZN_TRY(order_access(&v->order, BY_COMPUTE, WRITES, &whole, unit_content(unit, &whole)));
    if (zn_may_have_updates_pending(placement_of(v)) && unit_at(v, unit)->is_trained) {
        struct task update = {.queue = QUEUE_HOST, .after = {-1, -1}, .name = "update", .unit = unit, .instr = -1};
        computed = order_issue(&v->order, update, true);
        update.queue = QUEUE_NONE;
        update.after[0] = computed;
        updated = order_issue(&v->order, update, false);
    }
    ZN_TRY(verify_update(v, unit, updated));
    if (placement_of(v)->updates_beside)
        ZN_TRY(order_access(&v->order, computed, READS, &gradients, unit_content(unit, &gradients)));
    return verify_publish(v, unit);
}

zn_status verify_start(struct verifier *v)
{
    v->n_issued = v->n_published = 0;
    v->used.owner = -1;
    for (int u = 0; u < v->plan->units.n_units; u++)
        ZN_TRY(start_unit(v, u));
    for (int i = 0; i < v->plan->units.n_parts; i++) {
        struct zn_span span = gradient_of_part(v, &v->plan->units.parts[i]);
        ZN_TRY(order_forget(&v->order, &span));
    }
    return ZN_OK;
}

/* ---- Checks ---- */

zn_status verify_is_issued(const struct verifier *v, int unit)
{
    if (v->update_of[unit] >= 0 && v->order.tasks[v->update_of[unit]].instr < 0 && unit >= v->n_issued)
        return zn_fail(ZN_ERR_INTERNAL, "the update of unit %d, for which it waits, is not issued", unit);
    return ZN_OK;
}

zn_status verify_is_published(const struct verifier *v, int unit)
{
    if (v->published_by[unit] >= 0 && unit >= v->n_published)
        return zn_fail(ZN_ERR_INTERNAL, "the gather of unit %d, for which it waits, is not asked for", unit);
    return ZN_OK;
}

/* The verdict needs all squares. Where units are updated in backward all are, and are on their way to the other ranks; after an
 * offload the next step sends them. */
static zn_status check_unit(const struct verifier *v, int unit)
{
    const struct zn_placement *p = placement_of(v);
    int update = v->update_of[unit], published = v->published_by[unit];
    if (v->n_squares[unit] != 1)
        return zn_fail(ZN_ERR_INTERNAL, "the squares of unit %d are taken %d times", unit, v->n_squares[unit]);
    if (v->offload_of[unit] >= 0 && !order_is_waited_for(&v->order, v->offload_of[unit]))
        return zn_fail(ZN_ERR_INTERNAL, "nobody waits for the offload of unit %d", unit);
    if (!p->updates_in_backward)
        return ZN_OK;
    if (v->order.tasks[update].instr < 0)
        return zn_fail(ZN_ERR_INTERNAL, "unit %d is not updated", unit);
    if (!p->offloads_gradients && published >= 0 && v->order.tasks[published].after[0] != update)
        return zn_fail(ZN_ERR_INTERNAL, "the updated unit %d is not sent to the other ranks", unit);
    return v->are_updates_ended ? ZN_OK : zn_fail(ZN_ERR_INTERNAL, "the updates do not end");
}

zn_status verify_finished(const struct verifier *v)
{
    for (int u = 0; u < v->plan->units.n_units; u++)
        if (unit_at(v, u)->n_elements > 0 && unit_at(v, u)->is_trained)
            ZN_TRY(check_unit(v, u));
    return ZN_OK;
}
