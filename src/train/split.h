/* --eval-split: the data in two parts, one trained and one held out. Examples, pairs and documents are never cut: of n of a kind, the
 * last ⌈F·n⌉ of the permutation of the seed are held out (of their order, where data are not shuffled). */
#ifndef ZN_TRAIN_SPLIT_H
#define ZN_TRAIN_SPLIT_H

#include "train/data.h"

/* One of the two. Zero-initialised by the caller, who calls fini. */
struct zn_data_part {
    const struct zn_data *data; /* all of them; borrowed */
    bool is_held_out;
    uint8_t *held_out; /* a bit for each item of examples (one, or a pair), of both parts; NULL: there are none */
    int64_t n_items;   /* of this part */
    /* Runs of documents that follow one another: where each begins in the stream, and among the tokens of the part. */
    int64_t n_runs, *at, *first; /* first: n_runs + 1 */
};
void zn_data_part_fini(struct zn_data_part *part);

/* What decides it. */
struct zn_split {
    double fraction;
    uint64_t seed;
    bool shuffle;
};

/* Refuses where nothing would be held out or nothing trained. Reads the tokens of documents; blocks. Not collective. */
zn_status zn_split_data(const struct zn_data *data, const struct zn_split *split, struct zn_data_part *trained, struct zn_data_part *held_out);

bool zn_data_part_has_item(const struct zn_data_part *part, int64_t item);
int64_t zn_data_part_n_tokens(const struct zn_data_part *part); /* of its documents */

/* As of zn_tokens_window, over its documents. */
zn_status zn_data_part_window(const struct zn_data_part *part, int64_t i, int64_t seq_len, int32_t *ids, uint8_t *counts);

size_t zn_data_part_bytes(const struct zn_data_part *part);

#endif
