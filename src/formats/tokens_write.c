/* Writing token files. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "formats/token_format.h"
#include "formats/tokens.h"

struct zn_token_writer {
    char *path;
    zn_new_file *file;
    size_t id_bytes;
    int64_t vocab_size;
    int64_t n_tokens;
};

zn_status zn_token_writer_create(const char *path, int64_t vocab_size, zn_token_writer **writer)
{
    const char *name = path ? path : "(temporary tokens)";
    if (vocab_size < 1 || vocab_size > (int64_t)INT32_MAX + 1)
        return zn_fail(ZN_ERR_USAGE, "%s: a vocabulary of %lld is impossible", name, (long long)vocab_size);
    zn_token_writer *w = calloc(1, sizeof *w);
    if (!w || !(w->path = strdup(name))) {
        free(w);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", name);
    }
    w->id_bytes = vocab_size <= 65536 ? 2 : 4;
    w->vocab_size = vocab_size;
    zn_status status = path ? zn_new_file_create(path, &w->file) : zn_new_file_create_nameless(&w->file);
    if (status != ZN_OK) {
        zn_token_writer_destroy(w);
        return status;
    }
    *writer = w;
    return ZN_OK;
}

void zn_token_writer_destroy(zn_token_writer *writer)
{
    if (!writer)
        return;
    zn_new_file_destroy(writer->file);
    free(writer->path);
    free(writer);
}

size_t zn_token_writer_id_bytes(const zn_token_writer *writer)
{
    return writer->id_bytes;
}

zn_status zn_token_writer_reader(const zn_token_writer *writer, int *fd)
{
    return zn_new_file_reader(writer->file, fd);
}

zn_status zn_token_writer_append(zn_token_writer *writer, const int32_t *ids, int64_t n_tokens)
{
    if (n_tokens > TOKEN_MAX_COUNT - writer->n_tokens)
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: more than %lld tokens do not fit one file", writer->path,
                       (long long)TOKEN_MAX_COUNT);
    unsigned char buffer[16 * 1024];
    int64_t chunk = (int64_t)(sizeof buffer / writer->id_bytes);
    for (int64_t done = 0; done < n_tokens;) {
        int64_t n = n_tokens - done < chunk ? n_tokens - done : chunk;
        for (int64_t i = 0; i < n; i++) {
            int32_t id = ids[done + i];
            if (id < 0 || id >= writer->vocab_size)
                return zn_fail(ZN_ERR_INPUT, "%s: token %lld has id %d, outside the vocabulary of %lld",
                               writer->path, (long long)(writer->n_tokens + i), id, (long long)writer->vocab_size);
            memcpy(buffer + (size_t)i * writer->id_bytes, &id, writer->id_bytes);
        }
        uint64_t at = TOKEN_HEADER_BYTES + (uint64_t)writer->n_tokens * writer->id_bytes;
        ZN_TRY(zn_new_file_write(writer->file, buffer, (size_t)n * writer->id_bytes, at));
        writer->n_tokens += n;
        done += n;
    }
    return ZN_OK;
}

zn_status zn_token_writer_finish(zn_token_writer *writer)
{
    bool narrow = writer->id_bytes == 2;
    uint32_t header[ZN_TOKENS_HEADER] = {narrow ? TOKEN_MAGIC_16 : TOKEN_MAGIC_32,
                                         narrow ? TOKEN_VERSION_16 : TOKEN_VERSION_32,
                                         (uint32_t)writer->n_tokens};
    ZN_TRY(zn_new_file_write(writer->file, header, sizeof header, 0));
    ZN_TRY(zn_new_file_sync(writer->file));
    return zn_new_file_publish(writer->file);
}

zn_status zn_tokens_write(const char *path, int64_t vocab_size, const int32_t *ids, int64_t n_tokens)
{
    zn_token_writer *writer = NULL;
    ZN_TRY(zn_token_writer_create(path, vocab_size, &writer));
    zn_status status = zn_token_writer_append(writer, ids, n_tokens);
    if (status == ZN_OK)
        status = zn_token_writer_finish(writer);
    zn_token_writer_destroy(writer);
    return status;
}
