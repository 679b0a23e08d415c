/* The data of a run: files opened, text encoded once with the folder's tokenizer. */
#ifndef ZN_TRAIN_DATA_H
#define ZN_TRAIN_DATA_H

#include "train/run.h"

/* Opens data for the model: token files as they are; text and rows through the tokenizer of the model's
 * folder, or as bytes where it has none. What is encoded is kept in the folder `cache` and taken from there the
 * next time; NULL: it goes to files that are gone at the end. Where `may_encode` is false, what is not in the
 * cache is an error: another rank has put it there. Not collective; blocks. */
zn_status zn_run_open_data(const struct zn_run *run, const char *folder, const char *const *paths, size_t n_paths,
                           const char *cache, bool may_encode, zn_token_source **source);

#endif
