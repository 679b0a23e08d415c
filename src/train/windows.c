/* Examples that fit, packed once a run, and windows read from the data. */
#include "train/windows.h"

#include <stdlib.h>
#include <string.h>

#include "train/packing.h"

struct zn_windows {
    const struct zn_data *data;
    struct zn_windows_options options;
    int64_t n_stream;       /* windows of documents */
    uint32_t *sizes;        /* places by item, an example or a pair; 0: left out */
    struct zn_packed packed;
};

/* What became of the examples. */
struct tally {
    int64_t n_kept, n_cut, n_without_target, n_too_long, longest;
};

static bool has_pairs(const zn_windows *w)
{
    return w->data->n_per_item == 2;
}

/* Items of all data, those that windows may hold, and tokens of documents. */
static int64_t n_items_in_all(const zn_windows *w)
{
    return w->data->examples ? zn_examples_n(w->data->examples) / w->data->n_per_item : 0;
}

static int64_t n_items(const zn_windows *w)
{
    return w->options.part ? w->options.part->n_items : n_items_in_all(w);
}

static int64_t n_tokens_of(const zn_windows *w)
{
    return w->options.part ? zn_data_part_n_tokens(w->options.part) : zn_tokens_total(w->data->stream);
}

/* Targets among the first n tokens. */
static zn_status count_targets(const zn_examples *examples, int64_t i, int64_t n, int64_t *n_targets)
{
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    uint8_t *counts = calloc((size_t)n, 1);
    zn_status status = ids && counts ? zn_examples_read(examples, i, n, ids, counts)
                                     : zn_fail(ZN_ERR_MEMORY, "no memory for an example of %lld tokens", (long long)n);
    *n_targets = 0;
    for (int64_t t = 1; t < n && status == ZN_OK; t++)
        *n_targets += counts[t];
    free(ids);
    free(counts);
    return status;
}

/* The places that example i takes. */
static zn_status measure_example(zn_windows *w, int64_t i, struct tally *tally)
{
    const zn_examples *examples = w->data->examples;
    int64_t size = zn_examples_length(examples, i) - 1, n_targets = zn_examples_n_targets(examples, i);
    if (n_targets == 0) {
        tally->n_without_target++;
        return ZN_OK;
    }
    tally->longest = size + 1 > tally->longest ? size + 1 : tally->longest;
    if (size > w->options.seq_len) {
        if (!w->options.truncate) {
            tally->n_too_long++;
            return ZN_OK;
        }
        size = w->options.seq_len;
        tally->n_cut++;
        ZN_TRY(count_targets(examples, i, size + 1, &n_targets));
        if (n_targets == 0) {
            tally->n_without_target++;
            return ZN_OK;
        }
    }
    w->sizes[i] = (uint32_t)size;
    tally->n_kept++;
    return ZN_OK;
}

/* The places that pair i takes: those of its two examples, both with a target that counts. */
static void measure_pair(zn_windows *w, int64_t i, struct tally *tally)
{
    const zn_examples *examples = w->data->examples;
    int64_t size = zn_examples_length(examples, 2 * i) + zn_examples_length(examples, 2 * i + 1) - 2;
    if (zn_examples_n_targets(examples, 2 * i) == 0 || zn_examples_n_targets(examples, 2 * i + 1) == 0) {
        tally->n_without_target++;
        return;
    }
    tally->longest = size > tally->longest ? size : tally->longest;
    if (size > w->options.seq_len) {
        tally->n_too_long++;
        return;
    }
    w->sizes[i] = (uint32_t)size;
    tally->n_kept++;
}

static zn_status fail_long_pair(const zn_windows *w, const struct tally *t)
{
    long long n = (long long)t->n_too_long, longest = (long long)t->longest, most = (long long)w->options.max_seq_len;
    if (longest <= most)
        return zn_fail(ZN_ERR_INPUT, "%s: %lld of %lld pairs are too long for --seq-len %lld: both answers, each with its prompt, share a "
                       "window; give --seq-len %lld", w->options.what, n, (long long)n_items(w), (long long)w->options.seq_len, longest);
    return zn_fail(ZN_ERR_INPUT, "%s: %lld of %lld pairs are too long: both answers, each with its prompt, share a window; the longest takes "
                   "%lld tokens and the model at most %lld: leave those out", w->options.what, n, (long long)n_items(w), longest, most);
}

