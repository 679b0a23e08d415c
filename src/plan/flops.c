/* Work of a step in matrix products, by the papers' formulas: for a run that shows what share of the machine's peak it reaches. */
#include "plan/predict.h"

/* Elements of the matrices that tokens are multiplied with, in the blocks and in the head. */
static void count_matrices(const zn_model *model, double *blocks, double *head)
{
    const zn_module *m = model->module;
    *blocks = *head = 0;
    for (int i = 0; i < m->n_params; i++) {
        const zn_param *p = &m->params[i];
        if (p->ndim < 2 || p->segment == 0)
            continue;
        *(p->segment == m->n_segments - 1 ? head : blocks) += (double)p->n_elements;
    }
    if (model->tied)
        *head = (double)m->vocabulary * (double)model->hidden;
}

/* Two flops an element and token in forward, four in backward; what is recomputed counts again, as the reference of pairs does. Attention looks
 * at half of all pairs, with a backward of 2.5 times its forward. */
double zn_step_flops(const zn_model *model, const struct zn_engine_options *o)
{
    double blocks, head, seq_len = (double)o->seq_len, tokens = (double)o->micro_batch * seq_len;
    double n_blocks = (double)model->module->n_segments - 2, kept = n_blocks > 0 ? (double)o->keep / n_blocks : 0;
    count_matrices(model, &blocks, &head);
    double attention = 2 * tokens * (seq_len + 1) * (double)model->hidden * (double)model->n_layers;
    double forward = 2 * tokens * blocks + attention, backward = 4 * tokens * blocks + 2.5 * attention;
    double again = o->recompute ? 1 - (kept < 1 ? kept : 1) : 0;
    double heads = o->has_pairs ? 8 + 2 : o->keep_logits ? 6 : 8; /* pairs: that of the reference, too */
    return (double)o->accumulate * (forward * (1 + again + o->has_pairs) + backward + heads * tokens * head);
}
