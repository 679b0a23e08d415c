/* The update of what this rank updates, by the optimizer's rule. Weight decay is for parameters of two or
 * more dimensions. */
#include "zero/engine_private.h"

static zn_addr offset_by(zn_addr base, int64_t n, size_t width)
{
    return base ? base + (zn_addr)n * width : 0;
}

/* n of the part's own elements, which begin at element `at` of the chunk. */
static zn_status update_part(zn_engine *e, const struct zn_part *part, const struct operands *chunk, int64_t at,
                             int64_t n, visit_kind kind, const struct update *update)
{
    const struct zn_engine_options *o = &e->options;
    const zn_optimizer *optimizer = o->optimizer;
    const zn_param *p = &e->module->params[part->param];
    struct zn_update u = {.param = offset_by(chunk->param, at, sizeof(float)),
                          .grad = offset_by(chunk->grad, at, sizeof(float)),
                          .copy = e->placement->type != ZN_F32 ? offset_by(chunk->copy, at, width_of_params(e)) : 0,
                          .copy_type = e->placement->type,
                          .n_elements = n,
                          .t = e->updates.n_made,
                          .lr = update->lr,
                          .decay = p->ndim >= 2 ? o->hyperparameters.weight_decay : 0,
                          .grad_scale = update->grad_scale,
                          .hyperparameters = &o->hyperparameters,
                          .direction = offset_by(chunk->direction, at, sizeof(float)),
                          .rows = p->dims[0],
                          .columns = p->n_elements / p->dims[0]};
    for (int i = 0; i < optimizer->n_states; i++) {
        const struct zn_optimizer_state *s = &optimizer->state[i];
        u.state[i] = offset_by(chunk->state[i], at, zn_dtype_bytes(s->type));
        u.scales[i] = s->block ? offset_by(chunk->scales[i], at / s->block, sizeof(float)) : 0;
    }
    if (kind == VISIT_PREPARE)
        return optimizer->prepare(update->device, &u);
    return kind == VISIT_APPLY ? optimizer->apply(update->device, &u) : optimizer->update(update->device, &u);
}

zn_status update_chunk(zn_engine *e, const struct visit *visit, const struct operands *x, const struct update *update)
{
    const struct chunk *c = &e->pipeline.chunks[visit->chunk];
    const struct zn_unit *u = &e->units->units[c->unit];
    int64_t begin = c->first - own_first(e, c->unit), end = begin + c->n;
    for (int i = 0; i < u->n_parts; i++) {
        const struct zn_part *part = &e->units->parts[u->first_part + i];
        struct zn_range own = own_range(e, part);
        int64_t place = part->place - u->first + own.first - (e->placement->states.form == ZN_WHOLE ? 0 : e->rank * u->partition);
        int64_t from = place > begin ? place : begin, to = place + own.n < end ? place + own.n : end;
        if (from >= to)
            continue;
        ZN_TRY(update_part(e, part, x, from - begin, to - from, visit->kind, update));
    }
    return ZN_OK;
}