static zn_status fail_too_long(const zn_windows *w, const struct tally *t)
{
    if (has_pairs(w))
        return fail_long_pair(w, t);
    long long n = (long long)t->n_too_long, all = (long long)n_items(w);
    long long seq_len = (long long)w->options.seq_len, longest = (long long)t->longest;
    if (t->longest - 1 <= w->options.max_seq_len)
        return zn_fail(ZN_ERR_INPUT, "%s: %lld of %lld examples are too long for --seq-len %lld, the longest has %lld "
                       "tokens; give --seq-len %lld, or --truncate-rows to cut them at their end",
                       w->options.what, n, all, seq_len, longest, longest - 1);
    return zn_fail(ZN_ERR_INPUT, "%s: %lld of %lld examples are too long for --seq-len %lld, the longest has %lld tokens "
                   "and the model takes windows of at most %lld; give --truncate-rows to cut them at their end",
                   w->options.what, n, all, seq_len, longest, (long long)w->options.max_seq_len);
}

static zn_status check_tally(const struct zn_run *run, const zn_windows *w, const struct tally *t)
{
    long long all = (long long)n_items(w);
    const char *items = has_pairs(w) ? "pairs" : "examples";
    if (t->n_too_long > 0)
        return fail_too_long(w, t);
    if (t->n_kept == 0)
        return zn_fail(ZN_ERR_INPUT, "%s: none of the %lld %s has a target that counts: messages of the role "
                       "'assistant' and completions do", w->options.what, all, items);
    if (t->n_cut > 0)
        zn_run_note(run, "%s: %lld of %lld examples are cut to %lld tokens, the longest has %lld", w->options.what,
                    (long long)t->n_cut, all, (long long)w->options.seq_len + 1, (long long)t->longest);
    if (t->n_without_target > 0)
        zn_run_note(run, "%s: %lld of %lld %s have no target that counts and are left out", w->options.what,
                    (long long)t->n_without_target, all, items);
    return ZN_OK;
}

static zn_status place_examples(const struct zn_run *run, zn_windows *w)
{
    int64_t n = n_items_in_all(w);
    struct tally tally = {0};
    w->sizes = calloc((size_t)n, sizeof *w->sizes);
    if (!w->sizes)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld examples", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (w->options.part && !zn_data_part_has_item(w->options.part, i))
            continue;
        if (has_pairs(w))
            measure_pair(w, i, &tally);
        else
            ZN_TRY(measure_example(w, i, &tally));
    }
    ZN_TRY(check_tally(run, w, &tally));
    return w->options.packing == ZN_PACKING_NONE ? zn_pack_one_each(w->sizes, n, &w->packed)
                                                 : zn_pack_best_fit(w->sizes, n, w->options.seq_len, &w->packed);
}

static zn_status cut_documents(zn_windows *w)
{
    if (!w->options.part)
        return zn_tokens_n_windows(w->data->stream, w->options.seq_len, &w->n_stream);
    int64_t n_tokens = n_tokens_of(w);
    w->n_stream = n_tokens > 0 ? (n_tokens - 1) / w->options.seq_len : 0;
    if (w->n_stream == 0)
        return zn_fail(ZN_ERR_INPUT, "%s: the documents that --eval-split %s have %lld tokens, too few for one window of length "
                       "%lld; give another part, more data or a smaller --seq-len", w->options.what,
                       w->options.part->is_held_out ? "holds out" : "leaves", (long long)n_tokens, (long long)w->options.seq_len);
    return ZN_OK;
}

static zn_status make(const struct zn_run *run, zn_windows *w)
{
    bool has_examples = n_items(w) > 0;
    if (has_examples)
        ZN_TRY(place_examples(run, w));
    return !has_examples || n_tokens_of(w) > 0 ? cut_documents(w) : ZN_OK;
}

zn_status zn_windows_create(const struct zn_run *run, const struct zn_data *data,
                            const struct zn_windows_options *options, zn_windows **windows)
{
    zn_windows *w = calloc(1, sizeof *w);
    if (!w)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the windows of the data");
    w->data = data;
    w->options = *options;
    zn_status status = make(run, w);
    if (status != ZN_OK) {
        zn_windows_destroy(w);
        return status;
    }
    *windows = w;
    return ZN_OK;
}

