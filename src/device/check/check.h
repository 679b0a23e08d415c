/* Holds a device's kernels to the processor's, to the bit: `zinc doctor --check` on the user's machine, and the tests. */
#ifndef ZN_DEVICE_CHECK_CHECK_H
#define ZN_DEVICE_CHECK_CHECK_H

#include "device/device.h"

struct zn_check {
    int64_t n_checked; /* calls that were compared */
    char difference[256]; /* the first that was found; "" for none */
};

/* Memory that a check takes of each device. */
enum { ZN_CHECK_BYTES = 8 << 20 };

/* Every kernel that training and evaluation take, but for products, over n_rounds random shapes each. Blocks. */
zn_status zn_check_kernels(zn_device *processor, zn_device *device, int n_rounds, uint64_t seed, struct zn_check *check);

/* Products of n_rounds random shapes: as they are, again, cut along m, n and k, at other addresses, and beside copies each way.
 * Blocks. */
zn_status zn_check_products(zn_device *processor, zn_device *device, int n_rounds, uint64_t seed, struct zn_check *check);

#endif
