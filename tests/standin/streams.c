/* Streams and events. A stream is a thread that runs tasks in order; an event counts the times it was recorded, asked for and reached. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

#include "base/rng.h"
#include "standin/exports.h"
#include "standin/standin.h"

enum { ARGS_BYTES = 256, LATE = 300000 /* microseconds */ };
enum kind { COPY_IN, COPY_OUT, COPY, FILL, KERNEL, CALL, RECORD, WAIT };

struct CUevent_st {
    mtx_t lock; /* guards all below */
    cnd_t changed;
    uint64_t asked, reached;
    int n_users; /* its owner, and tasks */
};

struct task {
    enum kind kind;
    zn_cu_address to, from; /* of the host or the device */
    size_t n_bytes;
    unsigned char value;
    struct CUevent_st *event;
    uint64_t at; /* the count of the event */
    const struct CUfunc_st *function;
    int64_t n_groups;
    void (*call)(void *arg);
    void *arg;
    _Alignas(8) unsigned char args[ARGS_BYTES];
    struct task *next;
};

struct CUstream_st {
    pthread_t thread;
    mtx_t lock; /* guards all below */
    cnd_t changed;
    struct task *first, *last;
    bool is_busy, is_ending;
    uint64_t key, n_tasks; /* of the lags; key 0: none */
    struct CUstream_st *other; /* where kernels wrongly go */
};

static void release_event(struct CUevent_st *e)
{
    mtx_lock(&e->lock);
    bool is_last = --e->n_users == 0;
    mtx_unlock(&e->lock);
    if (!is_last)
        return;
    cnd_destroy(&e->changed);
    mtx_destroy(&e->lock);
    free(e);
}

static void reach_event(struct CUevent_st *e, uint64_t at)
{
    tell_release(e);
    mtx_lock(&e->lock);
    if (e->reached < at)
        e->reached = at;
    cnd_broadcast(&e->changed);
    mtx_unlock(&e->lock);
}

static void await_event(struct CUevent_st *e, uint64_t at)
{
    mtx_lock(&e->lock);
    while (e->reached < at)
        cnd_wait(&e->changed, &e->lock);
    mtx_unlock(&e->lock);
    tell_acquire(e);
}

/* Addresses become pointers when the kernel runs, so that what was freed before is found. */
static void run_kernel(struct task *t)
{
    uint64_t args[ARGS_BYTES / sizeof(uint64_t)];
    memcpy(args, t->args, sizeof args);
    for (int i = 0; i < t->function->n_addresses; i++) {
        void *pointer = args[i] ? device_pointer(args[i], 0) : NULL;
        if (args[i] && !pointer) {
            set_sticky_error(ZN_CUDA_ERROR_ILLEGAL_ADDRESS);
            return;
        }
        args[i] = (uint64_t)(uintptr_t)pointer;
    }
    if (strcmp(t->function->name, "k_attention_backward") == 0 && fault_is_due(FAULT_kernel)) {
        run_groups(t->function, args, t->n_groups / 2);
        set_sticky_error(ZN_CUDA_ERROR_LAUNCH_FAILED);
        return;
    }
    enter_device();
    run_groups(t->function, args, t->n_groups);
    leave_device();
}

static void run_copy(const struct task *t)
{
    bool is_host = t->kind == COPY_IN || t->kind == COPY_OUT;
    const void *from = t->kind == COPY_IN ? (const void *)(uintptr_t)t->from : device_pointer(t->from, t->n_bytes);
    void *to = t->kind == COPY_OUT ? (void *)(uintptr_t)t->to : device_pointer(t->to, t->n_bytes);
    if (is_host && fault_is_due(FAULT_copy))
        set_sticky_error(ZN_CUDA_ERROR_ECC_UNCORRECTABLE);
    else if (!from || !to)
        set_sticky_error(ZN_CUDA_ERROR_ILLEGAL_ADDRESS);
    else
        memmove(to, from, t->n_bytes);
}

