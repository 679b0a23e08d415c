/* The plan of gathers on random traces, and the time it hides on the virtual clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "comm/comm.h"
#include "device/device.h"
#include "schedule/gathers.h"

enum { N_TRACES = 400, MAX_UNITS = 12 };

/* A random trace with the sizes of its units and a budget. */
struct random_case {
    uint64_t key, counter;
    zn_gathers trace;
    size_t n_bytes[MAX_UNITS];
    int n_units;
    struct zn_gathers_options options;
};

static int below(struct random_case *c, int n)
{
    return (int)zn_random_below(c->key, c->counter++, (uint64_t)n);
}

static void case_init(struct random_case *c, uint64_t key)
{
    *c = (struct random_case){.key = key};
    zn_gathers_init(&c->trace);
    c->n_units = 1 + below(c, MAX_UNITS);
    for (int u = 0; u < c->n_units; u++) /* some are always there */
        c->n_bytes[u] = below(c, 6) == 0 ? 0 : 64 * (size_t)(1 + below(c, 40));
    int n_uses = below(c, 60);
    for (int i = 0; i < n_uses; i++)
        assert_int_equal(zn_gathers_use(&c->trace, below(c, c->n_units), 0, below(c, 10) == 0), ZN_OK);
    c->options.prefetch_bytes = 64 * (size_t)below(c, 4 * 40);
    c->options.reuse_bytes = below(c, 2) == 0 ? 0 : 64 * (size_t)below(c, 4 * 40);
}

static void plan_case(struct random_case *c)
{
    assert_int_equal(zn_gathers_plan(&c->trace, c->n_bytes, &c->options), ZN_OK);
}

/* Runs a check on the plans of many random traces. */
static void check_traces(void (*check)(struct random_case *c))
{
    for (uint64_t key = 0; key < N_TRACES; key++) {
        struct random_case c;
        case_init(&c, key);
        plan_case(&c);
        check(&c);
        zn_gathers_fini(&c.trace);
    }
}

static void check_served(struct random_case *c)
{
    const zn_gathers *t = &c->trace;
    for (int i = 0; i < t->n_uses; i++) {
        int g = t->gather_of[i];
        if (c->n_bytes[t->units[i]] == 0) {
            assert_int_equal(g, -1);
            continue;
        }
        assert_in_range(g, 0, t->n_gathers - 1);
        const struct zn_gather_plan *p = &t->gathers[g];
        assert_int_equal(p->unit, t->units[i]);
        assert_true(p->issue <= p->first_use && p->first_use <= i && i <= p->last_use);
    }
    for (int g = 0; g < t->n_gathers; g++) {
        assert_int_equal(t->gather_of[t->gathers[g].first_use], g);
        assert_int_equal(t->gather_of[t->gathers[g].last_use], g);
    }
}

static void every_use_is_served_by_a_gather_issued_before(void **state)
{
    (void)state;
    check_traces(check_served);
}

static void check_order(struct random_case *c)
{
    const zn_gathers *t = &c->trace;
    for (int g = 1; g < t->n_gathers; g++) {
        assert_true(t->gathers[g - 1].issue <= t->gathers[g].issue);
        assert_true(t->gathers[g - 1].first_use < t->gathers[g].first_use);
    }
    for (int g = 0; g < t->n_gathers; g++)
        assert_true(t->gathers[g].issue >= 0);
}

static void gathers_are_issued_in_order_of_use(void **state)
{
    (void)state;
    check_traces(check_order);
}

/* What was issued at or before use i and is first used after it. */
static size_t bytes_ahead(const struct random_case *c, int i)
{
    size_t sum = 0;
    for (int g = 0; g < c->trace.n_gathers; g++) {
        const struct zn_gather_plan *p = &c->trace.gathers[g];
        sum += p->issue <= i && p->first_use > i ? c->n_bytes[p->unit] : 0;
    }
    return sum;
}

static void check_budget(struct random_case *c)
{
    const zn_gathers *t = &c->trace;
    for (int i = 0; i < t->n_uses; i++)
        assert_true(bytes_ahead(c, i) <= c->options.prefetch_bytes);
}

static void what_is_ahead_stays_in_the_budget(void **state)
{
    (void)state;
    check_traces(check_budget);
}

/* Issued one gather's use earlier, it would not fit: nothing waits that need not. */
static void check_eager(struct random_case *c)
{
    zn_gathers *t = &c->trace;
    for (int g = 1; g < t->n_gathers; g++) {
        size_t sum = 0;
        int h = g; /* those that would be ahead at the use of gather h - 1, in order */
        while (h > 0 && sum + c->n_bytes[t->gathers[h].unit] <= c->options.prefetch_bytes)
            sum += c->n_bytes[t->gathers[h--].unit];
        assert_true(t->gathers[g].issue <= t->gathers[h].first_use);
    }
}

