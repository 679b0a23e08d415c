/* Runs the instructions of the program: those of a point when the tape comes to it (hooks.c), and what a section has at its end. */
#include <stdlib.h>

#include "zero/engine_private.h"

zn_status executor_init(zn_engine *e)
{
    struct executor *x = &e->executor;
    size_t n = (size_t)e->plan->program.n_events;
    x->ready = calloc(n + 1, sizeof *x->ready);
    x->done = calloc(n + 1, sizeof *x->done);
    x->pending = calloc(n + 1, sizeof *x->pending);
    if (!x->ready || !x->done || !x->pending) {
        free(x->pending); /* no event has begun */
        x->pending = NULL;
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    }
    for (size_t i = 0; i < n; i++) {
        zn_event_init(&x->ready[i]);
        zn_event_init(&x->done[i]);
    }
    return ZN_OK;
}

void executor_fini(zn_engine *e)
{
    struct executor *x = &e->executor;
    for (int i = 0; x->pending && i < e->plan->program.n_events; i++) {
        if (x->pending[i])
            zn_event_wait(&x->done[i], e->device->clock);
        zn_event_fini(&x->ready[i]);
        zn_event_fini(&x->done[i]);
    }
    free(x->ready);
    free(x->done);
    free(x->pending);
}

/* ---- Instructions beside the computing ---- */

static zn_event *end_of(const zn_engine *e, int instr)
{
    return &e->executor.done[e->executor.section->instrs[instr].event];
}

/* What the instruction begins after: at most two events. */
static zn_status gather_conditions(zn_engine *e, const struct zn_instr *i, zn_event *after[2])
{
    int n = 0;
    after[0] = after[1] = NULL;
    if (i->flags & ZN_AFTER_COMPUTE) {
        after[n++] = &e->executor.ready[i->event];
        ZN_TRY(zn_device_record(e->device, after[0]));
    }
    if (i->flags & ZN_AFTER_UPDATED)
        after[n++] = &e->unit_state[i->unit].updated;
    if (i->after >= 0)
        after[n++] = end_of(e, i->after);
    return ZN_OK;
}

static zn_status submit_copy(zn_engine *e, const struct zn_instr *i, zn_event *const after[2], zn_event *done)
{
    struct zn_transfer transfer = {.to = span_address(e, &i->to),
                                   .from = span_address(e, &i->from),
                                   .n_bytes = i->from.n_bytes,
                                   .after = {after[0], after[1]},
                                   .done = done};
    return zn_device_copy(e->device, i->op == ZN_OP_COPY_OUT ? ZN_LANE_OUT : ZN_LANE_IN, &transfer);
}

static zn_status submit_gather(zn_engine *e, const struct zn_instr *i, zn_event *const after[2], zn_event *done)
{
    struct zn_gather gather = {.tag = {i->op == ZN_OP_GATHER ? ZN_COMM_GATHER_PARAM : ZN_COMM_GATHER_GRAD, i->unit},
                               .from = &e->shared[i->from.buffer],
                               .offset = (size_t)span_offset(e, &i->from),
                               .n_bytes = i->from.n_bytes,
                               .to = span_extent(e, &i->to),
                               .after = {after[0], after[1]}};
    zn_event_reset(done);
    return zn_comm_gather(e->comm, &gather, done);
}

static zn_status submit_reduce(zn_engine *e, const struct zn_instr *i, zn_event *const after[2], zn_event *done)
{
    struct zn_reduce reduce = {.tag = {ZN_COMM_REDUCE_GRAD, i->unit},
                               .from = &e->shared[i->from.buffer],
                               .offset = (size_t)span_offset(e, &i->from),
                               .n_elements = (int64_t)(i->to.n_bytes / sizeof(float)),
                               .wire = e->placement->type,
                               .to = span_extent(e, &i->to),
                               .adds = i->flags & ZN_ADDS,
                               .after = {after[0], after[1]}};
    zn_event_reset(done);
    return zn_comm_reduce(e->comm, &reduce, done);
}