static void run_fill(const struct task *t)
{
    void *to = device_pointer(t->to, t->n_bytes);
    if (to && !fault_is_set(FAULT_lost_zero))
        memset(to, t->value, t->n_bytes);
    else if (!to)
        set_sticky_error(ZN_CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* After a fault nothing is computed any more, but events are reached. */
static void run_task(struct task *t)
{
    if (t->kind == RECORD)
        reach_event(t->event, t->at);
    else if (t->kind == WAIT)
        await_event(t->event, t->at);
    else if (sticky_error())
        return;
    else if (t->kind == KERNEL)
        run_kernel(t);
    else if (t->kind == CALL)
        t->call(t->arg);
    else if (t->kind == FILL)
        run_fill(t);
    else
        run_copy(t);
}

static void lag(struct CUstream_st *s, const struct task *t)
{
    uint64_t bits = s->key ? zn_random_bits(s->key, s->n_tasks++) : 1;
    if ((fault_is_set(FAULT_skip_wait) && t->kind == COPY_IN) || (fault_is_set(FAULT_wrong_stream) && t->kind == KERNEL))
        usleep(LATE);
    else if (bits % 8 == 0)
        usleep((useconds_t)((bits >> 32) % (bits % 64 == 0 ? 3000 : 300)));
}

static void *work(void *arg)
{
    struct CUstream_st *s = arg;
    mtx_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->is_ending)
            cnd_wait(&s->changed, &s->lock);
        struct task *t = s->first;
        if (!t)
            break;
        s->first = t->next;
        s->is_busy = true;
        mtx_unlock(&s->lock);
        tell_acquire(t);
        lag(s, t);
        run_task(t);
        tell_release(s);
        if (t->event)
            release_event(t->event);
        free(t);
        mtx_lock(&s->lock);
        s->is_busy = false;
        cnd_broadcast(&s->changed);
    }
    mtx_unlock(&s->lock);
    end_items();
    return NULL;
}

static zn_cu_enum push(struct CUstream_st *s, const struct task *task)
{
    struct task *t = malloc(sizeof *t);
    if (!t)
        return ZN_CUDA_ERROR_OUT_OF_MEMORY;
    *t = *task;
    t->next = NULL;
    tell_release(t);
    mtx_lock(&s->lock);
    if (s->first)
        s->last->next = t;
    else
        s->first = t;
    s->last = t;
    cnd_broadcast(&s->changed);
    mtx_unlock(&s->lock);
    return sticky_error();
}

static zn_cu_enum create_stream(struct CUstream_st **stream)
{
    static uint64_t n_streams;
    static mtx_t count_lock; /* guards n_streams */
    const char *seed = getenv("ZINC_STANDIN_LAG");
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        return ZN_CUDA_ERROR_OUT_OF_MEMORY;
    mtx_lock(&count_lock);
    uint64_t index = n_streams++;
    mtx_unlock(&count_lock);
    s->key = seed ? zn_random_bits(strtoull(seed, NULL, 10), index) : 0;
    mtx_init(&s->lock, mtx_plain);
    cnd_init(&s->changed);
    if (pthread_create(&s->thread, NULL, work, s) != 0)
        abort();
    *stream = s;
    return 0;
}

zn_cu_enum cuStreamCreate(zn_cu_stream *stream, unsigned flags)
{
    if (flags != ZN_CU_STREAM_NON_BLOCKING)
        return ZN_CUDA_ERROR_INVALID_VALUE;
    if (sticky_error())
        return sticky_error();
    return create_stream(stream);
}

zn_cu_enum cuStreamSynchronize(zn_cu_stream s)
{
    mtx_lock(&s->lock);
    while (s->first || s->is_busy)
        cnd_wait(&s->changed, &s->lock);
    mtx_unlock(&s->lock);
    tell_acquire(s);
    return sticky_error();
}

zn_cu_enum cuStreamDestroy_v2(zn_cu_stream s)
{
    if (s->other)
        cuStreamDestroy_v2(s->other);
    mtx_lock(&s->lock);
    s->is_ending = true;
    cnd_broadcast(&s->changed);
    mtx_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    cnd_destroy(&s->changed);
    mtx_destroy(&s->lock);
    free(s);
    return sticky_error();
}

zn_cu_enum cuEventCreate(zn_cu_event *event, unsigned flags)
{
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (sticky_error() || flags != (ZN_CU_EVENT_BLOCKING_SYNC | ZN_CU_EVENT_DISABLE_TIMING) || !e) {
        free(e);
        return sticky_error() ? sticky_error() : ZN_CUDA_ERROR_INVALID_VALUE;
    }
    mtx_init(&e->lock, mtx_plain);
    cnd_init(&e->changed);
    e->n_users = 1;
    *event = e;
    return 0;
}

zn_cu_enum cuEventDestroy_v2(zn_cu_event e)
{
    release_event(e);
    return sticky_error();
}

