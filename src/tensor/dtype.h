/* Element types. fp32 is the type of all sums; 16-bit types are for storage and the wire; quantised ones for frozen parameters alone. */
#ifndef ZN_TENSOR_DTYPE_H
#define ZN_TENSOR_DTYPE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum zn_dtype {
    ZN_F32,
    ZN_BF16,
    ZN_F16,
    ZN_I32, /* token ids */
    ZN_F64, /* sums kept on the device */
    ZN_U8,  /* codes of block-wise states */
    ZN_INT8, /* quanta: tensor/quantum.h */
    ZN_NF4,
} zn_dtype;

enum { ZN_QUANTUM = 1024, ZN_INT8_QUANTUM_BYTES = 1088, ZN_NF4_QUANTUM_BYTES = 544 };

static inline int zn_dtype_is_quantised(zn_dtype type)
{
    return type == ZN_INT8 || type == ZN_NF4;
}

/* Of one element; a quantised one has no bytes of its own. */
static inline size_t zn_dtype_bytes(zn_dtype type)
{
    assert(!zn_dtype_is_quantised(type));
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
    case ZN_INT8:
    case ZN_NF4:
        break;
    }
    return 4;
}

/* Of so many elements, from the first of a quantum on; quanta are whole. */
static inline size_t zn_dtype_size(zn_dtype type, int64_t n_elements)
{
    size_t n_quanta = (size_t)(n_elements + ZN_QUANTUM - 1) / ZN_QUANTUM;
    return type == ZN_INT8  ? n_quanta * ZN_INT8_QUANTUM_BYTES
           : type == ZN_NF4 ? n_quanta * ZN_NF4_QUANTUM_BYTES
                            : (size_t)n_elements * zn_dtype_bytes(type);
}

/* "fp32", "bf16", "fp16": the names people type. */
const char *zn_dtype_name(zn_dtype type);
zn_status zn_dtype_parse(const char *text, const char *what, zn_dtype *type);

#endif
