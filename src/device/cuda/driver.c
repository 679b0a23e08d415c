/* CUDA as a driver of device/discrete/. An address is the driver's own; a queue is a stream, a mark an event. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "device/cuda/private.h"

enum { PAGE = 4096 };

/* Any thread may call: the context becomes the caller's. */
static const struct zn_cu_api *enter(const zn_driver *driver)
{
    const zn_cuda *cuda = ((const struct cuda_driver *)driver)->cuda;
    cuda->cu.cuCtxSetCurrent(cuda->context); /* what is wrong with it is told by the call that follows */
    return &cuda->cu;
}

static void driver_destroy_queue(zn_driver *driver, zn_driver_queue *queue)
{
    const struct zn_cu_api *cu = enter(driver);
    if (!queue)
        return;
    if (queue->stream)
        cu->cuStreamSynchronize(queue->stream);
    cuda_free_staging((struct cuda_driver *)driver, queue);
    if (queue->stream)
        cu->cuStreamDestroy_v2(queue->stream);
    free(queue);
}

static zn_status driver_create_queue(zn_driver *driver, bool launches, zn_driver_queue **queue)
{
    const struct zn_cu_api *cu = enter(driver);
    zn_driver_queue *q = calloc(1, sizeof *q);
    (void)launches; /* every stream can */
    if (!q)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a queue");
    zn_status status = zn_cu_check(cu, cu->cuStreamCreate(&q->stream, ZN_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status != ZN_OK) {
        free(q);
        return status;
    }
    *queue = q;
    return ZN_OK;
}

static void driver_destroy(zn_driver *driver)
{
    struct cuda_driver *d = (struct cuda_driver *)driver;
    const struct zn_cu_api *cu = enter(driver);
    cuda_destroy_blas(d->blas);
    while (d->pins)
        cuda_unpin(d, d->pins->memory);
    if (d->fills)
        cu->cuStreamDestroy_v2(d->fills);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static zn_status fail_alloc(const zn_cuda *cuda, zn_cu_enum result, size_t n_bytes)
{
    char text[ZN_SIZE_TEXT], free_text[ZN_SIZE_TEXT], all_text[ZN_SIZE_TEXT];
    size_t free_bytes = 0, all_bytes = 0;
    if (result != ZN_CUDA_ERROR_OUT_OF_MEMORY || cuda->cu.cuMemGetInfo_v2(&free_bytes, &all_bytes) != ZN_CUDA_SUCCESS)
        return zn_cu_check(&cuda->cu, result, "cuMemAlloc");
    return zn_fail(ZN_ERR_MEMORY, "%s has no memory for %s: %s of %s are free", cuda->info.name, zn_size_text(n_bytes, text),
                   zn_size_text(free_bytes, free_text), zn_size_text(all_bytes, all_text));
}

/* The driver aligns to less than a page: room for one more, and the address within. */
static zn_status driver_alloc(zn_driver *driver, size_t n_bytes, zn_addr *address)
{
    struct cuda_driver *d = (struct cuda_driver *)driver;
    const struct zn_cu_api *cu = enter(driver);
    zn_cu_address base;
    if (n_bytes > SIZE_MAX - PAGE)
        return fail_alloc(d->cuda, ZN_CUDA_ERROR_OUT_OF_MEMORY, n_bytes);
    zn_cu_enum result = cu->cuMemAlloc_v2(&base, n_bytes + PAGE);
    if (result != ZN_CUDA_SUCCESS)
        return fail_alloc(d->cuda, result, n_bytes);
    zn_status status = zn_cu_check(cu, cu->cuMemsetD8Async(base, 0, n_bytes + PAGE, d->fills), "cuMemsetD8Async");
    if (status == ZN_OK)
        status = zn_cu_check(cu, cu->cuStreamSynchronize(d->fills), "clearing new memory");
    if (status != ZN_OK) {
        cu->cuMemFree_v2(base);
        return status;
    }
    *address = (base + PAGE - 1) / PAGE * PAGE;
    return ZN_OK;
}

static void driver_free(zn_driver *driver, zn_addr address, size_t n_bytes)
{
    const struct zn_cu_api *cu = enter(driver);
    zn_cu_address base;
    size_t size;
    (void)n_bytes;
    if (cu->cuMemGetAddressRange_v2(&base, &size, address) == ZN_CUDA_SUCCESS)
        cu->cuMemFree_v2(base);
}

zn_status cuda_launch(const zn_cuda *cuda, zn_cu_stream stream, const struct zn_launch *launch)
{
    const struct zn_cu_api *cu = &cuda->cu;
    const struct zn_launch_info *info = &zn_launch_infos[launch->kernel];
    unsigned char args[ZN_LAUNCH_BYTES];
    void *parameters[] = {args};
    if (launch->n_groups > INT32_MAX)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: %lld groups of items in one launch; a smaller micro-batch has fewer", info->name,
                       (long long)launch->n_groups);
    memcpy(args, launch->args, info->n_bytes);
    return zn_cu_check(cu, cu->cuLaunchKernel(cuda->functions[launch->kernel], (unsigned)launch->n_groups, 1, 1, (unsigned)info->n_items,
                                              1, 1, 0, stream, parameters, NULL),
                       info->name);
}

static zn_status driver_launch(zn_driver *driver, zn_driver_queue *queue, const struct zn_launch *launch)
{
    struct cuda_driver *d = (struct cuda_driver *)driver;
    struct zn_gemm_args gemm;
    enter(driver);
    if (launch->kernel != ZN_LAUNCH_gemm || !d->blas)
        return cuda_launch(d->cuda, queue->stream, launch);
    memcpy(&gemm, launch->args, sizeof gemm);
    return cuda_multiply(d->blas, queue->stream, &gemm);
}

static zn_status driver_zero(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, size_t n_bytes)
{
    const struct zn_cu_api *cu = enter(driver);
    CUDA_TRY(cuMemsetD8Async, dst, 0, n_bytes, queue->stream);
    return ZN_OK;
}

static zn_status driver_copy(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, zn_addr src, size_t n_bytes)
{
    const struct zn_cu_api *cu = enter(driver);
    CUDA_TRY(cuMemcpyDtoDAsync_v2, dst, src, n_bytes, queue->stream);
    return ZN_OK;
}

static zn_status driver_write(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, const void *src, size_t n_bytes)
{
    enter(driver);
    return cuda_write((struct cuda_driver *)driver, queue, dst, src, n_bytes);
}

static zn_status driver_read(zn_driver *driver, zn_driver_queue *queue, void *dst, zn_addr src, size_t n_bytes)
{
    enter(driver);
    return cuda_read((struct cuda_driver *)driver, queue, dst, src, n_bytes);
}

static zn_status driver_mark(zn_driver *driver, zn_driver_queue *queue, zn_driver_mark **mark)
{
    const struct zn_cu_api *cu = enter(driver);
    zn_cu_event event;
    CUDA_TRY(cuEventCreate, &event, ZN_CU_EVENT_BLOCKING_SYNC | ZN_CU_EVENT_DISABLE_TIMING);
    zn_status status = zn_cu_check(cu, cu->cuEventRecord(event, queue->stream), "cuEventRecord");
    if (status != ZN_OK) {
        cu->cuEventDestroy_v2(event);
        return status;
    }
    *mark = (zn_driver_mark *)event;
    return ZN_OK;
}

static zn_status driver_wait(zn_driver *driver, zn_driver_mark *mark)
{
    const struct zn_cu_api *cu = enter(driver);
    return zn_cu_check(cu, cu->cuEventSynchronize((zn_cu_event)mark), "work on the device");
}

static void driver_free_mark(zn_driver *driver, zn_driver_mark *mark)
{
    enter(driver)->cuEventDestroy_v2((zn_cu_event)mark);
}

static zn_status driver_follow(zn_driver *driver, zn_driver_queue *queue, const zn_driver_mark *mark)
{
    const struct zn_cu_api *cu = enter(driver);
    CUDA_TRY(cuStreamWaitEvent, queue->stream, (zn_cu_event)(uintptr_t)mark, 0);
    return ZN_OK;
}

static void driver_pin(zn_driver *driver, void *memory, size_t n_bytes)
{
    enter(driver);
    cuda_pin((struct cuda_driver *)driver, memory, n_bytes);
}

static void driver_unpin(zn_driver *driver, void *memory)
{
    enter(driver);
    cuda_unpin((struct cuda_driver *)driver, memory);
}

zn_status cuda_create_driver(zn_cuda *cuda, zn_driver **driver)
{
    static const struct zn_driver_ops ops = {.name = "cuda",
                                             .destroy = driver_destroy,
                                             .alloc = driver_alloc,
                                             .free = driver_free,
                                             .create_queue = driver_create_queue,
                                             .destroy_queue = driver_destroy_queue,
                                             .launch = driver_launch,
                                             .zero = driver_zero,
                                             .copy = driver_copy,
                                             .write = driver_write,
                                             .read = driver_read,
                                             .mark = driver_mark,
                                             .wait = driver_wait,
                                             .free_mark = driver_free_mark,
                                             .follow = driver_follow,
                                             .pin = driver_pin,
                                             .unpin = driver_unpin};
    struct cuda_driver *d = calloc(1, sizeof *d);
    if (!d)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a driver");
    *d = (struct cuda_driver){.head = {&ops}, .cuda = cuda};
    pthread_mutex_init(&d->lock, NULL);
    const struct zn_cu_api *cu = enter(&d->head);
    zn_status status = zn_cu_check(cu, cu->cuStreamCreate(&d->fills, ZN_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status == ZN_OK && cuda->is_fast)
        status = cuda_create_blas(d, &d->blas);
    if (status != ZN_OK) {
        driver_destroy(&d->head);
        return status;
    }
    *driver = &d->head;
    return ZN_OK;
}
