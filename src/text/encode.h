/* Documents and examples to tokens, and which of them count as targets.
 *
 *   a text        a document: as the folder's post-processor says, then the end-of-text id; all of it counts
 *   a completion  an example: prompt and completion are encoded each by itself, so that the border between them is one
 *                 between tokens; the post-processor's tokens around both, then the end-of-text id; the prompt does not count
 *   messages      an example: the text of the folder's chat template, which has its own special tokens, encoded as a whole;
 *                 the answers count, and a token that holds bytes of an answer and of something else counts, too
 *   instructions  an example: as messages where the folder has a chat template, the instruction and, on the next line, the
 *                 input being the user's; else as a completion of Alpaca's prompt
 *
 * Without a tokenizer the ids are bytes. */
#ifndef ZN_TEXT_ENCODE_H
#define ZN_TEXT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"
#include "formats/data_files.h"
#include "text/jsonl.h"
#include "text/tokenizer.h"

struct zn_encoder_options {
    const zn_tokenizer *tokenizer; /* borrowed; NULL: bytes */
    int64_t vocab_size;            /* an id outside is an error when it comes; 0: any goes */
    int32_t end_of_text;           /* -1: none follows a document */
    int n_threads;                 /* for files; 0: one. Tokens do not depend on it */
    struct zn_row_options rows;    /* borrowed */
};

typedef struct zn_encoder zn_encoder;

zn_status zn_encoder_create(const struct zn_encoder_options *options, zn_encoder **encoder);
void zn_encoder_destroy(zn_encoder *encoder); /* NULL is legal */

/* Ids with a byte for each, 1 where it counts. Zero-initialised by the caller, who calls fini. */
struct zn_document {
    struct zn_ids ids;
    uint8_t *counts;
    size_t n_counts, capacity;
};
void zn_document_fini(struct zn_document *document);

/* Whether the row is an example, which stands alone; else it is a document of a row of tokens. */
bool zn_row_is_example(const struct zn_row *row);

/* Appends the row's tokens. `place` stands for file and line in messages. Any number of threads at once. */
zn_status zn_encode_row(zn_encoder *encoder, const struct zn_row *row, const char *place,
                        struct zn_document *document);

/* Where the tokens of files go: documents piece by piece, examples one by one. Called in their order on the thread that
 * asked for them. */
struct zn_token_sink {
    void *self;
    zn_status (*put)(void *self, const int32_t *ids, const uint8_t *counts, size_t n);
    zn_status (*put_example)(void *self, const int32_t *ids, const uint8_t *counts, size_t n); /* NULL: they go among the
                                                                                                * documents, in the order of rows */
    void (*progress)(void *self, uint64_t n_bytes); /* of all files so far; may be NULL */
};

/* Tells what a person should know of the rows that were encoded so far, each as one line: characters that were replaced,
 * what became of instructions, answers whose end is not learnt. `ends` are the ids that end a text in generation. */
void zn_encoder_tell(zn_encoder *encoder, const int32_t *ends, size_t n_ends,
                     void (*note)(void *self, const char *text), void *self);

/* eos_token_id of a config.json, the first one when it is a list; -1: none. */
zn_status zn_config_end_of_text(zn_json *config, int32_t *id);

/* All documents of .txt and .jsonl files, in their order. A failure is that of the first piece in this order that has one.
 * Memory is bounded whatever the sizes of the files: a text is cut where the pieces have the tokens of the whole, which
 * is checked at each cut; the cuts do not depend on the threads, and a few pieces for each are under way. Blocks. */
zn_status zn_encode_files(zn_encoder *encoder, const struct zn_data_file *files, size_t n_files,
                          const struct zn_token_sink *sink);

#endif
