/* An engine takes blocks from the queue and moves them, on threads of its own that sleep while there
 * is nothing to do or the device works. */
#ifndef ZN_STORAGE_ENGINE_H
#define ZN_STORAGE_ENGINE_H

#include "storage/queue.h"

struct engine {
    /* Something was pushed. Called from any thread; does not block. */
    void (*wake)(struct engine *engine);
    /* Best effort: returns how many bytes were registered. NULL: this engine has no use for it. */
    size_t (*register_memory)(struct engine *engine, void *address, size_t n_bytes);
    /* The queue is drained and closed: ends the threads and frees the engine. */
    void (*stop)(struct engine *engine);
    size_t buffer_bytes; /* memory it holds */
};

/* Both work on at most `max_depth` blocks at once, whatever the queue's depth, and need queue and
 * files until they are stopped. */
zn_status engine_start_uring(struct block_queue *queue, int max_depth, struct engine **engine);
zn_status engine_start_threads(struct block_queue *queue, int max_depth, struct engine **engine);

#endif
