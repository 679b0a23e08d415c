/* Measuring the drive with the storage that offload uses. */
#include "plan/calibrate_drive.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/median.h"
#include "base/stream.h"
#include "storage/storage.h"

enum { WINDOW = 4, N_PASSES = 3 };

static const size_t REQUEST_BYTES = DRIVE_MEMORY_BYTES / WINDOW, SPACE_BYTES = (size_t)128 << 20;

struct pass {
    zn_storage *storage;
    zn_clock *clock;
    unsigned char *memory;
    zn_event done[WINDOW];
};

/* What the requests of a pass do; of a mixed one every other reads. */
typedef enum pass_kind { PASS_WRITES, PASS_READS, PASS_MIXED } pass_kind;

/* Every request has a part of the space of its own. */
static zn_status ask(struct pass *p, size_t i, pass_kind kind)
{
    unsigned char *memory = p->memory + i % WINDOW * REQUEST_BYTES;
    zn_event *done = &p->done[i % WINDOW];
    zn_event_reset(done);
    if (kind == PASS_WRITES || (kind == PASS_MIXED && i % 2))
        return zn_storage_write(p->storage, i * REQUEST_BYTES, zn_extent_of(memory, REQUEST_BYTES), REQUEST_BYTES, NULL, done);
    return zn_storage_read(p->storage, i * REQUEST_BYTES, zn_extent_of(memory, REQUEST_BYTES), REQUEST_BYTES, NULL, done);
}

static zn_status run_pass(struct pass *p, pass_kind kind)
{
    size_t n = SPACE_BYTES / REQUEST_BYTES;
    for (size_t i = 0; i < n + WINDOW; i++) {
        if (i >= WINDOW)
            ZN_TRY(zn_event_wait(&p->done[i % WINDOW], p->clock));
        if (i < n)
            ZN_TRY(ask(p, i, kind));
    }
    return ZN_OK;
}

/* Over a space that has been written once. */
static zn_status measure(struct pass *p, pass_kind kind, double *rate)
{
    double seconds[N_PASSES];
    for (int i = 0; i < N_PASSES; i++) {
        double start = zn_clock_now(p->clock);
        ZN_TRY(run_pass(p, kind));
        seconds[i] = zn_clock_now(p->clock) - start;
    }
    double usual = zn_median(seconds, N_PASSES);
    *rate = usual > 0 ? (double)SPACE_BYTES / usual : 0;
    return ZN_OK;
}

struct worker {
    const struct drive_work *work;
    atomic_bool ends;
};

static zn_status work_on(void *arg)
{
    struct worker *w = arg;
    while (!atomic_load(&w->ends))
        ZN_TRY(w->work->run(w->work->context));
    return ZN_OK;
}

static zn_status measure_beside(struct pass *p, const struct drive_work *work, double *rate)
{
    struct worker worker = {.work = work};
    zn_stream *stream;
    ZN_TRY(zn_stream_create_thread(p->clock, &stream));
    zn_status status = zn_stream_submit(stream, &(struct zn_task){.run = work_on, .arg = &worker});
    if (status == ZN_OK)
        status = run_pass(p, PASS_WRITES);
    if (status == ZN_OK)
        status = measure(p, PASS_MIXED, rate);
    atomic_store(&worker.ends, true);
    zn_status worked = zn_stream_synchronize(stream);
    zn_stream_destroy(stream);
    return status == ZN_OK ? worked : status;
}

static zn_status open_pass(struct pass *p, const char *folder)
{
    const struct zn_storage_options options = {.paths = &folder, .n_paths = 1, .n_bytes = SPACE_BYTES};
    ZN_TRY(zn_storage_create_files(&options, &p->storage));
    for (int i = 0; i < WINDOW; i++)
        zn_event_init(&p->done[i]);
    return ZN_OK;
}

static void close_pass(struct pass *p)
{
    zn_storage_destroy(p->storage);
    for (int i = 0; i < WINDOW; i++)
        zn_event_fini(&p->done[i]);
}

zn_status drive_measure(zn_clock *clock, unsigned char *memory, const struct drive_work *work, double *rate,
                        size_t *free_bytes)
{
    struct pass p = {.clock = clock, .memory = memory};
    struct statvfs disk;
    *rate = 0;
    *free_bytes = 0;
    if (open_pass(&p, ".") != ZN_OK)
        return ZN_OK;
    zn_status status = measure_beside(&p, work, rate);
    close_pass(&p);
    if (status == ZN_OK && statvfs(".", &disk) == 0)
        *free_bytes = (size_t)disk.f_bavail * (size_t)disk.f_frsize;
    return status;
}

zn_status drive_measure_alone(zn_clock *clock, const char *folder, double *read_rate, double *write_rate)
{
    struct pass p = {.clock = clock};
    void *memory;
    ZN_TRY(open_pass(&p, folder));
    zn_status status = posix_memalign(&memory, ZN_STORAGE_ALIGNMENT, DRIVE_MEMORY_BYTES) == 0
                           ? ZN_OK
                           : zn_fail(ZN_ERR_MEMORY, "no memory to measure a drive with");
    if (status == ZN_OK) {
        memset(memory, 1, DRIVE_MEMORY_BYTES);
        p.memory = memory;
        status = run_pass(&p, PASS_WRITES);
        if (status == ZN_OK)
            status = measure(&p, PASS_WRITES, write_rate);
        if (status == ZN_OK)
            status = measure(&p, PASS_READS, read_rate);
    }
    close_pass(&p);
    free(p.memory);
    return status;
}
