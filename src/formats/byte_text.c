/* When text may be taken as bytes. */
#include "formats/byte_text.h"

#include <stdlib.h>

#include "base/files.h"

enum { N_BYTES = 256 };

static bool holds(const char *folder, const char *name)
{
    char *path;
    if (zn_path_join(folder, name, &path) != ZN_OK)
        return false;
    bool found = zn_file_exists(path);
    free(path);
    return found;
}

bool zn_folder_has_tokenizer(const char *folder)
{
    return holds(folder, "tokenizer.json") || holds(folder, "tokenizer.model") || holds(folder, "vocab.json");
}

zn_status zn_byte_text_check(const char *folder, int64_t vocabulary, bool asked)
{
    if (zn_folder_has_tokenizer(folder))
        return asked ? zn_fail(ZN_ERR_USAGE, "--byte-tokenizer: %s has a tokenizer; leave the flag off", folder) : ZN_OK;
    if (vocabulary == N_BYTES || vocabulary == N_BYTES + 1)
        return ZN_OK;
    if (vocabulary < N_BYTES)
        return zn_fail(ZN_ERR_INPUT, "%s: no tokenizer.json to encode text with, and a vocabulary of %lld is too small for "
                       "bytes; add the model's tokenizer files", folder, (long long)vocabulary);
    if (!asked)
        return zn_fail(ZN_ERR_INPUT, "%s: no tokenizer.json to encode text with; add the model's tokenizer files, or take "
                       "each byte as an id with --byte-tokenizer", folder);
    return ZN_OK;
}
