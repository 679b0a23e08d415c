/* Communicators with ranks as threads, and with one rank: collectives, failures, traffic. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/checks.h"

enum { MAX_RANKS = 8 };

struct rank_thread {
    struct world world;
    void (*body)(const struct world *world);
};

static void *run_rank(void *arg)
{
    struct rank_thread *t = arg;
    t->body(&t->world);
    zn_comm_destroy(t->world.comm);
    return NULL;
}

/* Runs `body` on every rank of a communicator of n threads. */
static void on_ranks(int n, void (*body)(const struct world *world))
{
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct rank_thread ranks[MAX_RANKS];
    zn_clock_init_real(&clock);
    assert_int_equal(zn_comm_create_threads(&clock, n, comms), ZN_OK);
    for (int r = 0; r < n; r++) {
        assert_int_equal(zn_comm_rank(comms[r]), r);
        assert_int_equal(zn_comm_n_ranks(comms[r]), n);
        assert_int_equal(zn_comm_n_local(comms[r]), n);
        assert_int_equal(zn_comm_local_rank(comms[r]), r);
        ranks[r] = (struct rank_thread){{comms[r], &clock, r, n, NULL}, body};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}

static void one_thread_does_all(void **state)
{
    (void)state;
    on_ranks(1, check_all);
}

static void two_threads_do_all(void **state)
{
    (void)state;
    on_ranks(2, check_all);
}

static void three_threads_do_all(void **state)
{
    (void)state;
    on_ranks(3, check_all);
}

static void four_threads_do_all(void **state)
{
    (void)state;
    on_ranks(4, check_all);
}

static void eight_threads_do_all(void **state)
{
    (void)state;
    on_ranks(8, check_all);
}

static void self_does_all_on_the_caller(void **state)
{
    (void)state;
    zn_clock clock;
    zn_comm *comm;
    zn_clock_init_real(&clock);
    assert_int_equal(zn_comm_create_self(&clock, &comm), ZN_OK);
    struct world world = {comm, &clock, 0, 1, NULL};
    check_all(&world);
    assert_int_equal(zn_comm_sent(comm, ZN_COMM_REDUCE_GRAD), 0);
    zn_comm_destroy(comm);
    zn_comm_destroy(NULL);
}

/* ---- Order ---- */

static void *set_later(void *arg)
{
    usleep(20000);
    zn_event_set(arg, ZN_OK, NULL, 0);
    return NULL;
}

static void gather_after_an_event(const struct world *w)
{
    struct zn_shared part;
    int all[MAX_RANKS];
    zn_event before, done;
    pthread_t setter;
    CHECK(zn_comm_alloc(w->comm, sizeof(int), &part) == ZN_OK);
    zn_event_init(&before);
    zn_event_init(&done);
    struct zn_gather gather = {.from = &part,
                               .n_bytes = sizeof(int),
                               .to = zn_extent_of(all, sizeof all),
                               .after = {w->rank == 1 ? &before : NULL}};
    CHECK(zn_comm_gather(w->comm, &gather, &done) == ZN_OK);
    if (w->rank == 1) {
        *(int *)(void *)part.address = 5; /* before the event, so it must be seen */
        CHECK(pthread_create(&setter, NULL, set_later, &before) == 0);
    }
    wait_for(w, &done);
    CHECK(all[1] == 5);
    if (w->rank == 1)
        pthread_join(setter, NULL);
    zn_event_fini(&before);
    zn_comm_free(w->comm, &part);
}

static void *set_and_reset_later(void *arg)
{
    set_later(arg);
    zn_event_reset(arg); /* it is used for something else that does not end */
    return NULL;
}

/* Both events are used again while the request waits for the one and has not ended the other. */
static void gather_with_events_that_are_used_again(const struct world *w)
{
    struct zn_shared part;
    int all[MAX_RANKS];
    zn_event before, done;
    pthread_t setter;
    CHECK(zn_comm_alloc(w->comm, sizeof(int), &part) == ZN_OK);
    zn_event_init(&before);
    zn_event_init(&done);
    struct zn_gather gather = {
        .from = &part, .n_bytes = sizeof(int), .to = zn_extent_of(all, sizeof all), .after = {&before}};
    CHECK(zn_comm_gather(w->comm, &gather, &done) == ZN_OK);
    struct zn_ticket gathered = zn_event_ticket(&done);
    zn_event_reset(&done);
    CHECK(pthread_create(&setter, NULL, set_and_reset_later, &before) == 0);
    CHECK(zn_ticket_wait(gathered, w->clock) == ZN_OK);
    CHECK(!zn_event_poll(&done, 0));
    pthread_join(setter, NULL);
    zn_event_fini(&before);
    zn_event_fini(&done);
    zn_comm_free(w->comm, &part);
}

static void a_request_keeps_to_the_use_of_its_events(void **state)
{
    (void)state;
    on_ranks(3, gather_with_events_that_are_used_again);
}

static void a_request_begins_after_its_event(void **state)
{
    (void)state;
    on_ranks(3, gather_after_an_event);
}

/* ---- Failures ---- */

static zn_status gather_once(const struct world *w, struct zn_shared *part, int unit,
                             size_t n_bytes, zn_event *after)
{
    unsigned char to[MAX_RANKS * 64];
    zn_event done;
    zn_event_init(&done);
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, unit},
                               .from = part,
                               .n_bytes = n_bytes,
                               .to = zn_extent_of(to, sizeof to),
                               .after = {after}};
    zn_status status = zn_comm_gather(w->comm, &gather, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, w->clock);
    zn_event_fini(&done);
    return status;
}