/* Of the ranks that hold slices of parameters: on a queue of their own. */
static zn_status submit_exchange(zn_engine *e, const struct zn_instr *i, zn_event *const after[2], zn_event *done)
{
    const struct zn_comm_tag tag = {ZN_COMM_ACTIVATIONS, -1};
    const struct zn_shared *from = &e->shared[i->from.buffer];
    size_t offset = (size_t)span_offset(e, &i->from), n_bytes = i->from.n_bytes;
    zn_event_reset(done);
    if (i->op == ZN_OP_GATHER_PIECES) /* without what they are padded by, so that they follow each other */
        n_bytes = (size_t)zn_trace_piece_elements(&e->plan->trace) * zn_dtype_bytes(e->placement->activation_type);
    if (i->op != ZN_OP_SUM_SLICES)
        return zn_comm_gather(e->tensor,
                              &(struct zn_gather){.tag = tag, .from = from, .offset = offset, .n_bytes = n_bytes,
                                                  .to = span_extent(e, &i->to), .after = {after[0], after[1]}},
                              done);
    return zn_comm_reduce(e->tensor,
                          &(struct zn_reduce){.tag = tag, .from = from, .offset = offset, .wire = ZN_F32,
                                              .n_elements = (int64_t)(i->to.n_bytes / sizeof(float)), .to = span_extent(e, &i->to),
                                              .after = {after[0], after[1]}},
                          done);
}

static zn_status submit_transfer(zn_engine *e, const struct zn_instr *i, zn_event *const after[2], zn_event *done)
{
    zn_event_reset(done);
    if (i->op == ZN_OP_READ)
        return zn_storage_read_after(e->storage, span_in_swap(e, &i->from), span_extent(e, &i->to), i->to.n_bytes,
                                     after[0], after[1], done);
    return zn_storage_write(e->storage, span_in_swap(e, &i->to), span_extent(e, &i->from), i->from.n_bytes,
                            after[0], done);
}

static zn_status submit(zn_engine *e, const struct zn_instr *i)
{
    zn_event *ready = &e->executor.ready[i->event], *done = &e->executor.done[i->event], *after[2];
    if (i->op == ZN_OP_OFFLOAD)
        return offload_gradient(e, i, ready, done);
    if (i->op == ZN_OP_UPDATE)
        return update_in_backward(e, i->unit, span_address(e, &i->from), ready, done);
    ZN_TRY(gather_conditions(e, i, after));
    switch ((zn_op)i->op) {
    case ZN_OP_READ:
    case ZN_OP_WRITE:
        return submit_transfer(e, i, after, done);
    case ZN_OP_COPY_OUT:
    case ZN_OP_COPY_IN:
        return submit_copy(e, i, after, done);
    case ZN_OP_REDUCE:
        return submit_reduce(e, i, after, done);
    case ZN_OP_SUM_SLICES:
    case ZN_OP_GATHER_SLICES:
    case ZN_OP_GATHER_PIECES:
        return submit_exchange(e, i, after, done);
    default:
        return submit_gather(e, i, after, done);
    }
}

/* ---- Instructions in the order of the computing ---- */

static zn_status wait(zn_engine *e, const struct zn_instr *i)
{
    int event = e->executor.section->instrs[i->after].event;
    e->executor.pending[event] = false;
    if (i->op == ZN_OP_AWAIT)
        return zn_event_wait(&e->executor.done[event], e->device->clock);
    return zn_device_wait(e->device, &e->executor.done[event]);
}

static zn_status add(zn_engine *e, const struct zn_instr *i)
{
    zn_addr sum = span_address(e, &i->to);
    return zn_run_add(e->device, &(struct zn_add_args){.y = sum,
                                                       .a = sum,
                                                       .b = span_address(e, &i->from),
                                                       .n_elements = (int64_t)(i->to.n_bytes / sizeof(float))});
}

/* An activation checkpoint is fp32 on the tape and in the working precision elsewhere. */
static zn_status convert(zn_engine *e, zn_addr to, zn_dtype to_type, zn_addr from, zn_dtype from_type, int64_t n)
{
    if (to_type == from_type)
        return zn_run_copy(e->device, &(struct zn_copy_args){
                                          .dst = to, .src = from, .n_bytes = n * (int64_t)zn_dtype_bytes(to_type)});
    return zn_run_cast(e->device, &(struct zn_cast_args){
                                      .dst = to, .src = from, .dst_type = to_type, .src_type = from_type, .n_elements = n});
}

/* All of the activation checkpoint, or the part that this rank keeps. */
static zn_status pack(zn_engine *e, const struct zn_instr *i)
{
    int64_t first = 0, n = e->executor.n_elements;
    if (i->flags & ZN_OWN_PIECE) {
        int64_t piece = zn_trace_piece_elements(&e->plan->trace);
        first = e->slice * piece;
        n = n - first < piece ? n - first : piece;
    }
    if (n <= 0)
        return ZN_OK;
    return convert(e, span_address(e, &i->to), e->placement->activation_type, e->executor.activation + (zn_addr)first * sizeof(float),
                   ZN_F32, n);
}

