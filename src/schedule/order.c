/* Vector clocks, and what they say about accesses. */
#include "schedule/order.h"

#include <limits.h>
#include <stdlib.h>

struct access {
    int by, tick; /* the tick is of accesses that are no task's */
    int next;     /* -1: the last of its piece */
    bool writes;
};

struct piece {
    int accesses; /* the first, or -1 */
    int writer;   /* the task that wrote last, or who did */
    struct content content;
};

enum { BUFFER_SHIFT = 56, NEVER = INT_MAX };

/* ---- Pieces ---- */

void order_init(struct order *o, const zn_engine_plan *plan)
{
    *o = (struct order){.plan = plan};
}

void order_fini(struct order *o)
{
    free(o->edges);
    free(o->pieces);
    free(o->tasks);
    free(o->accesses);
    *o = (struct order){0};
}

static uint64_t edge_at(int buffer, uint64_t offset)
{
    return (uint64_t)buffer << BUFFER_SHIFT | offset;
}

/* Of one's own piece in a row, all of the row: which it is depends on the rank. */
static uint64_t end_of(const struct order *o, const struct zn_span *span)
{
    int n_ranks = o->plan->buffers[span->buffer].is_of_slices ? o->plan->trace.n_slices : o->plan->placement.n_ranks;
    return span->offset + span->n_bytes * (span->is_own ? (uint64_t)n_ranks : 1);
}

