/* Runs a module's segments forward and backward, keeping or recomputing what lies inside. */
#include "autograd/module.h"

#include <stdlib.h>

void zn_module_destroy(zn_module *module)
{
    if (!module)
        return;
    free(module->adapters);
    module->destroy(module);
}

zn_tensor *zn_module_head(zn_tape *tape, zn_tensor *x, const zn_param *weight,
                          const struct zn_batch *batch)
{
    x = zn_copy_to_slices(tape, x, weight);
    if (batch->logits)
        return zn_head_logits(tape, x, weight, batch->logits);
    struct zn_head head = {.weight = weight,
                           .targets = batch->targets,
                           .loss = batch->loss,
                           .scale = batch->scale,
                           .keep_logits = batch->keep_logits};
    if (!zn_tape_has_adapters(tape)) {
        head.reference_to = batch->reference;
    } else if (batch->sequences) {
        head.pairs.sequences = batch->sequences;
        head.pairs.reference = batch->reference;
        head.pairs.sums = batch->pair_sums;
        head.pairs.beta = batch->beta;
    }
    return zn_head_loss(tape, x, &head);
}

/* What lies between segments is rounded to the working precision, so that it can be kept, sent and
 * computed again in it; inside a segment all is fp32. */
static zn_tensor *run_segment(const zn_module *module, zn_tape *tape, int segment, zn_tensor *x,
                              const struct zn_batch *batch)
{
    zn_tape_use_position_ids(tape, batch->position_ids);
    zn_tensor *y = module->forward(module, tape, segment, x, batch);
    if (segment < module->n_segments - 1)
        zn_tape_round(tape, y);
    return y;
}

/* One run through the module. x[s·n + a] goes into segment s in micro-batch a. */
struct training {
    const zn_module *module;
    zn_tape *tape;
    const struct zn_batch *batches;
    int64_t n;
    const struct zn_module_style *style;
    zn_tensor **x;
    struct zn_node **marks; /* by segment that is kept */
};

/* A segment below which nothing is trained, nor in it, has no backward. */
static bool has_backward(const struct training *r, int s)
{
    return zn_tensor_wants_gradient(r->x[(s + 1) * r->n]);
}

static bool is_recomputed(const struct training *r, int s)
{
    return r->style->recompute && s < r->module->n_segments - 1 - r->style->keep;
}

/* What goes into the first segment is tokens, into one that is kept needed there. */
static bool is_saved(const struct training *r, int s)
{
    return r->style->saves && s > 0 && is_recomputed(r, s) && has_backward(r, s);
}

static void forward_segment(const struct training *r, int s)
{
    zn_tape_record(r->tape, !is_recomputed(r, s));
    r->marks[s] = zn_tape_mark(r->tape);
    for (int64_t a = 0; a < r->n; a++) {
        int64_t at = s * r->n + a;
        r->x[at + r->n] = run_segment(r->module, r->tape, s, r->x[at], &r->batches[a]);
        if (is_saved(r, s))
            zn_tape_save(r->tape, at, r->x[at]);
    }
    zn_tape_segment_end(r->tape, s, false);
}

/* The order in which backward wants what was saved. */
static void prefetch_after(const struct training *r, int s, int64_t a)
{
    int64_t next = a + 1 < r->n ? a + 1 : 0;
    int segment = a + 1 < r->n ? s : s - 1;
    if (segment >= 0 && is_saved(r, segment))
        zn_tape_prefetch(r->tape, segment * r->n + next, r->x[segment * r->n + next]);
}

/* The last segment: its backward follows its forward. */
static zn_status run_last(const struct training *r)
{
    int s = r->module->n_segments - 1;
    zn_tape_record(r->tape, true);
    for (int64_t a = 0; a < r->n; a++) {
        int64_t at = s * r->n + a;
        struct zn_node *mark = zn_tape_mark(r->tape);
        run_segment(r->module, r->tape, s, r->x[at], &r->batches[a]);
        if (r->n == 1)
            zn_tape_segment_end(r->tape, s, false);
        prefetch_after(r, s, a);
        zn_tape_backward(r->tape, mark);
    }
    zn_tape_segment_end(r->tape, s, true);
    return zn_tape_status(r->tape);
}

static void run_again(const struct training *r, int s, int64_t a)
{
    int64_t at = s * r->n + a;
    struct zn_node *mark = zn_tape_mark(r->tape);
    if (is_saved(r, s))
        r->x[at] = zn_tape_load(r->tape, at, r->x[at]);
    prefetch_after(r, s, a);
    zn_tape_leave_out_values(r->tape, s == 0 && r->module->only_embeds);
    zn_tensor *again = run_segment(r->module, r->tape, s, r->x[at], &r->batches[a]);
    zn_tape_leave_out_values(r->tape, false);
    zn_tape_pass_gradient(r->tape, again, r->x[at + r->n]);
    zn_tape_backward(r->tape, mark);
}

static zn_status backward_segment(const struct training *r, int s)
{
    zn_tape_record(r->tape, true);
    if (!is_recomputed(r, s)) {
        prefetch_after(r, s, r->n - 1);
        zn_tape_backward(r->tape, r->marks[s]);
    }
    for (int64_t a = 0; is_recomputed(r, s) && has_backward(r, s) && a < r->n; a++)
        run_again(r, s, a);
    zn_tape_segment_end(r->tape, s, true);
    return zn_tape_status(r->tape);
}

zn_status zn_module_train(const zn_module *module, zn_tape *tape, const struct zn_batch *batches, int64_t n,
                          const struct zn_module_style *style)
{
    int n_segments = module->n_segments;
    if (n > 1 && (!style->recompute || style->keep > 0))
        return zn_fail(ZN_ERR_INTERNAL, "several micro-batches at once need recompute of all segments");
    struct training r = {.module = module, .tape = tape, .batches = batches, .n = n, .style = style};
    r.x = calloc((size_t)((n_segments + 1) * n), sizeof(zn_tensor *));
    r.marks = calloc((size_t)n_segments, sizeof(struct zn_node *));
    zn_status status = r.x && r.marks ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for %d segments", n_segments);
    for (int s = 0; s < n_segments - 1 && status == ZN_OK; s++)
        forward_segment(&r, s);
    if (status == ZN_OK)
        status = run_last(&r);
    for (int s = n_segments - 2; s >= 0 && status == ZN_OK; s--)
        status = backward_segment(&r, s);
    free(r.marks);
    free(r.x);
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

zn_status zn_module_refer(const zn_module *module, zn_tape *tape, const struct zn_batch *batches, int64_t n)
{
    zn_tensor **x = calloc((size_t)n, sizeof *x);
    if (!x)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)n);
    zn_tape_record(tape, false);
    zn_tape_leave_adapters(tape);
    for (int s = 0; s < module->n_segments; s++) {
        for (int64_t a = 0; a < n; a++)
            x[a] = run_segment(module, tape, s, x[a], &batches[a]);
        zn_tape_segment_end(tape, s, false);
    }
    free(x);
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
