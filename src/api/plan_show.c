/* A plan as text and as JSON. */
#include <stdio.h>

#include "base/size.h"
#include "base/text.h"
#include "api/planning.h"
#include "api/plan_settings.h"
#include "api/plan_simulated.h"

/* ---- Text ---- */

/* n_bytes of each of n ranks. */
static const char *all_text(size_t n_bytes, int n, char text[ZN_SIZE_TEXT])
{
    size_t sum;
    if (zn_mul_size(n_bytes, (size_t)n, &sum))
        return zn_size_text(sum, text);
    snprintf(text, ZN_SIZE_TEXT, "above 16 EiB");
    return text;
}

void plan_count_text(double count, char text[32])
{
    static const char *const names[] = {"", " K", " M", " B", " T"};
    int i = 0;
    while (count >= 1000 && i < 4) {
        count /= 1000;
        i++;
    }
    snprintf(text, 32, "%.4g%s", count, names[i]);
}

static void text_offload(const struct zn_engine_options *e, FILE *out)
{
    const struct {
        const char *name;
        zn_tier tier;
    } states[] = {{"optimizer", e->offload.optimizer},
                  {"gradients", e->offload.gradients},
                  {"parameters", e->offload.parameters},
                  {"activation checkpoints", e->offload.activations}};
    char text[ZN_SIZE_TEXT];
    int n = 0;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (states[i].tier != ZN_TIER_DEVICE)
            fprintf(out, "%s%s on %s", n++ ? ", " : "", states[i].name, zn_tier_name(states[i].tier));
    if (e->tile_bytes)
        fprintf(out, "%stiles of %s", n++ ? ", " : "", zn_size_text(e->tile_bytes, text));
    if (e->host_cache && e->offload.optimizer == ZN_TIER_NVME)
        fprintf(out, "%s%s of its states in memory", n++ ? ", " : "", zn_size_text(e->host_cache, text));
    if (n)
        fputc('\n', out);
}

static void text_head(const struct plan *p, FILE *out)
{
    char count[32];
    char keep[ZN_KEEP_TEXT];
    const struct zn_plan_setup *s = &p->setup;
    const struct zn_engine_options *e = &s->engine;
    plan_count_text((double)zn_model_n_elements(p->model), count);
    fprintf(out, "%s, %s parameters: %lld layers, hidden %lld", p->has_shape ? "GPT-2-like" : p->model->architecture, count,
           (long long)p->model->n_layers, (long long)p->model->hidden);
    if (p->has_shape)
        fprintf(out, ", %lld heads", (long long)p->shape.heads);
    fprintf(out, ", vocabulary %lld\n", (long long)p->model->module->vocabulary);
    fprintf(out, "%s (%s): %d rank%s on %d node%s", p->cluster.name, p->cluster.device.name, s->n_ranks,
           s->n_ranks == 1 ? "" : "s", s->n_nodes, s->n_nodes == 1 ? "" : "s");
    if (e->n_slices > 1)
        fprintf(out, ", %d of them share each layer%s", e->n_slices, e->partitions_activations ? " and each activation checkpoint" : "");
    fputc('\n', out);
    fprintf(out, "stage %d, %s, %lld × %lld windows of %lld tokens a rank, recompute %s%s%s%s\n", e->stage,
           zn_dtype_name(e->type), (long long)e->accumulate, (long long)e->micro_batch, (long long)e->seq_len,
           zn_keep_text(e, keep), e->vertical ? ", vertical" : "", e->in_backward ? ", updates in backward" : "",
           e->delay_after >= 0 ? ", delayed updates" : "");
    text_offload(e, out);
    fputc('\n', out);
}

