/* The simulated communicator: virtual time by the links' formulas, traffic, no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"

/* Sums of times in doubles: equal but for their last places. */
static void assert_seconds(double found, double wanted)
{
    assert_true(found > wanted * (1 - 1e-12) && found < wanted * (1 + 1e-12));
}

struct sim_world {
    zn_clock clock;
    zn_comm *comm;
    struct zn_shared part;
    zn_event done;
};

static void begin(struct sim_world *w, int n_ranks, int ranks_per_node)
{
    struct zn_sim_links links = {.n_ranks = n_ranks,
                                 .ranks_per_node = ranks_per_node,
                                 .node_bytes = 100e9,
                                 .network_bytes = 10e9,
                                 .latency = 1e-5};
    zn_clock_init_virtual(&w->clock);
    assert_int_equal(zn_comm_create_sim(&w->clock, &links, &w->comm), ZN_OK);
    assert_int_equal(zn_comm_alloc(w->comm, (size_t)1 << 50, &w->part), ZN_OK);
    assert_null(w->part.address);
    zn_event_init(&w->done);
}

static void end(struct sim_world *w)
{
    zn_event_fini(&w->done);
    zn_comm_free(w->comm, &w->part);
    zn_comm_destroy(w->comm);
}

static double gather_seconds(struct sim_world *w, size_t n_bytes)
{
    double before = zn_clock_now(&w->clock);
    struct zn_gather gather = {.from = &w->part, .n_bytes = n_bytes, .to = zn_extent_of(NULL, SIZE_MAX)};
    zn_event_reset(&w->done);
    assert_int_equal(zn_comm_gather(w->comm, &gather, &w->done), ZN_OK);
    assert_true(zn_clock_now(&w->clock) == before); /* submitting does not wait */
    assert_int_equal(zn_event_wait(&w->done, &w->clock), ZN_OK);
    return zn_clock_now(&w->clock) - before;
}

static void a_gather_takes_the_time_of_its_links(void **state)
{
    (void)state;
    struct sim_world w;
    begin(&w, 8, 8); /* all on one node */
    assert_int_equal(zn_comm_n_local(w.comm), 8);
    assert_seconds(gather_seconds(&w, 1000000000), 1e-5 + 7 * 0.01);
    end(&w);
    begin(&w, 512, 16); /* the network decides */
    assert_int_equal(zn_comm_n_local(w.comm), 16);
    assert_seconds(gather_seconds(&w, 1000000), 1e-5 + 496 * 1e-4);
    end(&w);
    begin(&w, 1, 16);
    assert_true(gather_seconds(&w, 1000000) == 0);
    end(&w);
}

static void a_reduce_counts_the_wire(void **state)
{
    (void)state;
    struct sim_world w;
    begin(&w, 4, 4);
    struct zn_reduce reduce = {.tag = {ZN_COMM_REDUCE_GRAD, 0},
                               .from = &w.part,
                               .to = zn_extent_of(NULL, SIZE_MAX),
                               .n_elements = 1000000000,
                               .wire = ZN_BF16};
    assert_int_equal(zn_comm_reduce(w.comm, &reduce, &w.done), ZN_OK);
    assert_int_equal(zn_event_wait(&w.done, &w.clock), ZN_OK);
    assert_seconds(zn_clock_now(&w.clock), 1e-5 + 3 * 0.02);
    assert_int_equal(zn_comm_sent(w.comm, ZN_COMM_REDUCE_GRAD), 3 * 2000000000ull);
    assert_int_equal(zn_comm_sent(w.comm, ZN_COMM_GATHER_PARAM), 0);
    end(&w);
}

static void requests_wait_for_each_other_and_for_events(void **state)
{
    (void)state;
    struct sim_world w;
    zn_event computed;
    begin(&w, 2, 2);
    zn_event_init(&computed);
    zn_event_set(&computed, ZN_OK, NULL, 5);
    struct zn_gather gather = {.from = &w.part, .n_bytes = 100000000000, .to = zn_extent_of(NULL, SIZE_MAX), .after = {&computed}};
    assert_int_equal(zn_comm_gather(w.comm, &gather, NULL), ZN_OK);
    gather.after[0] = NULL;
    assert_int_equal(zn_comm_gather(w.comm, &gather, &w.done), ZN_OK);
    assert_int_equal(zn_event_wait(&w.done, &w.clock), ZN_OK);
    assert_seconds(zn_clock_now(&w.clock), 5 + 2 * (1 + 1e-5));
    zn_event_fini(&computed);
    end(&w);
}

