/* A module: a model as the engine sees it. A list of segments (embedding, blocks, head with
 * loss), each a function of the one before, and the declarations of their parameters. It is
 * constant once made and knows nothing of partitioning. */
#ifndef ZN_AUTOGRAD_MODULE_H
#define ZN_AUTOGRAD_MODULE_H

#include "autograd/ops.h"

/* What one micro-batch brings. */
struct zn_batch {
    zn_tensor *ids, *targets; /* (B,T) int32 */
    zn_tensor *position_ids;  /* (B,T) int32, see zn_tape_use_position_ids; NULL: none */
    zn_addr loss;             /* a double on the device that the token losses are added to */
    float scale;              /* of the gradients */
    bool keep_logits;
    zn_tensor *sequences;     /* (B,T) int32, of pairs of answers (zn_head); NULL: tokens have a loss each */
    zn_addr reference;        /* of pairs: 2·B·T floats of the reference's pass */
    zn_addr pair_sums;        /* of pairs: three doubles: loss, pairs that are right, margins */
    float beta;
    zn_addr logits; /* in a pass with a cache: V floats for the logits of the last token, or 0 */
};

typedef struct zn_module zn_module;

struct zn_module {
    /* Runs a segment; x is NULL for the first. */
    zn_tensor *(*forward)(const zn_module *module, zn_tape *tape, int segment, zn_tensor *x,
                          const struct zn_batch *batch);
    void (*destroy)(zn_module *module);
    int n_segments;
    zn_param *params;
    int n_params;
    struct zn_adapter *adapters; /* NULL: none. Freed with the module */
    int n_adapters;
    zn_constant *constants;
    int n_constants;
    bool only_embeds; /* the first segment is the embedding and nothing else: backward needs no values of it */
    int64_t vocabulary;
    int64_t max_seq_len; /* the longest sequence it takes */
};

void zn_module_destroy(zn_module *module); /* NULL is legal */

/* How a model's last segment ends: x (B,T,C) and the output weight (V,C) give what the batch asks for,
 * its loss or the logits of the last token. */
zn_tensor *zn_module_head(zn_tape *tape, zn_tensor *x, const zn_param *weight,
                          const struct zn_batch *batch);

struct zn_module_style {
    bool recompute; /* only what lies between segments is kept, each segment is run again before its backward */
    int64_t keep;   /* with recompute: the last so many segments before the head keep theirs all the same */
    bool saves;     /* with recompute: what lies between segments is kept by the tape's hooks */
};

/* Forward and backward of n micro-batches, all of a segment before the next segment (the vertical
 * schedule); unless n is 1 with recompute of all. Recompute gives the same bits with less memory and a third
 * more work. The last segment is not run again, as its backward follows at once. */
zn_status zn_module_train(const zn_module *module, zn_tape *tape, const struct zn_batch *batches, int64_t n,
                          const struct zn_module_style *style);

/* The tokens of the batch, one row, after those of the tape's cache. Without `logits` the last
 * segment is left out. */
zn_status zn_module_extend(const zn_module *module, zn_tape *tape, const struct zn_batch *batch);

/* Forward without adapters of n micro-batches, all of a segment before the next: the reference of pairs. */
zn_status zn_module_refer(const zn_module *module, zn_tape *tape, const struct zn_batch *batches, int64_t n);

/* Forward alone. */
zn_status zn_module_evaluate(const zn_module *module, zn_tape *tape, const struct zn_batch *batch);

#endif
