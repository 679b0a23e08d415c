/* A stand-in for CUDA's driver, for tests on machines without one: a library that is loaded as libcuda.so.1.
 *
 * Streams are threads, kernels are the common source compiled as C, work-items are fibers. Device addresses have their highest bit set, so
 * that the host faults where it follows one; behind and before each allocation no memory is mapped, nor where one was freed. The first fault
 * of a kernel or a copy fails all that comes after it, as the driver's own do.
 *
 * The thread sanitizer sees of it what a device promises: its own files are not instrumented, and their locks (threads.h) not known to it; a
 * task comes after its submission, and what waits for an event after that. Kernels and copies are looked at.
 *
 *   ZINC_STANDIN_LAG=SEED       tasks of streams are late by chance
 *   ZINC_STANDIN_FAULT=NAME[:N] what goes wrong, the N-th time (1): see FAULTS
 *
 * Both are read when the primary context is made. */
#ifndef ZN_TESTS_STANDIN_STANDIN_H
#define ZN_TESTS_STANDIN_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/api.h"
#include "standin/functions.h"

#define FAULTS(X)                                                                                                                 \
    X(no_device)    /* the driver has none */                                                                                     \
    X(init)         /* the driver does not start */                                                                               \
    X(ptx)          /* the kernels are refused */                                                                                 \
    X(alloc)        /* no memory on the device */                                                                                 \
    X(pin)          /* memory of the host cannot be registered */                                                                 \
    X(launch)       /* a launch is refused */                                                                                     \
    X(kernel)       /* a kernel faults while it runs: the N-th attention_backward */                                              \
    X(copy)         /* a copy between host and device fails while it runs */                                                      \
    X(skip_wait)    /* streams do not wait for events, and copies to the device are late */                                       \
    X(wrong_stream) /* kernels run on a stream of their own, late */                                                              \
    X(lost_zero)    /* memory is not cleared */

enum fault {
    FAULT_NONE,
#define FAULT_ENUM(name) FAULT_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
};

/* Whether this is the time that `fault` is to happen; lasting ones happen always. */
bool fault_is_due(enum fault fault);
bool fault_is_set(enum fault fault);

/* The first error of a kernel or a copy, or 0; it stays until the context ends. */
zn_cu_enum sticky_error(void);
void set_sticky_error(zn_cu_enum error);

/* Reads the environment, and forgets the error. */
void standin_start(void);

/* Order that the thread sanitizer is told of. */
#if defined(STANDIN_TSAN)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define tell_acquire(address) __tsan_acquire(address)
#define tell_release(address) __tsan_release(address)
#else
#define tell_acquire(address) (void)(address)
#define tell_release(address) (void)(address)
#endif

/* ---- Memory ---- */

#define FAR ((zn_cu_address)1 << 63)

/* The pointer of a device address, n_bytes of which are in one live allocation; NULL otherwise. */
void *device_pointer(zn_cu_address address, size_t n_bytes);
/* Whether copies may use the host's memory: registered, or allocated as such. */
bool is_host_pinned(const void *memory, size_t n_bytes);

/* Around what runs on the device: accesses that fault set the error instead of ending the process. */
void enter_device(void);
void leave_device(void);
void install_fault_handler(void);

/* ---- Kernels ---- */

/* Queues a function of the stand-in itself; after a fault it is not called. */
zn_cu_enum push_call(zn_cu_stream stream, void (*call)(void *arg), void *arg);

/* Runs all groups of a launch on the calling thread. */
void run_groups(const struct CUfunc_st *function, const void *args, int64_t n_groups);
void end_items(void); /* frees the thread's fibers */

#endif
