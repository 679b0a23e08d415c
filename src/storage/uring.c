/* The engine on io_uring: one thread owns the ring. It fills the ring with blocks, hands them to the
 * system and sleeps, both in one call, until a block is done or more was pushed, which an eventfd
 * tells through the ring. Files are registered; memory too, where its owner said so and the system
 * allows it. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "storage/engine.h"

/* Pieces of registered memory, of at most the size that the system takes at once. */
enum { MAX_MEMORIES = 1024 };
static const size_t max_memory_bytes = ZN_GIB;

/* A completion carries the number of its slot plus one, or this. */
enum { WOKEN = 0 };

struct memory {
    unsigned char *address;
    size_t n_bytes;
};

struct uring {
    struct engine head;
    struct block_queue *queue;
    int event; /* eventfd: written to wake the thread */
    pthread_t thread;
    bool files_registered;

    /* Of the thread alone. To register memory is a system call that leaves the rings alone. */
    struct io_uring ring;
    uint64_t n_events; /* what was read from the eventfd */
    bool listening;    /* a read of it is under way */
    struct block *slot; /* without a request: free */
    int *free_slot;     /* a stack of n_free */
    int n_slots, n_free;

    pthread_mutex_t lock; /* guards the list of memory, which the system knows by the same numbers */
    struct memory *memory;
    int n_memories, max_memories;
};

/* ---- Memory ---- */

static size_t register_memory(struct engine *engine, void *address, size_t n_bytes)
{
    struct uring *u = (struct uring *)engine;
    size_t done = 0;
    while (done < n_bytes && u->n_memories < u->max_memories) {
        size_t n = n_bytes - done < max_memory_bytes ? n_bytes - done : max_memory_bytes;
        struct memory memory = {(unsigned char *)address + done, n};
        struct iovec piece = {memory.address, n};
        const __u64 no_tag = 0;
        if (io_uring_register_buffers_update_tag(&u->ring, (unsigned)u->n_memories, &piece, &no_tag, 1) != 1)
            break; /* most often the limit of locked memory */
        pthread_mutex_lock(&u->lock);
        u->memory[u->n_memories++] = memory;
        pthread_mutex_unlock(&u->lock);
        done += n;
    }
    return done;
}

/* The number of the piece that holds the whole block, or -1. */
static int find_memory(struct uring *u, const struct block *b)
{
    int found = -1;
    uintptr_t from = (uintptr_t)b->buffer;
    pthread_mutex_lock(&u->lock);
    for (int i = 0; i < u->n_memories && found < 0; i++) {
        uintptr_t start = (uintptr_t)u->memory[i].address;
        if (from >= start && from + b->n_bytes <= start + u->memory[i].n_bytes)
            found = i;
    }
    pthread_mutex_unlock(&u->lock);
    return found;
}

/* ---- The thread ---- */

/* The ring has an entry for each slot and one for the eventfd, and all that are filled go to the
 * system each time, so io_uring_get_sqe always finds one. */
static void prepare(struct uring *u, int slot)
{
    const struct block *b = &u->slot[slot];
    struct io_uring_sqe *entry = io_uring_get_sqe(&u->ring);
    int fd = u->files_registered ? b->file_index : b->file->fd, memory = find_memory(u, b);
    unsigned n = (unsigned)b->n_ask;
    if (b->write && memory >= 0)
        io_uring_prep_write_fixed(entry, fd, b->buffer, n, b->offset, memory);
    else if (b->write)
        io_uring_prep_write(entry, fd, b->buffer, n, b->offset);
    else if (memory >= 0)
        io_uring_prep_read_fixed(entry, fd, b->buffer, n, b->offset, memory);
    else
        io_uring_prep_read(entry, fd, b->buffer, n, b->offset);
    if (u->files_registered)
        io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(entry, (uint64_t)slot + 1);
}

static void listen_for_more(struct uring *u)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&u->ring);
    io_uring_prep_read(entry, u->event, &u->n_events, sizeof u->n_events, 0);
    io_uring_sqe_set_data64(entry, WOKEN);
    u->listening = true;
}

static void fill(struct uring *u)
{
    while (u->n_free > 0) {
        int slot = u->free_slot[u->n_free - 1];
        if (!queue_take(u->queue, &u->slot[slot]))
            return;
        u->n_free--;
        prepare(u, slot);
    }
}

static void reap(struct uring *u)
{
    struct io_uring_cqe *done;
    while (io_uring_peek_cqe(&u->ring, &done) == 0) {
        uint64_t mark = io_uring_cqe_get_data64(done);
        int result = done->res;
        io_uring_cqe_seen(&u->ring, done);
        if (mark == WOKEN) {
            u->listening = false;
            continue;
        }
        int slot = (int)(mark - 1);
        if (queue_finish(u->queue, &u->slot[slot], result)) {
            prepare(u, slot);
        } else {
            u->slot[slot].request = NULL;
            u->free_slot[u->n_free++] = slot;
        }
    }
}

/* The ring is of no use any more, which nothing that can happen explains: all that was and will be
 * asked for fails. */
static void refuse(struct uring *u, int error)
{
    struct block block;
    for (int i = 0; i < u->n_slots; i++)
        if (u->slot[i].request)
            queue_finish(u->queue, &u->slot[i], -error);
    while (queue_wait_take(u->queue, &block))
        queue_finish(u->queue, &block, -error);
}

