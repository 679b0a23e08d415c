/* A device: memory, streams and kernels behind one small table of functions.
 *
 * `cpu` computes at once on the calling thread's OpenMP team; `sim` has no memory behind it and
 * advances a virtual clock. Nothing above this folder turns a zn_addr into a pointer. */
#ifndef ZN_DEVICE_DEVICE_H
#define ZN_DEVICE_DEVICE_H

#include <stddef.h>

#include "base/stream.h"
#include "device/kernels.h"
#include "memory/buffer.h"

typedef struct zn_device zn_device;

/* Copies between the host's memory and a device's run on lanes beside the compute stream, one after the other in each.
 * A lane belongs to one issuing thread: what that thread issues may wait for all it issued before, so a copy of another
 * thread behind it could be waited for by the one ahead. */
typedef enum {
    ZN_LANE_OUT,  /* to the host: gradients and activation checkpoints, by the engine's thread */
    ZN_LANE_IN,   /* along the trace: parameters and activation checkpoints, by the engine's thread */
    ZN_LANE_BACK, /* from updates: new parameters, by the thread of updates, or by the engine's while that is idle */
    ZN_LANE_COMM_OUT, /* what communication takes and brings, by its thread, where it reaches a device's memory so */
    ZN_LANE_COMM_IN,
    ZN_N_LANES
} zn_lane;

static inline bool zn_lane_is_out(zn_lane lane)
{
    return lane == ZN_LANE_OUT || lane == ZN_LANE_COMM_OUT;
}

/* A copy between the host's memory and a device's. */
struct zn_transfer {
    zn_addr to, from;
    size_t n_bytes;      /* 0: the end of the copies before it */
    zn_event *after[2];  /* not before these are done; NULL-padded */
    zn_event *done;
};

struct zn_device_ops {
    const char *name;
    void (*destroy)(zn_device *device);
    /* Zeroed memory, aligned to 4096 bytes. Blocks. */
    zn_status (*alloc)(zn_device *device, size_t n_bytes, zn_addr *address);
    void (*free)(zn_device *device, zn_addr address, size_t n_bytes);
    /* Order after what was run before on the compute stream; blocks until done. */
    zn_status (*write)(zn_device *device, zn_addr dst, const void *src, size_t n_bytes);
    zn_status (*read)(zn_device *device, void *dst, zn_addr src, size_t n_bytes);
    /* Queues one kernel on the compute stream. args is copied where needed. */
    zn_status (*run)(zn_device *device, zn_kernel kernel, const void *args);
    /* Waits for everything queued on the compute stream, and so for the copies that it waits for. */
    zn_status (*synchronize)(zn_device *device);
    /* Sets the event (pending, or never used) when everything queued so far is done. Does not block. */
    zn_status (*record)(zn_device *device, zn_event *done);
    /* What is queued from now on begins after the event's present use. May block. */
    zn_status (*wait)(zn_device *device, zn_event *event);
    /* Queues a copy on its lane. NULL for a device whose memory is the host's. Does not block: the transfer's events mean
     * their present use. */
    zn_status (*copy)(zn_device *device, zn_lane lane, const struct zn_transfer *transfer);
    /* Memory of the host that copies will use: where the device can, it reaches it directly from now on. `unpin` before it is freed.
     * Block. NULL: the host's memory is all alike. */
    void (*pin)(zn_device *device, struct zn_extent memory);
    void (*unpin)(zn_device *device, struct zn_extent memory);
};

struct zn_device {
    const struct zn_device_ops *ops;
    zn_space space;    /* of what it allocates */
    zn_ledger *ledger; /* borrowed */
    zn_clock *clock;   /* borrowed; the time this device lives in */
    _Atomic uint64_t bytes_out, bytes_in; /* copied to the host and back */
    zn_timeline *timeline; /* borrowed; NULL: what it does is not noted */
    zn_track track;        /* of its kernels */
};

/* Whether it has memory of its own, apart from the host's. */
static inline bool zn_device_is_discrete(const zn_device *device)
{
    return device->ops->copy != NULL;
}

/* Memory of the cpu device's own for each of its threads, mapped when the device is made: packed operands of matrix products,
 * tiles of attention. Not in the ledger: who plans a process counts it beside the plan. */
enum { ZN_CPU_SCRATCH_BYTES = 2 * 1024 * 1024 };

