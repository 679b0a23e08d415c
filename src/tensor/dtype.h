/* Element types. fp32 is the type of all sums; 16-bit types are for storage and the wire. */
#ifndef ZN_TENSOR_DTYPE_H
#define ZN_TENSOR_DTYPE_H

#include <stddef.h>

#include "base/status.h"

typedef enum zn_dtype {
    ZN_F32,
    ZN_BF16,
    ZN_F16,
    ZN_I32, /* token ids */
    ZN_F64, /* sums kept on the device */
    ZN_U8,  /* codes of block-wise states */
} zn_dtype;

static inline size_t zn_dtype_bytes(zn_dtype type)
{
    switch (type) {
    case ZN_BF16:
    case ZN_F16:
        return 2;
    case ZN_F64:
        return 8;
    case ZN_U8:
        return 1;
    case ZN_F32:
    case ZN_I32:
        break;
    }
    return 4;
}

/* "fp32", "bf16", "fp16": the names people type. */
const char *zn_dtype_name(zn_dtype type);
zn_status zn_dtype_parse(const char *text, const char *what, zn_dtype *type);

#endif
