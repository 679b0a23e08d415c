/* Shared by the parts of the encoder. */
#ifndef ZN_FORMATS_ENCODE_PRIVATE_H
#define ZN_FORMATS_ENCODE_PRIVATE_H

#include "formats/chat.h"
#include "formats/encode.h"

struct zn_encoder {
    struct zn_encoder_options options;
    zn_chat *chat; /* opened when the first messages come */
    struct zn_ids before, after; /* what the post-processor puts around a document */
};

/* Appends the ids of the text alone. */
zn_status encode_plain(const zn_encoder *encoder, const char *text, size_t n_bytes, struct zn_ids *ids);

/* Gives the ids that were appended since the counts end their count; each id is checked. */
zn_status document_count(const zn_encoder *encoder, struct zn_document *document, bool counts, const char *place);
zn_status document_add(const zn_encoder *encoder, struct zn_document *document, const struct zn_ids *ids,
                       bool counts, const char *place);
zn_status document_end(const zn_encoder *encoder, struct zn_document *document, bool counts, const char *place);

zn_status encode_messages(zn_encoder *encoder, const struct zn_row *row, const char *place,
                          struct zn_document *document);
zn_status encode_text_file(zn_encoder *encoder, const char *path, const struct zn_token_sink *sink);

#endif