static void all_ranks_say_the_same(void **state)
{
    (void)state;
    struct sim_world w;
    int all[3] = {0}, mine = 42;
    begin(&w, 3, 3);
    assert_int_equal(zn_comm_exchange(w.comm, &mine, sizeof mine, all), ZN_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(all[i], 42);
    assert_true(zn_clock_now(&w.clock) >= 1e-5);
    assert_int_equal(zn_comm_agree(w.comm, zn_fail(ZN_ERR_INPUT, "bad")), ZN_ERR_INPUT);
    assert_string_equal(zn_error_message(), "rank 0: bad");
    assert_int_equal(zn_comm_sent(w.comm, ZN_COMM_GATHER_PARAM), 0);
    end(&w);
}

/* What comes from other nodes crosses the faster link within, too, where it is handed on there. */
static void what_is_relayed_crosses_both_links(void **state)
{
    (void)state;
    struct zn_sim_links links = {
        .n_ranks = 8, .ranks_per_node = 4, .node_bytes = 10e9, .network_bytes = 10e9, .relayed = true};
    for (int relayed = 0; relayed <= 1; relayed++) {
        struct sim_world w = {0};
        links.relayed = relayed;
        zn_clock_init_virtual(&w.clock);
        assert_int_equal(zn_comm_create_sim(&w.clock, &links, &w.comm), ZN_OK);
        assert_int_equal(zn_comm_alloc(w.comm, (size_t)1 << 50, &w.part), ZN_OK);
        zn_event_init(&w.done);
        assert_seconds(gather_seconds(&w, 1000000000), relayed ? 0.7 : 0.4);
        end(&w);
    }
}

/* On processors a sum takes as long as its terms are added, also of one rank, and a gather copies the own piece, too. */
static void processors_add_and_copy(void **state)
{
    (void)state;
    struct sim_world w = {0};
    struct zn_sim_links links = {.n_ranks = 2, .ranks_per_node = 2, .node_bytes = 10e9, .network_bytes = 1,
                                 .sum_bytes = {4e9, 2e9, 1e9}, .copies_own = true};
    for (links.n_ranks = 1; links.n_ranks <= 2; links.n_ranks++) {
        zn_clock_init_virtual(&w.clock);
        assert_int_equal(zn_comm_create_sim(&w.clock, &links, &w.comm), ZN_OK);
        assert_int_equal(zn_comm_alloc(w.comm, (size_t)1 << 50, &w.part), ZN_OK);
        zn_event_init(&w.done);
        double seconds = gather_seconds(&w, 1000000000), before = zn_clock_now(&w.clock);
        if (links.n_ranks == 2)
            assert_seconds(seconds, 0.2);
        struct zn_reduce reduce = {.from = &w.part, .n_elements = 1000000, .wire = ZN_BF16, .to = zn_extent_of(NULL, SIZE_MAX)};
        zn_event_reset(&w.done);
        assert_int_equal(zn_comm_reduce(w.comm, &reduce, &w.done), ZN_OK);
        assert_int_equal(zn_event_wait(&w.done, &w.clock), ZN_OK);
        assert_seconds(zn_clock_now(&w.clock) - before + 1, 1 + links.n_ranks * 4e6 / 2e9);
        end(&w);
    }
}

static void links_without_bandwidth_are_refused(void **state)
{
    (void)state;
    zn_clock clock;
    zn_comm *comm;
    zn_clock_init_virtual(&clock);
    struct zn_sim_links links = {.n_ranks = 2, .ranks_per_node = 2, .network_bytes = 1};
    assert_int_equal(zn_comm_create_sim(&clock, &links, &comm), ZN_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gather_takes_the_time_of_its_links),
        cmocka_unit_test(a_reduce_counts_the_wire),
        cmocka_unit_test(requests_wait_for_each_other_and_for_events),
        cmocka_unit_test(all_ranks_say_the_same),
        cmocka_unit_test(what_is_relayed_crosses_both_links),
        cmocka_unit_test(processors_add_and_copy),
        cmocka_unit_test(links_without_bandwidth_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