static void one_rank_aborts(const struct world *w)
{
    struct zn_shared part;
    CHECK(zn_comm_alloc(w->comm, 64, &part) == ZN_OK);
    if (w->rank == 1) {
        usleep(10000);
        zn_comm_abort(w->comm, zn_fail(ZN_ERR_IO, "the disk is gone"));
        CHECK(strcmp(zn_error_message(), "rank 1: the disk is gone") == 0);
        zn_comm_abort(w->comm, zn_fail(ZN_ERR_IO, "more is gone")); /* the first failure is the job's */
        CHECK(strcmp(zn_error_message(), "rank 1: the disk is gone") == 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(gather_once(w, &part, 0, 64, NULL) == ZN_ERR_IO);
        CHECK(strcmp(zn_error_message(), "rank 1: the disk is gone") == 0);
    }
    CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_ERR_IO);
    struct zn_shared more;
    CHECK(zn_comm_alloc(w->comm, 64, &more) == ZN_ERR_IO);
    zn_comm_free(w->comm, &part);
}

static void abort_fails_every_request_of_all_ranks(void **state)
{
    (void)state;
    on_ranks(2, one_rank_aborts);
    on_ranks(4, one_rank_aborts);
}

/* What is agreed upon names its rank already. */
static void all_ranks_abort(const struct world *w)
{
    zn_status status = zn_comm_agree(w->comm, w->rank == 1 ? zn_fail(ZN_ERR_IO, "the disk is gone") : ZN_OK);
    CHECK(status == ZN_ERR_IO);
    zn_comm_abort(w->comm, status);
    CHECK(strcmp(zn_error_message(), "rank 1: the disk is gone") == 0);
}

static void a_failure_that_is_agreed_upon_stays_as_it_is(void **state)
{
    (void)state;
    on_ranks(3, all_ranks_abort);
}

static void ask_to_speak(const struct world *w)
{
    check_speaks(w);
}

static atomic_int n_speak;

static void fail_and_ask_to_speak(const struct world *w)
{
    if (w->rank == 0)
        zn_comm_abort(w->comm, zn_fail(ZN_ERR_IO, "the disk is gone"));
    CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_ERR_IO);
    atomic_fetch_add(&n_speak, zn_comm_speaks(w->comm));
}

