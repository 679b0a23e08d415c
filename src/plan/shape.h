/* Models that need no folder: a GPT-2-like shape by its sizes or by its number of parameters. */
#ifndef ZN_PLAN_SHAPE_H
#define ZN_PLAN_SHAPE_H

#include "models/model.h"

struct zn_shape {
    int64_t layers, hidden, heads;
    int64_t inner; /* of the feed-forward part; 0: 4·hidden */
    int64_t vocabulary;
};

/* The largest number of layers keeps a dry run to seconds: packing its blocks takes the square of their number. */
enum { ZN_SHAPE_VOCABULARY = 50257, ZN_SHAPE_LAYERS = 1000 };

/* A number as people write it: 124M, 1.5B, 1T, 7e9. `what` names the flag in the error. */
zn_status zn_count_parse(const char *text, const char *what, double *count);

/* Of the model made of the shape for sequences of `seq_len`: 12·layers·hidden² and the rest. */
double zn_shape_parameters(const struct zn_shape *shape, int64_t seq_len);

/* A shape near those of the papers with about this many parameters: layers and heads are interpolated between
 * theirs, hidden is a multiple of 128 that heads divides. Within 2% of one of theirs it is that one. */
zn_status zn_shape_near(double n_parameters, int64_t vocabulary, struct zn_shape *shape);

/* Makes it a shape that so many ranks can share: with the number of heads nearest to its own that they divide. */
zn_status zn_shape_share(struct zn_shape *shape, int64_t n_slices);

/* The model, without weights; the caller destroys it. Sizes that make no model, or states beyond 2^63 bytes,
 * are refused. */
zn_status zn_shape_model(const struct zn_shape *shape, int64_t seq_len, zn_model **model);

/* The same with the slices of the first of so many ranks that share each layer; below 2: all of it. */
zn_status zn_shape_model_sliced(const struct zn_shape *shape, int64_t seq_len, int64_t n_slices, zn_model **model);

#endif
