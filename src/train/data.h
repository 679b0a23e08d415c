/* The data of a run: files opened, text encoded once with the folder's tokenizer. */
#ifndef ZN_TRAIN_DATA_H
#define ZN_TRAIN_DATA_H

#include "formats/examples.h"
#include "formats/tokens.h"
#include "train/run.h"

/* How examples come into windows. */
typedef enum zn_packing {
    ZN_PACKING_BEST_FIT, /* several a window, each seeing only itself */
    ZN_PACKING_NONE,     /* one a window */
    ZN_PACKING_STREAM    /* joined and cut like documents */
} zn_packing;

zn_status zn_packing_parse(const char *name, zn_packing *packing); /* NULL: best-fit */
const char *zn_packing_name(zn_packing packing);

/* What was asked for examples where there are none is a mistake. */
zn_status zn_packing_check(const char *given, bool truncate, bool has_examples);

struct zn_data {
    zn_token_source *stream; /* documents, as one row of tokens */
    zn_examples *examples;
    int n_per_item; /* examples that stay together: 2 of a pair, else 1 */
    uint64_t hash; /* of every token, what counts, and where examples begin */
};
void zn_data_close(struct zn_data *data);

struct zn_data_options {
    const char *folder; /* of the model */
    const char *const *paths;
    size_t n_paths;
    const char *cache; /* where what is encoded is kept, and taken from the next time; NULL: in files that are gone at the end */
    bool may_encode;   /* else what is not in the cache is an error: another rank has put it there */
    zn_packing packing;
};

/* Opens data for the model: token files as they are; text and rows through the tokenizer of the model's
 * folder, or as bytes where it has none and its vocabulary or run->byte_tokenizer says so. Every token is read once, so that one
 * outside the vocabulary is an error here. Not collective; blocks. */
zn_status zn_run_open_data(const struct zn_run *run, const struct zn_data_options *options, struct zn_data *data);

#endif