static void gathers_are_issued_as_early_as_the_budget_allows(void **state)
{
    (void)state;
    check_traces(check_eager);
}

static void check_buffers(struct random_case *c)
{
    const zn_gathers *t = &c->trace;
    for (int g = 0; g < t->n_gathers; g++) {
        const struct zn_gather_plan *p = &t->gathers[g];
        size_t end = p->offset + c->n_bytes[p->unit];
        assert_true(end <= t->region_bytes);
        for (int h = 0; h < g; h++) {
            const struct zn_gather_plan *q = &t->gathers[h];
            bool together = p->issue <= q->last_use && q->issue <= p->last_use;
            bool apart = end <= q->offset || q->offset + c->n_bytes[q->unit] <= p->offset;
            assert_true(!together || apart);
        }
    }
}

static void buffers_alive_together_do_not_overlap(void **state)
{
    (void)state;
    check_traces(check_buffers);
}

static void check_reuse(struct random_case *c)
{
    const zn_gathers *t = &c->trace;
    int n_gathered = 0;
    for (int i = 0; i < t->n_uses; i++)
        n_gathered += c->n_bytes[t->units[i]] > 0;
    if (c->options.reuse_bytes == 0)
        assert_int_equal(t->n_gathers, n_gathered);
    for (int i = 0; i < t->n_uses; i++) { /* a unit that is used again soon is not gathered again */
        size_t between = 0;
        int next = i + 1;
        while (next < t->n_uses && t->units[next] != t->units[i])
            between += c->n_bytes[t->units[next++]];
        if (next == t->n_uses || t->gather_of[i] < 0)
            continue;
        bool kept = t->gather_of[i] == t->gather_of[next];
        assert_int_equal(kept, c->options.reuse_bytes > 0 && between <= c->options.reuse_bytes);
    }
}

static void a_unit_is_kept_when_it_is_used_again_soon(void **state)
{
    (void)state;
    check_traces(check_reuse);
}

/* The same in, the same out: ranks that plan alone plan alike. */
static void check_pure(struct random_case *c)
{
    struct random_case again;
    case_init(&again, c->key);
    plan_case(&again);
    plan_case(&again); /* also over a plan that is there */
    const zn_gathers *a = &c->trace, *b = &again.trace;
    assert_int_equal(a->n_gathers, b->n_gathers);
    assert_int_equal(a->region_bytes, b->region_bytes);
    for (int g = 0; g < a->n_gathers; g++) {
        const struct zn_gather_plan *p = &a->gathers[g], *q = &b->gathers[g];
        assert_true(p->unit == q->unit && p->issue == q->issue && p->offset == q->offset);
        assert_true(p->first_use == q->first_use && p->last_use == q->last_use);
    }
    assert_memory_equal(a->gather_of, b->gather_of, (size_t)a->n_uses * sizeof *a->gather_of);
    zn_gathers_fini(&again.trace);
}

static void the_plan_is_a_pure_function(void **state)
{
    (void)state;
    check_traces(check_pure);
}

static void uses_in_a_row_are_one_unless_the_pass_turns(void **state)
{
    (void)state;
    zn_gathers t;
    zn_gathers_init(&t);
    for (int i = 0; i < 3; i++)
        assert_int_equal(zn_gathers_use(&t, 7, 0, false), ZN_OK);
    assert_int_equal(zn_gathers_use(&t, 7, 0, true), ZN_OK);
    assert_int_equal(zn_gathers_use(&t, 7, 0, false), ZN_OK);
    assert_int_equal(t.n_uses, 2);
    zn_gathers_fini(&t);
}

/* ---- Virtual time ---- */

enum { N_LAYERS = 6, N_USES = 2 * N_LAYERS, N_RANKS = 4, UNIT_BYTES = 1 << 20 };

static const double COMPUTE = 0.5; /* seconds of the kernel of one use */

/* Forward through the layers and back: every unit has the same size and every use the same cost. */
static void record_layers(zn_gathers *t)
{
    zn_gathers_init(t);
    for (int i = 0; i < N_USES; i++)
        assert_int_equal(zn_gathers_use(t, i < N_LAYERS ? i : N_USES - 1 - i, 0, i == N_LAYERS), ZN_OK);
}

struct world {
    zn_clock clock;
    zn_ledger ledger;
    zn_device *device;
    zn_comm *comm;
    struct zn_shared part;
    zn_event done[N_USES];
};

