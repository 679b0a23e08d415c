/* The settings of a plan by the names of flags: inside the JSON output, and as a configuration file. */
#include "base/files.h"
#include "api/plan_settings.h"

static const char *tier_flag(zn_tier tier)
{
    static const char *const names[] = {"none", "cpu", "nvme"};
    return names[tier];
}

static void add_offload(zn_text *t, const struct zn_engine_options *e, const char *separator)
{
    const struct {
        const char *name;
        zn_tier tier;
    } tiers[] = {{"optimizer", e->offload.optimizer},
                 {"param", e->offload.parameters},
                 {"gradients", e->offload.gradients},
                 {"activations", e->offload.activations}};
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++)
        zn_text_add(t, ",%s\"offload-%s\":\"%s\"", separator, tiers[i].name, tier_flag(tiers[i].tier));
    zn_text_add(t, ",%s\"tile-limit\":%zu,%s\"host-cache\":%zu,%s\"schedule\":\"%s\"", separator, e->tile_bytes,
                separator, e->host_cache, separator, e->vertical ? "vertical" : "horizontal");
    if (e->in_backward)
        zn_text_add(t, ",%s\"optimizer-in-backward\":true,%s\"clip\":0", separator, separator);
    if (e->delay_after >= 0)
        zn_text_add(t, ",%s\"delayed-update\":%lld", separator, (long long)e->delay_after);
}

static void add_targets(zn_text *t, const struct zn_words *targets, const char *separator)
{
    if (targets->n == 0)
        return;
    zn_text_add(t, ",%s\"lora-targets\":[", separator);
    for (size_t i = 0; i < targets->n; i++) {
        zn_text_add(t, "%s", i ? "," : "");
        zn_text_add_quoted(t, targets->word[i]);
    }
    zn_text_add(t, "]");
}

/* What `zinc train` takes. */
static void add_flags(zn_text *t, const struct plan *p, const char *separator)
{
    const struct zn_engine_options *e = &p->setup.engine;
    char keep[ZN_KEEP_TEXT];
    zn_text_add(t, "\"stage\":%d,%s\"precision\":\"%s\",%s\"micro-batch\":%lld,%s\"accumulate\":%lld,%s\"seq-len\":%lld",
                e->stage, separator, zn_dtype_name(e->type), separator, (long long)e->micro_batch, separator,
                (long long)e->accumulate, separator, (long long)e->seq_len);
    zn_text_add(t, ",%s\"recompute\":\"%s\",%s\"keep-logits\":\"%s\",%s\"reduce\":\"%s\",%s\"optimizer\":\"%s\"",
                separator, zn_keep_text(e, keep), separator, e->keep_logits ? "on" : "off", separator,
                e->reduce_every ? "every" : "last", separator, e->optimizer->name);
    zn_text_add(t, ",%s\"prefetch-bytes\":%zu,%s\"persist-below\":%zu", separator, e->prefetch_bytes, separator,
                e->persist_bytes);
    if (e->n_slices > 1)
        zn_text_add(t, ",%s\"tensor-parallel\":%d", separator, e->n_slices);
    if (e->partitions_activations)
        zn_text_add(t, ",%s\"partition-activations\":true", separator);
    add_offload(t, e, separator);
    if (p->flags->lora_rank > 0)
        zn_text_add(t, ",%s\"lora-rank\":%lld", separator, (long long)p->flags->lora_rank);
    add_targets(t, &p->flags->lora_targets, separator);
    if (e->quantised)
        zn_text_add(t, ",%s\"base-quantize\":\"%s\"", separator, p->flags->base_quantize);
    if (p->setup.engine.has_pairs)
        zn_text_add(t, ",%s\"objective\":\"dpo\"", separator);
    if (p->setup.memory_limit)
        zn_text_add(t, ",%s\"memory-limit\":%zu", separator, p->setup.memory_limit);
}

void plan_add_settings(zn_text *t, const struct plan *p)
{
    zn_text_add(t, "{");
    if (p->has_shape)
        zn_text_add(t, "\"layers\":%lld,\"hidden\":%lld,\"heads\":%lld,\"ffn\":%lld,\"vocab\":%lld",
                    (long long)p->shape.layers, (long long)p->shape.hidden, (long long)p->shape.heads,
                    (long long)(p->shape.inner ? p->shape.inner : 4 * p->shape.hidden), (long long)p->shape.vocabulary);
    else {
        zn_text_add(t, "\"model\":");
        zn_text_add_quoted(t, p->flags->model);
    }
    zn_text_add(t, ",\"params\":%lld,\"cluster\":", (long long)zn_model_n_elements(p->model));
    zn_text_add_quoted(t, p->cluster.name);
    zn_text_add(t, ",\"ranks\":%d,\"nodes\":%d,", p->setup.n_ranks, p->setup.n_nodes);
    add_flags(t, p, "");
    zn_text_add(t, "}");
}

zn_status plan_write_config(const struct plan *p, const char *path)
{
    zn_text t;
    zn_text_init(&t);
    zn_text_add(&t, "{\n  \"zinc\": {\n    ");
    add_flags(&t, p, "\n    ");
    zn_text_add(&t, "\n  }\n}\n");
    zn_status status = zn_text_status(&t);
    if (status == ZN_OK)
        status = zn_file_write(path, t.data, t.n_bytes);
    zn_text_fini(&t);
    return status;
}
