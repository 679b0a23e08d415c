/* Sampling: temperature, then top-k, then top-p, as the hub's code orders them.
 *
 * Candidates leave a heap in order, most likely first and the lower id among equals, so that only as
 * many are sorted as are kept. */
#include "infer/sampler.h"

#include <math.h>

#include "base/elementary.h"
#include "base/rng.h"

static zn_status find_best(const float *logits, int64_t n, int32_t *best)
{
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logits[i]))
            return zn_fail(ZN_ERR_NUMERIC, "the logit of token %lld is not a number", (long long)i);
        if (logits[i] > logits[at])
            at = i;
    }
    if (!isfinite(logits[at]))
        return zn_fail(ZN_ERR_NUMERIC, "the logit of token %lld is not finite", (long long)at);
    *best = (int32_t)at;
    return ZN_OK;
}

static bool comes_before(const struct zn_candidate *a, const struct zn_candidate *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->id < b->id);
}

static void sift_down(struct zn_candidate *heap, int64_t n, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_before(&heap[child], &heap[at]))
            return;
        struct zn_candidate held = heap[at];
        heap[at] = heap[child];
        heap[child] = held;
    }
}

/* Moves the first `k` in order to the end of the room, the very first last; stops early once they
 * weigh `enough`. Returns how many there are. */
static int64_t take_first(struct zn_candidate *room, int64_t n, int64_t k, double enough)
{
    int64_t taken = 0;
    double sum = 0;
    while (taken < k && sum < enough) {
        struct zn_candidate first = room[0];
        taken++;
        room[0] = room[n - taken];
        room[n - taken] = first;
        sift_down(room, n - taken, 0);
        sum += first.weight;
    }
    return taken;
}

/* Sum over the last `kept` of the room, in their order. */
static double weigh(const struct zn_candidate *room, int64_t n, int64_t kept)
{
    double sum = 0;
    for (int64_t i = 1; i <= kept; i++)
        sum += room[n - i].weight;
    return sum;
}

/* How many of those kept together have the share `p` of their weight: at least one. */
static int64_t keep_share(const struct zn_candidate *room, int64_t n, int64_t kept, double p)
{
    double enough = p * weigh(room, n, kept), sum = 0;
    for (int64_t i = 1; i < kept; i++) {
        sum += room[n - i].weight;
        if (sum >= enough)
            return i;
    }
    return kept;
}

static int32_t draw(const struct zn_candidate *room, int64_t n, int64_t kept, double uniform)
{
    double wanted = uniform * weigh(room, n, kept), sum = 0;
    for (int64_t i = 1; i < kept; i++) {
        sum += room[n - i].weight;
        if (sum > wanted)
            return room[n - i].id;
    }
    return room[n - kept].id;
}

/* Orders what is kept at the end of the room; returns how many. */
static int64_t select_kept(const struct zn_sampling *s, struct zn_candidate *room, int64_t n)
{
    double total = weigh(room, n, n);
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift_down(room, n, i);
    if (s->top_k > 0 && s->top_k < n) {
        int64_t kept = take_first(room, n, s->top_k, INFINITY);
        return s->top_p < 1 ? keep_share(room, n, kept, s->top_p) : kept;
    }
    return take_first(room, n, n, s->top_p * total);
}

void zn_penalize(float *logits, int64_t n, const bool *is_seen, double penalty)
{
    float factor = (float)penalty;
    for (int64_t i = 0; i < n; i++)
        if (is_seen[i])
            logits[i] = logits[i] < 0 ? logits[i] * factor : logits[i] / factor;
}

zn_status zn_sample(const struct zn_sampling *s, const float *logits, int64_t n, int64_t position,
                    struct zn_candidate *room, int32_t *id)
{
    int32_t best = 0;
    ZN_TRY(find_best(logits, n, &best));
    if (s->temperature == 0) {
        *id = best;
        return ZN_OK;
    }
    double max = (double)logits[best];
    /* From the end, since that is the order in which what is kept is read. */
    for (int64_t i = 0; i < n; i++)
        room[n - 1 - i] = (struct zn_candidate){
            .weight = zn_exp_f64(((double)logits[i] - max) / s->temperature), .id = (int32_t)i};
    bool selects = (s->top_k > 0 && s->top_k < n) || s->top_p < 1;
    int64_t kept = selects ? select_kept(s, room, n) : n;
    double uniform = zn_random_uniform(zn_random_key(s->seed, "generate"), (uint64_t)position);
    *id = draw(room, n, kept, uniform);
    return ZN_OK;
}
