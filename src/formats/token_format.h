/* What the header of a token file says; shared by reading and writing. */
#ifndef ZN_FORMATS_TOKEN_FORMAT_H
#define ZN_FORMATS_TOKEN_FORMAT_H

#include <stdint.h>

#include "formats/tokens.h"

enum {
    TOKEN_MAGIC_16 = 20240520,
    TOKEN_VERSION_16 = 1,
    TOKEN_MAGIC_32 = 20240801,
    TOKEN_VERSION_32 = 7,
    TOKEN_HEADER_BYTES = 4 * ZN_TOKENS_HEADER
};

#define TOKEN_MAX_COUNT ((int64_t)UINT32_MAX) /* header[2] read as unsigned */

#endif
