/* The next token from logits: the most likely one, or one drawn at random. A pure function of its
 * arguments: the same seed and position always draw the same number. */
#ifndef ZN_INFER_SAMPLER_H
#define ZN_INFER_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct zn_sampling {
    double temperature; /* 0: the most likely token, the lowest id among equals */
    int64_t top_k;      /* only that many most likely; 0: all */
    double top_p;       /* of those, the fewest most likely that together have this probability; 1: all */
    uint64_t seed;
};

/* A token and its weight: exp((logit - max) / temperature). */
struct zn_candidate {
    double weight;
    int32_t id;
};

/* Makes tokens that were seen less likely where `penalty` is above 1: positive logits are divided by it, negative ones
 * multiplied, in fp32, before anything else, as in the hub's code. */
void zn_penalize(float *logits, int64_t n, const bool *is_seen, double penalty);

/* `position` is the token's place in the sequence; `room` has n candidates and is overwritten. Not a
 * number among the logits is an error. */
zn_status zn_sample(const struct zn_sampling *sampling, const float *logits, int64_t n,
                    int64_t position, struct zn_candidate *room, int32_t *id);

#endif
