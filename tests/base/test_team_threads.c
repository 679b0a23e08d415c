/* Jobs on several threads: results in the order of the jobs, the first failure in that order, and no more jobs under way
 * than the ring has. */
#include "files.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/team.h"

enum { JOBS = 2000, RING = 5 };

struct job {
    int index;
    long result;
};

struct work {
    struct job ring[RING];
    zn_team *team;
    pthread_t caller;
    atomic_int n_running, n_run, n_elsewhere, most_running;
    int n_taken, fails_at, take_fails_at;
};

static long value_of(int index)
{
    long sum = index;
    for (int i = 0; i < index % 7 * 1000; i++)
        sum = sum * 31 % 1000003;
    return sum;
}

static zn_status run(void *self, void *job)
{
    struct work *w = self;
    struct job *j = job;
    int running = atomic_fetch_add(&w->n_running, 1) + 1, most = atomic_load(&w->most_running);
    while (running > most && !atomic_compare_exchange_weak(&w->most_running, &most, running))
        ;
    if (!pthread_equal(pthread_self(), w->caller))
        atomic_fetch_add(&w->n_elsewhere, 1);
    j->result = value_of(j->index);
    atomic_fetch_add(&w->n_run, 1);
    atomic_fetch_sub(&w->n_running, 1);
    if (w->fails_at >= 0 && j->index >= w->fails_at)
        return zn_fail(ZN_ERR_INPUT, "job %d fails", j->index);
    return ZN_OK;
}

static zn_status take(void *self, void *job)
{
    struct work *w = self;
    const struct job *j = job;
    assert_true(pthread_equal(pthread_self(), w->caller));
    assert_int_equal(j->index, w->n_taken);
    assert_int_equal(j->result, value_of(j->index));
    w->n_taken++;
    return j->index == w->take_fails_at ? zn_fail(ZN_ERR_IO, "the taking of %d fails", j->index) : ZN_OK;
}

static zn_status run_all(struct work *w, int n_threads, int n_jobs, size_t ring)
{
    const struct zn_team_work work = {w, run, take};
    w->caller = pthread_self();
    OK(zn_team_create(n_threads, &work, w->ring, sizeof w->ring[0], ring, &w->team));
    zn_status status = ZN_OK;
    for (int i = 0; i < n_jobs && status == ZN_OK; i++) {
        void *job;
        status = zn_team_next(w->team, &job);
        if (status == ZN_OK) {
            ((struct job *)job)->index = i;
            zn_team_submit(w->team);
        }
    }
    zn_status finished = zn_team_finish(w->team);
    assert_true(status == ZN_OK || finished == status);
    return finished;
}

static void results_come_in_order(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        for (size_t ring = 1; ring <= RING; ring++) {
            struct work w = {.fails_at = -1, .take_fails_at = -1};
            OK(run_all(&w, n_threads, JOBS, ring));
            assert_int_equal(w.n_taken, JOBS);
            assert_int_equal(w.n_run, JOBS);
            assert_true(w.most_running <= n_threads && w.most_running <= (int)ring);
            assert_true(n_threads > 1 || w.n_elsewhere == 0);
            OK(zn_team_finish(w.team)); /* again: nothing is left */
            zn_team_destroy(w.team);
        }
    }
}

/* Whichever thread fails first, what is told is the failure of the first job; those before it are taken. */
static void the_first_failure_is_told(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct work w = {.fails_at = 100 + round, .take_fails_at = -1};
        char text[32];
        void *job;
        snprintf(text, sizeof text, "job %d fails", w.fails_at);
        FAILS(run_all(&w, 1 + round % 4, JOBS, RING), ZN_ERR_INPUT, text, "");
        assert_int_equal(w.n_taken, w.fails_at);
        FAILS(zn_team_next(w.team, &job), ZN_ERR_INPUT, text, "");
        zn_team_destroy(w.team);
        assert_true(w.n_run <= w.fails_at + RING);
    }
}

static void who_takes_may_fail(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        struct work w = {.fails_at = -1, .take_fails_at = 17};
        FAILS(run_all(&w, n_threads, JOBS, RING), ZN_ERR_IO, "the taking of 17 fails", "");
        assert_int_equal(w.n_taken, 18);
        zn_team_destroy(w.team);
    }
}

static void a_team_may_end_early(void **state)
{
    (void)state;
    zn_team_destroy(NULL);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        struct work w = {.fails_at = -1, .take_fails_at = -1};
        const struct zn_team_work work = {&w, run, take};
        void *job;
        OK(zn_team_create(n_threads, &work, w.ring, sizeof w.ring[0], RING, &w.team));
        OK(zn_team_take(w.team)); /* there is none */
        for (int i = 0; i < RING; i++) {
            OK(zn_team_next(w.team, &job));
            ((struct job *)job)->index = i;
            zn_team_submit(w.team);
        }
        zn_team_destroy(w.team);
        assert_int_equal(w.n_running, 0);
        assert_int_equal(w.n_taken, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_come_in_order),
        cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(who_takes_may_fail),
        cmocka_unit_test(a_team_may_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
