/* Advice by trial: each change is predicted, and the best one is told with what it gives. */
#include "plan/advice.h"

#include <stdio.h>

#include "plan/planner.h"

/* A change makes the setup another one and says how; false: it cannot be made. */
typedef bool (*change)(struct zn_plan_setup *s, char *text, size_t size);

static bool keep_activations(struct zn_plan_setup *s, char *text, size_t size)
{
    if (!s->engine.recompute || s->engine.vertical || s->engine.offload.activations != ZN_TIER_DEVICE)
        return false;
    s->engine.recompute = false;
    s->engine.keep = 0;
    snprintf(text, size, "--recompute off");
    return true;
}

static bool recompute_activations(struct zn_plan_setup *s, char *text, size_t size)
{
    if (s->engine.recompute && s->engine.keep == 0)
        return false;
    s->engine.recompute = true;
    s->engine.keep = 0;
    snprintf(text, size, "--recompute on");
    return true;
}

static bool set_stage(struct zn_plan_setup *s, int stage, char *text, size_t size)
{
    const struct zn_offload *off = &s->engine.offload;
    if (stage < 0 || stage > 3 || zn_plan_replicas(s) == 1 || (stage < 3 && off->parameters != ZN_TIER_DEVICE) ||
        (stage < 2 && off->gradients == ZN_TIER_NVME))
        return false;
    bool asked = s->engine.stage < 2 && s->engine.reduce_every;
    s->engine.stage = stage;
    s->engine.reduce_every = asked || (stage >= 2 && !s->engine.vertical);
    snprintf(text, size, "--stage %d", stage);
    return true;
}

static bool lower_stage(struct zn_plan_setup *s, char *text, size_t size)
{
    return set_stage(s, s->engine.stage - 1, text, size);
}

static bool raise_stage(struct zn_plan_setup *s, char *text, size_t size)
{
    return set_stage(s, s->engine.stage + 1, text, size);
}

static bool double_batch(struct zn_plan_setup *s, char *text, size_t size)
{
    s->engine.micro_batch *= 2;
    snprintf(text, size, "--micro-batch %lld", (long long)s->engine.micro_batch);
    return true;
}

static bool halve_batch(struct zn_plan_setup *s, char *text, size_t size)
{
    if (s->engine.micro_batch < 2)
        return false;
    s->engine.micro_batch /= 2;
    snprintf(text, size, "--micro-batch %lld", (long long)s->engine.micro_batch);
    return true;
}

static bool double_steps(struct zn_plan_setup *s, char *text, size_t size)
{
    s->engine.accumulate *= 2;
    snprintf(text, size, "--accumulate %lld", (long long)s->engine.accumulate);
    return true;
}

static bool go_vertical(struct zn_plan_setup *s, char *text, size_t size)
{
    if (s->engine.vertical || s->engine.accumulate < 2 || !s->engine.recompute)
        return false;
    s->engine.vertical = true;
    s->engine.keep = 0;
    s->engine.reduce_every = false;
    snprintf(text, size, "--schedule vertical");
    return true;
}

/* One tier nearer. */
static bool fetch_optimizer(struct zn_plan_setup *s, char *text, size_t size)
{
    struct zn_offload *off = &s->engine.offload;
    if (off->optimizer == ZN_TIER_DEVICE)
        return false;
    bool to_host = off->optimizer == ZN_TIER_NVME && !s->cluster->device.is_host;
    off->optimizer = off->gradients = to_host ? ZN_TIER_HOST : ZN_TIER_DEVICE;
    snprintf(text, size, "--offload-optimizer %s", to_host ? "cpu" : "none");
    return true;
}

static bool double_ranks(struct zn_plan_setup *s, char *text, size_t size)
{
    const struct zn_cluster *c = s->cluster;
    int n_local = zn_plan_ranks_per_node(s) * 2;
    s->n_ranks *= 2;
    if (n_local > c->devices) { /* the nodes are full */
        s->n_nodes *= 2;
        if (s->n_nodes > c->nodes)
            return false;
    }
    snprintf(text, size, "--ranks %d", s->n_ranks);
    return true;
}

/* What can help against each bound. */
static const change changes_of[][5] = {
    [ZN_BOUND_COMPUTE] = {keep_activations, double_batch, double_steps},
    [ZN_BOUND_COMMUNICATION] = {lower_stage, double_batch, double_steps, go_vertical},
    [ZN_BOUND_IO] = {double_batch, double_steps, go_vertical, fetch_optimizer},
};

