/* A tokenizer.json of any bytes, and after a NUL any text: refused, or the text gets ids of the
 * vocabulary that can be decoded. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const zn_tokenizer *t, const char *text, size_t n)
{
    struct zn_ids ids = {0};
    char *decoded;
    size_t n_decoded;
    if (zn_tokenizer_encode(t, text, n, true, &ids) == ZN_OK) {
        for (size_t i = 0; i < ids.n; i++)
            if (ids.id[i] < 0 || ids.id[i] >= zn_tokenizer_n_ids(t))
                abort();
        if (zn_tokenizer_decode(t, ids.id, ids.n, n % 2, &decoded, &n_decoded) == ZN_OK) {
            if (strlen(decoded) > n_decoded)
                abort();
            free(decoded);
        }
    }
    zn_ids_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t n_json = end ? (size_t)(end - data) : size;
    zn_tokenizer *tokenizer;
    if (zn_tokenizer_load(data, n_json, "fuzz", &tokenizer) != ZN_OK)
        return 0;
    if (end)
        run(tokenizer, (const char *)end + 1, size - n_json - 1);
    zn_tokenizer_close(tokenizer);
    return 0;
}
