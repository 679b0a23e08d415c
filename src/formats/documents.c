/* Documents found by one pass over the tokens. */
#include "formats/documents.h"

#include <stdlib.h>

struct list {
    int64_t *first, n, capacity;
};

static zn_status add_document(struct list *list, int64_t at)
{
    if (list->n == list->capacity) {
        int64_t capacity = 2 * list->capacity + 64;
        int64_t *larger = realloc(list->first, (size_t)capacity * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for a list of %lld documents", (long long)capacity);
        list->first = larger;
        list->capacity = capacity;
    }
    list->first[list->n++] = at;
    return ZN_OK;
}

static zn_status find_all(const zn_token_source *source, struct list *list)
{
    enum { CHUNK = 32 * 1024 };
    int32_t ids[CHUNK], end_of_text = zn_tokens_end_of_text(source);
    uint8_t begins[CHUNK];
    bool has_ended = true;
    int64_t total = zn_tokens_total(source);
    for (int64_t at = 0; at < total; at += CHUNK) {
        int64_t n = total - at < CHUNK ? total - at : CHUNK;
        ZN_TRY(zn_tokens_read(source, at, n, ids));
        ZN_TRY(zn_tokens_read_begins(source, at, n, begins));
        for (int64_t i = 0; i < n; i++) {
            if (has_ended || begins[i])
                ZN_TRY(add_document(list, at + i));
            has_ended = end_of_text >= 0 && ids[i] == end_of_text;
        }
    }
    return ZN_OK;
}

zn_status zn_documents_find(const zn_token_source *source, int64_t **first, int64_t *n_documents)
{
    struct list list = {0};
    zn_status status = find_all(source, &list);
    if (status != ZN_OK) {
        free(list.first);
        return status;
    }
    *first = list.first;
    *n_documents = list.n;
    return ZN_OK;
}
