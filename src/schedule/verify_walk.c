/* Follows the program as the executor runs it: instructions, what operators do between them, and updates beside them. */
#include "schedule/verify_private.h"

/* ---- Instructions ---- */

static uint64_t offset_in_unit(const struct verifier *v, int part, zn_dtype type)
{
    const struct zn_part *p = &v->plan->units.parts[part];
    return zn_dtype_size(type, p->place - v->plan->units.units[p->unit].first);
}

/* Whose bytes an instruction reads or writes. Zeroes go anywhere in a unit; an addition is to the part that is closed. */
static struct content content_of(const struct verifier *v, const struct zn_instr *i, const struct zn_span *span)
{
    bool has_point = v->point < v->section->n_points;
    struct content content = unit_content(i->unit, span);
    if (i->unit < 0)
        content.owner = has_point ? -2 - v->trace->points[v->point].index : -1;
    if (i->op == ZN_OP_ZERO || i->op == ZN_OP_SQUARES)
        content.base = span == &i->to ? -1 : content.base;
    if (i->op == ZN_OP_ADD && span == &i->to && has_point)
        content.base -= (int64_t)offset_in_unit(v, v->trace->points[v->point].index, ZN_F32);
    return content;
}

static zn_status move_bytes(struct verifier *v, const struct zn_instr *i, int by, bool reads, bool writes)
{
    if (reads)
        ZN_TRY(order_access(&v->order, by, i->op == ZN_OP_SQUARES ? LOOKS : READS, &i->from, content_of(v, i, &i->from)));
    if (writes && (i->flags & ZN_ADDS || i->op == ZN_OP_ADD))
        ZN_TRY(order_access(&v->order, by, READS, &i->to, content_of(v, i, &i->to)));
    return writes ? order_access(&v->order, by, WRITES, &i->to, content_of(v, i, &i->to)) : ZN_OK;
}

static int issue(struct verifier *v, const struct zn_instr *i, int queue, int after, int also, bool after_compute)
{
    struct task task = {
        .queue = queue, .after = {after, also}, .name = zn_op_name((zn_op)i->op), .unit = i->unit, .instr = v->instr};
    return order_issue(&v->order, task, after_compute);
}

/* The host takes in what has left the device, and may update the unit with it. */
static zn_status take_in(struct verifier *v, const struct zn_instr *i, int left)
{
    int task = issue(v, i, QUEUE_HOST, left, -1, false);
    v->offload_of[i->unit] = task;
    ZN_TRY(move_bytes(v, i, task, false, true));
    if (!(i->flags & ZN_FINAL))
        return ZN_OK;
    ZN_TRY(verify_squares(v, i->unit, task));
    return placement_of(v)->updates_in_backward ? verify_update(v, i->unit, task) : ZN_OK;
}

static zn_status run_async(struct verifier *v, const struct zn_instr *i)
{
    static const int queues[ZN_N_ASYNC_OPS] = {
        [ZN_OP_READ] = QUEUE_NONE,   [ZN_OP_WRITE] = QUEUE_NONE,  [ZN_OP_COPY_OUT] = QUEUE_OUT,
        [ZN_OP_COPY_IN] = QUEUE_IN,  [ZN_OP_GATHER] = QUEUE_COMM, [ZN_OP_GATHER_SUMS] = QUEUE_COMM,
        [ZN_OP_REDUCE] = QUEUE_COMM, [ZN_OP_SUM_SLICES] = QUEUE_SLICES, [ZN_OP_GATHER_SLICES] = QUEUE_SLICES,
        [ZN_OP_GATHER_PIECES] = QUEUE_SLICES, [ZN_OP_OFFLOAD] = QUEUE_OUT, [ZN_OP_UPDATE] = QUEUE_HOST};
    int after = i->after < 0 ? -1 : v->task_of[i->after], updated = i->flags & ZN_AFTER_UPDATED ? v->update_of[i->unit] : -1;
    if (updated >= 0)
        ZN_TRY(verify_is_issued(v, i->unit));
    if (i->op == ZN_OP_OFFLOAD || i->op == ZN_OP_UPDATE) /* the host's queue has the updates of the step before */
        ZN_TRY(verify_is_issued(v, v->plan->units.n_units - 1));
    int task = issue(v, i, queues[i->op], after, updated, i->flags & ZN_AFTER_COMPUTE);
    v->task_of[v->instr] = task;
    ZN_TRY(move_bytes(v, i, task, true, i->op != ZN_OP_OFFLOAD));
    if (i->op == ZN_OP_OFFLOAD)
        return take_in(v, i, task);
    return i->op == ZN_OP_UPDATE ? verify_update(v, i->unit, task) : ZN_OK;
}

