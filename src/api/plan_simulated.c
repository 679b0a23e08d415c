/* The simulated step of a plan as text and as JSON, and its time line as a file. */
#include "api/plan_simulated.h"

#include <stdio.h>

#include "base/size.h"

static const char *const names[ZN_N_RESOURCES] = {"compute", "updates on the host", "communication", "copies to and from the host",
                                                  "nvme"};
static const char *const keys[ZN_N_RESOURCES] = {"compute", "updates", "communication", "host_link", "nvme"};

void plan_simulated_text(const struct plan *p, FILE *out)
{
    const struct zn_prediction *r = &p->prediction;
    const struct zn_sim_step *s = &r->simulated;
    char text[ZN_SIZE_TEXT], rate[32];
    fprintf(out, "\nsimulated step                         busy        exposed\n");
    for (int i = 0; i < ZN_N_RESOURCES; i++) {
        if (s->resource[i].busy <= 0 && i != ZN_COMPUTE)
            continue;
        fprintf(out, "  %-26s %14.4g", names[i], s->resource[i].busy);
        if (i != ZN_COMPUTE)
            fprintf(out, " %14.4g", s->resource[i].exposed);
        fputc('\n', out);
    }
    fprintf(out, "  %-26s %14.4g seconds, the device computes in %.1f%% of them\n", "step", s->seconds,
           100 * s->resource[ZN_COMPUTE].busy / s->seconds);
    fprintf(out, "  peak memory");
    for (int t = 0, n = 0; t < ZN_N_TIERS; t++)
        if (s->tier_peak[t] > 0)
            fprintf(out, "%s %s %s", n++ ? "," : "", zn_size_text(s->tier_peak[t], text), zn_tier_name((zn_tier)t));
    plan_count_text(r->tokens_per_second, rate);
    fprintf(out, "\n  %s tokens/s, %.4g Tflop/s a device, %.1f%% of its peak\n", rate, r->flops_per_device / 1e12,
           100 * r->efficiency);
}

void plan_simulated_json(zn_text *t, const struct plan *p)
{
    const struct zn_prediction *r = &p->prediction;
    const struct zn_sim_step *s = &r->simulated;
    zn_text_add(t, ",\"simulated\":{\"per_rank\":{");
    for (int i = 0; i < ZN_N_TIERS; i++)
        zn_text_add(t, "%s\"%s\":%zu", i ? "," : "", zn_tier_name((zn_tier)i), s->tier_peak[i]);
    zn_text_add(t, "},\"states\":{");
    for (int k = 0; k < ZN_N_KINDS; k++)
        zn_text_add(t, "%s\"%s\":%zu", k ? "," : "", zn_kind_name((zn_kind)k), s->kind_peak[k]);
    zn_text_add(t, "},\"busy\":{");
    for (int i = 0; i < ZN_N_RESOURCES; i++)
        zn_text_add(t, "%s\"%s\":%.9g", i ? "," : "", keys[i], s->resource[i].busy);
    zn_text_add(t, "},\"exposed\":{");
    for (int i = ZN_COMPUTE + 1; i < ZN_N_RESOURCES; i++)
        zn_text_add(t, "%s\"%s\":%.9g", i > ZN_COMPUTE + 1 ? "," : "", keys[i], s->resource[i].exposed);
    zn_text_add(t, "},\"step\":%.9g,\"tokens_per_second\":%.9g,\"tflops_per_device\":%.9g,\"efficiency\":%.9g}", s->seconds,
                r->tokens_per_second, r->flops_per_device / 1e12, r->efficiency);
}

zn_status plan_write_trace(struct plan *p, const char *path)
{
    char process[128];
    struct zn_prediction traced;
    snprintf(process, sizeof process, "one of %d ranks of %.64s, simulated", p->setup.n_ranks, p->cluster.name);
    p->setup.trace = &(struct zn_sim_trace){path, process};
    zn_status status = zn_predict(&p->setup, &traced);
    p->setup.trace = NULL;
    if (status != ZN_OK)
        return status;
    zn_prediction_fini(&p->prediction);
    p->prediction = traced;
    return ZN_OK;
}
