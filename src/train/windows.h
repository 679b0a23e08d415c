/* The windows of the data: what a row of a batch holds. First those of the documents, which are one row of tokens that is cut
 * every T (window i is tokens i·T … i·T+T), then those of the examples: packed best-fit, or one each. An example of L
 * tokens takes L-1 places of a window, since its last token is only a target. Neither seeds nor ranks change the windows. */
#ifndef ZN_TRAIN_WINDOWS_H
#define ZN_TRAIN_WINDOWS_H

#include "train/split.h"

struct zn_windows_options {
    int64_t seq_len;
    zn_packing packing;
    bool truncate;      /* examples that are too long are cut at their end; else they are an error */
    int64_t max_seq_len;   /* of the model, for messages */
    const char *what;   /* "--data", for messages */
    const struct zn_data_part *part; /* of the data; NULL: all of them. Borrowed for the life of the windows */
};

typedef struct zn_windows zn_windows;

/* The data are borrowed. Notes say how many examples are cut or left out for having no target that counts. Not collective;
 * blocks on files where examples are cut. */
zn_status zn_windows_create(const struct zn_run *run, const struct zn_data *data,
                            const struct zn_windows_options *options, zn_windows **windows);
void zn_windows_destroy(zn_windows *windows); /* NULL is legal */

int64_t zn_windows_n(const zn_windows *windows);
int64_t zn_windows_n_examples(const zn_windows *windows); /* in all windows; or pairs */

/* Windows of examples, and how much of their places the examples take. */
int64_t zn_windows_n_packed(const zn_windows *windows);
double zn_windows_filled(const zn_windows *windows);

/* Whether some windows hold examples: their rows say where each begins. */
bool zn_windows_has_examples(const zn_windows *windows);

/* Whether examples are pairs of answers, of which both are in a window. */
bool zn_windows_has_pairs(const zn_windows *windows);

/* Places of window i: T, or as many as its example takes where each has a window of its own. */
int64_t zn_windows_time(const zn_windows *windows, int64_t i);

/* A row of a batch, with room for T+1 ids and counts on the way. */
struct zn_window_row {
    int64_t seq_len;                             /* of the row; at least that of the window */
    int32_t *ids, *targets, *position_ids;    /* (seq_len); a target that does not count is -1 */
    int32_t *sequences;   /* (seq_len): which example, or document, of the batch; -1: padding. A pair's two follow one another */
    int32_t *n_sequences; /* those of the batch so far; it grows */
    int32_t *window;                          /* T + 1 */
    uint8_t *counts;                          /* T + 1 */
};

/* Fills the row with window i; *n_tokens is how many of its places are no padding. Blocks on files; any number of threads. */
zn_status zn_windows_fill(const zn_windows *windows, int64_t i, const struct zn_window_row *row, int64_t *n_tokens);

/* What the list holds in memory. */
size_t zn_windows_bytes(const zn_windows *windows);

#endif
