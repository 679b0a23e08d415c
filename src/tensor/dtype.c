/* Names of element types. */
#include "tensor/dtype.h"

#include <string.h>

const char *zn_dtype_name(zn_dtype type)
{
    switch (type) {
    case ZN_F32:
        return "fp32";
    case ZN_BF16:
        return "bf16";
    case ZN_F16:
        return "fp16";
    case ZN_I32:
        return "int32";
    case ZN_F64:
        return "fp64";
    case ZN_U8:
        return "uint8";
    case ZN_INT8:
        return "int8";
    case ZN_NF4:
        return "nf4";
    }
    return "unknown";
}

zn_status zn_dtype_parse(const char *text, const char *what, zn_dtype *type)
{
    static const zn_dtype known[] = {ZN_F32, ZN_BF16, ZN_F16};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(text, zn_dtype_name(known[i])) == 0) {
            *type = known[i];
            return ZN_OK;
        }
    }
    return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not one of fp32, bf16, fp16", what, text);
}
