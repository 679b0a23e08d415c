/* A driver of discrete devices: what device/discrete/ needs of OpenCL, CUDA and the like.
 *
 * Addresses are the driver's own. A queue runs what it is given in order; queues know of each other what `follow` tells them. One
 * thread at a time uses a queue; different queues may be used at once. A queue that has failed keeps failing. */
#ifndef ZN_DEVICE_DISCRETE_DRIVER_H
#define ZN_DEVICE_DISCRETE_DRIVER_H

#include "device/device.h"
#include "device/discrete/launch.h"

typedef struct zn_driver zn_driver;
typedef struct zn_driver_queue zn_driver_queue;
typedef struct zn_driver_mark zn_driver_mark;

struct zn_driver_ops {
    const char *name;
    void (*destroy)(zn_driver *driver);
    /* Zeroed memory, aligned to 4096 bytes. Blocks. */
    zn_status (*alloc)(zn_driver *driver, size_t n_bytes, zn_addr *address);
    void (*free)(zn_driver *driver, zn_addr address, size_t n_bytes);
    /* A queue that launches has the kernels; others only copy. */
    zn_status (*create_queue)(zn_driver *driver, bool launches, zn_driver_queue **queue);
    void (*destroy_queue)(zn_driver *driver, zn_driver_queue *queue); /* NULL is legal */
    /* Do not block. */
    zn_status (*launch)(zn_driver *driver, zn_driver_queue *queue, const struct zn_launch *launch);
    zn_status (*zero)(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, size_t n_bytes);
    zn_status (*copy)(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, zn_addr src, size_t n_bytes);
    /* Between the host's memory and the device's, after what was queued before. The host's memory belongs to the queue until a
     * mark behind the copy is reached. May block. */
    zn_status (*write)(zn_driver *driver, zn_driver_queue *queue, zn_addr dst, const void *src, size_t n_bytes);
    zn_status (*read)(zn_driver *driver, zn_driver_queue *queue, void *dst, zn_addr src, size_t n_bytes);
    /* The end of what was queued so far, which may be made also where it fails; and: blocks until it is reached, and says whether all of
     * it succeeded. Any thread may wait. Who made it frees it. */
    zn_status (*mark)(zn_driver *driver, zn_driver_queue *queue, zn_driver_mark **mark);
    zn_status (*wait)(zn_driver *driver, zn_driver_mark *mark);
    void (*free_mark)(zn_driver *driver, zn_driver_mark *mark);
    /* What the queue is given from now on begins after the mark, of whatever queue. Does not block. NULL: the host waits for the mark
     * before it queues. */
    zn_status (*follow)(zn_driver *driver, zn_driver_queue *queue, const zn_driver_mark *mark);
    /* Memory of the host that copies will use, and its end: see zn_device_ops. NULL: the driver copies from any alike. */
    void (*pin)(zn_driver *driver, void *memory, size_t n_bytes);
    void (*unpin)(zn_driver *driver, void *memory);
};

struct zn_driver {
    const struct zn_driver_ops *ops;
};

/* A device on a driver, which it owns from now on, also where it fails. The caller destroys the device. */
zn_status zn_device_create_discrete(zn_driver *driver, zn_ledger *ledger, zn_clock *clock, zn_device **device);

#endif
