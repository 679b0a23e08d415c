/* Programs of random models, traces and placements are right by the verifier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "schedule/written.h"

enum { N_CASES = 4000 };

/* What is drawn. */
struct drawn {
    uint64_t key, counter;
    struct written_model model;
    char text[8192];
    size_t n;
    struct zn_engine_options options;
    int n_ranks;
    bool tied;      /* the last segment uses the first parameter, too */
    int unused[2];  /* parameters that no operator writes a gradient of */
    bool frozen[MAX_PARAMS], quantised[MAX_PARAMS];
};

static int below(struct drawn *d, int n)
{
    return (int)zn_random_below(d->key, d->counter++, (uint64_t)n);
}

static void add(struct drawn *d, const char *format, ...) ZN_PRINTF(2, 3);

static void add(struct drawn *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    d->n += (size_t)vsnprintf(d->text + d->n, sizeof d->text - d->n, format, args);
    va_end(args);
    assert_true(d->n < sizeof d->text);
}

/* One to four parameters a segment, some of two dimensions and some above the tile limit. */
static void draw_model(struct drawn *d)
{
    char text[512];
    int n = 0, n_segments = 2 + below(d, 4), n_params = 0;
    for (int s = 0; s < n_segments; s++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%s", s ? " | " : "");
        for (int i = 1 + below(d, 4); i > 0; i--) {
            n += snprintf(text + n, sizeof text - (size_t)n, "p%d %d", n_params++, 1 + below(d, 3000));
            n += snprintf(text + n, sizeof text - (size_t)n, below(d, 3) ? "x%d " : " ", 1 + below(d, 4));
        }
    }
    write_model(&d->model, text);
}

static void draw_options(struct drawn *d)
{
    struct zn_engine_options *o = &d->options;
    *o = written_options();
    d->n_ranks = 1 + below(d, 4);
    o->trains = below(d, 8) > 0;
    o->stage = below(d, 4);
    o->type = below(d, 2) ? ZN_BF16 : ZN_F32;
    o->accumulate = 1 + below(d, 3);
    o->vertical = below(d, 4) == 0;
    o->reduce_every = !o->vertical && (o->stage >= 2 || below(d, 2));
    o->prefetch_bytes = below(d, 2) ? (size_t)below(d, 200000) : 0;
    o->reuse_bytes = below(d, 2) ? o->prefetch_bytes : 0;
    o->persist_bytes = below(d, 3) ? 0 : (size_t)below(d, 40000);
    o->tile_bytes = below(d, 2) ? 0 : (size_t)below(d, 40000);
    o->is_discrete = below(d, 2);
    o->offload = (struct zn_offload){.parameters = o->stage == 3 ? (zn_tier)below(d, 3) : ZN_TIER_DEVICE,
                                     .gradients = (zn_tier)below(d, 3),
                                     .optimizer = (zn_tier)below(d, 3),
                                     .activations = (zn_tier)below(d, 3)};
    if (o->offload.gradients == ZN_TIER_NVME && o->stage < 2 && d->n_ranks > 1)
        o->offload.gradients = ZN_TIER_HOST;
    o->in_backward = below(d, 4) == 0 && (o->stage > 0 || d->n_ranks == 1);
    o->delay_after = !o->in_backward && below(d, 4) == 0 ? below(d, 3) : -1;
    if (!o->trains)
        o->optimizer = NULL;
    if (o->trains && !o->in_backward && o->delay_after < 0 && !o->is_discrete && below(d, 2))
        o->optimizer = &zn_optimizer_muon;
    for (int i = 1; i < d->model.list.n_params; i++) /* the first is trained */
        d->frozen[i] = below(d, 3) == 0;
    o->frozen = o->trains && below(d, 2) ? d->frozen : NULL;
    o->frozen_type = below(d, 2) ? ZN_BF16 : ZN_F32;
    for (int i = 0; i < MAX_PARAMS; i++)
        d->quantised[i] = below(d, 2);
    o->quantised = !o->is_discrete && below(d, 2) ? d->quantised : NULL;
    o->quantised_type = below(d, 2) ? ZN_NF4 : ZN_INT8;
}

