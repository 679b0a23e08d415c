/* Two parts of the data, and windows of the documents of a part. */
#include "train/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/documents.h"
#include "train/order.h"

static size_t n_bytes_of(int64_t n_bits)
{
    return (size_t)((n_bits + 7) / 8);
}

static bool is_set(const uint8_t *bits, int64_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

void zn_data_part_fini(struct zn_data_part *part)
{
    free(part->held_out);
    free(part->at);
    free(part->first);
    *part = (struct zn_data_part){0};
}

static zn_status fail_memory(int64_t n, const char *what)
{
    return zn_fail(ZN_ERR_MEMORY, "no memory to split %lld %s", (long long)n, what);
}

/* 0.07 of 100 is 7, not 8. */
static int64_t count_held_out(double fraction, int64_t n)
{
    return (int64_t)ceil(fraction * (double)n - 1e-9 * (double)n);
}

/* A bit for each of n, set for those that are held out; the caller frees it. */
static zn_status choose(const struct zn_split *split, int64_t n, const char *what, uint8_t **held_out)
{
    const struct zn_order order = {.n_windows = n, .seed = split->seed, .shuffle = split->shuffle};
    int64_t n_held_out = count_held_out(split->fraction, n);
    if (n_held_out < 1 || n_held_out >= n)
        return zn_fail(ZN_ERR_INPUT, "--eval-split %g: of %lld %s %s; give another part, or --eval-data", split->fraction,
                       (long long)n, what, n_held_out < 1 ? "none would be held out" : "none would be trained");
    uint8_t *bits = calloc(n_bytes_of(n), 1);
    if (!bits)
        return fail_memory(n, what);
    for (int64_t k = n - n_held_out; k < n; k++) {
        int64_t i = zn_order_window(&order, k);
        bits[i / 8] |= (uint8_t)(1 << i % 8);
    }
    *held_out = bits;
    return ZN_OK;
}

/* ---- Documents ---- */

struct documents {
    int64_t *first, n, end; /* where each begins; where the last ends */
    uint8_t *held_out;
};

/* Documents that follow one another become one run. */
static zn_status take_documents(const struct documents *d, struct zn_data_part *part)
{
    int64_t n_tokens = 0, end = -1;
    part->at = calloc((size_t)d->n + 1, sizeof *part->at);
    part->first = calloc((size_t)d->n + 1, sizeof *part->first);
    if (!part->at || !part->first)
        return fail_memory(d->n, "documents");
    for (int64_t i = 0; i < d->n; i++) {
        if (is_set(d->held_out, i) != part->is_held_out)
            continue;
        if (d->first[i] != end) {
            part->at[part->n_runs] = d->first[i];
            part->first[part->n_runs++] = n_tokens;
        }
        end = i + 1 < d->n ? d->first[i + 1] : d->end;
        n_tokens += end - d->first[i];
    }
    part->first[part->n_runs] = n_tokens;
    return ZN_OK;
}

static zn_status split_documents(const struct zn_split *split, struct zn_data_part *trained, struct zn_data_part *held_out)
{
    struct documents d = {.end = zn_tokens_total(trained->data->stream)};
    if (d.end == 0)
        return ZN_OK;
    ZN_TRY(zn_documents_find(trained->data->stream, &d.first, &d.n));
    zn_status status = choose(split, d.n, d.n == 1 ? "document" : "documents", &d.held_out);
    if (status == ZN_OK)
        status = take_documents(&d, trained);
    if (status == ZN_OK)
        status = take_documents(&d, held_out);
    free(d.first);
    free(d.held_out);
    return status;
}

/* ---- Examples ---- */

static zn_status split_examples(const struct zn_split *split, struct zn_data_part *trained, struct zn_data_part *held_out)
{
    int n_per_item = trained->data->n_per_item;
    int64_t n = zn_examples_n(trained->data->examples) / n_per_item;
    if (n == 0)
        return ZN_OK;
    ZN_TRY(choose(split, n, n_per_item > 1 ? "pairs" : "examples", &trained->held_out));
    held_out->held_out = malloc(n_bytes_of(n));
    if (!held_out->held_out)
        return fail_memory(n, "examples");
    memcpy(held_out->held_out, trained->held_out, n_bytes_of(n));
    for (int64_t i = 0; i < n; i++)
        held_out->n_items += is_set(held_out->held_out, i);
    trained->n_items = n - held_out->n_items;
    return ZN_OK;
}

zn_status zn_split_data(const struct zn_data *data, const struct zn_split *split, struct zn_data_part *trained, struct zn_data_part *held_out)
{
    *trained = (struct zn_data_part){.data = data};
    *held_out = (struct zn_data_part){.data = data, .is_held_out = true};
    zn_status status = split_documents(split, trained, held_out);
    if (status == ZN_OK)
        status = split_examples(split, trained, held_out);
    if (status != ZN_OK) {
        zn_data_part_fini(trained);
        zn_data_part_fini(held_out);
    }
    return status;
}

/* ---- A part ---- */

bool zn_data_part_has_item(const struct zn_data_part *part, int64_t item)
{
    return is_set(part->held_out, item) == part->is_held_out;
}

int64_t zn_data_part_n_tokens(const struct zn_data_part *part)
{
    return part->first ? part->first[part->n_runs] : 0;
}

size_t zn_data_part_bytes(const struct zn_data_part *part)
{
    size_t n_bits = part->held_out ? n_bytes_of(zn_examples_n(part->data->examples) / part->data->n_per_item) : 0;
    return n_bits + (size_t)(2 * part->n_runs + 1) * sizeof *part->at;
}

/* The run that has a token of the part. */
static int64_t find_run(const struct zn_data_part *part, int64_t token)
{
    int64_t low = 0, high = part->n_runs;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(part->first[middle] <= token ? &low : &high) = middle;
    }
    return low;
}

zn_status zn_data_part_window(const struct zn_data_part *part, int64_t i, int64_t seq_len, int32_t *ids, uint8_t *counts)
{
    int64_t token = i * seq_len, left = seq_len + 1;
    if (i < 0 || token + left > zn_data_part_n_tokens(part))
        return zn_fail(ZN_ERR_INTERNAL, "window %lld is outside the %lld tokens of a part of the data", (long long)i,
                       (long long)zn_data_part_n_tokens(part));
    for (int64_t run = find_run(part, token); left > 0; run++) {
        int64_t from = part->at[run] + token - part->first[run], n = part->first[run + 1] - token;
        n = n < left ? n : left;
        ZN_TRY(zn_tokens_read(part->data->stream, from, n, ids));
        ZN_TRY(zn_tokens_read_counts(part->data->stream, from, n, counts));
        token += n;
        left -= n;
        ids += n;
        counts += n;
    }
    return ZN_OK;
}
