/* The storage on real files: swap files, a queue of blocks, an engine that moves them and a waiter for
 * the events that requests come after. */
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "storage/engine.h"
#include "storage/fault.h"
#include "storage/measure.h"
#include "storage/waiter.h"

enum { MAX_DEPTH = 256 };

/* A thread for each block: more of them cost more than they bring. */
enum { MAX_MEASURED_THREADS = 16 };

struct files {
    zn_storage head;
    zn_clock clock;
    _Atomic uint64_t n_requests;
    struct block_queue queue;
    struct waiter waiter;
    struct engine *engine;
    char engine_name[96];
    int n_files;
    struct swap_file file[];
};

/* ---- Requests ---- */

/* On the engine's thread or the waiter's: what the request comes after is done. */
static void begin(void *self, struct queued *r)
{
    struct files *f = self;
    zn_clock clock = f->clock; /* a real one: it does not move */
    zn_status status = zn_ticket_wait(r->asked.after, &clock);
    if (status == ZN_OK)
        status = zn_ticket_wait(r->asked.also, &clock);
    if (status != ZN_OK || r->asked.n_bytes == 0) {
        queue_end_request(r, status, zn_error_message());
        return;
    }
    queue_push(&f->queue, r);
    f->engine->wake(f->engine);
}

static zn_status start(zn_storage *storage, const struct storage_request *request)
{
    struct files *f = (struct files *)storage;
    struct queued *r = calloc(1, sizeof *r);
    if (!r)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a storage request");
    r->asked = *request;
    r->number = f->n_requests++;
    if (!waiter_may_begin(r, 0))
        waiter_add(&f->waiter, r);
    else
        begin(f, r);
    return ZN_OK;
}

static void register_memory(zn_storage *storage, void *address, size_t n_bytes)
{
    struct files *f = (struct files *)storage;
    if (f->engine->register_memory)
        storage->registered_bytes += f->engine->register_memory(f->engine, address, n_bytes);
}

/* ---- Begin and end ---- */

static void close_files(struct files *f)
{
    for (int i = 0; i < f->n_files; i++)
        swap_file_fini(&f->file[i]);
    free(f);
}

static void stop_engine(struct files *f)
{
    queue_drain(&f->queue);
    queue_close(&f->queue);
    f->engine->stop(f->engine);
    queue_fini(&f->queue);
}

static void destroy(zn_storage *storage)
{
    struct files *f = (struct files *)storage;
    waiter_fini(&f->waiter);
    stop_engine(f);
    close_files(f);
}

static const struct storage_ops files_ops = {
    .start = start,
    .register_memory = register_memory,
    .destroy = destroy,
};

static zn_status check(const struct zn_storage_options *o)
{
    if (o->n_paths < 1 || o->n_paths > ZN_STORAGE_MAX_PATHS)
        return zn_fail(ZN_ERR_USAGE, "swap needs 1 to %d folders, not %zu", ZN_STORAGE_MAX_PATHS, o->n_paths);
    if (o->n_bytes == 0 || o->n_bytes % ZN_STORAGE_ALIGNMENT)
        return zn_fail(ZN_ERR_USAGE, "swap of %llu bytes: must be above 0 and a multiple of %d",
                       (unsigned long long)o->n_bytes, ZN_STORAGE_ALIGNMENT);
    if (o->block_bytes % ZN_STORAGE_ALIGNMENT || o->block_bytes > ZN_GIB)
        return zn_fail(ZN_ERR_USAGE, "swap in blocks of %zu bytes: must be a multiple of %d, at most 1 GiB",
                       o->block_bytes, ZN_STORAGE_ALIGNMENT);
    if (o->depth < 0 || o->depth > MAX_DEPTH)
        return zn_fail(ZN_ERR_USAGE, "swap with %d blocks at once: must be 1 to %d", o->depth, MAX_DEPTH);
    return ZN_OK;
}

/* Of each file: its stripes, of the largest size that a block may get. */
static uint64_t bytes_per_file(const struct zn_storage_options *o)
{
    if (o->n_paths == 1)
        return o->n_bytes;
    uint64_t block = o->block_bytes ? o->block_bytes : MEASURE_MAX_BLOCK_BYTES;
    uint64_t n_blocks = o->n_bytes / block + (o->n_bytes % block != 0);
    return (n_blocks / o->n_paths + (n_blocks % o->n_paths != 0)) * block;
}

