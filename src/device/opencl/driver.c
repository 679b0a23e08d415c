/* OpenCL as a driver of device/discrete/. Memory is a few large buffers; an address is counted from a base that each has been
 * given, and looked up among them. Kernels get a buffer and an offset for each address. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "device/opencl/private.h"

enum { PAGE = 4096 };

struct buffer {
    zn_addr base;
    size_t n_bytes;
    cl_mem memory;
};

struct driver {
    zn_driver head;
    const zn_opencl *opencl;
    zn_driver_queue *fills; /* zeroes new memory; guarded by the lock */
    pthread_mutex_t lock; /* guards all below */
    struct buffer *buffers; /* by ascending base */
    int n_buffers, capacity;
    zn_addr next;
};

struct zn_driver_queue {
    cl_command_queue queue;
    cl_kernel kernels[ZN_N_LAUNCHES]; /* of a queue that launches: arguments are set on them */
};

#define CHECK(call, ...) ZN_TRY(zn_cl_check(cl->call(__VA_ARGS__), #call))

/* The buffer of an address, and where in it; n_bytes must lie in it. An address at a buffer's end is in it. */
static zn_status find(struct driver *d, zn_addr address, size_t n_bytes, cl_mem *memory, size_t *offset)
{
    zn_status status = ZN_ERR_INTERNAL;
    pthread_mutex_lock(&d->lock);
    int low = 0, high = d->n_buffers;
    while (low < high) { /* the last whose base is not above */
        int middle = (low + high) / 2;
        if (d->buffers[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && address - d->buffers[low - 1].base <= d->buffers[low - 1].n_bytes &&
        n_bytes <= d->buffers[low - 1].n_bytes - (size_t)(address - d->buffers[low - 1].base)) {
        *memory = d->buffers[low - 1].memory;
        *offset = (size_t)(address - d->buffers[low - 1].base);
        status = ZN_OK;
    }
    pthread_mutex_unlock(&d->lock);
    return status == ZN_OK ? ZN_OK
                           : zn_fail(status, "OpenCL: %zu bytes at address 0x%llx are not of the device's memory", n_bytes,
                                     (unsigned long long)address);
}

static void driver_destroy_queue(zn_driver *driver, zn_driver_queue *queue)
{
    const struct zn_cl_api *cl = &((struct driver *)driver)->opencl->cl;
    if (!queue)
        return;
    for (int i = 0; i < ZN_N_LAUNCHES; i++)
        if (queue->kernels[i])
            cl->clReleaseKernel(queue->kernels[i]);
    if (queue->queue) {
        cl->clFinish(queue->queue);
        cl->clReleaseCommandQueue(queue->queue);
    }
    free(queue);
}

static zn_status fill_queue(const zn_opencl *o, bool launches, zn_driver_queue *queue)
{
    cl_int error;
    queue->queue = o->cl.clCreateCommandQueue(o->context, o->id, 0, &error);
    ZN_TRY(zn_cl_check(error, "clCreateCommandQueue"));
    for (int i = 0; i < ZN_N_LAUNCHES && launches; i++) {
        queue->kernels[i] = o->cl.clCreateKernel(o->program, zn_launch_infos[i].name, &error);
        ZN_TRY(zn_cl_check(error, zn_launch_infos[i].name));
    }
    return ZN_OK;
}

static zn_status driver_create_queue(zn_driver *driver, bool launches, zn_driver_queue **queue)
{
    zn_driver_queue *q = calloc(1, sizeof *q);
    if (!q)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a queue");
    zn_status status = fill_queue(((struct driver *)driver)->opencl, launches, q);
    if (status != ZN_OK) {
        driver_destroy_queue(driver, q);
        return status;
    }
    *queue = q;
    return ZN_OK;
}

static void driver_destroy(zn_driver *driver)
{
    struct driver *d = (struct driver *)driver;
    driver_destroy_queue(driver, d->fills);
    for (int i = 0; i < d->n_buffers; i++)
        d->opencl->cl.clReleaseMemObject(d->buffers[i].memory);
    pthread_mutex_destroy(&d->lock);
    free(d->buffers);
    free(d);
}

/* Under the lock. Bases ascend, so the new one is the last. */
static zn_status add_buffer(struct driver *d, cl_mem memory, size_t n_bytes, zn_addr *address)
{
    if (d->n_buffers == d->capacity) {
        int capacity = d->capacity ? 2 * d->capacity : 64;
        struct buffer *grown = realloc(d->buffers, (size_t)capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory for the list of buffers");
        d->buffers = grown;
        d->capacity = capacity;
    }
    d->buffers[d->n_buffers++] = (struct buffer){.base = d->next, .n_bytes = n_bytes, .memory = memory};
    *address = d->next;
    d->next += zn_round_up(n_bytes, PAGE) + PAGE; /* a gap: no address is in two */
    return ZN_OK;
}

static zn_status zero_buffer(struct driver *d, cl_mem memory, size_t n_bytes)
{
    const struct zn_cl_api *cl = &d->opencl->cl;
    const unsigned char zero = 0;
    CHECK(clEnqueueFillBuffer, d->fills->queue, memory, &zero, sizeof zero, 0, n_bytes, 0, NULL, NULL);
    CHECK(clFinish, d->fills->queue);
    return ZN_OK;
}

static zn_status driver_alloc(zn_driver *driver, size_t n_bytes, zn_addr *address)
{
    struct driver *d = (struct driver *)driver;
    const struct zn_cl_api *cl = &d->opencl->cl;
    size_t size = n_bytes ? n_bytes : 1;
    char text[ZN_SIZE_TEXT], limit[ZN_SIZE_TEXT];
    cl_int error;
    if (size > d->opencl->info.allocation_bytes)
        return zn_fail(ZN_ERR_MEMORY, "%s cannot allocate %s in one piece, at most %s", d->opencl->info.name,
                       zn_size_text(size, text), zn_size_text(d->opencl->info.allocation_bytes, limit));
    cl_mem memory = cl->clCreateBuffer(d->opencl->context, ZN_CL_MEM_READ_WRITE, size, NULL, &error);
    ZN_TRY(zn_cl_check(error, "clCreateBuffer"));
    pthread_mutex_lock(&d->lock);
    zn_status status = zero_buffer(d, memory, size);
    if (status == ZN_OK)
        status = add_buffer(d, memory, size, address);
    pthread_mutex_unlock(&d->lock);
    if (status != ZN_OK)
        cl->clReleaseMemObject(memory);
    return status;
}

static void driver_free(zn_driver *driver, zn_addr address, size_t n_bytes)
{
    struct driver *d = (struct driver *)driver;
    (void)n_bytes;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < d->n_buffers; i++)
        if (d->buffers[i].base == address) {
            d->opencl->cl.clReleaseMemObject(d->buffers[i].memory);
            memmove(&d->buffers[i], &d->buffers[i + 1], (size_t)(--d->n_buffers - i) * sizeof *d->buffers);
            break;
        }
    pthread_mutex_unlock(&d->lock);
}

/* The addresses come first among the arguments: each becomes an offset, and its buffer an argument of its own. */
static zn_status driver_launch(zn_driver *driver, zn_driver_queue *queue, const struct zn_launch *launch)
{
    struct driver *d = (struct driver *)driver;
    const struct zn_cl_api *cl = &d->opencl->cl;
    const struct zn_launch_info *info = &zn_launch_infos[launch->kernel];
    cl_kernel function = queue->kernels[launch->kernel];
    uint64_t args[ZN_LAUNCH_BYTES / sizeof(uint64_t)];
    memcpy(args, launch->args, info->n_bytes);
    for (int i = 0; i < info->n_addresses; i++) {
        cl_mem memory = NULL;
        size_t offset = 0;
        if (args[i])
            ZN_TRY(find(d, args[i], 0, &memory, &offset));
        args[i] = offset;
        CHECK(clSetKernelArg, function, (cl_uint)i + 1, sizeof memory, memory ? &memory : NULL);
    }
    size_t local = (size_t)info->n_items, global = (size_t)launch->n_groups * local;
    CHECK(clSetKernelArg, function, 0, info->n_bytes, args);
    return zn_cl_check(cl->clEnqueueNDRangeKernel(queue->queue, function, 1, NULL, &global, &local, 0, NULL, NULL), info->name);
}

static zn_status driver_zero(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, size_t n_bytes)
{
    struct driver *d = (struct driver *)driver;
    const struct zn_cl_api *cl = &d->opencl->cl;
    const unsigned char zero = 0;
    cl_mem memory;
    size_t offset;
    ZN_TRY(find(d, dst, n_bytes, &memory, &offset));
    CHECK(clEnqueueFillBuffer, queue->queue, memory, &zero, sizeof zero, offset, n_bytes, 0, NULL, NULL);
    return ZN_OK;
}

static zn_status driver_copy(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, zn_addr src, size_t n_bytes)
{
    struct driver *d = (struct driver *)driver;
    const struct zn_cl_api *cl = &d->opencl->cl;
    cl_mem to, from;
    size_t to_offset, from_offset;
    ZN_TRY(find(d, dst, n_bytes, &to, &to_offset));
    ZN_TRY(find(d, src, n_bytes, &from, &from_offset));
    CHECK(clEnqueueCopyBuffer, queue->queue, from, to, from_offset, to_offset, n_bytes, 0, NULL, NULL);
    return ZN_OK;
}

static zn_status driver_write(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, const void *src, size_t n_bytes)
{
    struct driver *d = (struct driver *)driver;
    const struct zn_cl_api *cl = &d->opencl->cl;
    cl_mem memory;
    size_t offset;
    ZN_TRY(find(d, dst, n_bytes, &memory, &offset));
    CHECK(clEnqueueWriteBuffer, queue->queue, memory, ZN_CL_TRUE, offset, n_bytes, src, 0, NULL, NULL);
    return ZN_OK;
}

static zn_status driver_read(zn_driver *driver, zn_driver_queue *queue, void *dst, zn_addr src, size_t n_bytes)
{
    struct driver *d = (struct driver *)driver;
    const struct zn_cl_api *cl = &d->opencl->cl;
    cl_mem memory;
    size_t offset;
    ZN_TRY(find(d, src, n_bytes, &memory, &offset));
    CHECK(clEnqueueReadBuffer, queue->queue, memory, ZN_CL_TRUE, offset, n_bytes, dst, 0, NULL, NULL);
    return ZN_OK;
}

static zn_status driver_mark(zn_driver *driver, zn_driver_queue *queue, zn_driver_mark **mark)
{
    const struct zn_cl_api *cl = &((struct driver *)driver)->opencl->cl;
    cl_event event;
    CHECK(clEnqueueMarkerWithWaitList, queue->queue, 0, NULL, &event);
    *mark = (zn_driver_mark *)event; /* from here on it is waited for and freed */
    CHECK(clFlush, queue->queue);
    return ZN_OK;
}

static zn_status driver_wait(zn_driver *driver, zn_driver_mark *mark)
{
    const struct zn_cl_api *cl = &((struct driver *)driver)->opencl->cl;
    cl_event event = (cl_event)mark;
    return zn_cl_check(cl->clWaitForEvents(1, &event), "a kernel on the device");
}

static void driver_free_mark(zn_driver *driver, zn_driver_mark *mark)
{
    ((struct driver *)driver)->opencl->cl.clReleaseEvent((cl_event)mark);
}

zn_status opencl_create_driver(zn_opencl *opencl, zn_driver **driver)
{
    static const struct zn_driver_ops ops = {.name = "opencl",
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
                                             .free_mark = driver_free_mark};
    struct driver *d = calloc(1, sizeof *d);
    if (!d)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a driver");
    *d = (struct driver){.head = {&ops}, .opencl = opencl, .next = (zn_addr)1 << 44};
    pthread_mutex_init(&d->lock, NULL);
    zn_status status = driver_create_queue(&d->head, false, &d->fills);
    if (status != ZN_OK) {
        driver_destroy(&d->head);
        return status;
    }
    *driver = &d->head;
    return ZN_OK;
}
