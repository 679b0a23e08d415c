/* The update of what this rank updates: AdamW, Adam, SGD. Weight decay is for parameters of two or
 * more dimensions. */
#include <math.h>

#include "zero/engine_private.h"

/* Where the parts of one range lie. */
struct operands {
    zn_addr param, grad, first_moment, second_moment;
    zn_addr copy; /* the 16-bit working value, or 0 */
    int64_t n_elements;
};

static zn_addr state_at(const zn_engine *e, const struct region *region, bool whole, const zn_param *p,
                        int64_t first)
{
    if (!region->address)
        return 0;
    return whole ? whole_at(e, region, sizeof(float), p, first) : owned_at(e, region, sizeof(float), p, first);
}

static struct operands operands_of(const zn_engine *e, const zn_param *p, struct zn_range range)
{
    bool whole = keeps_optimizer(e);
    size_t width = width_of_params(e);
    zn_addr working = keeps_parameters(e) ? whole_at(e, &e->parameters, width, p, range.first)
                                          : owned_at(e, &e->parameters, width, p, range.first);
    bool mixed = e->options.type != ZN_F32;
    return (struct operands){
        .param = mixed ? state_at(e, &e->master, whole, p, range.first) : working,
        .grad = state_at(e, &e->gradients, keeps_gradients(e), p, range.first),
        .first_moment = state_at(e, &e->exp_avg, whole, p, range.first),
        .second_moment = state_at(e, &e->exp_avg_sq, whole, p, range.first),
        .copy = mixed ? working : 0,
        .n_elements = range.n,
    };
}

static zn_status update_adam(zn_engine *e, const struct operands *x, double lr, double decay,
                             float grad_scale)
{
    const struct zn_engine_options *o = &e->options;
    double t = (double)e->n_updates;
    bool decoupled = o->optimizer == ZN_ADAMW;
    return zn_run_adam(e->device,
                       &(struct zn_adam_args){.param = x->param,
                                              .grad = x->grad,
                                              .exp_avg = x->first_moment,
                                              .exp_avg_sq = x->second_moment,
                                              .copy = x->copy,
                                              .copy_type = o->type,
                                              .n_elements = x->n_elements,
                                              .grad_scale = grad_scale,
                                              .one_minus_beta1 = (float)(1 - o->beta1),
                                              .beta2 = (float)o->beta2,
                                              .one_minus_beta2 = (float)(1 - o->beta2),
                                              .eps = (float)o->eps,
                                              .step_size = (float)(lr / (1 - pow(o->beta1, t))),
                                              .root_correction = (float)sqrt(1 - pow(o->beta2, t)),
                                              .keep = decoupled ? (float)(1 - lr * decay) : 1.0f,
                                              .coupled_decay = decoupled ? 0.0f : (float)decay});
}

static zn_status update_sgd(zn_engine *e, const struct operands *x, double lr, double decay,
                            float grad_scale)
{
    return zn_run_sgd(e->device, &(struct zn_sgd_args){.param = x->param,
                                                       .grad = x->grad,
                                                       .momentum_buffer = x->first_moment,
                                                       .copy = x->copy,
                                                       .copy_type = e->options.type,
                                                       .n_elements = x->n_elements,
                                                       .grad_scale = grad_scale,
                                                       .lr = (float)lr,
                                                       .momentum = (float)e->options.momentum,
                                                       .coupled_decay = (float)decay,
                                                       .first = e->n_updates == 1});
}

static zn_status update_param(zn_engine *e, const zn_param *p, double lr, float grad_scale)
{
    struct zn_range range = updated_range(e, p);
    if (range.n == 0 || is_frozen(e, p))
        return ZN_OK;
    struct operands x = operands_of(e, p, range);
    double decay = p->ndim >= 2 ? e->options.weight_decay : 0;
    return e->options.optimizer == ZN_SGD ? update_sgd(e, &x, lr, decay, grad_scale)
                                          : update_adam(e, &x, lr, decay, grad_scale);
}

zn_status optimizer_update(zn_engine *e, double lr, float grad_scale)
{
    for (int u = 0; u < e->units.n_units; u++) {
        const struct zn_unit *unit = &e->units.units[u];
        for (int i = 0; i < unit->n_params; i++)
            ZN_TRY(update_param(e, &e->module->params[unit->first_param + i], lr, grad_scale));
        if (!keeps_optimizer(e))
            ZN_TRY(publish_unit(e, u));
    }
    return ZN_OK;
}
