/* Shared by the parts of the encoder. */
#ifndef ZN_TEXT_ENCODE_PRIVATE_H
#define ZN_TEXT_ENCODE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "text/chat.h"
#include "text/encode.h"

struct zn_encoder {
    struct zn_encoder_options options;
    pthread_mutex_t lock; /* guards the opening of `chat`, and `stop` */
    zn_chat *chat;        /* opened when the first messages come */
    char *stop;           /* the special token that ended the first answer; NULL: none yet */
    _Atomic int64_t n_replaced;     /* characters that became U+FFFD */
    _Atomic int64_t n_instructions; /* rows */
    _Atomic int64_t n_answers, n_ended; /* of conversations; those with a special token at their end that counts */
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
bool encoder_has_template(const zn_encoder *encoder);
zn_status encode_instruction(zn_encoder *encoder, const struct zn_row *row, const char *place,
                             struct zn_document *document);

/* A part of a file on its way to tokens: a piece of a text, or whole lines of rows. */
struct encode_part {
    const char *path;
    bool is_text, begins, ends; /* a document, where it is a text; of rows, `ends`: the file */
    size_t n_extra;             /* tokens at the begin of a piece that are not in the whole */
    int64_t first_line;         /* of rows */
    struct json_array array;    /* of rows in an array: where it is at their begin */
    char *data;
    size_t n, capacity;
    uint64_t at; /* bytes of all files up to its end */
    struct zn_document document;
    bool keeps_examples;         /* apart from the documents */
    struct zn_document examples; /* one after another */
    size_t *borders;             /* where each ends among their tokens */
    size_t n_examples, borders_capacity;
};
zn_status encode_text_piece(const zn_encoder *encoder, struct encode_part *part);
zn_status encode_lines(zn_encoder *encoder, struct encode_part *part);

/* The last place where a text that goes on behind these bytes may be cut; 0: none was found. */
zn_status text_find_cut(const zn_encoder *encoder, const char *text, size_t n, size_t *cut, size_t *n_extra);

#endif
