/* Which cores a rank gets: on synthetic machines, over many shapes and counts, and bound for real on this one. */
#include "files.h"

#include <pthread.h>
#include <sched.h>

#include "base/topology.h"

/* "0-3|4-7": the processors of each rank, on a machine in hwloc's words. */
static void check(const char *machine, const char *mask, int n_ranks, int n_threads, const char *expected)
{
    zn_topology *topology;
    char found[1024] = "";
    OK(zn_topology_read_synthetic(machine, mask, &topology));
    for (int rank = 0; rank < n_ranks; rank++) {
        struct zn_place place;
        zn_topology_place(topology, rank, n_ranks, n_threads, &place);
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", rank ? "|" : "", place.processors);
    }
    if (strcmp(found, expected) != 0)
        fail_msg("%d ranks of %d threads on '%s' get %s, should get %s", n_ranks, n_threads, machine, found, expected);
    zn_topology_destroy(topology);
}

static const char two_sockets[] = "pack:2 [numa] core:4 pu:2"; /* core c is processors 2c and 2c + 1 */
static const char four_nodes[] = "numa:4 core:4 pu:1";
static const char one_core[] = "numa:1 core:1 pu:1";

static void two_sockets_with_two_threads_a_core(void **state)
{
    (void)state;
    check(two_sockets, NULL, 1, 8, "0-15");
    check(two_sockets, NULL, 2, 4, "0-7|8-15");
    check(two_sockets, NULL, 4, 2, "0-3|4-7|8-11|12-15");
    check(two_sockets, NULL, 8, 1, "0-1|2-3|4-5|6-7|8-9|10-11|12-13|14-15");
    check(two_sockets, NULL, 3, 2, "0-7|8-11|12-15"); /* no rank on both sockets */
    check(two_sockets, NULL, 2, 8, "0-7|8-15");     /* threads on every hardware thread */
}

static void four_numa_nodes(void **state)
{
    (void)state;
    check(four_nodes, NULL, 4, 4, "0-3|4-7|8-11|12-15");
    check(four_nodes, NULL, 2, 8, "0-7|8-15");
    check(four_nodes, NULL, 8, 2, "0-1|2-3|4-5|6-7|8-9|10-11|12-13|14-15");
    check(four_nodes, NULL, 3, 4, "0-3|4-7|8-11"); /* a domain holds four threads: no rank has two */
    check(four_nodes, NULL, 3, 5, "0-4|5-9|10-15"); /* it does not hold five */
}

static void few_threads_stay_in_few_domains(void **state)
{
    (void)state;
    check(four_nodes, NULL, 2, 3, "0-3|8-11");
    check(four_nodes, NULL, 2, 4, "0-3|8-11");
    check(four_nodes, NULL, 2, 5, "0-7|8-15");
    check(four_nodes, NULL, 1, 1, "0-15"); /* alone: another job may be, too */
}

static void what_does_not_fit_side_by_side_is_shared(void **state)
{
    (void)state;
    check(one_core, NULL, 1, 1, "0");
    check(one_core, NULL, 3, 1, "0|0|0");
    check("numa:1 core:2 pu:1", NULL, 3, 1, "0-1|0-1|0-1");
    check("numa:1 core:2 pu:1", NULL, 2, 2, "0-1|0-1");
    check(two_sockets, NULL, 2, 9, "0-15|0-15");
}

/* Someone has narrowed the mask: halves of cores, parts of domains, and a domain alone. */
static void a_mask_is_not_left(void **state)
{
    (void)state;
    check(two_sockets, "0-7", 2, 2, "0-3|4-7");
    check(two_sockets, "8-15", 1, 4, "8-15");
    check(two_sockets, "1,3,9,11", 2, 2, "1,3|9,11");
    check(two_sockets, "0-1,8-15", 2, 1, "0-1|8-15");
    check(two_sockets, "0-1,8-15", 2, 2, "0-1,8-9|10-15"); /* one core of the first socket is too little */
    check(two_sockets, "5", 2, 1, "5|5");
    check(four_nodes, "2-5", 4, 1, "2|3|4|5");
}

static void places_say_what_they_are(void **state)
{
    (void)state;
    zn_topology *topology, *same, *other;
    struct zn_place place;
    OK(zn_topology_read_synthetic(two_sockets, "0-6,8-15", &topology));
    assert_int_equal(zn_topology_n_cores(topology), 8);
    assert_int_equal(zn_topology_n_domains(topology), 2);
    zn_topology_place(topology, 0, 2, 4, &place);
    assert_true(place.n_processors == 7 && place.domain == 0 && !place.is_all && place.cores.n == 4);
    zn_topology_place(topology, 1, 2, 4, &place);
    assert_true(place.n_processors == 8 && place.domain == 1 && !place.is_all && place.cores.first == 4);
    zn_topology_place(topology, 0, 1, 8, &place);
    assert_true(place.domain == -1 && place.is_all);
    OK(zn_topology_read_synthetic(two_sockets, "0-6,8-15", &same));
    OK(zn_topology_read_synthetic(two_sockets, "0-7,8-14", &other));
    assert_true(zn_topology_mask_hash(topology) == zn_topology_mask_hash(same));
    assert_true(zn_topology_mask_hash(topology) != zn_topology_mask_hash(other));
    zn_topology_destroy(topology);
    zn_topology_destroy(same);
    zn_topology_destroy(other);
    FAILS(zn_topology_read_synthetic("nonsense", NULL, &topology), ZN_ERR_USAGE, "nonsense", "hwloc");
    FAILS(zn_topology_read_synthetic(one_core, "4-", &topology), ZN_ERR_IO, "no processor", "");
}

