/* The 16-bit copy of parameters that an optimizer's kernel makes beside them. */
#ifndef ZN_DEVICE_CPU_COPIES_H
#define ZN_DEVICE_CPU_COPIES_H

#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/half.h"

static inline zn_status check_copy(zn_addr copy, zn_dtype type)
{
    if (copy && type != ZN_F32 && type != ZN_BF16 && type != ZN_F16)
        return zn_fail(ZN_ERR_UNSUPPORTED, "a copy of the parameters in %s", zn_dtype_name(type));
    return ZN_OK;
}

static inline void write_copy(zn_addr copy, zn_dtype type, const float *param, int64_t first,
                              int64_t n)
{
    if (type == ZN_BF16)
        zn_to_bf16((uint16_t *)zn_pointer(copy) + first, param + first, n);
    else if (type == ZN_F16)
        zn_to_f16((uint16_t *)zn_pointer(copy) + first, param + first, n);
    else
        memcpy(zn_floats(copy) + first, param + first, (size_t)n * sizeof *param);
}

#endif
