/* Devices by the names of --device: cpu, opencl[:INDEX], cuda[:INDEX].
 *
 * What is beside the processor is opened once in a process; ranks that are threads of it make a device each on it. */
#ifndef ZN_DEVICE_OPEN_H
#define ZN_DEVICE_OPEN_H

#include "device/device.h"

/* A device with memory of its own, as its backend tells of it. */
struct zn_device_info {
    char name[128];          /* of the device */
    char about[256];         /* with its platform and version: what was measured of another is not its own */
    size_t memory_bytes;     /* that it has */
    size_t free_bytes;       /* of them nobody else uses; 0: the backend cannot tell */
    size_t allocation_bytes; /* at most in one piece; 0: no limit */
    size_t process_bytes;    /* of the host's memory: what the backend takes beside its buffers */
    size_t reserved_bytes;   /* of the device's memory: the same */
    bool shares_memory;      /* with the host: its bytes are the host's */
    char missing[160];       /* what it lacks to be used; "" where nothing is */
};

enum { ZN_MAX_DEVICES = 16 };

/* A kind of devices. */
struct zn_backend {
    const char *name;
    /* Comes first: which devices there are, one to ZN_MAX_DEVICES; else fails and says what to install. One that is made of the
     * host's cores may take n_threads of them. Blocks. */
    zn_status (*list)(int n_threads, struct zn_device_info *infos, int *n);
    /* Opens one with its kernels. Blocks for seconds where these are compiled. */
    zn_status (*open)(int index, void **opened);
    void (*close)(void *opened); /* after all devices on it */
    void (*describe)(const void *opened, struct zn_device_info *info);
    zn_status (*create)(void *opened, zn_ledger *ledger, zn_clock *clock, zn_device **device);
};

/* All of this build, NULL at the end. */
const struct zn_backend *zn_backend_at(size_t i);

/* "opencl:1" is backend "opencl" and index 1; without an index it is -1. "cpu" has no backend. Fails for other names. */
struct zn_device_name {
    const struct zn_backend *backend; /* NULL: the processor */
    int index;
};
zn_status zn_device_name_parse(const char *text, struct zn_device_name *name);

typedef struct zn_accelerator zn_accelerator;

/* Opens device `name`, which is not the processor. Without an index, ranks of a node take its devices in turn. The
 * caller closes. Blocks. */
struct zn_accelerator_choice {
    const char *name;
    int local_rank, n_local, n_threads;
};
zn_status zn_accelerator_open(const struct zn_accelerator_choice *choice, zn_accelerator **accelerator);
void zn_accelerator_close(zn_accelerator *accelerator); /* NULL is legal */
const struct zn_device_info *zn_accelerator_info(const zn_accelerator *accelerator);
const char *zn_accelerator_name(const zn_accelerator *accelerator); /* with its index: "opencl:0" */
int zn_accelerator_n_sharing(const zn_accelerator *accelerator);    /* ranks of the node that use it */

/* A device with queues and memory of its own. The caller destroys it. */
zn_status zn_device_create_on(zn_accelerator *accelerator, zn_ledger *ledger, zn_clock *clock, zn_device **device);

#endif
