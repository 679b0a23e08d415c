/* Each use of memory in the order of what it gives; activations and optimizer states are weighed against each other by
 * simulating the step. */
#include "plan/spare.h"

#include "plan/predict_private.h"
#include "plan/prefetch.h"

/* One trial of memory. */
struct room {
    bool fits;
    size_t need, left; /* left: of memory that optimizer states may stay in */
    size_t largest_unit;
};

static zn_status measure(const struct zn_plan_setup *s, struct room *room)
{
    struct zn_prediction p;
    ZN_TRY(zn_predict_memory(s, &p));
    size_t device = p.tier[ZN_TIER_DEVICE] + p.reserved, host = p.tier[ZN_TIER_HOST], limit = p.limit[ZN_TIER_HOST];
    if (s->cluster->device.is_host) /* they are the same bytes */
        device = host = device + host;
    else if (s->cluster->device.shares_memory)
        host += device;
    *room = (struct room){.fits = p.fits,
                          .need = device,
                          .left = limit > host ? limit - host : 0,
                          .largest_unit = p.largest_unit};
    zn_prediction_fini(&p);
    return ZN_OK;
}

static zn_status fits(const struct zn_plan_setup *s, bool *is)
{
    struct room room;
    ZN_TRY(measure(s, &room));
    *is = room.fits;
    return ZN_OK;
}

static zn_status try_logits(struct zn_plan_setup *s)
{
    bool is;
    s->engine.keep_logits = true;
    ZN_TRY(fits(s, &is));
    s->engine.keep_logits = is;
    return ZN_OK;
}

/* ---- Activations ---- */

static int64_t n_segments(const struct zn_plan_setup *s)
{
    return s->model->module->n_segments - 1; /* but the head, which is never run again */
}

static void keep(struct zn_plan_setup *s, int64_t n)
{
    s->engine.recompute = n < n_segments(s) || s->engine.offload.activations != ZN_TIER_DEVICE;
    s->engine.keep = s->engine.recompute ? n : 0;
}

/* What segments are worth: memory of one, and how many fit. */
struct kept {
    int64_t most;
    size_t n_bytes; /* of one, about; 0: not known */
};

/* Memory grows with their number, nearly by the same for each: so what is left tells where to look next. */
static zn_status most_kept(struct zn_plan_setup *s, struct kept *kept)
{
    struct room none, room;
    int64_t low = 0, high = n_segments(s) + 1;
    ZN_TRY(measure(s, &none));
    *kept = (struct kept){0};
    for (int64_t next = high - 1; high - low > 1;) {
        keep(s, next);
        ZN_TRY(measure(s, &room));
        *(room.fits ? &low : &high) = next;
        if (room.need > none.need)
            kept->n_bytes = (room.need - none.need) / (size_t)next;
        int64_t guess = kept->n_bytes ? (int64_t)(none.left / kept->n_bytes) : low;
        next = guess <= low ? low + 1 : guess >= high ? high - 1 : guess;
    }
    keep(s, low);
    kept->most = low;
    return ZN_OK;
}

/* Whether the states that would have a segment's memory take longer on the drive, both ways, than the segment in forward. */
static bool are_states_dearer(const struct zn_plan_setup *s, const struct kept *kept)
{
    const struct zn_engine_options *o = &s->engine;
    double tokens = (double)(o->micro_batch * o->seq_len * o->accumulate);
    double elements = (double)zn_model_n_held(s->model) / (double)n_segments(s);
    double segment = 2 * tokens * elements / plan_machine(s).device.flops;
    return 2 * (double)kept->n_bytes / plan_machine(s).nvme_bytes > segment;
}

/* ---- Optimizer states ---- */

/* What is left goes to fetching further ahead, and then to states that stay in memory. */
static zn_status use_rest(struct zn_plan_setup *s, const struct zn_choices *c)
{
    struct room room;
    bool is = false;
    s->engine.host_cache = c->host_cache != SIZE_MAX ? c->host_cache : 0;
    ZN_TRY(measure(s, &room));
    size_t budget = s->engine.prefetch_bytes, most = zn_prefetch_most(room.largest_unit);
    if (c->prefetch_bytes == SIZE_MAX && budget >= room.largest_unit && budget < most) {
        zn_prefetch_set(&s->engine, most);
        ZN_TRY(fits(s, &is));
        zn_prefetch_set(&s->engine, is ? most : budget);
        ZN_TRY(measure(s, &room));
    }
    if (c->host_cache == SIZE_MAX && s->engine.offload.optimizer == ZN_TIER_NVME)
        s->engine.host_cache = room.left;
    return ZN_OK;
}