static zn_status give(zn_engine *e, const struct zn_instr *i)
{
    return zn_run_copy(e->device, &(struct zn_copy_args){.dst = span_address(e, &i->to),
                                                         .src = e->executor.activation,
                                                         .n_bytes = e->executor.n_elements * (int64_t)sizeof(float)});
}

/* One sum, or a piece of each rank; a pass of fewer tokens than were planned leaves gaps after pieces. */
static zn_status take(zn_engine *e, const struct zn_instr *i)
{
    bool is_sum = e->executor.trace->points[e->executor.point - 1].kind == ZN_POINT_SUM_SLICES;
    int64_t n = e->executor.n_elements, rows = is_sum ? 1 : e->plan->trace.n_slices;
    return zn_run_copy_rows(e->device, &(struct zn_copy_rows_args){.dst = e->executor.result,
                                                                   .src = span_address(e, &i->from),
                                                                   .rows = rows,
                                                                   .width = n,
                                                                   .dst_stride = n,
                                                                   .src_stride = (int64_t)(i->from.n_bytes / sizeof(float)) / rows});
}

static zn_status run(zn_engine *e, const struct zn_instr *i)
{
    zn_device *device = i->flags & ZN_ON_HOST ? e->host : e->device;
    switch ((zn_op)i->op) {
    case ZN_OP_WAIT:
    case ZN_OP_AWAIT:
        return wait(e, i);
    case ZN_OP_AWAIT_OFFLOAD:
        return offload_wait(e, i->unit);
    case ZN_OP_ZERO:
        return zn_run_zero(device, &(struct zn_zero_args){.dst = span_address(e, &i->to), .n_bytes = (int64_t)i->to.n_bytes});
    case ZN_OP_ADD:
        return add(e, i);
    case ZN_OP_SQUARES:
        return squares_of_unit(e, i->unit, span_address(e, &i->from));
    case ZN_OP_PACK:
        return pack(e, i);
    case ZN_OP_UNPACK:
        return convert(e, e->executor.activation, ZN_F32, span_address(e, &i->from), e->placement->activation_type,
                       e->executor.n_elements);
    case ZN_OP_GIVE:
        return give(e, i);
    case ZN_OP_TAKE:
        return take(e, i);
    case ZN_OP_ISSUE_UPDATES:
        return e->updates.is_running ? updates_issue(e, i->unit) : ZN_OK;
    case ZN_OP_ADVANCE_UPDATE:
        return update_advance(e, i->unit);
    case ZN_OP_RETURN_UPDATED:
        return update_return(e, i->unit);
    case ZN_OP_WAIT_UPDATED:
        return updates_wait_unit(e, i->unit);
    case ZN_OP_WAIT_UPDATES:
        return updates_wait(e);
    case ZN_OP_END_UPDATES:
        return updates_end(e);
    case ZN_OP_PUBLISH:
        return publish_unit(e, i->unit);
    case ZN_OP_PUBLISH_TO:
        return updates_publish(e, i->unit);
    case ZN_OP_AWAIT_PUBLISHED:
        return publish_wait(e, i->unit);
    default:
        break;
    }
    ZN_TRY(submit(e, i));
    e->executor.pending[i->event] = true;
    return ZN_OK;
}

zn_status executor_run_range(zn_engine *e, int first, int end)
{
    for (int i = first; i < end; i++)
        ZN_TRY(run(e, &e->executor.section->instrs[i]));
    return ZN_OK;
}

/* ---- Sections ---- */

zn_status executor_start(zn_engine *e, zn_section_id id)
{
    struct executor *x = &e->executor;
    x->section = &e->plan->program.sections[id];
    x->trace = zn_section_trace(&e->plan->trace, id);
    x->point = 0;
    return x->section->first ? ZN_OK : zn_fail(ZN_ERR_INTERNAL, "the engine was not made for this kind of pass");
}

zn_status executor_end(zn_engine *e)
{
    const struct executor *x = &e->executor;
    if (x->point != x->section->n_points)
        return zn_fail(ZN_ERR_INTERNAL, "the pass ended at point %d of %d", x->point, x->section->n_points);
    return executor_run_range(e, x->section->first[x->point], x->section->n_instrs);
}

zn_status executor_run(zn_engine *e, zn_section_id id)
{
    ZN_TRY(executor_start(e, id));
    return executor_end(e);
}
