/* The simulated communicator and its groups: virtual time by the links' formulas, traffic, no memory. */
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

/* ---- Groups ---- */

struct sim_groups {
    struct sim_world world;
    zn_comm *comms[ZN_N_AXES];
    struct zn_shared parts[ZN_N_AXES];
};

static void split(struct sim_groups *g, int n_ranks, int ranks_per_node, struct zn_mesh mesh)
{
    begin(&g->world, n_ranks, ranks_per_node);
    assert_int_equal(zn_comm_split(g->world.comm, &mesh, g->comms), ZN_OK);
    assert_ptr_equal(g->comms[ZN_WORLD], g->world.comm);
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++)
        assert_int_equal(zn_comm_alloc(g->comms[axis], (size_t)1 << 50, &g->parts[axis]), ZN_OK);
}

static void join(struct sim_groups *g)
{
    zn_comm_destroy_groups(g->comms);
    end(&g->world);
}

/* A gather of pieces of 10^9 bytes in the group: 0.01 s for each peer on the node, 0.1 s for each on another. */
static void assert_gather(struct sim_groups *g, zn_axis axis, int n_ranks, int n_local, double seconds)
{
    assert_int_equal(zn_comm_n_ranks(g->comms[axis]), n_ranks);
    assert_int_equal(zn_comm_n_local(g->comms[axis]), n_local);
    double before = zn_clock_now(&g->world.clock);
    struct zn_gather gather = {.from = &g->parts[axis], .n_bytes = 1000000000, .to = zn_extent_of(NULL, SIZE_MAX)};
    zn_event_reset(&g->world.done);
    assert_int_equal(zn_comm_gather(g->comms[axis], &gather, &g->world.done), ZN_OK);
    assert_int_equal(zn_event_wait(&g->world.done, &g->world.clock), ZN_OK);
    assert_seconds(zn_clock_now(&g->world.clock) - before + 1, 1 + seconds);
    assert_int_equal(zn_comm_sent(g->comms[axis], ZN_COMM_GATHER_PARAM), (uint64_t)(n_ranks - 1) * 1000000000);
}

static void groups_take_the_links_between_their_ranks(void **state)
{
    (void)state;
    struct sim_groups g;
    split(&g, 16, 4, (struct zn_mesh){4, 2, 2}); /* a node holds sequence × tensor */
    assert_gather(&g, ZN_WORLD, 16, 4, 1e-5 + 12 * 0.1);
    assert_gather(&g, ZN_DATA, 4, 1, 1e-5 + 3 * 0.1);
    assert_gather(&g, ZN_SEQUENCE, 2, 2, 1e-5 + 0.01);
    assert_gather(&g, ZN_TENSOR, 2, 2, 1e-5 + 0.01);
    assert_gather(&g, ZN_REPLICA, 8, 2, 1e-5 + 6 * 0.1);
    assert_gather(&g, ZN_NODE, 4, 4, 1e-5 + 3 * 0.01);
    join(&g);
    split(&g, 4, 1, (struct zn_mesh){2, 1, 2}); /* each rank on a node of its own */
    assert_gather(&g, ZN_TENSOR, 2, 1, 1e-5 + 0.1);
    assert_gather(&g, ZN_SEQUENCE, 1, 1, 0);
    assert_gather(&g, ZN_NODE, 1, 1, 0);
    join(&g);
}

/* Ranks 0 to 2 share a node, but rank 3 is apart from 4 and 5. */
static void the_group_that_is_spread_most_decides(void **state)
{
    (void)state;
    struct sim_groups g;
    split(&g, 6, 4, (struct zn_mesh){2, 1, 3});
    assert_gather(&g, ZN_TENSOR, 3, 1, 1e-5 + 2 * 0.1);
    join(&g);
}

static void groups_work_side_by_side(void **state)
{
    (void)state;
    struct sim_groups g;
    zn_event done[2];
    split(&g, 4, 4, (struct zn_mesh){2, 1, 2});
    double before = zn_clock_now(&g.world.clock);
    for (int i = 0; i < 2; i++) {
        zn_axis axis = i == 0 ? ZN_DATA : ZN_TENSOR;
        struct zn_gather gather = {.from = &g.parts[axis], .n_bytes = 100000000000, .to = zn_extent_of(NULL, SIZE_MAX)};
        zn_event_init(&done[i]);
        for (int k = 0; k <= i; k++) /* in one group one after the other */
            assert_int_equal(zn_comm_gather(g.comms[axis], &gather, &done[i]), ZN_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(zn_event_wait(&done[i], &g.world.clock), ZN_OK);
        assert_seconds(zn_clock_now(&g.world.clock) - before, (i + 1) * (1 + 1e-5));
        zn_event_fini(&done[i]);
    }
    join(&g);
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
        cmocka_unit_test(groups_take_the_links_between_their_ranks),
        cmocka_unit_test(the_group_that_is_spread_most_decides),
        cmocka_unit_test(groups_work_side_by_side),
        cmocka_unit_test(links_without_bandwidth_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
