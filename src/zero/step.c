/* One training step: micro-batches in the order of the schedule, the verdict, the update. */
#include <stdlib.h>

#include "zero/engine_private.h"

zn_addr sum_address(const zn_engine *e, int which)
{
    return e->buffers[ZN_BUFFER_SUMS].base + (zn_addr)which * sizeof(double);
}

zn_status sums_clear(zn_engine *e, int which)
{
    return zn_run_zero(e->device, &(struct zn_zero_args){.dst = sum_address(e, which),
                                                         .n_bytes = ZN_N_PAIR_SUMS * sizeof(double)});
}

zn_status sums_take(zn_engine *e, int which, double values[ZN_N_PAIR_SUMS])
{
    ZN_TRY(zn_device_read(e->device, values, sum_address(e, which), ZN_N_PAIR_SUMS * sizeof *values));
    return sums_clear(e, which);
}

zn_status start_pass(zn_engine *e, zn_section_id id)
{
    ZN_TRY(executor_start(e, id));
    zn_tape_start(e->tape, e->executor.trace->lifetimes, false, e->buffers[ZN_BUFFER_ARENA].base);
    return ZN_OK;
}

/* Puts the tokens of a micro-batch in their place on the device. */
static zn_status put_words(zn_engine *e, zn_buffer_id buffer, int64_t place, const int32_t *words, int64_t seq_len,
                           zn_tensor **tensor)
{
    int64_t dims[] = {e->options.micro_batch, seq_len};
    size_t room = (size_t)(e->options.micro_batch * e->options.seq_len) * sizeof(int32_t);
    zn_addr to = e->buffers[buffer].base + (zn_addr)place * room;
    ZN_TRY(zn_device_write(e->device, to, words, (size_t)(dims[0] * dims[1]) * sizeof *words));
    *tensor = zn_tape_external(e->tape, ZN_I32, 2, dims, to);
    return ZN_OK;
}

static zn_status put_tokens(zn_engine *e, int64_t place, const struct zn_micro_batch *from, struct zn_batch *batch)
{
    int64_t seq_len = from->seq_len ? from->seq_len : e->options.seq_len;
    bool is_whole = seq_len == e->options.seq_len && !from->position_ids;
    if (seq_len > e->options.seq_len || (!is_whole && !e->options.has_examples))
        return zn_fail(ZN_ERR_INTERNAL, "a batch of %lld tokens a sequence is not one of this engine", (long long)seq_len);
    ZN_TRY(put_words(e, ZN_BUFFER_IDS, place, from->ids, seq_len, &batch->ids));
    ZN_TRY(put_words(e, ZN_BUFFER_TARGETS, place, from->targets, seq_len, &batch->targets));
    if (from->position_ids)
        ZN_TRY(put_words(e, ZN_BUFFER_POSITION_IDS, place, from->position_ids, seq_len, &batch->position_ids));
    if (from->sequences)
        ZN_TRY(put_words(e, ZN_BUFFER_SEQUENCES, place, from->sequences, seq_len, &batch->sequences));
    return zn_tape_status(e->tape);
}

/* A batch whose loss, or that of its pairs, is added to `sum`. `number` is that of the micro-batch in its step. */
static struct zn_batch batch_of(const zn_engine *e, int64_t number, int sum)
{
    const struct zn_engine_options *o = &e->options;
    struct zn_batch batch = {.loss = sum_address(e, o->has_pairs ? ZN_SUM_UNREAD : sum)};
    if (o->has_pairs) {
        size_t n_bytes = 2 * (size_t)(o->micro_batch * o->seq_len) * sizeof(float);
        batch.reference = e->buffers[ZN_BUFFER_REFERENCE].base + (zn_addr)number * n_bytes;
        batch.pair_sums = sum_address(e, sum);
        batch.beta = (float)o->beta;
    }
    return batch;
}

/* `n` micro-batches of the step, from `first` on, in one pass of the tape. */
static zn_status run_pass(zn_engine *e, const struct zn_step *step, int64_t first, int64_t n, zn_section_id section)
{
    struct zn_module_style style = {.recompute = e->options.recompute,
                                    .keep = e->options.keep,
                                    .saves = e->placement->checkpoints.form != ZN_ABSENT};
    struct zn_batch *batches = calloc((size_t)n, sizeof *batches);
    if (!batches)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)n);
    zn_status status = start_pass(e, section);
    e->executor.pass = first;
    for (int64_t i = 0; i < n && status == ZN_OK; i++) {
        batches[i] = batch_of(e, first + i, ZN_SUM_LOSS);
        batches[i].scale = step->scale;
        batches[i].keep_logits = e->options.keep_logits;
        status = put_tokens(e, i, &step->batches[first + i], &batches[i]);
    }
    if (status == ZN_OK)
        status = section == ZN_SECTION_REFERENCE ? zn_module_refer(e->module, e->tape, batches, n)
                                                 : zn_module_train(e->module, e->tape, batches, n, &style);
    if (status == ZN_OK)
        status = executor_end(e);
    free(batches);
    return status;
}

