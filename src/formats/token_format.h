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

/* Where the ids of an open file are. */
struct token_ids {
    const char *path; /* for messages */
    int fd;
    uint64_t data; /* where they begin */
    size_t id_bytes;
    int64_t vocab_size; /* ids must be below; 0: any goes */
};

/* Ids first … first+n, through a small buffer. One outside the vocabulary is an error that names its place. */
zn_status token_ids_read(const struct token_ids *ids, int64_t first, int64_t n_ids, int32_t *out);
zn_status token_id_check(int64_t vocab_size, const char *path, int64_t at, uint32_t id);

/* A hash over tokens with their marks, that does not depend on how they come in pieces. */
struct token_hash {
    void *ids, *marks;
};
zn_status token_hash_init(struct token_hash *hash);
void token_hash_add(struct token_hash *hash, const int32_t *ids, const uint8_t *marks, int64_t n);
uint64_t token_hash_fini(struct token_hash *hash);

#endif
