/* One row of training data from its JSON object; see jsonl.h for the kinds of rows. */
#ifndef ZN_TEXT_ROW_H
#define ZN_TEXT_ROW_H

#include "base/json.h"
#include "text/jsonl.h"

/* Memory of a row that its JSON does not have. Zero-initialised by the caller, who calls fini. */
struct row_memory {
    struct zn_chat_message *messages;
    size_t message_capacity;
    char **texts; /* put together of parts */
    size_t n_texts, text_capacity;
};
void row_memory_fini(struct row_memory *memory);

/* The row lives as long as the object, and until the memory is used again. */
zn_status row_read(zn_json *object, const struct zn_row_options *options, struct row_memory *memory,
                   struct zn_row *row);

/* The messages of the array, with those of ShareGPT's form renamed; `system` goes before them where it is not NULL
 * and they have none. */
zn_status row_read_messages(zn_json *array, const char *system, struct row_memory *memory, struct zn_row *row);

/* Reads message i of the array to place `at` of the memory's messages, which may move. */
zn_status row_add_message(zn_json *array, size_t i, struct row_memory *memory, size_t at);

/* A pair of answers; the keys are those of the file. */
struct row_pair_keys {
    const char *prompt, *chosen, *rejected, *system;
};
zn_status row_read_pair(zn_json *object, const struct row_pair_keys *keys, struct row_memory *memory, struct zn_row *row);

#endif
