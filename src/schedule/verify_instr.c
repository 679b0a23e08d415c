/* Checks of one instruction by itself: what it names exists, and sizes agree. */
#include "base/exact.h"
#include "schedule/verify_private.h"

enum { NEEDS_FROM = 1, NEEDS_TO = 2, NEEDS_UNIT = 4, NEEDS_AFTER = 8 };

static const uint8_t needs[ZN_N_OPS] = {
    [ZN_OP_READ] = NEEDS_FROM | NEEDS_TO,
    [ZN_OP_WRITE] = NEEDS_FROM | NEEDS_TO,
    [ZN_OP_COPY_OUT] = NEEDS_FROM | NEEDS_TO,
    [ZN_OP_COPY_IN] = NEEDS_FROM | NEEDS_TO,
    [ZN_OP_GATHER] = NEEDS_FROM | NEEDS_TO | NEEDS_UNIT,
    [ZN_OP_GATHER_SUMS] = NEEDS_FROM | NEEDS_TO | NEEDS_UNIT,
    [ZN_OP_REDUCE] = NEEDS_FROM | NEEDS_TO | NEEDS_UNIT,
    [ZN_OP_SUM_SLICES] = NEEDS_FROM | NEEDS_TO,
    [ZN_OP_GATHER_SLICES] = NEEDS_FROM | NEEDS_TO,
    [ZN_OP_GATHER_PIECES] = NEEDS_FROM | NEEDS_TO,
    [ZN_OP_OFFLOAD] = NEEDS_FROM | NEEDS_TO | NEEDS_UNIT,
    [ZN_OP_UPDATE] = NEEDS_UNIT,
    [ZN_OP_WAIT] = NEEDS_AFTER,
    [ZN_OP_AWAIT] = NEEDS_AFTER,
    [ZN_OP_AWAIT_OFFLOAD] = NEEDS_UNIT,
    [ZN_OP_ZERO] = NEEDS_TO | NEEDS_UNIT,
    [ZN_OP_ADD] = NEEDS_FROM | NEEDS_TO | NEEDS_UNIT,
    [ZN_OP_SQUARES] = NEEDS_FROM | NEEDS_TO | NEEDS_UNIT,
    [ZN_OP_PACK] = NEEDS_TO,
    [ZN_OP_UNPACK] = NEEDS_FROM,
    [ZN_OP_GIVE] = NEEDS_TO,
    [ZN_OP_TAKE] = NEEDS_FROM,
    [ZN_OP_ADVANCE_UPDATE] = NEEDS_UNIT,
    [ZN_OP_RETURN_UPDATED] = NEEDS_UNIT,
    [ZN_OP_WAIT_UPDATED] = NEEDS_UNIT,
    [ZN_OP_PUBLISH] = NEEDS_UNIT,
    [ZN_OP_AWAIT_PUBLISHED] = NEEDS_UNIT,
};

static zn_status check_names(const zn_engine_plan *plan, const struct zn_section *section, int index)
{
    const struct zn_instr *i = &section->instrs[index];
    int need = needs[i->op];
    bool names_unit = i->op < ZN_OP_ISSUE_UPDATES || (need & NEEDS_UNIT);
    if ((need & NEEDS_UNIT && i->unit < 0) || (names_unit && (i->unit < -1 || i->unit >= plan->units.n_units)))
        return zn_fail(ZN_ERR_INTERNAL, "there is no unit %d", i->unit);
    if ((need & NEEDS_FROM && i->from.buffer < 0) || (need & NEEDS_TO && i->to.buffer < 0))
        return zn_fail(ZN_ERR_INTERNAL, "it has no bytes to %s", need & NEEDS_FROM && i->from.buffer < 0 ? "read" : "write");
    if (need & NEEDS_AFTER ? i->after < 0 : i->op >= ZN_N_ASYNC_OPS && i->after >= 0)
        return zn_fail(ZN_ERR_INTERNAL, "it waits for %s", i->after < 0 ? "nothing" : "what it cannot wait for");
    if (i->after >= index)
        return zn_fail(ZN_ERR_INTERNAL, "it comes after instruction %d, which is not before it", i->after);
    if (i->after >= 0 && section->instrs[i->after].op >= ZN_N_ASYNC_OPS)
        return zn_fail(ZN_ERR_INTERNAL, "it comes after instruction %d, which has no end", i->after);
    return ZN_OK;
}

