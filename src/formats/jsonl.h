/* JSONL training data, row by row. Each line is an object with one of
 *
 *   {"text": "…"}                                    all of it counts
 *   {"prompt": "…", "completion": "…"}               the completion counts
 *   {"messages": [{"role": "…", "content": "…"}, …]} what the assistant says counts
 *
 * Other keys are left alone; a row of two kinds is an error, as is everything that is not such a row.
 * Lines of white space are skipped. Memory is bounded by the longest line, which has a limit, whatever
 * the size of the file. */
#ifndef ZN_FORMATS_JSONL_H
#define ZN_FORMATS_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "formats/chat.h"

enum { ZN_JSONL_MAX_LINE = 16 * 1024 * 1024 }; /* bytes */

typedef enum zn_row_kind { ZN_ROW_TEXT, ZN_ROW_COMPLETION, ZN_ROW_MESSAGES } zn_row_kind;

struct zn_row {
    zn_row_kind kind;
    const char *text;                       /* ZN_ROW_TEXT */
    const char *prompt, *completion;        /* ZN_ROW_COMPLETION */
    const struct zn_chat_message *messages; /* ZN_ROW_MESSAGES */
    size_t n_messages;
};

typedef struct zn_jsonl zn_jsonl;

/* The caller closes. Blocks on the file, as zn_jsonl_next does. */
zn_status zn_jsonl_open(const char *path, zn_jsonl **rows);

/* The rows of whole lines of a file that are in memory already, and stay there until the reader is closed. `path` and
 * the number of the first line, from 1, are for messages. */
zn_status zn_jsonl_open_lines(const char *path, int64_t first_line, const char *data, size_t n_bytes, zn_jsonl **rows);
void zn_jsonl_close(zn_jsonl *rows); /* NULL is legal */

/* The next row, NULL at the end; it lives until the next call. Invalid UTF-8 in it has become U+FFFD.
 * A failure is told as "FILE:LINE: …" and ends the reading. */
zn_status zn_jsonl_next(zn_jsonl *rows, const struct zn_row **row);

/* Of the row that was given last, for messages: "FILE:LINE". */
const char *zn_jsonl_place(const zn_jsonl *rows);

/* How much of the file has been read. */
uint64_t zn_jsonl_n_bytes(const zn_jsonl *rows);

#endif
