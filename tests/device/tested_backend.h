/* A backend of discrete devices that tests hold to the processor. */
#ifndef ZN_TESTS_DEVICE_TESTED_BACKEND_H
#define ZN_TESTS_DEVICE_TESTED_BACKEND_H

#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"

struct tested_backend {
    const char *name;
    zn_status (*open)(void **opened);
    void (*close)(void *opened);
    zn_status (*create)(void *opened, zn_ledger *ledger, zn_clock *clock, zn_device **device);
};

#endif
