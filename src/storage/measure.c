/* Trials of a few sizes and depths, writing and reading the same place of the space. The first pass
 * over it is not counted: there the file system turns reserved blocks into written ones. */
#include "storage/measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Each request has a part of the memory; what it holds does not matter. */
enum { REQUESTS = 2 };
static const size_t request_bytes = 8 * ZN_MIB, memory_bytes = REQUESTS * 8 * ZN_MIB;

static const double budget_seconds = 0.3;

/* Another setting must be better by so much: a measurement of some milliseconds is noisy, and the
 * first setting is good on most disks. */
static const double margin = 1.25;

struct trials {
    struct block_queue *queue;
    struct engine *engine;
    unsigned char *memory;
    zn_clock clock;
    double end; /* no trial begins later */
};

/* Moves n_bytes between a place of the space and the same place of the memory. */
static zn_status push(struct trials *t, bool write, size_t offset, size_t n_bytes, zn_event *done)
{
    struct queued *r = calloc(1, sizeof *r);
    if (!r)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a request");
    r->asked = (struct storage_request){
        .write = write, .offset = offset, .buffer = t->memory + offset, .n_bytes = n_bytes, .done = zn_event_ticket(done)};
    queue_push(t->queue, r);
    t->engine->wake(t->engine);
    return ZN_OK;
}

/* Moves `n` times n_bytes; seconds it took. */
static zn_status move(struct trials *t, bool write, int n, size_t n_bytes, double *seconds)
{
    zn_event done[REQUESTS];
    zn_status status = ZN_OK;
    int n_pushed = 0;
    double start = zn_clock_now(&t->clock);
    for (int i = 0; i < n; i++)
        zn_event_init(&done[i]);
    while (n_pushed < n && status == ZN_OK) {
        status = push(t, write, (size_t)n_pushed * n_bytes, n_bytes, &done[n_pushed]);
        n_pushed += status == ZN_OK;
    }
    for (int i = 0; i < n_pushed; i++) {
        zn_status ended = zn_event_wait(&done[i], &t->clock);
        if (status == ZN_OK)
            status = ended;
    }
    for (int i = 0; i < n; i++)
        zn_event_fini(&done[i]);
    *seconds = zn_clock_now(&t->clock) - start;
    return status;
}

/* Seconds for a write and a read of the place, the better of two passes; 0 when there is no time left
 * for it. */
static zn_status trial(struct trials *t, size_t block_bytes, int depth, double *seconds)
{
    double best[2] = {0};
    *seconds = 0;
    if (zn_clock_now(&t->clock) > t->end)
        return ZN_OK;
    queue_tune(t->queue, block_bytes, depth * t->queue->n_files);
    for (int pass = 0; pass < 2; pass++) {
        for (int write = 0; write < 2; write++) {
            double taken;
            ZN_TRY(move(t, write, REQUESTS, request_bytes, &taken));
            if (pass == 0 || taken < best[write])
                best[write] = taken;
        }
    }
    *seconds = best[0] + best[1];
    return ZN_OK;
}

/* The first pass, from small to large, so that a slow disk is not asked for too much. */
static zn_status warm_up(struct trials *t, size_t block_bytes, int depth, bool *slow)
{
    double seconds;
    queue_tune(t->queue, block_bytes, depth * t->queue->n_files);
    ZN_TRY(move(t, true, 1, request_bytes / 8, &seconds));
    *slow = seconds > budget_seconds / 8;
    if (*slow)
        return ZN_OK;
    return move(t, true, REQUESTS, request_bytes, &seconds);
}

static zn_status search(struct trials *t, bool any_block, bool any_depth, int max_depth, size_t *block_bytes,
                        int *depth)
{
    static const size_t blocks[] = {MEASURE_MAX_BLOCK_BYTES, MEASURE_BLOCK_BYTES / 4};
    static const int depths[] = {MEASURE_MAX_DEPTH, 16};
    double best, seconds;
    ZN_TRY(trial(t, *block_bytes, *depth, &best));
    for (size_t i = 0; any_block && i < sizeof blocks / sizeof blocks[0]; i++) {
        ZN_TRY(trial(t, blocks[i], *depth, &seconds));
        if (seconds > 0 && seconds * margin < best) {
            best = seconds;
            *block_bytes = blocks[i];
        }
    }
    for (size_t i = 0; any_depth && i < sizeof depths / sizeof depths[0]; i++) {
        if (depths[i] > max_depth)
            continue;
        ZN_TRY(trial(t, *block_bytes, depths[i], &seconds));
        if (seconds > 0 && seconds * margin < best) {
            best = seconds;
            *depth = depths[i];
        }
    }
    return ZN_OK;
}

zn_status measure_blocks(struct block_queue *queue, struct engine *engine, int max_depth, size_t *block_bytes,
                         int *depth)
{
    bool any_block = *block_bytes == 0, any_depth = *depth == 0, slow;
    struct trials t = {.queue = queue, .engine = engine};
    size_t block = any_block ? MEASURE_BLOCK_BYTES : *block_bytes;
    int blocks_at_once = any_depth ? MEASURE_DEPTH : *depth;
    t.memory = aligned_alloc(ZN_STORAGE_ALIGNMENT, memory_bytes);
    if (!t.memory)
        return zn_fail(ZN_ERR_MEMORY, "no memory to measure the storage");
    memset(t.memory, 0x5a, memory_bytes);
    zn_clock_init_real(&t.clock);
    t.end = zn_clock_now(&t.clock) + budget_seconds;
    zn_status status = warm_up(&t, block, blocks_at_once, &slow);
    if (status == ZN_OK && !slow)
        status = search(&t, any_block, any_depth, max_depth, &block, &blocks_at_once);
    free(t.memory);
    if (status != ZN_OK)
        return status;
    queue_tune(queue, block, blocks_at_once * queue->n_files);
    *block_bytes = block;
    *depth = blocks_at_once;
    return ZN_OK;
}
