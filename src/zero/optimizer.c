/* The update of what this rank updates: AdamW, Adam, SGD. Weight decay is for parameters of two or
 * more dimensions. */
#include <math.h>

#include "zero/engine_private.h"

static zn_status update_adam(zn_engine *e, const struct operands *x, int64_t n, double decay,
                             const struct update *update)
{
    const struct zn_engine_options *o = &e->options;
    double t = (double)e->n_updates;
    bool decoupled = o->optimizer == ZN_ADAMW;
    return zn_run_adam(update->device,
                       &(struct zn_adam_args){.param = x->param,
                                              .grad = x->grad,
                                              .exp_avg = x->first_moment,
                                              .exp_avg_sq = x->second_moment,
                                              .copy = x->copy,
                                              .copy_type = o->type,
                                              .n_elements = n,
                                              .grad_scale = update->grad_scale,
                                              .one_minus_beta1 = (float)(1 - o->beta1),
                                              .beta2 = (float)o->beta2,
                                              .one_minus_beta2 = (float)(1 - o->beta2),
                                              .eps = (float)o->eps,
                                              .step_size = (float)(update->lr / (1 - pow(o->beta1, t))),
                                              .root_correction = (float)sqrt(1 - pow(o->beta2, t)),
                                              .keep = decoupled ? (float)(1 - update->lr * decay) : 1.0f,
                                              .coupled_decay = decoupled ? 0.0f : (float)decay});
}

static zn_status update_sgd(zn_engine *e, const struct operands *x, int64_t n, double decay,
                            const struct update *update)
{
    return zn_run_sgd(update->device, &(struct zn_sgd_args){.param = x->param,
                                                       .grad = x->grad,
                                                       .momentum_buffer = x->first_moment,
                                                       .copy = x->copy,
                                                       .copy_type = e->options.type,
                                                       .n_elements = n,
                                                       .grad_scale = update->grad_scale,
                                                       .lr = (float)update->lr,
                                                       .momentum = (float)e->options.momentum,
                                                       .coupled_decay = (float)decay,
                                                       .first = e->n_updates == 1});
}

static zn_addr offset_by(zn_addr base, int64_t n, size_t width)
{
    return base ? base + (zn_addr)n * width : 0;
}

/* n of the part's own elements, which begin at element `at` of the chunk. */
static zn_status update_part(zn_engine *e, const struct zn_part *part, const struct operands *chunk, int64_t at,
                             int64_t n, const struct update *update)
{
    const zn_param *p = &e->module->params[part->param];
    struct operands x = {.param = offset_by(chunk->param, at, sizeof(float)),
                         .grad = offset_by(chunk->grad, at, sizeof(float)),
                         .first_moment = offset_by(chunk->first_moment, at, sizeof(float)),
                         .second_moment = offset_by(chunk->second_moment, at, sizeof(float)),
                         .copy = e->options.type != ZN_F32 ? offset_by(chunk->copy, at, width_of_params(e)) : 0};
    double decay = p->ndim >= 2 ? e->options.weight_decay : 0;
    return e->options.optimizer == ZN_SGD ? update_sgd(e, &x, n, decay, update)
                                          : update_adam(e, &x, n, decay, update);
}

zn_status update_chunk(zn_engine *e, int chunk, const struct operands *x, const struct update *update)
{
    const struct chunk *c = &e->chunks[chunk];
    const struct zn_unit *u = &e->units.units[c->unit];
    int64_t begin = c->first - own_first(e, c->unit), end = begin + c->n;
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &e->units.parts[u->first_part + i];
        struct zn_range own = own_range(e, part);
        int64_t place = part->place - u->first + own.first - (keeps_optimizer(e) ? 0 : e->rank * u->partition);
        int64_t from = place > begin ? place : begin, to = place + own.n < end ? place + own.n : end;
        if (from >= to || is_frozen(e, part))
            continue;
        ZN_TRY(update_part(e, part, x, from - begin, to - from, update));
    }
    return ZN_OK;
}
