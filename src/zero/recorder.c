/* The hooks of a recording: each call is a point of the trace. */
#include "zero/recorder.h"

#include <stdlib.h>

/* On sim any address serves. */
static const zn_addr SOMEWHERE = (zn_addr)1 << 45, ARENA = (zn_addr)1 << 46, CACHE = (zn_addr)1 << 47;

struct recorder {
    const struct zn_engine_options *options;
    const zn_units *units;
    zn_trace *trace;
    struct zn_pass_trace *pass; /* that is being recorded */
};

static int part_index(const struct recorder *r, const zn_param *p, int64_t row)
{
    return (int)(zn_units_row(r->units, p, row) - r->units->parts);
}

static int64_t tile_rows(void *self, const zn_param *p)
{
    return ((const struct recorder *)self)->units->tile_rows[p->index];
}

static zn_status acquire(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    struct recorder *r = self;
    *address = SOMEWHERE;
    return zn_pass_trace_add(r->pass, ZN_POINT_ACQUIRE, part_index(r, p, row));
}

static const struct zn_unit *unit_of(const struct recorder *r, const zn_param *p)
{
    return &r->units->units[zn_units_row(r->units, p, 0)->unit];
}

static zn_dtype type_of_param(void *self, const zn_param *p)
{
    return unit_of(self, p)->type;
}

static bool is_param_trained(void *self, const zn_param *p)
{
    return unit_of(self, p)->is_trained;
}

static zn_status open_gradient(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    struct recorder *r = self;
    *address = unit_of(r, p)->is_trained ? SOMEWHERE : 0;
    return *address ? zn_pass_trace_add(r->pass, ZN_POINT_OPEN, part_index(r, p, row)) : ZN_OK;
}

static zn_status close_gradient(void *self, const zn_param *p, int64_t row)
{
    struct recorder *r = self;
    return zn_pass_trace_add(r->pass, ZN_POINT_CLOSE, part_index(r, p, row));
}

static zn_addr constant(void *self, const zn_constant *c)
{
    (void)self;
    (void)c;
    return SOMEWHERE;
}

static zn_status segment_end(void *self, int segment, bool backward)
{
    struct recorder *r = self;
    return zn_pass_trace_add(r->pass, backward ? ZN_POINT_BACKWARD_END : ZN_POINT_FORWARD_END, segment);
}

static zn_status save(void *self, int64_t index, zn_addr from, int64_t n_elements)
{
    struct recorder *r = self;
    (void)from;
    if (n_elements > r->trace->checkpoint_elements)
        r->trace->checkpoint_elements = n_elements;
    if (index >= r->trace->n_checkpoints)
        r->trace->n_checkpoints = index + 1;
    return zn_pass_trace_add(r->pass, ZN_POINT_SAVE, (int)index);
}

static zn_status prefetch(void *self, int64_t index, int64_t n_elements)
{
    (void)n_elements;
    return zn_pass_trace_add(((struct recorder *)self)->pass, ZN_POINT_PREFETCH, (int)index);
}

static zn_status load(void *self, int64_t index, zn_addr to, int64_t n_elements)
{
    (void)to;
    (void)n_elements;
    return zn_pass_trace_add(((struct recorder *)self)->pass, ZN_POINT_LOAD, (int)index);
}

static zn_status exchange(void *self, zn_exchange what, zn_addr from, zn_addr to, int64_t n_elements)
{
    struct recorder *r = self;
    (void)from, (void)to;
    if (r->options->n_slices < 2)
        return zn_fail(ZN_ERR_INTERNAL, "the model has slices of parameters, and no ranks that hold the others");
    if (n_elements > INT32_MAX / 2)
        return zn_fail(ZN_ERR_UNSUPPORTED, "--tensor-parallel: %lld elements in one exchange are too many; a smaller --micro-batch or "
                       "--tile-limit helps", (long long)n_elements);
    return zn_pass_trace_add(r->pass, what == ZN_SUM_OVER_SLICES ? ZN_POINT_SUM_SLICES : ZN_POINT_GATHER_SLICES, (int)n_elements);
}

static const struct zn_param_hooks hooks = {.tile_rows = tile_rows,
                                            .type = type_of_param,
                                            .is_trained = is_param_trained,
                                            .acquire = acquire,
                                            .open_gradient = open_gradient,
                                            .close_gradient = close_gradient,
                                            .constant = constant,
                                            .segment_end = segment_end,
                                            .save = save,
                                            .prefetch = prefetch,
                                            .load = load,
                                            .exchange = exchange};

/* ---- Passes ---- */

static zn_status start_pass(struct recorder *r, zn_tape *tape, struct zn_pass_trace *pass)
{
    r->pass = pass;
    ZN_TRY(zn_lifetimes_create(&pass->lifetimes));
    zn_tape_start(tape, pass->lifetimes, true, ARENA);
    return ZN_OK;
}

static zn_status end_pass(const struct recorder *r)
{
    if (r->options->has_examples || r->options->extends) /* passes of fewer tokens follow the longest */
        zn_lifetimes_allow_smaller(r->pass->lifetimes);
    return zn_lifetimes_pack(r->pass->lifetimes);
}

static struct zn_batch batch_of(const struct zn_engine_options *o, zn_tape *tape)
{
    int64_t dims[] = {o->micro_batch, o->seq_len};
    struct zn_batch batch = {.ids = zn_tape_external(tape, ZN_I32, 2, dims, SOMEWHERE),
                             .targets = zn_tape_external(tape, ZN_I32, 2, dims, SOMEWHERE),
                             .loss = SOMEWHERE,
                             .scale = 1,
                             .keep_logits = o->keep_logits};
    if (o->has_examples)
        batch.position_ids = zn_tape_external(tape, ZN_I32, 2, dims, SOMEWHERE);
    if (o->has_pairs) {
        batch.sequences = zn_tape_external(tape, ZN_I32, 2, dims, SOMEWHERE);
        batch.reference = batch.pair_sums = SOMEWHERE;
    }
    return batch;
}

