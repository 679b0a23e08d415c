/* What all devices share: charging the ledger, and names. */
#include "device/device.h"

#include <assert.h>

void zn_device_destroy(zn_device *device)
{
    if (device)
        device->ops->destroy(device);
}

zn_status zn_device_alloc(zn_device *device, zn_tier tier, zn_kind kind, size_t n_bytes,
                          zn_addr *address)
{
    ZN_TRY(device->ops->alloc(device, n_bytes, address));
    zn_ledger_charge(device->ledger, tier, kind, n_bytes);
    return ZN_OK;
}

void zn_device_free(zn_device *device, zn_tier tier, zn_kind kind, zn_addr address, size_t n_bytes)
{
    if (!address)
        return;
    device->ops->free(device, address, n_bytes);
    zn_ledger_release(device->ledger, tier, kind, n_bytes);
}

const char *zn_kernel_name(zn_kernel kernel)
{
    static const char *const names[ZN_N_KERNELS] = {
#define NAME(name) [ZN_KERNEL_##name] = #name,
        ZN_KERNELS(NAME)
#undef NAME
    };
    assert(kernel >= 0 && kernel < ZN_N_KERNELS);
    return names[kernel];
}