/* The processor. n_threads >= 1; isa NULL or "" takes ZINC_ISA's choice or the best the machine has. The
 * caller destroys. */
zn_status zn_device_create_cpu(zn_ledger *ledger, zn_clock *clock, int n_threads, const char *isa,
                               zn_device **device);

/* Of a cpu device: fused multiply-adds in registers on all its threads, in flops a second. Blocks for a fraction of a second. */
double zn_device_cpu_fma_rate(zn_device *device);

/* No memory and a virtual clock. */
struct zn_sim_rates {
    double flops;        /* matrix products a second */
    double memory_bytes; /* a second */
    double launch;       /* seconds for each kernel */
    double link_bytes;   /* a second, to the host and from it; 0: its memory is the host's */
    int n_cores;         /* a processor: kernels take zn_kernel_work at the rates below; 0: by what is above */
    double gemm[3];      /* a second, by the type of B */
    double weights[3];   /* elements of B a second, beside the flops; 0: none */
    double token_sums[2]; /* elements of C a second where A is transposed, written and added to; 0: none */
    double kernel[ZN_N_KERNELS]; /* a second; 0: by what is above */
    zn_device *cores;    /* another sim device whose cores do its work; NULL: it has its own */
    double cores_part;   /* how much of them a kernel takes */
};
zn_status zn_device_create_sim(zn_ledger *ledger, zn_clock *clock, const struct zn_sim_rates *rates,
                               zn_device **device);

void zn_device_destroy(zn_device *device); /* NULL is legal */

/* From now on kernels are noted on the track, copies on theirs. */
static inline void zn_device_trace(zn_device *device, zn_timeline *timeline, zn_track track)
{
    device->timeline = timeline;
    device->track = track;
}

/* The compute stream of a sim device, for others that work on its cores; and the flops of all products it was asked for. */
zn_stream *zn_device_sim_stream(zn_device *device);
double zn_device_sim_flops(const zn_device *device);

/* Allocates and charges the ledger; `zn_device_free` takes the same figures back. To free address 0
 * is legal and does nothing. */
zn_status zn_device_alloc(zn_device *device, zn_tier tier, zn_kind kind, size_t n_bytes,
                          zn_addr *address);
void zn_device_free(zn_device *device, zn_tier tier, zn_kind kind, zn_addr address, size_t n_bytes);

static inline zn_status zn_device_write(zn_device *d, zn_addr dst, const void *src, size_t n_bytes)
{
    return d->ops->write(d, dst, src, n_bytes);
}

static inline zn_status zn_device_read(zn_device *d, void *dst, zn_addr src, size_t n_bytes)
{
    return d->ops->read(d, dst, src, n_bytes);
}

/* Order between the compute stream and other work (communication, storage): see the table. record makes a
 * done event pending first. */
static inline zn_status zn_device_record(zn_device *d, zn_event *done)
{
    zn_event_reset(done);
    return zn_event_fail(done, d->ops->record(d, done));
}

static inline zn_status zn_device_wait(zn_device *d, zn_event *event)
{
    return d->ops->wait(d, event);
}

/* Only of devices apart. `done` is made pending first. */
static inline zn_status zn_device_copy(zn_device *d, zn_lane lane, const struct zn_transfer *transfer)
{
    zn_event_reset(transfer->done);
    *(zn_lane_is_out(lane) ? &d->bytes_out : &d->bytes_in) += transfer->n_bytes;
    return zn_event_fail(transfer->done, d->ops->copy(d, lane, transfer));
}

/* See the table; a device that does not care is not asked. */
static inline void zn_device_pin(zn_device *d, struct zn_extent memory)
{
    if (d->ops->pin)
        d->ops->pin(d, memory);
}

static inline void zn_device_unpin(zn_device *d, struct zn_extent memory)
{
    if (d->ops->unpin)
        d->ops->unpin(d, memory);
}

/* One typed call for each kernel: zn_run_gemm(device, &args). */
#define ZN_KERNEL_RUN(name)                                                                        \
    static inline zn_status zn_run_##name(zn_device *device, const struct zn_##name##_args *args)  \
    {                                                                                              \
        return device->ops->run(device, ZN_KERNEL_##name, args);                                   \
    }
ZN_KERNELS(ZN_KERNEL_RUN)
#undef ZN_KERNEL_RUN

#endif
