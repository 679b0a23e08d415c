/* Asynchronous storage for offloaded states: one flat space of bytes for each rank, kept in swap
 * files that nobody else sees and that are gone when the process ends, however it ends
 * (ZeRO-Infinity's offload engine).
 *
 * Offsets, sizes and buffers are multiples of ZN_STORAGE_ALIGNMENT, as O_DIRECT wants. Requests run
 * at once and in any order; who needs an order waits for the event in between. Between submission
 * and the event a buffer belongs to the storage. A transfer that comes back short is resubmitted;
 * one that fails fails its event with path and cause. Reads and writes may come from several
 * threads, all else from the engine's; none is collective. */
#ifndef ZN_STORAGE_STORAGE_H
#define ZN_STORAGE_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event.h"
#include "base/request_log.h"
#include "base/timeline.h"
#include "memory/buffer.h"

enum { ZN_STORAGE_ALIGNMENT = 4096, ZN_STORAGE_MAX_PATHS = 64 };

typedef struct zn_storage zn_storage;

/* Blocks until all requests have ended, also those that still wait for their `after`. NULL is legal. */
void zn_storage_destroy(zn_storage *storage);

/* Do not block, neither for the transfer nor for `after` (NULL: none), which must be done before the
 * transfer begins; where it failed, so does the request. `after` lives until `done` is set; events mean their present
 * use, and may be reset afterwards. A call that fails has begun nothing, and fails `done` too. */
zn_status zn_storage_read(zn_storage *storage, uint64_t offset, struct zn_extent to, size_t n_bytes, zn_event *after,
                          zn_event *done);
zn_status zn_storage_read_after(zn_storage *storage, uint64_t offset, struct zn_extent to, size_t n_bytes, zn_event *after,
                                zn_event *also, zn_event *done);
zn_status zn_storage_write(zn_storage *storage, uint64_t offset, struct zn_extent from, size_t n_bytes,
                           zn_event *after, zn_event *done);

/* Says that transfers will come from this memory: it is registered with the system where that is
 * possible, which pins its pages. Best effort; only speed depends on it. The memory must stay mapped
 * as it is until the storage is destroyed. */
void zn_storage_register(zn_storage *storage, struct zn_extent memory);
size_t zn_storage_registered_bytes(const zn_storage *storage);

/* Requests from now on are noted; NULL: no more. The time line outlives them. Not while another thread asks. */
void zn_storage_trace(zn_storage *storage, zn_timeline *timeline);

/* The same for the log of requests. */
void zn_storage_log_requests(zn_storage *storage, zn_request_log *log);

/* Payload that was asked for since the start. */
uint64_t zn_storage_bytes_read(const zn_storage *storage);
uint64_t zn_storage_bytes_written(const zn_storage *storage);

/* What does the work, for the log: "io_uring, O_DIRECT, 2 paths, blocks of 1 MiB, depth 8". Lives as
 * long as the storage. */
const char *zn_storage_description(const zn_storage *storage);

/* Bytes of memory the storage holds for itself: for the ledger. */
size_t zn_storage_buffer_bytes(const zn_storage *storage);

/* ---- Backends ---- */

typedef enum zn_storage_engine {
    ZN_STORAGE_AUTO,    /* io_uring where it is to be had, else threads */
    ZN_STORAGE_URING,
    ZN_STORAGE_THREADS  /* a few threads with pread and pwrite */
} zn_storage_engine;

struct zn_storage_options {
    const char *const *paths; /* folders; the space is striped over them */
    size_t n_paths;
    uint64_t n_bytes;    /* of the whole space, preallocated: a full disk is an error now */
    bool allow_buffered; /* take file systems in memory or without O_DIRECT, too */
    zn_storage_engine engine;
    size_t block_bytes;  /* 0: measured. A larger request is cut into blocks */
    int depth;           /* 0: measured. Blocks under way at once, for each path */
    const struct zn_storage_fault *fault; /* NULL: none */
};

/* For tests: the first block of one request meets with a fault inside the engine. The environment's
 * ZINC_STORAGE_FAULT="REQUEST:NAME", NAME an errno like EIO or SHORT, comes before it. */
struct zn_storage_fault {
    uint64_t at_request; /* counted from 0, reads and writes together */
    int error;           /* errno of the failure, or 0 */
    bool short_transfer; /* before that half of it moves; where error is 0, the rest does next */
};

/* Real files: one a path, unnamed (O_TMPFILE, or unlinked at once), mode 0600. */
zn_status zn_storage_create_files(const struct zn_storage_options *options, zn_storage **storage);

/* No files and a virtual clock: a request takes bytes / rate, reads and writes share the device. Of
 * memory only addresses are looked at. */
struct zn_sim_storage {
    uint64_t n_bytes;
    double read_bytes, write_bytes; /* a second */
    double latency;                 /* seconds from a transfer's end to its event; not of the device */
};
zn_status zn_storage_create_sim(zn_clock *clock, const struct zn_sim_storage *device, zn_storage **storage);

#endif