/* ---- All shapes ---- */

static bool overlap(struct zn_core_range a, struct zn_core_range b)
{
    return a.first < b.first + b.n && b.first < a.first + a.n;
}

static int processors(const struct zn_core *cores, struct zn_core_range range)
{
    int n = 0;
    for (int i = range.first; i < range.first + range.n; i++)
        n += cores[i].n_processors;
    return n;
}

/* What must hold for any machine: no overlap, room for the threads, or all of it for everyone. */
static void check_shares(const struct zn_core *cores, int n_cores, int n_ranks, int n_threads)
{
    struct zn_core_range range[16];
    int n_all = 0;
    for (int r = 0; r < n_ranks; r++) {
        range[r] = zn_core_share(cores, n_cores, r, n_ranks, n_threads);
        if (range[r].n < 1 || range[r].first < 0 || range[r].first + range[r].n > n_cores)
            fail_msg("rank %d of %d: cores %d and %d more of %d", r, n_ranks, range[r].first, range[r].n, n_cores);
        n_all += range[r].n == n_cores;
    }
    bool fits = n_cores >= n_ranks; /* side by side */
    for (int r = 0; r < n_ranks && fits; r++) {
        int from = r * n_cores / n_ranks, to = (r + 1) * n_cores / n_ranks;
        fits = processors(cores, (struct zn_core_range){from, to - from}) >= n_threads;
    }
    if (!fits && n_all == n_ranks)
        return;
    assert_true(n_all == 0 || n_ranks == 1);
    int n_domains = cores[n_cores - 1].domain + 1, even = n_cores / n_ranks;
    for (int r = 0; r < n_ranks; r++) {
        assert_true(processors(cores, range[r]) >= n_threads);
        assert_true(range[r].n >= (n_threads < even ? n_threads : even));
        for (int k = 0; k < r; k++)
            assert_false(overlap(range[r], range[k]));
    }
    /* With a domain for each rank, or several equal ones, none reaches into another's. */
    bool equal = n_cores % n_domains == 0;
    for (int i = 0; i < n_cores && equal; i++)
        equal = cores[i].domain == i / (n_cores / n_domains);
    for (int r = 0; r < n_ranks && equal && n_ranks % n_domains == 0 && n_threads <= even; r++)
        assert_int_equal(cores[range[r].first].domain, cores[range[r].first + range[r].n - 1].domain);
}

static void every_shape_and_count(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        struct zn_core cores[40];
        int n = 0, n_domains = 1 + (int)(random >> 33) % 5;
        for (int d = 0; d < n_domains; d++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            int in_domain = 1 + (int)((random >> 40) % 8);
            for (int i = 0; i < in_domain; i++)
                cores[n++] = (struct zn_core){.domain = d, .n_processors = 1 + (int)((random >> (20 + i)) & 1)};
        }
        check_shares(cores, n, 1 + (int)((random >> 50) % 16), 1 + (int)((random >> 56) % 10));
    }
}

/* ---- This machine ---- */

static void *own_mask(void *mask)
{
    return (void *)(intptr_t)sched_getaffinity(0, sizeof(cpu_set_t), mask);
}

static void threads_follow(void **state)
{
    (void)state;
    zn_topology *topology;
    struct zn_place place;
    cpu_set_t before, bound, inherited, after;
    pthread_t thread;
    void *failed;
    OK(zn_topology_read(&topology));
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int n = zn_topology_n_cores(topology);
    zn_topology_place(topology, n - 1, n, 1, &place); /* the last core */
    if (zn_topology_bind(topology, &place) != ZN_OK) {
        print_message("this system does not let a process bind itself: %s\n", zn_error_message());
        zn_topology_destroy(topology);
        skip();
    }
    assert_int_equal(sched_getaffinity(0, sizeof bound, &bound), 0);
    assert_int_equal(CPU_COUNT(&bound), place.n_processors);
    assert_true(n == 1 || !CPU_EQUAL(&bound, &before));
    CPU_AND(&after, &bound, &before);
    assert_true(CPU_EQUAL(&after, &bound));
    assert_int_equal(pthread_create(&thread, NULL, own_mask, &inherited), 0);
    pthread_join(thread, &failed);
    assert_true(!failed && CPU_EQUAL(&inherited, &bound));
    zn_topology_unbind(topology);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&after, &before));
    zn_topology_destroy(topology);
}

static void the_environment_turns_it_off(void **state)
{
    (void)state;
    static const char *const names[] = {"ZINC_BIND", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
    for (size_t i = 0; i < COUNT(names); i++)
        unsetenv(names[i]);
    assert_null(zn_bind_is_off());
    setenv("ZINC_BIND", "on", 1);
    assert_null(zn_bind_is_off());
    for (size_t i = 0; i < COUNT(names); i++) {
        setenv(names[i], "off", 1);
        assert_non_null(strstr(zn_bind_is_off(), names[i]));
        unsetenv(names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sockets_with_two_threads_a_core),
        cmocka_unit_test(four_numa_nodes),
        cmocka_unit_test(few_threads_stay_in_few_domains),
        cmocka_unit_test(what_does_not_fit_side_by_side_is_shared),
        cmocka_unit_test(a_mask_is_not_left),
        cmocka_unit_test(places_say_what_they_are),
        cmocka_unit_test(every_shape_and_count),
        cmocka_unit_test(threads_follow),
        cmocka_unit_test(the_environment_turns_it_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
