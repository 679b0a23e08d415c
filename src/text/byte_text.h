/* Text without a tokenizer: each byte is an id. Right for models made so, whose vocabulary says it; a folder that merely lacks
 * its tokenizer files would be trained on noise. */
#ifndef ZN_TEXT_BYTE_TEXT_H
#define ZN_TEXT_BYTE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

zn_status zn_folder_has_tokenizer(const char *folder, bool *found);

/* Before text is read for the model of a folder: without a tokenizer only where the vocabulary is that of bytes, 256, or 257 with
 * the end of the text, or where --byte-tokenizer asks for it; a tokenizer that is there is not passed over. */
zn_status zn_byte_text_check(const char *folder, int64_t vocabulary, bool asked);

#endif