/* On failure those that were opened stay: close_files knows their number. */
static zn_status open_files(struct files *f, const struct zn_storage_options *o)
{
    uint64_t n_bytes = bytes_per_file(o);
    for (size_t i = 0; i < o->n_paths; i++) {
        ZN_TRY(swap_file_init(&f->file[i], o->paths[i], n_bytes, o->allow_buffered));
        f->n_files++;
    }
    return ZN_OK;
}

/* `max_depth`, for each file, becomes less where threads do the work. */
static zn_status start_engine(struct files *f, const struct zn_storage_options *o, int *max_depth)
{
    *max_depth = o->depth ? o->depth : MEASURE_MAX_DEPTH;
    snprintf(f->engine_name, sizeof f->engine_name, "threads");
    if (o->engine != ZN_STORAGE_THREADS) {
        zn_status status = engine_start_uring(&f->queue, *max_depth * f->n_files, &f->engine);
        if (status == ZN_OK)
            snprintf(f->engine_name, sizeof f->engine_name, "io_uring");
        else
            snprintf(f->engine_name, sizeof f->engine_name, "threads (%.80s)", zn_error_message());
        if (status == ZN_OK || o->engine == ZN_STORAGE_URING)
            return status;
    }
    *max_depth = o->depth ? o->depth : MAX_MEASURED_THREADS;
    return engine_start_threads(&f->queue, *max_depth * f->n_files, &f->engine);
}

static void describe(struct files *f, size_t block_bytes, int depth)
{
    int n_direct = 0;
    char buffered[40] = "";
    bool mib = block_bytes % ZN_MIB == 0;
    for (int i = 0; i < f->n_files; i++)
        n_direct += f->file[i].direct;
    if (n_direct > 0 && n_direct < f->n_files)
        snprintf(buffered, sizeof buffered, " (%d buffered)", f->n_files - n_direct);
    snprintf(f->head.description, sizeof f->head.description, "%.120s, %s, %d %s%s, blocks of %zu %s, depth %d",
             f->engine_name, n_direct > 0 ? "O_DIRECT" : "buffered", f->n_files,
             f->n_files == 1 ? "path" : "paths", buffered, block_bytes / (mib ? ZN_MIB : ZN_KIB),
             mib ? "MiB" : "KiB", depth);
}

/* Sets the sizes of blocks and depth, which may cost a measurement. */
static zn_status tune(struct files *f, const struct zn_storage_options *o, int max_depth)
{
    size_t block_bytes = o->block_bytes;
    int depth = o->depth;
    if (o->n_bytes < MEASURE_MIN_SPACE) {
        block_bytes = block_bytes ? block_bytes : MEASURE_BLOCK_BYTES;
        depth = depth ? depth : MEASURE_DEPTH;
    }
    if (block_bytes && depth)
        queue_tune(&f->queue, block_bytes, depth * f->n_files);
    else
        ZN_TRY(measure_blocks(&f->queue, f->engine, max_depth, &block_bytes, &depth));
    describe(f, block_bytes, depth);
    return ZN_OK;
}

static zn_status start_all(struct files *f, const struct zn_storage_options *o)
{
    int max_depth;
    struct zn_storage_fault fault = {0};
    bool has_fault;
    ZN_TRY(fault_from_environment(&fault, &has_fault));
    if (o->fault && !has_fault)
        fault = *o->fault;
    queue_init(&f->queue, f->file, f->n_files);
    zn_status status = start_engine(f, o, &max_depth);
    if (status != ZN_OK)
        goto undo_queue;
    status = tune(f, o, max_depth);
    if (status != ZN_OK)
        goto undo_engine;
    f->queue.fault = fault; /* only now: a measurement has requests, too */
    f->queue.has_fault = has_fault || o->fault;
    status = waiter_init(&f->waiter, begin, f);
    if (status == ZN_OK)
        return ZN_OK;
undo_engine:
    stop_engine(f);
    return status;
undo_queue:
    queue_fini(&f->queue);
    return status;
}

zn_status zn_storage_create_files(const struct zn_storage_options *options, zn_storage **storage)
{
    ZN_TRY(check(options));
    size_t n_bytes = sizeof(struct files) + options->n_paths * sizeof(struct swap_file);
    struct files *f = calloc(1, n_bytes);
    if (!f)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the storage");
    zn_clock_init_real(&f->clock);
    zn_status status = open_files(f, options);
    if (status == ZN_OK)
        status = start_all(f, options);
    if (status != ZN_OK) {
        close_files(f);
        return status;
    }
    f->head.ops = &files_ops;
    f->head.n_bytes = options->n_bytes;
    f->head.buffer_bytes = n_bytes + f->engine->buffer_bytes;
    *storage = &f->head;
    return ZN_OK;
}