/* All updates of the step before are asked for and waited for. */
static void wait_updates(struct verifier *v)
{
    v->n_issued = v->n_published = v->plan->units.n_units;
    for (int u = 0; u < v->plan->units.n_units; u++)
        order_wait(&v->order, v->update_of[u]);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static zn_status run(struct verifier *v, const struct zn_instr *i)
{
    switch ((zn_op)i->op) {
    case ZN_OP_WAIT:
        order_wait(&v->order, v->task_of[i->after]);
        return ZN_OK;
    case ZN_OP_AWAIT:
        order_await(&v->order, v->task_of[i->after]);
        return ZN_OK;
    case ZN_OP_AWAIT_OFFLOAD:
        order_await(&v->order, v->offload_of[i->unit]);
        return ZN_OK;
    case ZN_OP_ZERO:
    case ZN_OP_ADD:
    case ZN_OP_SQUARES:
    case ZN_OP_PACK:
    case ZN_OP_UNPACK:
    case ZN_OP_GIVE:
    case ZN_OP_TAKE:
        return move_bytes(v, i, i->flags & ZN_ON_HOST ? BY_THREAD : BY_COMPUTE, true, true);
    case ZN_OP_ISSUE_UPDATES:
        v->n_issued = larger(v->n_issued, i->unit);
        return ZN_OK;
    case ZN_OP_WAIT_UPDATED:
        order_wait(&v->order, v->update_of[i->unit]);
        return verify_is_issued(v, i->unit);
    case ZN_OP_WAIT_UPDATES:
        wait_updates(v);
        return ZN_OK;
    case ZN_OP_PUBLISH:
        return verify_publish(v, i->unit);
    case ZN_OP_PUBLISH_TO:
        v->n_published = larger(v->n_published, i->unit + 1);
        return ZN_OK;
    case ZN_OP_AWAIT_PUBLISHED:
        order_await(&v->order, v->published_by[i->unit]);
        return verify_is_published(v, i->unit);
    case ZN_OP_ADVANCE_UPDATE:
        return ZN_OK;
    case ZN_OP_RETURN_UPDATED:
        return verify_return(v, i->unit);
    case ZN_OP_END_UPDATES:
        v->are_updates_ended = true;
        return ZN_OK;
    default:
        return run_async(v, i);
    }
}

static void count(struct verifier *v, const struct zn_instr *i)
{
    if (i->unit < 0 || i->unit >= v->plan->units.n_units)
        return;
    v->n_reductions[i->unit] += i->op == ZN_OP_REDUCE;
    v->n_gathers[i->unit] += i->to.buffer == ZN_BUFFER_GATHERED || i->op == ZN_OP_GATHER_SUMS;
    v->n_squares[i->unit] += i->to.buffer == ZN_BUFFER_SQUARES || (i->op == ZN_OP_OFFLOAD && i->flags & ZN_FINAL);
}

static zn_status run_range(struct verifier *v, int first, int end)
{
    for (v->instr = first; v->instr < end; v->instr++) {
        const struct zn_instr *i = &v->section->instrs[v->instr];
        zn_status status = run(v, i);
        count(v, i);
        if (status != ZN_OK)
            return zn_add_context(status, "instruction %d (%s)", v->instr, zn_op_name((zn_op)i->op));
    }
    return ZN_OK;
}

/* ---- Points ---- */

/* The bytes that the tape is given for a part. */
static zn_status check_bound(const struct verifier *v, int part, zn_dtype type, struct content *content)
{
    const struct zn_part *p = &v->plan->units.parts[part];
    const struct zn_span *span = &v->section->address[v->point];
    uint64_t skipped = span->buffer == ZN_BUFFER_ADD ? 0 : offset_in_unit(v, part, type);
    if (span->buffer < 0 || span->is_own || span->n_bytes != zn_dtype_size(type, p->n_elements) || span->offset < skipped)
        return zn_fail(ZN_ERR_INTERNAL, "part %d has %lld elements and is bound to %llu bytes", part, (long long)p->n_elements,
                       span->buffer < 0 ? 0ull : (unsigned long long)span->n_bytes);
    *content = (struct content){p->unit, (int64_t)(span->offset - skipped)};
    return ZN_OK;
}

static zn_status end_use(struct verifier *v)
{
    int unit = v->used.owner;
    v->used.owner = -1;
    return unit < 0 ? ZN_OK : order_access(&v->order, BY_COMPUTE, READS, &v->use, (struct content){unit, v->used.base});
}

static zn_status acquire(struct verifier *v, int part)
{
    const struct zn_span *span = &v->section->address[v->point];
    bool is_whole = placement_of(v)->parameters.form == ZN_WHOLE;
    struct content content;
    const struct zn_unit *unit = &v->plan->units.units[v->plan->units.parts[part].unit];
    ZN_TRY(check_bound(v, part, unit->type, &content));
    if (span->buffer != ZN_BUFFER_GATHERED && span->buffer != ZN_BUFFER_PERSISTENT &&
        !(span->buffer == (int)zn_buffer_of_values(unit) && is_whole))
        return zn_fail(ZN_ERR_INTERNAL, "part %d is not read from %s", part, v->plan->buffers[span->buffer].name);
    bool is_same = v->used.owner == content.owner && v->used.base == content.base && v->use.buffer == span->buffer;
    if (!is_same) {
        ZN_TRY(end_use(v));
        v->use = *span;
        v->used = content;
    }
    uint64_t end = v->use.offset + v->use.n_bytes, new_end = span->offset + span->n_bytes;
    v->use.offset = span->offset < v->use.offset ? span->offset : v->use.offset;
    v->use.n_bytes = (new_end > end ? new_end : end) - v->use.offset;
    return order_access(&v->order, BY_COMPUTE, READS, span, content);
}

static zn_status open_gradient(struct verifier *v, int part)
{
    struct content content;
    ZN_TRY(check_bound(v, part, ZN_F32, &content));
    v->open[part] = v->section->address[v->point];
    return order_access(&v->order, BY_COMPUTE, WRITES, &v->open[part], (struct content){-1, -1});
}

static zn_status close_gradient(struct verifier *v, int part)
{
    struct zn_span span = v->open[part];
    uint64_t skipped = span.buffer == ZN_BUFFER_ADD ? 0 : offset_in_unit(v, part, ZN_F32);
    struct content content = {v->plan->units.parts[part].unit, (int64_t)(span.offset - skipped)};
    if (span.buffer < 0)
        return zn_fail(ZN_ERR_INTERNAL, "the gradient of part %d is not open", part);
    v->open[part] = ZN_NO_SPAN;
    return order_access(&v->order, BY_COMPUTE, WRITES, &span, content);
}

/* Instructions of a point come before what an operator does with what it is given, and after what it did before. */
static zn_status reach(struct verifier *v, const struct zn_point *point)
{
    bool is_acquire = point->kind == ZN_POINT_ACQUIRE;
    bool ends = point->kind == ZN_POINT_FORWARD_END || point->kind == ZN_POINT_BACKWARD_END ||
                (is_acquire && v->plan->units.parts[point->index].unit != v->used.owner);
    if (ends)
        ZN_TRY(end_use(v));
    if (point->kind == ZN_POINT_CLOSE)
        ZN_TRY(close_gradient(v, point->index));
    ZN_TRY(run_range(v, v->section->first[v->point], v->section->first[v->point + 1]));
    if (is_acquire)
        return acquire(v, point->index);
    return point->kind == ZN_POINT_OPEN ? open_gradient(v, point->index) : ZN_OK;
}

static zn_status walk(struct verifier *v)
{
    for (v->point = 0; v->point < v->section->n_points; v->point++) {
        const struct zn_point *point = &v->trace->points[v->point];
        zn_status status = reach(v, point);
        if (status != ZN_OK)
            return zn_add_context(status, "point %d (%s %d)", v->point, zn_point_name((zn_point_kind)point->kind), point->index);
    }
    ZN_TRY(end_use(v));
    return run_range(v, v->section->first[v->point], v->section->n_instrs);
}

static zn_status check_ends(const struct verifier *v)
{
    for (int i = 0; i < v->section->n_instrs; i++) {
        const struct zn_instr *instr = &v->section->instrs[i];
        if (instr->op >= ZN_N_ASYNC_OPS)
            continue;
        if (!order_is_waited_for(&v->order, v->task_of[i]))
            return zn_fail(ZN_ERR_INTERNAL, "nobody waits for instruction %d (%s)", i, zn_op_name((zn_op)instr->op));
        if (instr->to.buffer == ZN_BUFFER_GATHERED && !v->order.tasks[v->task_of[i]].is_used)
            return zn_fail(ZN_ERR_INTERNAL, "nobody uses what instruction %d (%s) brings", i, zn_op_name((zn_op)instr->op));
    }
    for (int p = 0; p < v->plan->units.n_parts; p++)
        if (v->open[p].buffer >= 0)
            return zn_fail(ZN_ERR_INTERNAL, "the gradient of part %d is still open", p);
    return ZN_OK;
}

zn_status verify_section(struct verifier *v)
{
    static const zn_buffer_id passing[] = {ZN_BUFFER_ADD,     ZN_BUFFER_SLOTS,  ZN_BUFFER_GATHERED,
                                           ZN_BUFFER_FETCHED, ZN_BUFFER_LANDED, ZN_BUFFER_CHECKPOINT_COPIES,
                                           ZN_BUFFER_CHECKPOINTS, ZN_BUFFER_CHECKPOINT_STAGING, ZN_BUFFER_CHECKPOINT_PIECES,
                                           ZN_BUFFER_EXCHANGE};
    ZN_TRY(walk(v));
    ZN_TRY(check_ends(v));
    for (size_t b = 0; b < sizeof passing / sizeof passing[0]; b++) /* the next section finds nothing there */
        ZN_TRY(order_forget(&v->order, &(struct zn_span){(int16_t)passing[b], false, 0, v->plan->buffers[passing[b]].n_bytes}));
    return v->id == ZN_SECTION_FINISH ? verify_finished(v) : ZN_OK;
}
