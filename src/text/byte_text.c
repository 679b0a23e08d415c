/* When text may be taken as bytes. */
#include "text/byte_text.h"

#include "base/files.h"

enum { N_BYTES = 256 };

zn_status zn_folder_has_tokenizer(const char *folder, bool *found)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    *found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !*found; i++)
        ZN_TRY(zn_folder_holds(folder, names[i], found));
    return ZN_OK;
}

zn_status zn_byte_text_check(const char *folder, int64_t vocabulary, bool asked)
{
    bool found;
    ZN_TRY(zn_folder_has_tokenizer(folder, &found));
    if (found)
        return asked ? zn_fail(ZN_ERR_USAGE, "--byte-tokenizer: %s has a tokenizer; leave the flag off", folder) : ZN_OK;
    if (asked || vocabulary == N_BYTES || vocabulary == N_BYTES + 1)
        return ZN_OK;
    if (vocabulary < N_BYTES)
        return zn_fail(ZN_ERR_INPUT, "%s: no tokenizer.json to encode text with, and a vocabulary of %lld is too small for "
                       "bytes; add the model's tokenizer files", folder, (long long)vocabulary);
    return zn_fail(ZN_ERR_INPUT, "%s: no tokenizer.json to encode text with; add the model's tokenizer files, or take "
                   "each byte as an id with --byte-tokenizer", folder);
}