static void *work(void *arg)
{
    struct uring *u = arg;
    for (;;) {
        bool closed = queue_is_closed(u->queue);
        if (closed && u->n_free == u->n_slots && !u->listening)
            return NULL;
        if (!closed && !u->listening)
            listen_for_more(u);
        fill(u);
        int result = io_uring_submit_and_wait(&u->ring, 1);
        if (result == -EAGAIN || result == -ENOMEM) { /* the system is short of memory */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        } else if (result < 0 && result != -EINTR && result != -EBUSY) {
            refuse(u, -result);
            return NULL;
        }
        reap(u);
    }
}

static void wake(struct engine *engine)
{
    const uint64_t one = 1;
    ssize_t n;
    do
        n = write(((struct uring *)engine)->event, &one, sizeof one);
    while (n < 0 && errno == EINTR);
}

/* ---- Begin and end ---- */

static bool knows_operations(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    if (!probe)
        return false;
    bool knows = io_uring_opcode_supported(probe, IORING_OP_READ) &&
                 io_uring_opcode_supported(probe, IORING_OP_WRITE);
    io_uring_free_probe(probe);
    return knows;
}

static zn_status open_ring(struct uring *u)
{
    int result = io_uring_queue_init((unsigned)u->n_slots + 1, &u->ring, 0);
    if (result < 0)
        return zn_fail(ZN_ERR_UNSUPPORTED, "io_uring: %s", strerror(-result));
    if (!knows_operations(&u->ring)) {
        io_uring_queue_exit(&u->ring);
        return zn_fail(ZN_ERR_UNSUPPORTED, "io_uring: this system's does not know read and write");
    }
    return ZN_OK;
}

/* Both are a matter of speed only. */
static void register_files(struct uring *u)
{
    int n = u->queue->n_files, *fds = calloc((size_t)n, sizeof *fds);
    for (int i = 0; fds && i < n; i++)
        fds[i] = u->queue->files[i].fd;
    u->files_registered = fds && io_uring_register_files(&u->ring, fds, (unsigned)n) == 0;
    free(fds);
    u->max_memories = io_uring_register_buffers_sparse(&u->ring, MAX_MEMORIES) == 0 ? MAX_MEMORIES : 0;
}

static size_t ring_bytes(const struct io_uring *ring)
{
    size_t n = ring->sq.ring_sz + ring->sq.ring_entries * sizeof(struct io_uring_sqe);
    return ring->cq.ring_ptr == ring->sq.ring_ptr ? n : n + ring->cq.ring_sz;
}

static void free_uring(struct uring *u)
{
    pthread_mutex_destroy(&u->lock);
    free(u->memory);
    free(u->free_slot);
    free(u->slot);
    free(u);
}

static void stop(struct engine *engine)
{
    struct uring *u = (struct uring *)engine;
    wake(engine);
    pthread_join(u->thread, NULL);
    close(u->event);
    /* The system takes its time to end a ring; the files' room should be free at once. */
    if (u->files_registered)
        io_uring_unregister_files(&u->ring);
    io_uring_queue_exit(&u->ring);
    free_uring(u);
}

static struct uring *make_uring(struct block_queue *queue, int n_slots)
{
    struct uring *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->head = (struct engine){.wake = wake, .register_memory = register_memory, .stop = stop};
    u->queue = queue;
    pthread_mutex_init(&u->lock, NULL);
    u->slot = calloc((size_t)n_slots, sizeof *u->slot);
    u->free_slot = calloc((size_t)n_slots, sizeof *u->free_slot);
    u->memory = calloc(MAX_MEMORIES, sizeof *u->memory);
    if (!u->slot || !u->free_slot || !u->memory) {
        free_uring(u);
        return NULL;
    }
    for (u->n_slots = n_slots; u->n_free < n_slots; u->n_free++)
        u->free_slot[u->n_free] = n_slots - 1 - u->n_free;
    return u;
}

zn_status engine_start_uring(struct block_queue *queue, int max_depth, struct engine **engine)
{
    struct uring *u = make_uring(queue, max_depth);
    if (!u)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a ring of %d blocks", max_depth);
    zn_status status = open_ring(u);
    if (status != ZN_OK)
        goto undo_memory;
    u->event = eventfd(0, EFD_CLOEXEC);
    if (u->event < 0) {
        status = zn_fail(ZN_ERR_IO, "io_uring: cannot make an eventfd: %s", strerror(errno));
        goto undo_ring;
    }
    register_files(u);
    u->head.buffer_bytes = ring_bytes(&u->ring) + sizeof *u + MAX_MEMORIES * sizeof *u->memory +
                           (size_t)max_depth * (sizeof *u->slot + sizeof *u->free_slot);
    if (pthread_create(&u->thread, NULL, work, u) != 0) {
        status = zn_fail(ZN_ERR_MEMORY, "cannot start a thread for the storage");
        goto undo_event;
    }
    *engine = &u->head;
    return ZN_OK;
undo_event:
    close(u->event);
undo_ring:
    io_uring_queue_exit(&u->ring);
undo_memory:
    free_uring(u);
    return status;
}