/* A gather of a unit takes comm_seconds, a kernel COMPUTE. */
static void world_init(struct world *w, double comm_seconds)
{
    double bandwidth = (N_RANKS - 1) * (UNIT_BYTES / N_RANKS) / comm_seconds;
    struct zn_sim_links links = {
        .n_ranks = N_RANKS, .ranks_per_node = N_RANKS, .node_bytes = bandwidth, .network_bytes = bandwidth};
    struct zn_sim_rates rates = {.flops = 1, .memory_bytes = UNIT_BYTES / COMPUTE, .launch = 0};
    zn_clock_init_virtual(&w->clock);
    zn_ledger_init(&w->ledger);
    assert_int_equal(zn_device_create_sim(&w->ledger, &w->clock, &rates, &w->device), ZN_OK);
    assert_int_equal(zn_comm_create_sim(&w->clock, &links, &w->comm), ZN_OK);
    assert_int_equal(zn_comm_alloc(w->comm, UNIT_BYTES, &w->part), ZN_OK);
    for (int i = 0; i < N_USES; i++)
        zn_event_init(&w->done[i]);
}

static void world_fini(struct world *w)
{
    for (int i = 0; i < N_USES; i++)
        zn_event_fini(&w->done[i]);
    zn_comm_free(w->comm, &w->part);
    zn_comm_destroy(w->comm);
    zn_device_destroy(w->device);
}

static void submit(struct world *w, const zn_gathers *t, int g)
{
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, t->gathers[g].unit},
                               .from = &w->part,
                               .n_bytes = UNIT_BYTES / N_RANKS,
                               .to = zn_extent_of(NULL, UNIT_BYTES)};
    assert_int_equal(zn_comm_gather(w->comm, &gather, &w->done[g]), ZN_OK);
}

/* One pass along the plan: at each use what is due is issued, the unit is waited for, and its kernel runs to its
 * end, as the next use needs its result. Returns the virtual seconds. */
static double run_pass(double comm_seconds, size_t prefetch_bytes)
{
    struct world w;
    zn_gathers t;
    size_t n_bytes[N_LAYERS];
    int next = 0;
    for (int u = 0; u < N_LAYERS; u++)
        n_bytes[u] = UNIT_BYTES;
    world_init(&w, comm_seconds);
    record_layers(&t);
    assert_int_equal(zn_gathers_plan(&t, n_bytes, &(struct zn_gathers_options){.prefetch_bytes = prefetch_bytes}), ZN_OK);
    assert_int_equal(t.n_gathers, N_USES);
    for (int i = 0; i < N_USES; i++) {
        for (; next < t.n_gathers && t.gathers[next].issue <= i; next++)
            submit(&w, &t, next);
        assert_int_equal(zn_event_wait(&w.done[t.gather_of[i]], &w.clock), ZN_OK);
        assert_int_equal(zn_run_zero(w.device, &(struct zn_zero_args){.dst = 4096, .n_bytes = UNIT_BYTES}), ZN_OK);
        assert_int_equal(w.device->ops->synchronize(w.device), ZN_OK);
    }
    double seconds = zn_clock_now(&w.clock);
    zn_gathers_fini(&t);
    world_fini(&w);
    return seconds;
}

static void assert_seconds(double found, double wanted)
{
    if (!(found > wanted * (1 - 1e-12) && found < wanted * (1 + 1e-12)))
        fail_msg("%.17g seconds, not %.17g", found, wanted);
}

static void without_prefetch_all_communication_shows(void **state)
{
    (void)state;
    for (double comm = COMPUTE / 8; comm <= 4 * COMPUTE; comm *= 2)
        assert_seconds(run_pass(comm, 0), N_USES * (comm + COMPUTE));
}

/* One unit ahead: the first gather shows, then of each further one what is longer than the kernel beside it. */
static void prefetch_hides_what_compute_covers(void **state)
{
    (void)state;
    for (double comm = COMPUTE / 8; comm <= 4 * COMPUTE; comm *= 2) {
        double exposed = comm > COMPUTE ? comm - COMPUTE : 0;
        assert_seconds(run_pass(comm, UNIT_BYTES), comm + N_USES * COMPUTE + (N_USES - 1) * exposed);
    }
}

/* On a trace of equal steps more buffers do not help a link that is too slow, and a fast one needs no more. */
static void a_deeper_prefetch_changes_nothing_here(void **state)
{
    (void)state;
    for (double comm = COMPUTE / 8; comm <= 4 * COMPUTE; comm *= 2)
        assert_seconds(run_pass(comm, 4 * UNIT_BYTES), run_pass(comm, UNIT_BYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_use_is_served_by_a_gather_issued_before),
        cmocka_unit_test(gathers_are_issued_in_order_of_use),
        cmocka_unit_test(what_is_ahead_stays_in_the_budget),
        cmocka_unit_test(gathers_are_issued_as_early_as_the_budget_allows),
        cmocka_unit_test(buffers_alive_together_do_not_overlap),
        cmocka_unit_test(a_unit_is_kept_when_it_is_used_again_soon),
        cmocka_unit_test(the_plan_is_a_pure_function),
        cmocka_unit_test(uses_in_a_row_are_one_unless_the_pass_turns),
        cmocka_unit_test(without_prefetch_all_communication_shows),
        cmocka_unit_test(prefetch_hides_what_compute_covers),
        cmocka_unit_test(a_deeper_prefetch_changes_nothing_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