static int n_tiles(const zn_units *units, const zn_param *p)
{
    return (int)((p->dims[0] + units->tile_rows[p->index] - 1) / units->tile_rows[p->index]);
}

/* Operators of a segment, of its own parameters and of some before. */
static void draw_uses(struct drawn *d, const zn_units *units, int segment, bool backward)
{
    for (int i = 0; i < d->model.list.n_params; i++) {
        const zn_param *p = &d->model.params[i];
        bool is_second = d->tied && i == 0 && segment == d->model.list.n_segments - 1;
        bool opens = backward && i != d->unused[0] && i != d->unused[1] && !(d->options.frozen && d->frozen[i]);
        if (p->segment != segment && !is_second)
            continue;
        for (int k = 0; k < n_tiles(units, p); k++) {
            if (opens)
                add(d, "p%d:%d( ", i, k);
            if (!backward || below(d, 2))
                add(d, "p%d:%d ", i, k);
            if (opens)
                add(d, "p%d:%d) ", i, k);
        }
    }
}

static bool is_saved(const struct drawn *d, int s)
{
    return d->options.trains && d->options.offload.activations != ZN_TIER_DEVICE && s > 0 && s < d->model.list.n_segments - 1;
}

/* Forward, then backward with every segment computed again; micro-batches of a segment after each other where vertical. */
static void draw_trace(struct drawn *d, const zn_units *units)
{
    int n_segments = d->model.list.n_segments, n = d->options.vertical ? (int)d->options.accumulate : 1;
    d->tied = below(d, 2);
    for (int i = 0; i < 2; i++)
        d->unused[i] = below(d, 2) && d->model.list.n_params > 2 ? 1 + below(d, d->model.list.n_params - 1) : -1;
    for (int s = 0; s < n_segments; s++) {
        for (int a = 0; a < n && (s < n_segments - 1 || n == 1 || !d->options.trains); a++) {
            draw_uses(d, units, s, false);
            if (is_saved(d, s))
                add(d, "save%d ", s * n + a);
        }
        if (s < n_segments - 1 || n == 1)
            add(d, "f%d ", s);
    }
    for (int s = n_segments - 1; s >= 0 && d->options.trains; s--) {
        for (int a = 0; a < n; a++) {
            if (is_saved(d, s))
                add(d, "load%d ", s * n + a);
            int next = a + 1 < n ? a + 1 : 0, segment = a + 1 < n ? s : s - 1;
            if (segment >= 0 && is_saved(d, segment))
                add(d, "prefetch%d ", segment * n + next);
            if (s < n_segments - 1 || n > 1)
                draw_uses(d, units, s, false);
            draw_uses(d, units, s, true);
        }
        add(d, "b%d ", s);
    }
}

static void random_programs_are_right(void **state)
{
    (void)state;
    int n_refused = 0;
    for (uint64_t key = 0; key < N_CASES; key++) {
        struct drawn d = {.key = key};
        zn_units units;
        zn_engine_plan plan;
        draw_model(&d);
        draw_options(&d);
        OK(zn_compile_units(&d.model.list, &d.options, d.n_ranks, &units));
        draw_trace(&d, &units);
        zn_units_fini(&units);
        zn_status status = compile_written(&d.model, d.text, &d.options, d.n_ranks, &plan);
        if (status == ZN_ERR_UNSUPPORTED) {
            n_refused++;
            continue;
        }
        OK(status);
        if (zn_program_verify(&plan) != ZN_OK)
            fail_msg("case %d: %s", (int)key, zn_error_message());
        zn_engine_plan_fini(&plan);
    }
    assert_in_range(n_refused, N_CASES / 20, N_CASES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