/* A task on the event, for its next time or the last. */
static zn_cu_enum push_event(struct CUstream_st *s, struct CUevent_st *e, enum kind kind)
{
    struct task t = {.kind = kind, .event = e};
    mtx_lock(&e->lock);
    e->n_users++;
    t.at = kind == RECORD ? ++e->asked : e->asked;
    mtx_unlock(&e->lock);
    return push(s, &t);
}

zn_cu_enum cuEventRecord(zn_cu_event e, zn_cu_stream s)
{
    return push_event(s, e, RECORD);
}

zn_cu_enum cuStreamWaitEvent(zn_cu_stream s, zn_cu_event e, unsigned flags)
{
    if (flags)
        return ZN_CUDA_ERROR_INVALID_VALUE;
    return fault_is_set(FAULT_skip_wait) ? 0 : push_event(s, e, WAIT);
}

zn_cu_enum cuEventSynchronize(zn_cu_event e)
{
    mtx_lock(&e->lock);
    uint64_t at = e->asked;
    mtx_unlock(&e->lock);
    await_event(e, at);
    return sticky_error();
}

/* ---- Work ---- */

static zn_cu_enum push_copy(struct CUstream_st *s, const struct task *t)
{
    const zn_cu_address host = t->kind == COPY_IN ? t->from : t->kind == COPY_OUT ? t->to : 0;
    if (sticky_error())
        return sticky_error();
    if (host && !is_host_pinned((const void *)(uintptr_t)host, t->n_bytes))
        return ZN_CUDA_ERROR_INVALID_VALUE; /* the real one would hold up the caller: not what the backend means */
    if ((t->kind != COPY_OUT && !device_pointer(t->to, t->n_bytes)) || (t->kind != COPY_IN && !device_pointer(t->from, t->n_bytes)))
        return ZN_CUDA_ERROR_INVALID_VALUE;
    return push(s, t);
}

zn_cu_enum push_call(zn_cu_stream s, void (*call)(void *arg), void *arg)
{
    return sticky_error() ? sticky_error() : push(s, &(struct task){.kind = CALL, .call = call, .arg = arg});
}

zn_cu_enum cuMemcpyHtoDAsync_v2(zn_cu_address to, const void *from, size_t n_bytes, zn_cu_stream s)
{
    return push_copy(s, &(struct task){.kind = COPY_IN, .to = to, .from = (zn_cu_address)(uintptr_t)from, .n_bytes = n_bytes});
}

zn_cu_enum cuMemcpyDtoHAsync_v2(void *to, zn_cu_address from, size_t n_bytes, zn_cu_stream s)
{
    return push_copy(s, &(struct task){.kind = COPY_OUT, .to = (zn_cu_address)(uintptr_t)to, .from = from, .n_bytes = n_bytes});
}

zn_cu_enum cuMemcpyDtoDAsync_v2(zn_cu_address to, zn_cu_address from, size_t n_bytes, zn_cu_stream s)
{
    return push_copy(s, &(struct task){.kind = COPY, .to = to, .from = from, .n_bytes = n_bytes});
}

zn_cu_enum cuMemsetD8Async(zn_cu_address to, unsigned char value, size_t n, zn_cu_stream s)
{
    if (!device_pointer(to, n))
        return sticky_error() ? sticky_error() : ZN_CUDA_ERROR_INVALID_VALUE;
    return push(s, &(struct task){.kind = FILL, .to = to, .value = value, .n_bytes = n});
}

zn_cu_enum cuLaunchKernel(zn_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned shared_bytes, zn_cu_stream s, void **parameters, void **extra)
{
    struct task t = {.kind = KERNEL, .function = function, .n_groups = grid_x};
    if (sticky_error())
        return sticky_error();
    if (grid_x == 0 || grid_x > INT32_MAX || grid_y != 1 || grid_z != 1 || (int)block_x != function->n_items || block_y != 1 ||
        block_z != 1 || shared_bytes || extra || function->n_bytes > sizeof t.args)
        return ZN_CUDA_ERROR_INVALID_VALUE;
    if (fault_is_due(FAULT_launch))
        return ZN_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    memcpy(t.args, parameters[0], function->n_bytes);
    if (fault_is_set(FAULT_wrong_stream) && !s->other && create_stream(&s->other) != 0)
        abort();
    return push(s->other ? s->other : s, &t);
}
