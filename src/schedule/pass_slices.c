/* Exchanges between the ranks that hold slices of parameters (tensor parallelism). Each gives its values into a buffer that the others
 * read. A sum is reduced piece by piece, in rank order, and the pieces are gathered; the pass goes on when all are there. */
#include "schedule/passes.h"

/* The rank's piece of a sum: the last may reach past what was given. */
static int64_t piece_of_sum(const zn_trace *trace, int64_t n_elements)
{
    return (n_elements + trace->n_slices - 1) / trace->n_slices;
}

static struct zn_span own_piece(int64_t n_elements)
{
    return (struct zn_span){ZN_BUFFER_EXCHANGE, true, 0, (uint64_t)n_elements * sizeof(float)};
}

static struct zn_span all_pieces(const zn_trace *trace, int64_t n_elements)
{
    return (struct zn_span){ZN_BUFFER_EXCHANGE, false, 0, (uint64_t)(trace->n_slices * n_elements) * sizeof(float)};
}

static int emit(struct zn_writer *w, zn_op op, int after, struct zn_span from, struct zn_span to)
{
    bool is_first = op < ZN_N_ASYNC_OPS && after < 0;
    return zn_emit(w, (struct zn_instr){.op = (uint8_t)op, .flags = (uint8_t)(is_first ? ZN_AFTER_COMPUTE : 0), .unit = -1,
                                        .after = after, .from = from, .to = to});
}

void slice_pass_sum(const struct zn_ground *g, struct zn_writer *w, int64_t n_elements)
{
    int64_t piece = piece_of_sum(g->trace, n_elements);
    struct zn_span all = all_pieces(g->trace, piece), own = own_piece(piece);
    emit(w, ZN_OP_GIVE, -1, ZN_NO_SPAN, all);
    int summed = emit(w, ZN_OP_SUM_SLICES, -1, all, own);
    zn_emit_wait(w, emit(w, ZN_OP_GATHER_SLICES, summed, own, all));
    emit(w, ZN_OP_TAKE, -1, all, ZN_NO_SPAN);
}

void slice_pass_gather(const struct zn_ground *g, struct zn_writer *w, int64_t n_elements)
{
    struct zn_span all = all_pieces(g->trace, n_elements), own = own_piece(n_elements);
    emit(w, ZN_OP_GIVE, -1, ZN_NO_SPAN, own);
    zn_emit_wait(w, emit(w, ZN_OP_GATHER_SLICES, -1, own, all));
    emit(w, ZN_OP_TAKE, -1, all, ZN_NO_SPAN);
}

static int64_t largest_of_pass(const zn_trace *trace, const struct zn_pass_trace *pass)
{
    int64_t largest = 0;
    for (int i = 0; i < pass->n_points; i++) {
        const struct zn_point *p = &pass->points[i];
        int64_t n = p->kind == ZN_POINT_SUM_SLICES ? piece_of_sum(trace, p->index) : p->kind == ZN_POINT_GATHER_SLICES ? p->index : 0;
        largest = n > largest ? n : largest;
    }
    return largest;
}

size_t exchange_bytes(const zn_trace *trace)
{
    int64_t train = largest_of_pass(trace, &trace->train), evaluate = largest_of_pass(trace, &trace->evaluate);
    return (size_t)trace->n_slices * (size_t)(train > evaluate ? train : evaluate) * sizeof(float);
}
