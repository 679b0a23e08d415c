/* What a file is that is not what was asked for, by its first bytes. */
#ifndef ZN_BASE_SIGNATURE_H
#define ZN_BASE_SIGNATURE_H

#include <stddef.h>

#include "base/status.h"

enum { ZN_SIGNATURE_BYTES = 64 };

/* What a file that begins so is, and what to do about it, to follow "FILE: "; NULL where the bytes tell nothing. */
const char *zn_signature_advice(const void *data, size_t n_bytes);

/* Fails with "PATH: advice" where there is one for the file. A file that cannot be read, or is no regular one, is fine here.
 * Blocks. */
zn_status zn_signature_check(const char *path);

#endif
