/* Parameters in their working type, taken to fp32, which holds all of them exactly. */
#ifndef ZN_DEVICE_CPU_WIDEN_H
#define ZN_DEVICE_CPU_WIDEN_H

#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/half.h"

static inline zn_status zn_check_real(zn_dtype type, const char *kernel)
{
    if (type != ZN_F32 && type != ZN_BF16 && type != ZN_F16)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: a parameter in %s", kernel, zn_dtype_name(type));
    return ZN_OK;
}

/* dst(n) = elements first … first+n of src */
static inline void zn_widen(float *dst, zn_addr src, zn_dtype type, int64_t first, int64_t n)
{
    if (type == ZN_BF16)
        zn_from_bf16(dst, (const uint16_t *)zn_pointer(src) + first, n);
    else if (type == ZN_F16)
        zn_from_f16(dst, (const uint16_t *)zn_pointer(src) + first, n);
    else
        memcpy(dst, zn_floats(src) + first, (size_t)n * sizeof *dst);
}

#endif