/* The executor passes two conditions on, and storage takes one for a write. Offload and update take the device's alone. */
static zn_status check_conditions(const struct zn_instr *i)
{
    int n = !!(i->flags & ZN_AFTER_COMPUTE) + !!(i->flags & ZN_AFTER_UPDATED) + (i->after >= 0);
    bool only_compute = i->op == ZN_OP_OFFLOAD || i->op == ZN_OP_UPDATE;
    if (i->op >= ZN_N_ASYNC_OPS)
        return ZN_OK;
    if (n > (i->op == ZN_OP_WRITE ? 1 : 2) || (only_compute && (n != 1 || !(i->flags & ZN_AFTER_COMPUTE))))
        return zn_fail(ZN_ERR_INTERNAL, "it cannot have %d conditions", n);
    if (i->flags & ZN_AFTER_UPDATED && i->unit < 0)
        return zn_fail(ZN_ERR_INTERNAL, "it comes after an update of no unit");
    return ZN_OK;
}

static zn_status check_event(const zn_engine_plan *plan, const struct zn_instr *i, bool *is_event_used)
{
    if (i->op >= ZN_N_ASYNC_OPS)
        return i->event < 0 ? ZN_OK : zn_fail(ZN_ERR_INTERNAL, "event %d is of an instruction that has no end", i->event);
    if (i->event < 0 || i->event >= plan->program.n_events)
        return zn_fail(ZN_ERR_INTERNAL, "there is no event %d", i->event);
    if (is_event_used[i->event])
        return zn_fail(ZN_ERR_INTERNAL, "event %d is another instruction's already", i->event);
    is_event_used[i->event] = true;
    return ZN_OK;
}

static bool is_in_swap(const zn_engine_plan *plan, const struct zn_span *span)
{
    return span->buffer >= 0 && plan->buffers[span->buffer].tier == ZN_TIER_NVME;
}

static zn_status check_tiers(const zn_engine_plan *plan, const struct zn_instr *i)
{
    bool from_swap = is_in_swap(plan, &i->from), to_swap = is_in_swap(plan, &i->to);
    if (from_swap != (i->op == ZN_OP_READ) || (to_swap != (i->op == ZN_OP_WRITE) && i->op != ZN_OP_OFFLOAD))
        return zn_fail(ZN_ERR_INTERNAL, "it cannot go from %s to %s", from_swap ? "the swap" : "memory",
                       to_swap ? "the swap" : "memory");
    return ZN_OK;
}

/* Bytes of a rank's piece of the unit. */
static uint64_t piece_bytes(const zn_engine_plan *plan, const struct zn_instr *i)
{
    int buffer = i->from.buffer;
    bool is_gradient = buffer == ZN_BUFFER_GRADIENTS || buffer == ZN_BUFFER_SLOTS || buffer == ZN_BUFFER_TIED;
    const struct zn_unit *unit = &plan->units.units[i->unit];
    return zn_dtype_size(is_gradient ? ZN_F32 : unit->type, unit->partition);
}

static bool do_sizes_agree(const zn_engine_plan *plan, const struct zn_instr *i)
{
    uint64_t n_ranks = (uint64_t)plan->placement.n_ranks, n_slices = (uint64_t)plan->trace.n_slices, from = i->from.n_bytes, to = i->to.n_bytes;
    uint64_t piece = i->unit >= 0 && i->op < ZN_OP_ISSUE_UPDATES ? piece_bytes(plan, i) : from;
    switch ((zn_op)i->op) {
    case ZN_OP_READ:
    case ZN_OP_WRITE:
    case ZN_OP_COPY_OUT:
    case ZN_OP_COPY_IN:
    case ZN_OP_OFFLOAD:
        return from == to && from == piece;
    case ZN_OP_GATHER:
    case ZN_OP_GATHER_SUMS:
        return from == piece && to == n_ranks * piece;
    case ZN_OP_REDUCE:
        return from == n_ranks * piece && to == piece;
    case ZN_OP_SUM_SLICES:
        return from == n_slices * to;
    case ZN_OP_GATHER_SLICES:
    case ZN_OP_GATHER_PIECES:
        return to == n_slices * from;
    case ZN_OP_UPDATE:
        return i->from.buffer < 0 || from == piece;
    case ZN_OP_ADD:
        return from == to;
    case ZN_OP_SQUARES:
        return from == piece && to == (uint64_t)plan->units.units[i->unit].n_parts * sizeof(zn_exact);
    default:
        return true;
    }
}

zn_status verify_instr(const zn_engine_plan *plan, const struct zn_section *section, int index, bool *is_event_used)
{
    const struct zn_instr *i = &section->instrs[index];
    if (i->op >= ZN_N_OPS)
        return zn_fail(ZN_ERR_INTERNAL, "there is no operation %d", i->op);
    ZN_TRY(check_names(plan, section, index));
    ZN_TRY(check_conditions(i));
    ZN_TRY(check_event(plan, i, is_event_used));
    ZN_TRY(check_tiers(plan, i));
    if (!do_sizes_agree(plan, i))
        return zn_fail(ZN_ERR_INTERNAL, "%llu bytes do not become %llu", (unsigned long long)i->from.n_bytes,
                       (unsigned long long)i->to.n_bytes);
    return ZN_OK;
}