void zn_windows_destroy(zn_windows *w)
{
    if (!w)
        return;
    zn_packed_fini(&w->packed);
    free(w->sizes);
    free(w);
}

int64_t zn_windows_n(const zn_windows *w)
{
    return w->n_stream + w->packed.n_windows;
}

int64_t zn_windows_n_examples(const zn_windows *w)
{
    return w->packed.n_windows > 0 ? w->packed.first[w->packed.n_windows] : 0;
}

int64_t zn_windows_n_packed(const zn_windows *w)
{
    return w->packed.n_windows;
}

double zn_windows_filled(const zn_windows *w)
{
    double taken = 0, places = 0;
    for (int64_t i = 0; i < w->packed.n_windows; i++)
        places += (double)zn_windows_time(w, w->n_stream + i);
    for (int64_t i = 0; i < zn_windows_n_examples(w); i++)
        taken += w->sizes[w->packed.member[i]];
    return places > 0 ? taken / places : 0;
}

bool zn_windows_has_pairs(const zn_windows *w)
{
    return has_pairs(w);
}

bool zn_windows_has_examples(const zn_windows *w)
{
    return w->packed.n_windows > 0;
}

int64_t zn_windows_time(const zn_windows *w, int64_t i)
{
    if (i < w->n_stream || w->options.packing != ZN_PACKING_NONE)
        return w->options.seq_len;
    return w->sizes[w->packed.member[i - w->n_stream]];
}

size_t zn_windows_bytes(const zn_windows *w)
{
    int64_t n = w->sizes ? n_items_in_all(w) : 0;
    return (size_t)n * (sizeof *w->sizes + sizeof *w->packed.first + sizeof *w->packed.member);
}

/* ---- Reading ---- */

/* Inputs and targets from n+1 tokens of the row's window, at place `at` of the row. */
static void put_tokens(const struct zn_window_row *row, int64_t at, int64_t n)
{
    for (int64_t t = 0; t < n; t++)
        row->sequences[at + t] = *row->n_sequences;
    *row->n_sequences += 1;
    memcpy(row->ids + at, row->window, (size_t)n * sizeof *row->ids);
    for (int64_t t = 0; t < n; t++) {
        row->targets[at + t] = row->counts[t + 1] ? row->window[t + 1] : -1;
        row->position_ids[at + t] = (int32_t)t;
    }
}

/* Padding: each place an example of its own, which costs attention least, and no target. */
static void put_padding(const struct zn_window_row *row, int64_t at)
{
    for (; at < row->seq_len; at++) {
        row->ids[at] = row->position_ids[at] = 0;
        row->targets[at] = row->sequences[at] = -1;
    }
}

/* Places of an example; those of an item where they are one. */
static int64_t size_of(const zn_windows *w, int64_t example)
{
    return has_pairs(w) ? zn_examples_length(w->data->examples, example) - 1 : w->sizes[example];
}

zn_status zn_windows_fill(const zn_windows *w, int64_t i, const struct zn_window_row *row, int64_t *n_tokens)
{
    int64_t at = 0;
    if (i < w->n_stream) {
        ZN_TRY(w->options.part ? zn_data_part_window(w->options.part, i, w->options.seq_len, row->window, row->counts)
                               : zn_tokens_window(w->data->stream, i, w->options.seq_len, row->window, row->counts));
        put_tokens(row, 0, w->options.seq_len);
        at = w->options.seq_len;
    } else {
        int64_t window = i - w->n_stream;
        int n = w->data->n_per_item;
        for (int64_t m = n * w->packed.first[window]; m < n * w->packed.first[window + 1]; m++) {
            int64_t example = n * (int64_t)w->packed.member[m / n] + m % n, size = size_of(w, example);
            ZN_TRY(zn_examples_read(w->data->examples, example, size + 1, row->window, row->counts));
            put_tokens(row, at, size);
            at += size;
        }
    }
    put_padding(row, at);
    *n_tokens = at;
    return ZN_OK;
}
