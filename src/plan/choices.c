/* Choices that are open, and those that cannot be. */
#include "plan/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zn_choices zn_choices_open(void)
{
    return (struct zn_choices){.stage = -1,
                               .keep = -1,
                               .keep_logits = -1,
                               .reduce_every = -1,
                               .parameters = -1,
                               .gradients = -1,
                               .optimizer = -1,
                               .activations = -1,
                               .tile_bytes = SIZE_MAX,
                               .prefetch_bytes = SIZE_MAX,
                               .host_cache = SIZE_MAX};
}

struct zn_choices zn_choices_of_parameters(int tier)
{
    struct zn_choices c = zn_choices_open();
    c.keep = ZN_KEEP_ALL;
    c.reduce_every = 0;
    c.keep_logits = 1;
    c.optimizer = c.gradients = c.activations = ZN_TIER_DEVICE;
    c.parameters = tier;
    return c;
}

bool zn_can_swap_gradients(int stage, int n_ranks)
{
    return stage >= 2 || n_ranks == 1;
}

bool zn_choices_sum_once(const struct zn_choices *c, const struct zn_engine_options *o)
{
    return c->reduce_every == 0 && o->accumulate > 1 && !o->vertical;
}

static zn_status check_keep(const struct zn_choices *c, const struct zn_engine_options *o)
{
    if (c->activations > 0 && c->keep == ZN_KEEP_ALL)
        return zn_fail(ZN_ERR_USAGE, "--offload-activations keeps what lies between segments: it needs --recompute on");
    if (o->vertical && c->keep == ZN_KEEP_ALL)
        return zn_fail(ZN_ERR_USAGE, "--schedule vertical computes segments again: it needs --recompute on");
    if (o->vertical && c->keep > 0)
        return zn_fail(ZN_ERR_USAGE, "--schedule vertical computes all segments again: --recompute keep=%lld does not go with it",
                       (long long)c->keep);
    return ZN_OK;
}

/* With --schedule auto the other schedule may do what one cannot. */
static bool may_be_vertical(const struct zn_choices *c, const struct zn_engine_options *o)
{
    return o->vertical || (c->any_schedule && c->keep <= 0);
}

zn_status zn_choices_check(const struct zn_choices *c, const struct zn_engine_options *o, int n_ranks)
{
    if (c->parameters > 0 && c->stage >= 0 && c->stage < 3)
        return zn_fail(ZN_ERR_USAGE, "--offload-param needs --stage 3, not %d", c->stage);
    if (c->gradients == ZN_TIER_NVME && c->stage >= 0 && !zn_can_swap_gradients(c->stage, n_ranks))
        return zn_fail(ZN_ERR_USAGE, "--offload-gradients nvme needs --stage 2 or 3 with several ranks, not %d", c->stage);
    ZN_TRY(check_keep(c, o));
    if (o->vertical && c->reduce_every == 1)
        return zn_fail(ZN_ERR_USAGE, "--schedule vertical reduces once a step: --reduce every does not go with it");
    if (c->reduce_every == 0 && c->stage >= 2 && !may_be_vertical(c, o))
        return zn_fail(ZN_ERR_UNSUPPORTED, "--reduce last: stage %d reduces every micro-batch", c->stage);
    if (c->gradients == ZN_TIER_NVME && zn_choices_sum_once(c, o) && !may_be_vertical(c, o))
        return zn_fail(ZN_ERR_UNSUPPORTED, "--reduce last: gradients on NVMe are summed every micro-batch");
    if (o->in_backward && n_ranks > 1 && c->stage == 0)
        return zn_fail(ZN_ERR_USAGE, "--optimizer-in-backward needs --stage 1, 2 or 3 with several ranks");
    return ZN_OK;
}

int64_t zn_keep_parse(const char *text)
{
    static const char prefix[] = "keep=";
    if (strncmp(text, prefix, sizeof prefix - 1) == 0)
        return strtoll(text + sizeof prefix - 1, NULL, 10);
    return strcmp(text, "on") == 0 ? 0 : ZN_KEEP_ALL;
}

const char *zn_keep_text(const struct zn_engine_options *o, char text[ZN_KEEP_TEXT])
{
    if (o->recompute && o->keep > 0)
        snprintf(text, ZN_KEEP_TEXT, "keep=%lld", (long long)o->keep);
    else
        snprintf(text, ZN_KEEP_TEXT, "%s", o->recompute ? "on" : "off");
    return text;
}