/* Of what fits already: the change that gives the most tokens a second and rank. */
static void advise_speed(const struct zn_plan_setup *setup, const struct zn_prediction *now, struct zn_advice *advice)
{
    const change *changes = changes_of[now->bound];
    char text[64], best_text[64] = "";
    double best = 1.02; /* less is no help */
    for (int i = 0; changes[i]; i++) {
        struct zn_plan_setup s = *setup;
        struct zn_prediction p; /* a change that cannot be planned is no advice */
        if (!changes[i](&s, text, sizeof text) || zn_predict_if_fits(&s, &p) != ZN_OK)
            continue;
        double gain = p.tokens_per_second / now->tokens_per_second;
        if (p.fits && gain > best) {
            best = gain;
            snprintf(best_text, sizeof best_text, "%s", text);
        }
        zn_prediction_fini(&p);
    }
    if (best_text[0])
        snprintf(advice->text, sizeof advice->text, "%s: %.2f times the tokens a second", best_text, best);
    else if (now->bound == ZN_BOUND_COMMUNICATION)
        snprintf(advice->text, sizeof advice->text, "faster links between the ranks");
    else if (now->bound == ZN_BOUND_IO)
        snprintf(advice->text, sizeof advice->text, "faster drives, or links to the host");
    else
        snprintf(advice->text, sizeof advice->text, "more or faster devices");
}

static const char *tier_name(zn_tier tier)
{
    static const char *const names[] = {"none", "cpu", "nvme"};
    return names[tier];
}

static void tell_setup(const struct zn_plan_setup *s, struct zn_advice *advice)
{
    const struct zn_engine_options *e = &s->engine;
    char keep[ZN_KEEP_TEXT];
    int n = snprintf(advice->text, sizeof advice->text, "--ranks %d --stage %d --recompute %s --micro-batch %lld", s->n_ranks,
                     e->stage, zn_keep_text(e, keep), (long long)e->micro_batch);
    const struct {
        const char *flag;
        zn_tier tier;
    } tiers[] = {{"optimizer", e->offload.optimizer}, {"param", e->offload.parameters}, {"activations", e->offload.activations}};
    for (int i = 0; i < 3; i++)
        if (tiers[i].tier != ZN_TIER_DEVICE)
            n += snprintf(advice->text + n, sizeof advice->text - (size_t)n, " --offload-%s %s", tiers[i].flag,
                          tier_name(tiers[i].tier));
    if (e->tile_bytes)
        n += snprintf(advice->text + n, sizeof advice->text - (size_t)n, " --tile-limit %zuMiB", e->tile_bytes >> 20);
    snprintf(advice->text + n, sizeof advice->text - (size_t)n, " would fit");
}

/* The leanest on these ranks, then on twice as many, and so on. */
static void advise_lean(struct zn_plan_setup s, struct zn_advice *advice)
{
    const struct zn_choices open = zn_choices_open();
    char text[64];
    s.engine.micro_batch = 1;
    for (bool more = true; more; more = double_ranks(&s, text, sizeof text)) {
        for (int way = 0; zn_plan_make_lean(&s, &open, way); way++) {
            bool fits;
            if (zn_plan_fits(&s, &fits) == ZN_OK && fits) {
                tell_setup(&s, advice);
                return;
            }
        }
    }
    snprintf(advice->text, sizeof advice->text, "it does not fit on any number of ranks of %s; a smaller model does",
             s.cluster->name);
}

static void advise_memory(const struct zn_plan_setup *setup, struct zn_advice *advice)
{
    static const change changes[] = {recompute_activations, raise_stage, halve_batch};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct zn_plan_setup s = *setup;
        char text[64];
        bool fits;
        if (changes[i](&s, text, sizeof text) && zn_plan_fits(&s, &fits) == ZN_OK && fits) {
            snprintf(advice->text, sizeof advice->text, "%s would fit", text);
            return;
        }
    }
    advise_lean(*setup, advice);
}

void zn_plan_advise(const struct zn_plan_setup *setup, const struct zn_prediction *now, struct zn_advice *advice)
{
    if (now->fits)
        advise_speed(setup, now, advice);
    else
        advise_memory(setup, advice);
}