static void one_rank_speaks(void **state)
{
    (void)state;
    for (int n_ranks = 1; n_ranks <= 4; n_ranks++)
        on_ranks(n_ranks, ask_to_speak);
    on_ranks(4, fail_and_ask_to_speak);
    assert_int_equal(atomic_load(&n_speak), 1);
}

static void one_source_fails(const struct world *w)
{
    struct zn_shared part;
    zn_event before;
    zn_event_init(&before);
    zn_event_set(&before, ZN_ERR_NUMERIC, "the kernel failed", 0);
    CHECK(zn_comm_alloc(w->comm, 64, &part) == ZN_OK);
    CHECK(gather_once(w, &part, 0, 64, w->rank == 2 ? &before : NULL) == ZN_ERR_NUMERIC);
    CHECK(strcmp(zn_error_message(), "rank 2: the kernel failed") == 0);
    zn_event_fini(&before);
}

static void a_failed_source_fails_all_ranks(void **state)
{
    (void)state;
    on_ranks(3, one_source_fails);
}

static void ask_for_different_units(const struct world *w)
{
    struct zn_shared part;
    CHECK(zn_comm_alloc(w->comm, 64, &part) == ZN_OK);
    CHECK(gather_once(w, &part, 4, 64, NULL) == ZN_OK);
    CHECK(gather_once(w, &part, w->rank == 1 ? 6 : 5, 64, NULL) == ZN_ERR_INTERNAL);
    CHECK(strstr(zn_error_message(), "ranks disagree: rank "));
    CHECK(strstr(zn_error_message(), "unit 5") && strstr(zn_error_message(), "rank 1 asks"));
    CHECK(strstr(zn_error_message(), "unit 6"));
}

static void ask_for_different_sizes(const struct world *w)
{
    struct zn_shared part;
    CHECK(zn_comm_alloc(w->comm, 64, &part) == ZN_OK);
    CHECK(gather_once(w, &part, 4, w->rank == 1 ? 32 : 64, NULL) == ZN_ERR_INTERNAL);
    CHECK(strstr(zn_error_message(), "32 bytes") && strstr(zn_error_message(), "64 bytes"));
}

static void ask_for_different_things(const struct world *w)
{
    struct zn_shared part;
    CHECK(zn_comm_alloc(w->comm, 64, &part) == ZN_OK);
    if (w->rank == 1)
        CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_ERR_INTERNAL);
    else
        CHECK(gather_once(w, &part, 4, 64, NULL) == ZN_ERR_INTERNAL);
    CHECK(strstr(zn_error_message(), "gather") && strstr(zn_error_message(), "agreement"));
}

/* Rank 1 fails in the middle and comes to the agreement at the end; the others go on with what comes before it. */
static void fail_on_the_way(const struct world *w)
{
    struct zn_shared part;
    if (w->rank == 1)
        CHECK(zn_comm_agree(w->comm, zn_fail(ZN_ERR_MEMORY, "no memory for a table")) == ZN_ERR_MEMORY);
    else
        CHECK(zn_comm_alloc(w->comm, 64, &part) == ZN_ERR_MEMORY);
    CHECK(strcmp(zn_error_message(), "rank 1: no memory for a table") == 0);
}

static void a_failure_on_the_way_to_an_agreement_is_the_cause(void **state)
{
    (void)state;
    on_ranks(2, fail_on_the_way);
    on_ranks(4, fail_on_the_way);
}

static void allocate_different_sizes(const struct world *w)
{
    struct zn_shared part;
    CHECK(zn_comm_alloc(w->comm, w->rank == 1 ? 128 : 64, &part) == ZN_ERR_INTERNAL);
    CHECK(strcmp(zn_error_message(), "ranks disagree: rank 0 allocates 64 bytes, rank 1 128") == 0);
}