zn_status order_add_span(struct order *o, const struct zn_span *span)
{
    if (span->buffer < 0)
        return ZN_OK;
    const struct zn_buffer *buffer = &o->plan->buffers[span->buffer];
    uint64_t end = end_of(o, span);
    if (end > buffer->n_bytes || end < span->offset)
        return zn_fail(ZN_ERR_INTERNAL, "a span from %llu to %llu lies past the end of %s, which has %zu bytes",
                       (unsigned long long)span->offset, (unsigned long long)end, buffer->name ? buffer->name : "no buffer",
                       buffer->n_bytes);
    if (o->n_edges + 2 > o->capacity) {
        size_t capacity = o->capacity ? 2 * o->capacity : 1024;
        uint64_t *grown = realloc(o->edges, capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory to verify the program");
        o->edges = grown;
        o->capacity = capacity;
    }
    o->edges[o->n_edges++] = edge_at(span->buffer, span->offset);
    o->edges[o->n_edges++] = edge_at(span->buffer, end);
    if (end > o->end[span->buffer])
        o->end[span->buffer] = end;
    return ZN_OK;
}

static int compare_edges(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_edges(struct order *o)
{
    size_t n = 0;
    if (o->n_edges > 0)
        qsort(o->edges, o->n_edges, sizeof *o->edges, compare_edges);
    for (size_t i = 0; i < o->n_edges; i++)
        if (n == 0 || o->edges[i] != o->edges[n - 1])
            o->edges[n++] = o->edges[i];
    o->n_edges = n;
}

zn_status order_start(struct order *o, int max_tasks)
{
    if (!o->pieces) {
        sort_edges(o);
        o->pieces = calloc(o->n_edges + 1, sizeof *o->pieces);
        o->tasks = calloc((size_t)max_tasks + 1, sizeof *o->tasks);
        if (!o->pieces || !o->tasks)
            return zn_fail(ZN_ERR_MEMORY, "no memory to verify the program");
    }
    for (size_t i = 0; i < o->n_edges; i++)
        o->pieces[i] = (struct piece){.accesses = -1, .writer = BY_COMPUTE, .content = {-1, -1}};
    for (int q = 0; q < N_QUEUES; q++)
        o->last[q] = -1;
    o->compute = o->thread = (struct vector_clock){{0}};
    o->n_tasks = o->n_accesses = o->tick = 0;
    o->free_access = -1;
    return ZN_OK;
}

/* The piece that begins where the span does. */
static size_t first_piece(const struct order *o, const struct zn_span *span)
{
    uint64_t edge = edge_at(span->buffer, span->offset);
    size_t low = 0, high = o->n_edges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (o->edges[middle] < edge)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- Tasks ---- */

static void join(struct vector_clock *to, const struct vector_clock *from)
{
    for (int q = 0; q < N_QUEUES; q++)
        if (from->ended[q] > to->ended[q])
            to->ended[q] = from->ended[q];
}

/* Through a request of storage whatever it came after is known, too. What another task came after, its queue's clock tells. */
static void know(struct order *o, int task, int queue, int position)
{
    if (task < 0 || o->tasks[task].known[queue] <= position)
        return;
    o->tasks[task].known[queue] = position;
    for (int i = 0; i < 2 && o->tasks[task].queue == QUEUE_NONE; i++)
        know(o, o->tasks[task].after[i], queue, position);
}

static void join_end(const struct order *o, struct vector_clock *clock, int task)
{
    if (task < 0)
        return;
    const struct task *t = &o->tasks[task];
    join(clock, &t->start);
    if (t->queue != QUEUE_NONE && t->known[t->queue] > clock->ended[t->queue])
        clock->ended[t->queue] = t->known[t->queue];
}

/* What the engine's thread issues comes after what it did. */
static struct vector_clock issued_now(const struct order *o, const struct vector_clock *clock)
{
    struct vector_clock now = *clock;
    now.ended[QUEUE_THREAD] = o->tick;
    return now;
}

static struct vector_clock compute_now(const struct order *o)
{
    struct vector_clock now = issued_now(o, &o->compute);
    now.ended[QUEUE_COMPUTE] = o->tick;
    return now;
}

int order_issue(struct order *o, struct task task, bool after_compute)
{
    int number = o->n_tasks++, queue = task.queue;
    struct vector_clock now = compute_now(o);
    task.start = issued_now(o, &o->thread);
    task.is_used = false;
    for (int q = 0; q < N_QUEUES; q++)
        task.known[q] = NEVER;
    if (after_compute)
        join(&task.start, &now);
    for (int i = 0; i < 2; i++)
        join_end(o, &task.start, task.after[i]);
    if (queue != QUEUE_NONE) {
        join_end(o, &task.start, o->last[queue]);
        task.known[queue] = task.start.ended[queue] + 1;
        for (int i = 0; i < 2; i++)
            know(o, task.after[i], queue, task.known[queue]);
        o->last[queue] = number;
    }
    o->tasks[number] = task;
    return number;
}

void order_wait(struct order *o, int task)
{
    join_end(o, &o->compute, task);
    know(o, task, QUEUE_COMPUTE, o->tick++);
}

void order_await(struct order *o, int task)
{
    join_end(o, &o->thread, task);
    join(&o->compute, &o->thread);
    know(o, task, QUEUE_THREAD, o->tick++);
}

/* ---- Order ---- */

static bool comes_after(const struct order *o, const struct task *t, int earlier)
{
    for (int i = 0; i < 2; i++) {
        int after = t->after[i];
        if (after >= 0 && (after == earlier || (o->tasks[after].queue == QUEUE_NONE && comes_after(o, &o->tasks[after], earlier))))
            return true;
    }
    return false;
}

static bool is_task_before(const struct order *o, int earlier, const struct vector_clock *clock)
{
    for (int q = 0; q < N_QUEUES; q++)
        if (o->tasks[earlier].known[q] <= clock->ended[q])
            return true;
    return false;
}

static bool is_before(const struct order *o, const struct access *a, int by, const struct vector_clock *clock)
{
    if (a->by == by)
        return true;
    if (a->by == BY_COMPUTE)
        return a->tick < clock->ended[QUEUE_COMPUTE];
    if (a->by == BY_THREAD)
        return a->tick < clock->ended[QUEUE_THREAD];
    return is_task_before(o, a->by, clock) || (by >= 0 && comes_after(o, &o->tasks[by], a->by));
}

bool order_is_waited_for(const struct order *o, int task)
{
    struct vector_clock now = compute_now(o);
    return is_task_before(o, task, &now);
}

/* ---- Accesses ---- */

static zn_status describe_conflict(const struct order *o, const struct zn_span *span, const struct access *a)
{
    const char *what = a->writes ? "written" : "read", *buffer = o->plan->buffers[span->buffer].name;
    unsigned long long offset = span->offset;
    if (a->by < 0)
        return zn_fail(ZN_ERR_INTERNAL, "%s at %llu may still be %s by %s", buffer, offset, what,
                       a->by == BY_COMPUTE ? "the device" : "the engine");
    const struct task *t = &o->tasks[a->by];
    if (t->instr < 0)
        return zn_fail(ZN_ERR_INTERNAL, "%s at %llu may still be %s by the %s of unit %d", buffer, offset, what, t->name, t->unit);
    return zn_fail(ZN_ERR_INTERNAL, "%s at %llu may still be %s by instruction %d (%s)", buffer, offset, what, t->instr, t->name);
}

static zn_status describe_content(const struct order *o, const struct zn_span *span, const struct content *has,
                                  const struct content *wants)
{
    const char *buffer = o->plan->buffers[span->buffer].name, *kind = wants->owner < -1 ? "checkpoint" : "unit";
    int wanted = wants->owner < -1 ? -2 - wants->owner : wants->owner, found = has->owner < -1 ? -2 - has->owner : has->owner;
    unsigned long long offset = span->offset;
    if (has->owner == -1)
        return zn_fail(ZN_ERR_INTERNAL, "%s at %llu: nothing of %s %d is there", buffer, offset, kind, wanted);
    if (has->owner != wants->owner)
        return zn_fail(ZN_ERR_INTERNAL, "%s at %llu has %s %d, not %d", buffer, offset, kind, found, wanted);
    return zn_fail(ZN_ERR_INTERNAL, "%s at %llu has another place of %s %d", buffer, offset, kind, wanted);
}

static zn_status add_access(struct order *o, struct piece *piece, struct access access)
{
    int at = o->free_access;
    if (at >= 0)
        o->free_access = o->accesses[at].next;
    else
        at = o->n_accesses++;
    if (at >= o->max_accesses) {
        int max = o->max_accesses ? 2 * o->max_accesses : 1024;
        struct access *grown = realloc(o->accesses, (size_t)max * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory to verify the program");
        o->accesses = grown;
        o->max_accesses = max;
    }
    access.next = piece->accesses;
    o->accesses[at] = access;
    piece->accesses = at;
    return ZN_OK;
}

/* A write takes the place of all before it, a read that of earlier reads. */
static zn_status meet_earlier(struct order *o, struct piece *piece, const struct zn_span *span, const struct access *access,
                              const struct vector_clock *clock)
{
    for (int *link = &piece->accesses; *link >= 0;) {
        int at = *link;
        struct access *a = &o->accesses[at];
        bool is_ordered = is_before(o, a, access->by, clock);
        if (!is_ordered && (a->writes || access->writes))
            return describe_conflict(o, span, a);
        if (!is_ordered || (a->writes && !access->writes)) {
            link = &a->next;
            continue;
        }
        *link = a->next;
        a->next = o->free_access;
        o->free_access = at;
    }
    return ZN_OK;
}

static bool is_same(const struct content *a, const struct content *b)
{
    return a->owner == b->owner && (a->base == b->base || a->base < 0 || b->base < 0);
}

/* What lies in these is on its way to someone, who takes it. */
static bool passes_on(int buffer)
{
    return buffer == ZN_BUFFER_ADD || buffer == ZN_BUFFER_SLOTS || buffer == ZN_BUFFER_FETCHED || buffer == ZN_BUFFER_LANDED ||
           buffer == ZN_BUFFER_CHECKPOINT_COPIES || buffer == ZN_BUFFER_CHECKPOINTS || buffer == ZN_BUFFER_CHECKPOINT_STAGING ||
           buffer == ZN_BUFFER_CHECKPOINT_PIECES || buffer == ZN_BUFFER_EXCHANGE;
}

static zn_status replace_content(const struct order *o, struct piece *piece, const struct zn_span *span, struct content content)
{
    if (passes_on(span->buffer) && piece->content.owner != -1)
        return zn_fail(ZN_ERR_INTERNAL, "%s at %llu: nobody has read what is there of %s %d", o->plan->buffers[span->buffer].name,
                       (unsigned long long)span->offset, piece->content.owner < -1 ? "checkpoint" : "unit",
                       piece->content.owner < -1 ? -2 - piece->content.owner : piece->content.owner);
    piece->content = content;
    return ZN_OK;
}

static zn_status use_content(struct order *o, struct piece *piece, const struct zn_span *span, int by, enum access_kind kind,
                             struct content content)
{
    if (kind == WRITES) {
        piece->writer = by;
        return replace_content(o, piece, span, content);
    }
    if (!is_same(&piece->content, &content))
        return describe_content(o, span, &piece->content, &content);
    if (kind == READS && passes_on(span->buffer))
        piece->content = (struct content){-1, -1};
    if (piece->writer >= 0)
        o->tasks[piece->writer].is_used = true;
    return ZN_OK;
}

zn_status order_access(struct order *o, int by, enum access_kind kind, const struct zn_span *span, struct content content)
{
    if (span->buffer < 0)
        return ZN_OK;
    uint64_t end = edge_at(span->buffer, end_of(o, span));
    struct access access = {.by = by, .tick = o->tick, .writes = kind == WRITES};
    struct vector_clock clock = by >= 0 ? o->tasks[by].start : by == BY_COMPUTE ? compute_now(o) : issued_now(o, &o->thread);
    for (size_t i = first_piece(o, span); i < o->n_edges && o->edges[i] < end; i++) {
        ZN_TRY(meet_earlier(o, &o->pieces[i], span, &access, &clock));
        ZN_TRY(use_content(o, &o->pieces[i], span, by, kind, content));
        ZN_TRY(add_access(o, &o->pieces[i], access));
    }
    if (by < 0)
        o->tick++;
    return ZN_OK;
}

zn_status order_forget(struct order *o, const struct zn_span *span)
{
    if (span->buffer < 0)
        return ZN_OK;
    uint64_t end = edge_at(span->buffer, end_of(o, span));
    for (size_t i = first_piece(o, span); i < o->n_edges && o->edges[i] < end; i++)
        ZN_TRY(replace_content(o, &o->pieces[i], span, (struct content){-1, -1}));
    return ZN_OK;
}
