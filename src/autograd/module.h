/* A module: a model as the engine sees it. A list of segments (embedding, blocks, head with
 * loss), each a function of the one before, and the declarations of their parameters. It is
 * constant once made and knows nothing of partitioning. */
#ifndef ZN_AUTOGRAD_MODULE_H
#define ZN_AUTOGRAD_MODULE_H

#include "autograd/ops.h"

/* What one micro-batch brings. */
struct zn_batch {
    zn_tensor *ids, *targets; /* (B,T) int32 */
    zn_addr loss;             /* a double on the device that the token losses are added to */
    float scale;              /* of the gradients */
    bool keep_logits;
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
    zn_constant *constants;
    int n_constants;
    int64_t vocabulary;
    int64_t max_time; /* the longest sequence it takes */
};

void zn_module_destroy(zn_module *module); /* NULL is legal */

/* Forward and backward of one micro-batch. With recompute, only what lies between segments is
 * kept and each segment is run again before its backward: the same bits, less memory, a third
 * more work. The last segment is not, as its backward follows at once. */
zn_status zn_module_train(const zn_module *module, zn_tape *tape, const struct zn_batch *batch,
                          bool recompute);

/* Forward alone. */
zn_status zn_module_evaluate(const zn_module *module, zn_tape *tape, const struct zn_batch *batch);

#endif
