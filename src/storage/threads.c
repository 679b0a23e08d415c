/* The engine where there is no io_uring: one thread for each block under way, with pread and pwrite. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "storage/engine.h"

struct threads {
    struct engine head;
    struct block_queue *queue;
    int n;
    pthread_t thread[];
};

static int64_t move(const struct block *b)
{
    ssize_t n = b->write ? pwrite(b->file->fd, b->buffer, b->n_ask, (off_t)b->offset)
                         : pread(b->file->fd, b->buffer, b->n_ask, (off_t)b->offset);
    return n >= 0 ? n : -errno;
}

static void *work(void *arg)
{
    struct threads *t = arg;
    struct block block;
    while (queue_wait_take(t->queue, &block))
        while (queue_finish(t->queue, &block, move(&block)))
            ;
    return NULL;
}

/* The queue wakes those who sleep in it. */
static void wake(struct engine *engine)
{
    (void)engine;
}

static void stop(struct engine *engine)
{
    struct threads *t = (struct threads *)engine;
    for (int i = 0; i < t->n; i++)
        pthread_join(t->thread[i], NULL);
    free(t);
}

zn_status engine_start_threads(struct block_queue *queue, int max_depth, struct engine **engine)
{
    size_t n_bytes = sizeof(struct threads) + (size_t)max_depth * sizeof(pthread_t);
    struct threads *t = calloc(1, n_bytes);
    if (!t)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the storage's threads");
    t->head = (struct engine){.wake = wake, .stop = stop, .buffer_bytes = n_bytes};
    t->queue = queue;
    while (t->n < max_depth && pthread_create(&t->thread[t->n], NULL, work, t) == 0)
        t->n++;
    if (t->n < max_depth) {
        queue_close(queue);
        stop(&t->head);
        return zn_fail(ZN_ERR_MEMORY, "cannot start %d threads for the storage", max_depth);
    }
    *engine = &t->head;
    return ZN_OK;
}
