/* Ids from an open file, and hashes over them. */
#include <string.h>
#include <xxhash.h>

#include "base/files.h"
#include "formats/token_format.h"

zn_status token_id_check(int64_t vocab_size, const char *path, int64_t at, uint32_t id)
{
    int64_t limit = vocab_size;
    if (limit == 0 || limit > (int64_t)INT32_MAX + 1)
        limit = (int64_t)INT32_MAX + 1;
    if (id >= limit)
        return zn_fail(ZN_ERR_INPUT, "%s: token %lld has id %u, outside the vocabulary of %lld", path,
                       (long long)at, id, (long long)limit);
    return ZN_OK;
}

static uint32_t id_at(const unsigned char *ids, size_t id_bytes, int64_t i)
{
    uint32_t id = 0;
    memcpy(&id, ids + (size_t)i * id_bytes, id_bytes);
    return id;
}

zn_status token_ids_read(const struct token_ids *ids, int64_t first, int64_t n_ids, int32_t *out)
{
    unsigned char buffer[16 * 1024];
    int64_t chunk = (int64_t)(sizeof buffer / ids->id_bytes);
    for (int64_t done = 0; done < n_ids;) {
        int64_t n = n_ids - done < chunk ? n_ids - done : chunk;
        ZN_TRY(zn_pread_all(ids->fd, ids->path, buffer, (size_t)n * ids->id_bytes,
                            ids->data + (uint64_t)(first + done) * ids->id_bytes));
        for (int64_t i = 0; i < n; i++) {
            uint32_t id = id_at(buffer, ids->id_bytes, i);
            ZN_TRY(token_id_check(ids->vocab_size, ids->path, first + done + i, id));
            out[done + i] = (int32_t)id;
        }
        done += n;
    }
    return ZN_OK;
}

zn_status token_hash_init(struct token_hash *hash)
{
    *hash = (struct token_hash){XXH3_createState(), XXH3_createState()};
    if (!hash->ids || !hash->marks) {
        XXH3_freeState(hash->ids);
        XXH3_freeState(hash->marks);
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a hash");
    }
    XXH3_64bits_reset(hash->ids);
    XXH3_64bits_reset(hash->marks);
    return ZN_OK;
}

void token_hash_add(struct token_hash *hash, const int32_t *ids, const uint8_t *marks, int64_t n)
{
    XXH3_64bits_update(hash->ids, ids, (size_t)n * sizeof *ids);
    XXH3_64bits_update(hash->marks, marks, (size_t)n);
}

uint64_t token_hash_fini(struct token_hash *hash)
{
    const uint64_t both[] = {XXH3_64bits_digest(hash->ids), XXH3_64bits_digest(hash->marks)};
    XXH3_freeState(hash->ids);
    XXH3_freeState(hash->marks);
    return XXH3_64bits(both, sizeof both);
}
