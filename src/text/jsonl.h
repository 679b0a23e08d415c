/* Rows of training data. Each is an object with one of
 *
 *   {"text": "…"}                                      all of it counts
 *   {"prompt": "…", "completion": "…"}                 the completion counts
 *   {"messages": [{"role": "…", "content": "…"}, …]}   what the assistant says counts
 *   {"conversations": [{"from": "…", "value": "…"}, …]}  the same in ShareGPT's form
 *   {"instruction": "…", "input": "…", "output": "…"}  Alpaca's form: the output counts
 *
 * and, where pairs are asked for, every one with
 *
 *   {"prompt": "…", "chosen": "…", "rejected": "…"}     two completions of the prompt; or lists of messages, whose prompt may be
 *                                                      left out where both begin with the same
 *
 * Other keys are left alone; a row of two kinds is an error, as is everything that is not such a row. A file has a row a
 * line, or it is one array of rows. Lines of white space are skipped. Memory is bounded by the longest row, which has a
 * limit, whatever the size of the file. */
#ifndef ZN_TEXT_JSONL_H
#define ZN_TEXT_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/chat.h"
#include "text/json_array.h"

enum { ZN_JSONL_MAX_LINE = 16 * 1024 * 1024 }; /* bytes of a row */

typedef enum zn_row_kind { ZN_ROW_TEXT, ZN_ROW_COMPLETION, ZN_ROW_MESSAGES, ZN_ROW_INSTRUCTION, ZN_ROW_PAIR } zn_row_kind;

/* One of the two conversations of a pair. */
struct zn_row_answer {
    const char *text; /* that completes the prompt; NULL: messages */
    const struct zn_chat_message *messages; /* those of the prompt first */
    size_t n_messages;
};

struct zn_row {
    zn_row_kind kind;
    const char *text;                       /* ZN_ROW_TEXT */
    const char *prompt, *completion;        /* ZN_ROW_COMPLETION */
    const struct zn_chat_message *messages; /* ZN_ROW_MESSAGES, of both forms */
    size_t n_messages;
    size_t n_prompt;                        /* the first so many of them do not count */
    struct zn_row_answer chosen, rejected;  /* ZN_ROW_PAIR, with `prompt` or n_prompt */
    const char *system, *instruction, *input, *output; /* ZN_ROW_INSTRUCTION; system may be NULL, input "" */
};

/* How the keys of rows are read: words "NEW=OLD", by which the key OLD of a row is read as NEW. Borrowed. */
struct zn_row_options {
    const char *const *map;
    size_t n_map;
    bool pairs; /* rows are pairs of answers, and no others are taken; else pairs are refused */
};

/* NEW must be a key of rows and given once, OLD not empty; a failure is one of usage and names --map. */
zn_status zn_row_options_check(const struct zn_row_options *options);

typedef struct zn_jsonl zn_jsonl;

/* The caller closes. `options` may be NULL. Blocks on the file, as zn_jsonl_next does. */
zn_status zn_jsonl_open(const char *path, const struct zn_row_options *options, zn_jsonl **rows);

/* Whole rows of a file that are in memory already, and stay there until the reader is closed. */
struct zn_jsonl_part {
    const char *path; /* for messages */
    int64_t first_line; /* from 1 */
    const char *data;
    size_t n_bytes;
    struct json_array array; /* where the part begins, of an array */
    bool is_last;            /* the file ends with it */
};
zn_status zn_jsonl_open_part(const struct zn_jsonl_part *part, const struct zn_row_options *options, zn_jsonl **rows);
void zn_jsonl_close(zn_jsonl *rows); /* NULL is legal */

/* The next row, NULL at the end; it lives until the next call. Invalid UTF-8 in it, \u0000 and halves of surrogate pairs
 * have become U+FFFD. A failure is told as "FILE:LINE: …" and ends the reading. */
zn_status zn_jsonl_next(zn_jsonl *rows, const struct zn_row **row);

/* Of the row that was given last, for messages: "FILE:LINE". */
const char *zn_jsonl_place(const zn_jsonl *rows);

/* How much of the file has been read. */
uint64_t zn_jsonl_n_bytes(const zn_jsonl *rows);

/* How many characters have become U+FFFD. */
int64_t zn_jsonl_n_replaced(const zn_jsonl *rows);

#endif
