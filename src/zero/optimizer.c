/* The update of every parameter: AdamW, Adam, SGD. Weight decay is for parameters of two or more
 * dimensions. */
#include <math.h>

#include "zero/engine_private.h"

static zn_status update_adam(zn_engine *e, const zn_param *p, double lr, double decay,
                             float grad_scale)
{
    const struct zn_engine_options *o = &e->options;
    int64_t place = e->units.place_of[p->index];
    double t = (double)e->n_updates;
    bool decoupled = o->optimizer == ZN_ADAMW;
    return zn_run_adam(
        e->device,
        &(struct zn_adam_args){.param = state_at(&e->parameters, place),
                               .grad = state_at(&e->gradients, place),
                               .exp_avg = state_at(&e->exp_avg, place),
                               .exp_avg_sq = state_at(&e->exp_avg_sq, place),
                               .n_elements = p->n_elements,
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

static zn_status update_sgd(zn_engine *e, const zn_param *p, double lr, double decay,
                            float grad_scale)
{
    const struct zn_engine_options *o = &e->options;
    int64_t place = e->units.place_of[p->index];
    return zn_run_sgd(e->device,
                      &(struct zn_sgd_args){
                          .param = state_at(&e->parameters, place),
                          .grad = state_at(&e->gradients, place),
                          .momentum_buffer = o->momentum != 0 ? state_at(&e->exp_avg, place) : 0,
                          .n_elements = p->n_elements,
                          .grad_scale = grad_scale,
                          .lr = (float)lr,
                          .momentum = (float)o->momentum,
                          .coupled_decay = (float)decay,
                          .first = e->n_updates == 1});
}

zn_status optimizer_update(zn_engine *e, double lr, float grad_scale)
{
    for (int i = 0; i < e->module->n_params; i++) {
        const zn_param *p = &e->module->params[i];
        double decay = p->ndim >= 2 ? e->options.weight_decay : 0;
        if (e->options.optimizer == ZN_SGD)
            ZN_TRY(update_sgd(e, p, lr, decay, grad_scale));
        else
            ZN_TRY(update_adam(e, p, lr, decay, grad_scale));
    }
    return ZN_OK;
}