/* A trained parameter that the loss does not depend on would be updated with what happens to lie where its gradient should. */
static zn_status check_gradients(const struct recorder *r, const zn_module *module)
{
    bool *is_written = calloc((size_t)r->units->n_parts + 1, sizeof *is_written);
    zn_status status = is_written ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for the trace");
    for (int i = 0; i < r->pass->n_points && status == ZN_OK; i++)
        if (r->pass->points[i].kind == ZN_POINT_CLOSE)
            is_written[r->pass->points[i].index] = true;
    for (int i = 0; i < r->units->n_parts && status == ZN_OK; i++) {
        const struct zn_part *part = &r->units->parts[i];
        if (!is_written[i] && r->units->units[part->unit].is_trained)
            status = zn_fail(ZN_ERR_INPUT, "parameter %s has no gradient: the loss does not depend on it", module->params[part->param].name);
    }
    free(is_written);
    return status;
}

/* One micro-batch, or all of them where a segment has them one after the other: a pass of training, or of the reference. */
static zn_status record_micro_batches(struct recorder *r, const zn_module *module, zn_tape *tape, bool trains)
{
    const struct zn_engine_options *o = r->options;
    int64_t n = o->vertical ? o->accumulate : 1;
    struct zn_module_style style = {.recompute = o->recompute, .keep = o->keep, 
                                    .saves = o->partitions_activations || o->offload.activations != ZN_TIER_DEVICE};
    struct zn_batch *batches = calloc((size_t)n, sizeof *batches);
    if (!batches)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %lld micro-batches", (long long)n);
    zn_status status = start_pass(r, tape, trains ? &r->trace->train : &r->trace->reference);
    for (int64_t i = 0; i < n && status == ZN_OK; i++)
        batches[i] = batch_of(o, tape);
    if (status == ZN_OK)
        status = trains ? zn_module_train(module, tape, batches, n, &style) : zn_module_refer(module, tape, batches, n);
    if (status == ZN_OK && trains)
        status = check_gradients(r, module);
    if (status == ZN_OK)
        status = end_pass(r);
    free(batches);
    return status;
}

static zn_status record_evaluation(struct recorder *r, const zn_module *module, zn_tape *tape)
{
    ZN_TRY(start_pass(r, tape, &r->trace->evaluate));
    struct zn_batch batch = batch_of(r->options, tape);
    batch.keep_logits = false;
    ZN_TRY(zn_module_evaluate(module, tape, &batch));
    return end_pass(r);
}

/* The pass of the most tokens, at the beginning of a sequence. */
static zn_status record_extension(struct recorder *r, const zn_module *module, zn_tape *tape)
{
    zn_cache cache = {.base = CACHE, .capacity = r->options->extends};
    ZN_TRY(start_pass(r, tape, &r->trace->evaluate));
    zn_tape_use_cache(tape, &cache);
    struct zn_batch batch = {.ids = zn_tape_external(tape, ZN_I32, 2, (int64_t[]){1, r->options->seq_len}, SOMEWHERE),
                             .logits = SOMEWHERE};
    ZN_TRY(zn_module_extend(module, tape, &batch));
    r->trace->cache_bytes = cache.n_bytes;
    return end_pass(r);
}

static zn_status record_passes(struct recorder *r, const zn_module *module, zn_tape *tape)
{
    const struct zn_engine_options *o = r->options;
    if (!o->trains)
        zn_tape_keep_fp32(tape);
    if (o->extends)
        return record_extension(r, module, tape);
    if (o->trains)
        ZN_TRY(record_micro_batches(r, module, tape, true));
    if (o->has_pairs)
        ZN_TRY(record_micro_batches(r, module, tape, false));
    return o->evaluates || !o->trains ? record_evaluation(r, module, tape) : ZN_OK;
}

/* ---- All of it ---- */

static zn_status list_tables(const zn_module *module, zn_trace *trace)
{
    trace->tables = calloc((size_t)module->n_constants + 1, sizeof *trace->tables);
    if (!trace->tables)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the trace");
    trace->n_tables = module->n_constants;
    for (int i = 0; i < module->n_constants; i++)
        trace->tables[i] = (struct zn_table){module->constants[i].name, (size_t)module->constants[i].n_elements * sizeof(float)};
    return ZN_OK;
}

zn_status zn_record(const zn_module *module, const struct zn_engine_options *options, const zn_units *units, zn_trace *trace)
{
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device = NULL;
    zn_tape *tape = NULL;
    zn_trace made = {.n_segments = module->n_segments, .vocabulary = module->vocabulary,
                     .n_slices = options->n_slices > 1 ? options->n_slices : 0};
    struct recorder r = {.options = options, .units = units, .trace = &made};
    zn_ledger_init(&ledger);
    zn_clock_init_virtual(&clock);
    zn_status status = zn_device_create_sim(&ledger, &clock, &(struct zn_sim_rates){.flops = 1e12, .memory_bytes = 1e11}, &device);
    if (status == ZN_OK)
        status = zn_tape_create(device, &hooks, &r, options->type, &tape);
    if (status == ZN_OK)
        status = record_passes(&r, module, tape);
    if (status == ZN_OK)
        status = list_tables(module, &made);
    zn_tape_destroy(tape);
    zn_device_destroy(device);
    if (status == ZN_OK)
        *trace = made;
    else
        zn_trace_fini(&made);
    return status;
}
