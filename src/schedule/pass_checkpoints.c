/* Activation checkpoints away from the device: in the host's memory or on NVMe, in the working precision, to which they are
 * rounded anyway. They are written behind forward and read ahead of backward through two buffers each way; from a discrete
 * device they are copied. Where ranks of a tensor-parallel group have the same ones, each may keep a part alone (ZeRO-R's P_a,
 * in any tier): the parts are gathered one segment ahead of backward. */
#include "base/size.h"
#include "schedule/passes.h"

enum { ALIGNMENT = 4096 };

static bool is_partitioned(const struct zn_ground *g)
{
    return g->placement->checkpoints.form == ZN_PARTITION;
}

size_t checkpoint_bytes(const struct zn_ground *g)
{
    int64_t n = is_partitioned(g) ? zn_trace_piece_elements(g->trace) : g->trace->checkpoint_elements;
    return zn_round_up((size_t)n * zn_dtype_bytes(g->placement->activation_type), ALIGNMENT);
}

static bool is_swapped(const struct checkpoint_pass *p)
{
    return zn_is_swapped(&p->ground->placement->checkpoints);
}

static bool is_copied(const struct checkpoint_pass *p)
{
    return p->ground->placement->is_discrete;
}

/* The host's memory is the device's, and there they stay. */
static bool is_in_memory(const struct checkpoint_pass *p)
{
    return !is_swapped(p) && !is_copied(p);
}

static bool is_direct(const struct checkpoint_pass *p)
{
    return is_in_memory(p) && !is_partitioned(p->ground);
}

static struct zn_span home(const struct checkpoint_pass *p, int index)
{
    size_t n = checkpoint_bytes(p->ground);
    return (struct zn_span){ZN_BUFFER_CHECKPOINTS, false, (uint64_t)index * n, n};
}

/* Halves 0 and 1 are for saving, 2 and 3 for loading: where the device writes and reads … */
static struct zn_span staging(const struct checkpoint_pass *p, int half)
{
    size_t n = checkpoint_bytes(p->ground);
    zn_buffer_id buffer = is_copied(p) ? ZN_BUFFER_CHECKPOINT_COPIES : ZN_BUFFER_CHECKPOINT_STAGING;
    return (struct zn_span){(int16_t)buffer, false, (uint64_t)half * n, n};
}

/* … and where the drive does. */
static struct zn_span landing(const struct checkpoint_pass *p, int half)
{
    size_t n = checkpoint_bytes(p->ground);
    return (struct zn_span){ZN_BUFFER_CHECKPOINT_STAGING, false, (uint64_t)half * n, n};
}

/* The parts of all ranks, one after the other. */
static struct zn_span pieces(const struct checkpoint_pass *p, int half)
{
    size_t n = (size_t)p->ground->trace->n_slices * checkpoint_bytes(p->ground);
    return (struct zn_span){ZN_BUFFER_CHECKPOINT_PIECES, false, (uint64_t)half * n, n};
}

void checkpoint_pass_start(struct checkpoint_pass *p, const struct zn_ground *ground, struct zn_writer *writer)
{
    *p = (struct checkpoint_pass){
        .ground = ground, .writer = writer, .stored = {-1, -1}, .loaded = {-1, -1}, .loading = {-1, -1}};
}

/* The device goes on after what is under way in a half. */
static void wait_for(struct checkpoint_pass *p, int *under_way)
{
    zn_emit_wait(p->writer, *under_way);
    *under_way = -1;
}

static int move(struct checkpoint_pass *p, zn_op op, struct zn_span to, struct zn_span from, int after)
{
    return zn_emit(p->writer, (struct zn_instr){.op = (uint8_t)op,
                                                .flags = (uint8_t)(after < 0 ? ZN_AFTER_COMPUTE : 0),
                                                .unit = -1,
                                                .after = after,
                                                .from = from,
                                                .to = to});
}

static void convert(struct checkpoint_pass *p, zn_op op, struct zn_span span)
{
    zn_emit(p->writer, (struct zn_instr){.op = (uint8_t)op,
                                         .flags = (uint8_t)(op == ZN_OP_PACK && is_partitioned(p->ground) ? ZN_OWN_PIECE : 0),
                                         .unit = -1,
                                         .after = -1,
                                         .from = op == ZN_OP_UNPACK ? span : ZN_NO_SPAN,
                                         .to = op == ZN_OP_PACK ? span : ZN_NO_SPAN});
}

void checkpoint_pass_save(struct checkpoint_pass *p, int index)
{
    if (is_in_memory(p)) {
        convert(p, ZN_OP_PACK, home(p, index));
        return;
    }
    int half = p->next_save, after = -1;
    p->next_save = 1 - half;
    wait_for(p, &p->stored[half]);
    convert(p, ZN_OP_PACK, staging(p, half));
    if (is_copied(p))
        after = move(p, ZN_OP_COPY_OUT, is_swapped(p) ? landing(p, half) : home(p, index), staging(p, half), -1);
    if (is_swapped(p))
        after = move(p, ZN_OP_WRITE, home(p, index), landing(p, half), after);
    p->stored[half] = after;
}

/* A checkpoint that is still being written is waited for: it is the last, and read first. */
static void start_load(struct checkpoint_pass *p, int index, int half)
{
    int after = -1;
    for (int s = 0; s < 2; s++)
        wait_for(p, &p->stored[s]);
    p->loading[half] = index;
    if (is_swapped(p))
        after = move(p, ZN_OP_READ, landing(p, 2 + half), home(p, index), -1);
    if (is_copied(p))
        after = move(p, ZN_OP_COPY_IN, staging(p, 2 + half), is_swapped(p) ? landing(p, 2 + half) : home(p, index), after);
    if (is_partitioned(p->ground))
        after = move(p, ZN_OP_GATHER_PIECES, pieces(p, half), is_in_memory(p) ? home(p, index) : staging(p, 2 + half), after);
    p->loaded[half] = after;
}

void checkpoint_pass_prefetch(struct checkpoint_pass *p, int index)
{
    if (is_direct(p) || p->loading[0] == index || p->loading[1] == index)
        return;
    start_load(p, index, p->loading[0] < 0 ? 0 : 1);
}

void checkpoint_pass_load(struct checkpoint_pass *p, int index)
{
    if (is_direct(p)) {
        convert(p, ZN_OP_UNPACK, home(p, index));
        return;
    }
    int half = p->loading[0] == index ? 0 : p->loading[1] == index ? 1 : -1;
    if (half < 0) {
        half = 0;
        wait_for(p, &p->loaded[half]);
        start_load(p, index, half);
    }
    wait_for(p, &p->loaded[half]);
    p->loading[half] = -1;
    convert(p, ZN_OP_UNPACK, is_partitioned(p->ground) ? pieces(p, half) : staging(p, 2 + half));
}

void checkpoint_pass_end(struct checkpoint_pass *p)
{
    for (int s = 0; s < 2; s++) {
        wait_for(p, &p->stored[s]);
        wait_for(p, &p->loaded[s]);
    }
}
