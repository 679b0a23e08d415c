/* Extents within reach. */
#include "memory/buffer.h"

zn_status zn_extent_pointer(struct zn_extent extent, size_t n_bytes, const char *what, void **pointer)
{
    if (extent.space != ZN_SPACE_HOST && extent.space != ZN_SPACE_NOWHERE)
        return zn_fail(ZN_ERR_INTERNAL, "%s: its memory is %s, which it cannot reach", what,
                       extent.space == ZN_SPACE_DEVICE ? "a device's" : "in the swap");
    if (n_bytes > extent.n_bytes)
        return zn_fail(ZN_ERR_INTERNAL, "%s: %zu bytes where there are %zu", what, n_bytes, extent.n_bytes);
    *pointer = (void *)(uintptr_t)extent.address;
    return ZN_OK;
}