/* The simulated step with so many segments kept and the rest of memory used. */
struct weighed {
    struct zn_plan_setup setup;
    double seconds;
};

static zn_status weigh(const struct zn_plan_setup *s, const struct zn_choices *c, int64_t n_kept, struct weighed *w)
{
    struct zn_prediction p;
    w->setup = *s;
    keep(&w->setup, n_kept);
    ZN_TRY(use_rest(&w->setup, c));
    ZN_TRY(zn_predict(&w->setup, &p));
    w->seconds = p.step;
    zn_prediction_fini(&p);
    return ZN_OK;
}

/* Fewer kept segments cost their forward and give their memory to the states: seconds have one minimum, which is found by
 * halves from the slope. */
static zn_status weigh_activations(struct zn_plan_setup *s, const struct zn_choices *c, int64_t most)
{
    struct weighed best, less, more;
    ZN_TRY(weigh(s, c, most, &best));
    for (int64_t low = 0, high = most; low < high;) {
        int64_t middle = low + (high - low) / 2;
        ZN_TRY(weigh(s, c, middle, &less));
        ZN_TRY(weigh(s, c, middle + 1, &more));
        if (less.seconds < more.seconds)
            high = middle;
        else
            low = middle + 1;
        const struct weighed *better = less.seconds < more.seconds ? &less : &more;
        if (better->seconds < best.seconds)
            best = *better;
    }
    *s = best.setup;
    return ZN_OK;
}

static zn_status use_activations(struct zn_plan_setup *s, const struct zn_choices *c)
{
    struct kept kept = {0};
    if (c->keep < 0 && !s->engine.vertical && s->engine.trains)
        ZN_TRY(most_kept(s, &kept));
    if (kept.most > 0 && c->host_cache == SIZE_MAX && s->engine.offload.optimizer == ZN_TIER_NVME && are_states_dearer(s, &kept))
        return weigh_activations(s, c, kept.most);
    return use_rest(s, c);
}

/* ---- All of it ---- */

/* With this budget for what is fetched ahead. *is_there is false where that does not fit. */
static zn_status use_beside(const struct zn_plan_setup *lean, const struct zn_choices *c, size_t budget, struct zn_plan_setup *used,
                            bool *is_there)
{
    *used = *lean;
    if (c->prefetch_bytes == SIZE_MAX)
        zn_prefetch_set(&used->engine, budget);
    ZN_TRY(fits(used, is_there));
    if (!*is_there)
        return ZN_OK;
    if (c->keep_logits < 0 && used->engine.trains && used->engine.n_slices < 2)
        ZN_TRY(try_logits(used));
    return use_activations(used, c);
}

static bool is_complete(const struct zn_plan_setup *s)
{
    return !s->engine.recompute && (s->engine.keep_logits || s->engine.n_slices > 1);
}

static zn_status seconds_of(const struct zn_plan_setup *s, double *seconds)
{
    struct zn_prediction p;
    ZN_TRY(zn_predict(s, &p));
    *seconds = p.step;
    zn_prediction_fini(&p);
    return ZN_OK;
}

/* The next unit is fetched ahead where that leaves memory for all else; where it does not, budgets below it are weighed, too. */
static zn_status choose_budget(struct zn_plan_setup *s, const struct zn_choices *c, size_t unit, bool *fetches_next)
{
    struct zn_plan_setup best = *s, used;
    double least = 0, seconds = 0;
    bool is_there, found = false, done = false;
    for (size_t budget = unit; !done; budget = zn_prefetch_less(budget, zn_prefetch_least(unit))) {
        done = budget == 0;
        if (done && found)
            break;
        ZN_TRY(use_beside(s, c, budget, &used, &is_there));
        *fetches_next = *fetches_next || (is_there && budget >= unit);
        if (!is_there)
            continue;
        done = done || is_complete(&used) || c->prefetch_bytes != SIZE_MAX || !s->engine.trains;
        if (!done || found)
            ZN_TRY(seconds_of(&used, &seconds));
        if (!found || seconds < least) {
            best = used;
            least = seconds;
        }
        found = true;
    }
    *s = best;
    return ZN_OK;
}

zn_status zn_spare_use(struct zn_plan_setup *s, const struct zn_choices *c, struct zn_spare *spare)
{
    struct room lean = {.need = SIZE_MAX};
    if (zn_plan_may_fit(s))
        ZN_TRY(measure(s, &lean));
    *spare = (struct zn_spare){.fits = lean.fits, .need = lean.need};
    if (!lean.fits)
        return ZN_OK;
    ZN_TRY(choose_budget(s, c, lean.largest_unit, &spare->fetches_next));
    spare->is_complete = is_complete(s);
    return ZN_OK;
}