static void text_memory(const struct plan *p, FILE *out)
{
    const struct zn_prediction *r = &p->prediction;
    char one[ZN_SIZE_TEXT], all[ZN_SIZE_TEXT], limit[ZN_SIZE_TEXT];
    int n = p->setup.n_ranks;
    fprintf(out, "%-28s %14s %14s\n", "memory", "a rank", "all");
    for (int k = 0; k < ZN_N_KINDS; k++)
        fprintf(out, "  %-26s %14s %14s\n", zn_kind_name((zn_kind)k), zn_size_text(r->kind[k], one), all_text(r->kind[k], n, all));
    for (int t = 0; t < ZN_N_TIERS; t++) {
        if (r->tier[t] == 0 && t != ZN_TIER_DEVICE)
            continue;
        fprintf(out, "  on %-23s %14s %14s", zn_tier_name((zn_tier)t), zn_size_text(r->tier[t], one), all_text(r->tier[t], n, all));
        fprintf(out, "   of %s", zn_size_text(r->limit[t], limit));
        if (t == ZN_TIER_DEVICE)
            fprintf(out, ", %s for the process", zn_size_text(r->reserved, limit));
        fputc('\n', out);
    }
    if (r->resident > 0)
        fprintf(out, "  %-26s %14s\n", "resident memory", zn_size_text(r->resident, one));
    if (r->fits)
        fprintf(out, "  fits\n\n");
    else
        fprintf(out, "  does not fit: too little %s memory\n\n", zn_tier_name(r->short_of));
}

static void text_sizes(const struct plan *p, FILE *out)
{
    const zn_module *m = p->model->module;
    const zn_manifest *manifest = &p->prediction.plan.manifest;
    const zn_param *largest = &m->params[0];
    char text[ZN_SIZE_TEXT];
    size_t width = zn_dtype_bytes(p->setup.engine.type);
    for (int i = 1; i < m->n_params; i++)
        if (m->params[i].segment > 0 && (largest->segment == 0 || m->params[i].n_elements > largest->n_elements))
            largest = &m->params[i];
    fprintf(out, "largest operator             %14s   %s, %lld × %lld\n",
           zn_size_text((size_t)largest->n_elements * width, text), largest->name, (long long)largest->dims[0],
           (long long)(largest->ndim > 1 ? largest->dims[1] : 1));
    fprintf(out, "buffers, and the arena of activations\n");
    for (size_t i = 0; i < manifest->n_entries; i++) {
        const struct zn_manifest_entry *e = &manifest->entries[i];
        if (e->kind == ZN_KIND_BUFFERS || e->kind == ZN_KIND_ACTIVATIONS)
            fprintf(out, "  %-26s %14s%s%s\n", e->name, zn_size_text(e->n_bytes, text),
                   e->tier == ZN_TIER_DEVICE ? "" : "   on ", e->tier == ZN_TIER_DEVICE ? "" : zn_tier_name(e->tier));
    }
    fputc('\n', out);
}

