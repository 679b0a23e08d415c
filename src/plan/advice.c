/* Advice by trial: each change is predicted, and the best one is told with what it gives. */
#include "plan/advice.h"

#include <stdio.h>

/* A change makes the setup another one and says how; false: it cannot be made. */
typedef bool (*change)(struct zn_plan_setup *s, char *text, size_t size);

static bool toggle_recompute(struct zn_plan_setup *s, char *text, size_t size)
{
    s->engine.recompute = !s->engine.recompute;
    snprintf(text, size, "--recompute %s", s->engine.recompute ? "on" : "off");
    return true;
}

static bool set_stage(struct zn_plan_setup *s, int stage, char *text, size_t size)
{
    if (stage < 0 || stage > 3 || s->n_ranks == 1)
        return false;
    bool asked = s->engine.stage < 2 && s->engine.reduce_every;
    s->engine.stage = stage;
    s->engine.reduce_every = asked || stage >= 2;
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

/* A change that cannot be planned (sizes beyond all bounds) is no advice. */
static bool try_change(const struct zn_plan_setup *setup, change make, char *text, size_t size,
                       struct zn_prediction *p)
{
    struct zn_plan_setup s = *setup;
    return make(&s, text, size) && zn_predict(&s, p) == ZN_OK;
}

/* Of what fits already: the change that gives the most tokens a second and rank. */
static void advise_speed(const struct zn_plan_setup *setup, const struct zn_prediction *now, struct zn_advice *advice)
{
    static const change changes[] = {toggle_recompute, lower_stage, raise_stage, double_batch, double_steps};
    char text[64], best_text[64] = "";
    double best = 1.02; /* less is no help */
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct zn_prediction p;
        if (!try_change(setup, changes[i], text, sizeof text, &p))
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
    else
        snprintf(advice->text, sizeof advice->text, "more or faster devices");
}

/* The leanest of these ranks. */
static void make_lean(struct zn_plan_setup *s)
{
    s->engine.recompute = true;
    s->engine.keep_logits = false;
    s->engine.micro_batch = 1;
    if (s->n_ranks > 1) {
        s->engine.stage = 3;
        s->engine.reduce_every = true;
    }
}

/* Twice the ranks, and again, until it fits. */
static void advise_ranks(struct zn_plan_setup s, struct zn_advice *advice)
{
    char text[64];
    const char *name = s.cluster->name;
    for (bool more = true; more; more = double_ranks(&s, text, sizeof text)) {
        struct zn_prediction p;
        make_lean(&s);
        if (zn_predict(&s, &p) != ZN_OK)
            break;
        bool fits = p.fits;
        zn_prediction_fini(&p);
        if (!fits)
            continue;
        snprintf(advice->text, sizeof advice->text, "--ranks %d --stage %d --recompute on --micro-batch 1 would fit",
                 s.n_ranks, s.engine.stage);
        return;
    }
    snprintf(advice->text, sizeof advice->text, "it does not fit on any number of ranks of %s; a smaller model does", name);
}

static void advise_memory(const struct zn_plan_setup *setup, struct zn_advice *advice)
{
    static const change changes[] = {toggle_recompute, raise_stage, halve_batch};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct zn_prediction p;
        char text[64];
        if (!try_change(setup, changes[i], text, sizeof text, &p))
            continue;
        bool fits = p.fits;
        zn_prediction_fini(&p);
        if (fits) {
            snprintf(advice->text, sizeof advice->text, "%s would fit", text);
            return;
        }
    }
    advise_ranks(*setup, advice);
}

void zn_plan_advise(const struct zn_plan_setup *setup, const struct zn_prediction *now, struct zn_advice *advice)
{
    if (now->fits)
        advise_speed(setup, now, advice);
    else
        advise_memory(setup, advice);
}
