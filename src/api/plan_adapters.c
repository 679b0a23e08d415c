/* Adapters of a plan. */
#include <stdlib.h>
#include <string.h>

#include "api/planning.h"
#include "models/adapter.h"

zn_status plan_check_adapters(const struct plan_flags *f, const struct zn_options *given)
{
    if (f->lora_rank == 0 && zn_options_given(given, "--lora-targets"))
        return zn_fail(ZN_ERR_USAGE, "--lora-targets needs --lora-rank");
    if (f->lora_rank == 0 && strcmp(f->base_quantize, "none") != 0)
        return zn_fail(ZN_ERR_USAGE, "--base-quantize %s needs --lora-rank: only a frozen base is quantised", f->base_quantize);
    if (f->lora_rank == 0 && strcmp(f->objective, "dpo") == 0)
        return zn_fail(ZN_ERR_USAGE, "--objective dpo needs --lora-rank: the model without adapters is the reference");
    if (strcmp(f->objective, "dpo") == 0 && f->keep_logits && strcmp(f->keep_logits, "on") == 0)
        return zn_fail(ZN_ERR_USAGE, "--objective dpo does not go with --keep-logits on");
    return ZN_OK;
}

/* The lists by parameter index are those of the last model. */
static zn_status list_base(struct plan *p, const zn_model *model)
{
    const zn_module *module = model->module;
    free(p->is_base);
    free(p->is_quantised);
    p->is_quantised = NULL;
    p->is_base = calloc((size_t)module->n_params, sizeof *p->is_base);
    if (!p->is_base)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the list of frozen parameters");
    for (int i = 0; i < module->n_params; i++)
        p->is_base[i] = !zn_is_adapter(&module->params[i]);
    return strcmp(p->flags->base_quantize, "none") == 0 ? ZN_OK : zn_model_list_matrices(model, &p->is_quantised);
}

zn_status plan_add_adapters(void *self, zn_model *model, struct zn_engine_options *e)
{
    struct plan *p = self;
    const struct plan_flags *f = p->flags;
    if (f->lora_rank == 0)
        return ZN_OK;
    ZN_TRY(zn_model_add_adapters(model, &(struct zn_adapter_options){.rank = f->lora_rank,
                                                                     .alpha = 2 * (double)f->lora_rank,
                                                                     .targets = f->lora_targets.word,
                                                                     .n_targets = f->lora_targets.n}));
    ZN_TRY(list_base(p, model));
    e->frozen = p->is_base;
    e->frozen_type = p->base_type;
    e->trains_fp32 = true;
    e->quantised = p->is_quantised;
    e->quantised_type = strcmp(f->base_quantize, "int8") == 0 ? ZN_INT8 : ZN_NF4;
    return ZN_OK;
}