static void text_traffic(const struct zn_prediction *r, FILE *out)
{
    const struct {
        const char *name;
        uint64_t n_bytes;
    } rows[] = {{"gather", r->gather},         {"reduce", r->reduce}, {"tensor", r->tensor},
                {"within the node", r->intra_node},  {"between nodes", r->inter_node},
                {"device and host", r->host_bytes}, {"nvme read", r->nvme_read},
                {"nvme write", r->nvme_write}};
    char text[ZN_SIZE_TEXT];
    fprintf(out, "traffic of a step                    a rank\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].n_bytes > 0 || i < 2)
            fprintf(out, "  %-26s %14s\n", rows[i].name, zn_size_text((size_t)rows[i].n_bytes, text));
    fputc('\n', out);
}

static void text_time(const struct zn_prediction *r, FILE *out)
{
    char rate[32];
    fprintf(out, "time of a step                      seconds\n");
    fprintf(out, "  %-26s %14.4g\n", "compute", r->compute);
    fprintf(out, "  %-26s %14.4g\n", "communication", r->communication);
    fprintf(out, "  %-26s %14.4g\n", "io", r->io);
    fprintf(out, "  %-26s %14.4g\n\n", "step", r->step);
    plan_count_text(r->tokens_per_second, rate);
    fprintf(out, "%s tokens/s, %.4g Tflop/s a device, %.1f%% of its peak\n", rate, r->flops_per_device / 1e12,
           100 * r->efficiency);
}

void plan_show_text(const struct plan *p, FILE *out)
{
    text_head(p, out);
    text_memory(p, out);
    text_sizes(p, out);
    text_traffic(&p->prediction, out);
    text_time(&p->prediction, out);
    fprintf(out, "bound by %s; most help: %s\n", zn_bound_name(p->prediction.bound), p->advice.text);
    if (p->flags->simulate || p->flags->trace)
        plan_simulated_text(p, out);
}

/* ---- JSON ---- */

static void json_memory(zn_text *t, const struct plan *p)
{
    const struct zn_prediction *r = &p->prediction;
    zn_text_add(t, "{\"fits\":%s,\"per_rank\":{", r->fits ? "true" : "false");
    for (int i = 0; i < ZN_N_TIERS; i++)
        zn_text_add(t, "%s\"%s\":%zu", i ? "," : "", zn_tier_name((zn_tier)i), r->tier[i]);
    if (r->resident > 0)
        zn_text_add(t, "},\"resident\":%zu,\"states\":{", r->resident);
    else
        zn_text_add(t, "},\"resident\":null,\"states\":{");
    for (int k = 0; k < ZN_N_KINDS; k++)
        zn_text_add(t, "%s\"%s\":%zu", k ? "," : "", zn_kind_name((zn_kind)k), r->kind[k]);
    zn_text_add(t, "},\"buffers\":{");
    bool first = true;
    for (size_t i = 0; i < r->plan.manifest.n_entries; i++) {
        const struct zn_manifest_entry *e = &r->plan.manifest.entries[i];
        if (e->kind != ZN_KIND_BUFFERS)
            continue;
        zn_text_add(t, first ? "" : ",");
        first = false;
        zn_text_add_quoted(t, e->name);
        zn_text_add(t, ":%zu", e->n_bytes);
    }
    zn_text_add(t, "}");
}

static void json_rest(zn_text *t, const struct plan *p)
{
    const struct zn_prediction *r = &p->prediction;
    zn_text_add(t, ",\"traffic\":{\"gather\":%llu,\"reduce\":%llu,\"nvme_read\":%llu,\"nvme_write\":%llu",
                (unsigned long long)r->gather, (unsigned long long)r->reduce, (unsigned long long)r->nvme_read,
                (unsigned long long)r->nvme_write);
    if (p->setup.engine.n_slices > 1)
        zn_text_add(t, ",\"tensor\":%llu", (unsigned long long)r->tensor);
    zn_text_add(t, "}");
    zn_text_add(t, ",\"seconds\":{\"compute\":%.9g,\"communication\":%.9g,\"io\":%.9g,\"step\":%.9g}", r->compute,
                r->communication, r->io, r->step);
    zn_text_add(t, ",\"tokens_per_second\":%.9g,\"tflops_per_device\":%.9g,\"efficiency\":%.9g", r->tokens_per_second,
                r->flops_per_device / 1e12, r->efficiency);
    zn_text_add(t, ",\"bound\":\"%s\",\"help\":", zn_bound_name(r->bound));
    zn_text_add_quoted(t, p->advice.text);
    if (p->flags->simulate || p->flags->trace)
        plan_simulated_json(t, p);
    zn_text_add(t, ",\"settings\":");
    plan_add_settings(t, p);
    zn_text_add(t, "}\n");
}

zn_status plan_show_json(const struct plan *p, FILE *out)
{
    zn_text t;
    zn_text_init(&t);
    json_memory(&t, p);
    json_rest(&t, p);
    zn_status status = zn_text_status(&t);
    if (status == ZN_OK)
        fwrite(t.data, 1, t.n_bytes, out);
    zn_text_fini(&t);
    return status;
}
