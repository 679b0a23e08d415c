/* Runs a module's segments forward and backward, keeping or recomputing what lies inside. */
#include "autograd/module.h"

#include <stdlib.h>

void zn_module_destroy(zn_module *module)
{
    if (module)
        module->destroy(module);
}

zn_tensor *zn_module_head(zn_tape *tape, zn_tensor *x, const zn_param *weight,
                          const struct zn_batch *batch)
{
    if (batch->logits)
        return zn_head_logits(tape, x, weight, batch->logits);
    return zn_head_loss(tape, x, &(struct zn_head){.weight = weight,
                                                   .targets = batch->targets,
                                                   .loss = batch->loss,
                                                   .scale = batch->scale,
                                                   .keep_logits = batch->keep_logits});
}

/* What lies between segments is rounded to the working precision, so that it can be kept, sent and
 * computed again in it; inside a segment all is fp32. */
static zn_tensor *run_segment(const zn_module *module, zn_tape *tape, int segment, zn_tensor *x,
                              const struct zn_batch *batch)
{
    zn_tensor *y = module->forward(module, tape, segment, x, batch);
    if (segment < module->n_segments - 1)
        zn_tape_round(tape, y);
    return y;
}

zn_status zn_module_train(const zn_module *module, zn_tape *tape, const struct zn_batch *batch,
                          bool recompute)
{
    int n = module->n_segments;
    zn_tensor **x = calloc((size_t)n + 1, sizeof(zn_tensor *)); /* x[s] goes into segment s */
    struct zn_node **mark = calloc((size_t)n, sizeof(struct zn_node *));
    zn_status status = ZN_OK;
    if (!x || !mark) {
        status = zn_fail(ZN_ERR_MEMORY, "no memory for %d segments", n);
        goto done;
    }
    for (int s = 0; s < n; s++) {
        mark[s] = zn_tape_mark(tape);
        zn_tape_record(tape, !recompute || s == n - 1);
        x[s + 1] = run_segment(module, tape, s, x[s], batch);
        zn_tape_segment_end(tape, s, false);
    }
    status = zn_tape_status(tape);
    for (int s = n - 1; s >= 0 && status == ZN_OK; s--) {
        if (recompute && s < n - 1) {
            zn_tape_record(tape, true);
            zn_tensor *again = run_segment(module, tape, s, x[s], batch);
            zn_tape_pass_gradient(tape, again, x[s + 1]);
        }
        zn_tape_backward(tape, mark[s]);
        zn_tape_segment_end(tape, s, true);
        status = zn_tape_status(tape);
    }
done:
    free(mark);
    free(x);
    return status;
}

zn_status zn_module_evaluate(const zn_module *module, zn_tape *tape, const struct zn_batch *batch)
{
    zn_tensor *x = NULL;
    zn_tape_record(tape, false);
    for (int s = 0; s < module->n_segments; s++) {
        x = run_segment(module, tape, s, x, batch);
        zn_tape_segment_end(tape, s, false);
    }
    return zn_tape_status(tape);
}

zn_status zn_module_extend(const zn_module *module, zn_tape *tape, const struct zn_batch *batch)
{
    zn_tensor *x = NULL;
    int n = batch->logits ? module->n_segments : module->n_segments - 1;
    zn_tape_record(tape, false);
    for (int s = 0; s < n; s++)
        x = module->forward(module, tape, s, x, batch);
    return zn_tape_status(tape);
}