/* Rank 1 ends while the others still have a request. */
static void end_early(const struct world *w)
{
    struct zn_shared part;
    CHECK(zn_comm_alloc(w->comm, 64, &part) == ZN_OK);
    if (w->rank == 1)
        return;
    CHECK(gather_once(w, &part, 4, 64, NULL) == ZN_ERR_INTERNAL);
    CHECK(strstr(zn_error_message(), "gather") && strstr(zn_error_message(), "end"));
}

static void ranks_that_disagree_are_told_by_name(void **state)
{
    (void)state;
    on_ranks(2, ask_for_different_units);
    on_ranks(3, ask_for_different_units);
    on_ranks(2, ask_for_different_sizes);
    on_ranks(3, ask_for_different_things);
    on_ranks(3, allocate_different_sizes);
    on_ranks(2, end_early);
}

static void requests_outside_the_memory_are_refused(void **state)
{
    (void)state;
    zn_clock clock;
    zn_comm *comm;
    struct zn_shared part;
    unsigned char to[64];
    float sums[64];
    zn_event done;
    zn_clock_init_real(&clock);
    zn_event_init(&done);
    assert_int_equal(zn_comm_create_self(&clock, &comm), ZN_OK);
    assert_int_equal(zn_comm_alloc(comm, 64, &part), ZN_OK);
    struct zn_gather gather = {.from = &part, .offset = 1, .n_bytes = 64, .to = zn_extent_of(to, sizeof to)};
    assert_int_equal(zn_comm_gather(comm, &gather, &done), ZN_ERR_INTERNAL);
    struct zn_reduce reduce = {.from = &part, .n_elements = 17, .to = zn_extent_of(sums, sizeof sums)};
    assert_int_equal(zn_comm_reduce(comm, &reduce, &done), ZN_ERR_INTERNAL);
    reduce.n_elements = INT64_MAX / 2;
    assert_int_equal(zn_comm_reduce(comm, &reduce, &done), ZN_ERR_INTERNAL);
    reduce.n_elements = 16;
    reduce.wire = ZN_F64;
    assert_int_equal(zn_comm_reduce(comm, &reduce, &done), ZN_ERR_INTERNAL);
    zn_comm_free(comm, &part);
    zn_comm_destroy(comm);
    zn_event_fini(&done);
}

/* ---- Load ---- */

static void ask_at_random(const struct world *w)
{
    for (uint64_t seed = 100; seed < 104; seed++)
        check_random(w, seed, 200, 3000);
}

static void random_requests_under_load(void **state)
{
    (void)state;
    on_ranks(3, ask_at_random);
    on_ranks(8, ask_at_random);
}

static void sleep_then_meet(const struct world *w)
{
    if (w->rank == 0)
        usleep(500000);
    CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_OK);
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Three ranks wait half a second each: spinning would take 1.5 s of processor time. */
static void waiting_takes_no_processor(void **state)
{
    (void)state;
    double before = cpu_seconds();
    on_ranks(4, sleep_then_meet);
    assert_true(cpu_seconds() - before < 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_does_all_on_the_caller),
        cmocka_unit_test(one_thread_does_all),
        cmocka_unit_test(two_threads_do_all),
        cmocka_unit_test(three_threads_do_all),
        cmocka_unit_test(four_threads_do_all),
        cmocka_unit_test(eight_threads_do_all),
        cmocka_unit_test(a_request_begins_after_its_event),
        cmocka_unit_test(a_request_keeps_to_the_use_of_its_events),
        cmocka_unit_test(abort_fails_every_request_of_all_ranks),
        cmocka_unit_test(a_failure_that_is_agreed_upon_stays_as_it_is),
        cmocka_unit_test(one_rank_speaks),
        cmocka_unit_test(a_failed_source_fails_all_ranks),
        cmocka_unit_test(a_failure_on_the_way_to_an_agreement_is_the_cause),
        cmocka_unit_test(ranks_that_disagree_are_told_by_name),
        cmocka_unit_test(requests_outside_the_memory_are_refused),
        cmocka_unit_test(random_requests_under_load),
        cmocka_unit_test(waiting_takes_no_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
