/* Sizes as people write them: "512MiB", "4GiB", "1GB", plain bytes. */
#ifndef ZN_BASE_SIZE_H
#define ZN_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define ZN_KIB ((size_t)1024)
#define ZN_MIB ((size_t)1024 * 1024)
#define ZN_GIB ((size_t)1024 * 1024 * 1024)

enum { ZN_SIZE_TEXT = 32 };

/* Parses a size; `what` names the option in the error. */
zn_status zn_size_parse(const char *text, const char *what, size_t *n_bytes);

/* Writes "1.50 GiB" into `text` and returns it. */
const char *zn_size_text(size_t n_bytes, char text[ZN_SIZE_TEXT]);

/* Checked arithmetic on counts that come from files: false when it would overflow. */
bool zn_mul_size(size_t a, size_t b, size_t *product);
bool zn_add_size(size_t a, size_t b, size_t *sum);
bool zn_mul_count(int64_t a, int64_t b, int64_t *product);

static inline size_t zn_round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
