/* The order in which the accesses of a program happen, for the verifier.
 *
 * Queues do one thing after the other: the compute stream, the engine's thread, the communicators, the lanes of copies and the
 * host's updates. Storage is no queue: its requests run in any order. A task is an asynchronous instruction, or an update or a
 * gather from before the section. It starts after what it was told to wait for, after what its queue had before it, and after
 * what the engine's thread had awaited when it was issued.
 *
 * A vector clock has, for each queue, how much of it has ended when a task starts, or when the compute stream and the engine's
 * thread do what they do next. A task knows from which position of each queue on its own end is known there. So task a ends
 * before b starts where a is known in b's clock, or where b waits for a, itself or through requests of storage.
 *
 * Bytes are cut at the ends of all spans. Each piece has the accesses that no later one of it is known to follow, and whose
 * bytes it holds. */
#ifndef ZN_SCHEDULE_ORDER_H
#define ZN_SCHEDULE_ORDER_H

#include "schedule/compile.h"

enum { QUEUE_COMPUTE, QUEUE_THREAD, QUEUE_COMM, QUEUE_SLICES, QUEUE_OUT, QUEUE_IN, QUEUE_HOST, N_QUEUES, QUEUE_NONE = N_QUEUES };

/* Who accesses: a task, or one of these. */
enum { BY_COMPUTE = -1, BY_THREAD = -2 };

struct vector_clock {
    int ended[N_QUEUES];
};

struct task {
    int queue;
    int after[2];     /* tasks or -1 */
    const char *name; /* for messages, with the unit and, or -1, the number of the instruction */
    int unit, instr;
    struct vector_clock start;
    int known[N_QUEUES]; /* the position from which on its end is known */
    bool is_used;        /* something read what it wrote */
};

/* Whose bytes: a unit's, or those of activation checkpoint i as -2 - i; -1 nobody's. `base` is the offset at which the unit
 * begins, or -1 where that is not known. */
struct content {
    int owner;
    int64_t base;
};

struct access;
struct piece;

struct order {
    const zn_engine_plan *plan;
    uint64_t *edges; /* buffer and offset, sorted: where pieces begin and end */
    size_t n_edges, capacity;
    uint64_t end[ZN_N_BUFFERS]; /* of all spans */
    struct piece *pieces;       /* by edge */
    struct task *tasks;
    int n_tasks, max_tasks;
    struct access *accesses;
    int n_accesses, max_accesses, free_access;
    struct vector_clock compute, thread;
    int last[N_QUEUES]; /* the task issued last, or -1 */
    int tick;           /* position of the compute stream and of the engine's thread */
};

/* First all spans are added; then order_start begins, also again, with nothing accessed. */
void order_init(struct order *order, const zn_engine_plan *plan);
void order_fini(struct order *order);
zn_status order_add_span(struct order *order, const struct zn_span *span);
zn_status order_start(struct order *order, int max_tasks);

/* The task's number. The caller gives its queue, what it comes after and its name; `after_compute`: it also comes after what the
 * compute stream was given so far. */
int order_issue(struct order *order, struct task task, bool after_compute);

/* The compute stream, and the engine's thread, go on after the task. -1 is none. */
void order_wait(struct order *order, int task);
void order_await(struct order *order, int task);

/* Whether what the compute stream does next comes after the task. */
bool order_is_waited_for(const struct order *order, int task);

/* Bytes are read (and, in a buffer that passes them on, taken), looked at, or written. */
enum access_kind { READS, LOOKS, WRITES };

/* Fails where the access is not ordered with an earlier one of the same bytes, where a reader finds other bytes than its own, and
 * where a writer finds bytes that nobody has taken. */
zn_status order_access(struct order *order, int by, enum access_kind kind, const struct zn_span *span, struct content content);

/* The bytes are nobody's from now on. */
zn_status order_forget(struct order *order, const struct zn_span *span);

#endif