static zn_section_id section_of(int64_t batch, int64_t n)
{
    if (n == 1)
        return ZN_SECTION_ONLY;
    return batch == 0 ? ZN_SECTION_FIRST : batch < n - 1 ? ZN_SECTION_MIDDLE : ZN_SECTION_LAST;
}

/* All segments of a micro-batch before the next micro-batch, or all micro-batches of a segment before the next
 * segment. */
static zn_status run_micro_batches(zn_engine *e, const struct zn_step *step)
{
    int64_t n = e->options.accumulate;
    if (e->options.vertical)
        return run_pass(e, step, 0, n, ZN_SECTION_ONLY);
    for (int64_t a = 0; a < n; a++)
        ZN_TRY(run_pass(e, step, a, 1, section_of(a, n)));
    return ZN_OK;
}

/* The model without its adapters, before anything of the step: it waits for no update, as no adapter is read. */
static zn_status run_references(zn_engine *e, const struct zn_step *step)
{
    int64_t n = e->options.accumulate;
    if (!e->options.has_pairs)
        return ZN_OK;
    if (e->options.vertical)
        return run_pass(e, step, 0, n, ZN_SECTION_REFERENCE);
    for (int64_t a = 0; a < n; a++)
        ZN_TRY(run_pass(e, step, a, 1, ZN_SECTION_REFERENCE));
    return ZN_OK;
}

static void count_moved(zn_engine *e)
{
    if (e->storage)
        e->moved = (struct zn_moved){zn_storage_bytes_read(e->storage), zn_storage_bytes_written(e->storage)};
}

struct zn_moved zn_engine_moved(const zn_engine *e)
{
    return e->moved;
}

zn_status zn_zero_step(zn_engine *e, const struct zn_step *step, struct zn_verdict *verdict)
{
    struct zn_verdict v = {0};
    ZN_TRY(run_references(e, step));
    if (e->options.in_backward) {
        e->updates.lr = step->lr;
        e->updates.grad_scale = (float)(1 / step->loss_scale);
        e->updates.n_made++;
    }
    ZN_TRY(update_begin(e));
    ZN_TRY(run_micro_batches(e, step));
    ZN_TRY(executor_run(e, ZN_SECTION_FINISH));
    ZN_TRY(verdict_reach(e, step->loss_scale, &v));
    if (e->options.in_backward && v.skipped)
        return zn_fail(ZN_ERR_NUMERIC, "%s; with --optimizer-in-backward the run ends here", v.reason);
    ZN_TRY(update_finish_delayed(e));
    if (updates_beside(e))
        count_moved(e);
    if (!v.skipped && !e->options.in_backward)
        ZN_TRY(update_by_verdict(e, step, &v));
    if (!updates_beside(e))
        count_moved(e);
    *verdict = v;
    return ZN_OK;
}

/* For an evaluation. A pass of several micro-batches has this one for all of them. */
static zn_status refer_once(zn_engine *e, const struct zn_micro_batch *from)
{
    int64_t n = e->options.vertical ? e->options.accumulate : 1;
    struct zn_micro_batch *batches = calloc((size_t)n, sizeof *batches);
    if (!batches)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)n);
    for (int64_t i = 0; i < n; i++)
        batches[i] = *from;
    zn_status status = run_pass(e, &(struct zn_step){.batches = batches}, 0, n, ZN_SECTION_REFERENCE);
    free(batches);
    return status;
}

zn_status zn_zero_evaluate(zn_engine *e, const struct zn_micro_batch *from, double *loss)
{
    struct zn_batch batch = batch_of(e, 0, ZN_SUM_EVALUATE);
    double sums[ZN_N_PAIR_SUMS];
    ZN_TRY(sums_clear(e, ZN_SUM_EVALUATE));
    if (e->options.has_pairs)
        ZN_TRY(refer_once(e, from));
    ZN_TRY(start_pass(e, ZN_SECTION_EVALUATE));
    ZN_TRY(put_tokens(e, 0, from, &batch));
    ZN_TRY(zn_module_evaluate(e->module, e->tape, &batch));
    ZN_TRY(executor_end(e));
    ZN_TRY(sums_take(e, ZN_SUM_EVALUATE, sums));
    *loss = sums[0];
    return ZN_OK;
}

int64_t zn_engine_updates(const zn_engine *e)
{
    return e->updates.n_made;
}

int64_t zn_engine_decided(const zn_engine *e)
{
    return e->updates.n_made + e->updates.pending.is_there;
}

void zn_engine_set_updates(zn_engine *e, int64_t n_updates)
{
    e->updates.n_made = n_updates;
}

struct zn_pending zn_engine_pending(const zn_engine *e)
{
    return e->updates.pending;
}

zn_status zn_engine_set_pending(zn_engine *e, const struct zn_pending *pending)
{
    if (pending->is_there && e->options.delay_after < 0)
        return zn_fail(ZN_ERR_USAGE, "an update is pending there: go on with --delayed-update");
    e->updates.pending = *pending;
    return ZN_OK;
}
