/* Groups of ranks that are threads: members, sums and orders, independence, failures, and what a group of one costs. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/group_checks.h"

enum { MAX_RANKS = 8 };

struct rank_thread {
    struct world world;
    struct zn_mesh mesh;
    void (*body)(const struct world *world, const struct zn_mesh *mesh);
};

static void *run_rank(void *arg)
{
    struct rank_thread *t = arg;
    t->body(&t->world, &t->mesh);
    zn_comm_destroy(t->world.comm);
    return NULL;
}

/* Runs `body` on every rank of a job of threads that lies in the mesh. */
static void on_mesh(struct zn_mesh mesh, void (*body)(const struct world *world, const struct zn_mesh *mesh))
{
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct rank_thread ranks[MAX_RANKS];
    int n = mesh.data * mesh.sequence * mesh.tensor;
    zn_clock_init_real(&clock);
    assert_int_equal(zn_comm_create_threads(&clock, n, comms), ZN_OK);
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank_thread){{comms[r], &clock, r, n, NULL}, mesh, body};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}

static void two_by_two(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){2, 1, 2}, check_groups);
    on_mesh((struct zn_mesh){2, 2, 1}, check_queues);
    on_mesh((struct zn_mesh){1, 2, 2}, check_queues);
}

static void two_by_three(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){2, 1, 3}, check_groups);
    on_mesh((struct zn_mesh){1, 2, 3}, check_queues);
    on_mesh((struct zn_mesh){3, 2, 1}, check_queues);
}

static void two_by_two_by_two(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){2, 2, 2}, check_queues);
}

static void along_one_axis(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){3, 1, 1}, check_queues);
    on_mesh((struct zn_mesh){1, 1, 2}, check_queues);
    on_mesh((struct zn_mesh){1, 1, 1}, check_queues);
}

/* ---- A group of one ---- */

static int count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int n = 0;
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void a_group_of_one_has_no_thread(void **state)
{
    (void)state;
    zn_clock clock;
    zn_comm *comm;
    zn_clock_init_real(&clock);
    assert_int_equal(zn_comm_create_self(&clock, &comm), ZN_OK);
    struct world world = {comm, &clock, 0, 1, NULL};
    struct split s;
    int before = count_threads();
    split_begin(&s, &world, &(struct zn_mesh){1, 1, 1});
    assert_int_equal(count_threads(), before);
    split_end(&s);
    check_groups(&world, &(struct zn_mesh){1, 1, 1});
    zn_comm_destroy(comm);
}

static void ask_alone(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    struct zn_shared part;
    unsigned char to[8] = {0};
    zn_event done;
    split_begin(&s, w, mesh);
    CHECK(zn_comm_n_ranks(s.groups[ZN_TENSOR]) == 1);
    CHECK(zn_comm_alloc(s.groups[ZN_TENSOR], sizeof to, &part) == ZN_OK);
    part.address[3] = 33;
    zn_event_init(&done);
    struct zn_gather gather = {.from = &part, .n_bytes = sizeof to, .to = zn_extent_of(to, sizeof to)};
    CHECK(zn_comm_gather(s.groups[ZN_TENSOR], &gather, &done) == ZN_OK);
    CHECK(zn_event_poll(&done, 0) && to[3] == 33);
    zn_event_fini(&done);
    CHECK(zn_comm_sent(s.groups[ZN_TENSOR], ZN_COMM_GATHER_PARAM) == 0);
    zn_comm_free(s.groups[ZN_TENSOR], &part);
    split_end(&s);
}

static void a_group_of_one_is_done_at_once(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){3, 1, 1}, ask_alone);
}

/* ---- Failures ---- */

static zn_status gather_in(const struct world *w, struct zn_shared *part, int unit)
{
    unsigned char to[MAX_RANKS * 64];
    zn_event done;
    zn_event_init(&done);
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, unit}, .from = part, .n_bytes = 64, .to = zn_extent_of(to, sizeof to)};
    zn_status status = zn_comm_gather(w->comm, &gather, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, w->clock);
    zn_event_fini(&done);
    return status;
}

static void alloc_in_all(struct split *s, struct zn_shared *parts)
{
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++)
        CHECK(zn_comm_alloc(s->groups[axis], 64, &parts[axis]) == ZN_OK);
}

/* All that is asked of any group fails with that text. */
static void check_failed(struct split *s, struct zn_shared *parts, zn_status status, const char *text)
{
    struct zn_shared more;
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++) {
        CHECK(gather_in(&s->of[axis], &parts[axis], 0) == status && strcmp(zn_error_message(), text) == 0);
        CHECK(zn_comm_agree(s->groups[axis], ZN_OK) == status && strcmp(zn_error_message(), text) == 0);
        CHECK(zn_comm_alloc(s->groups[axis], 64, &more) == status && strcmp(zn_error_message(), text) == 0);
        zn_comm_free(s->groups[axis], &parts[axis]);
    }
}

static _Atomic int failing_axis;

/* The last rank fails in one group while the others wait in another. */
static void abort_in_one_group(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    struct zn_shared parts[ZN_N_AXES];
    zn_axis axis = (zn_axis)atomic_load(&failing_axis), other = axis == ZN_DATA ? ZN_TENSOR : ZN_DATA;
    char text[64];
    split_begin(&s, w, mesh);
    alloc_in_all(&s, parts);
    snprintf(text, sizeof text, "rank %d: the disk is gone", w->n - 1);
    if (w->rank == w->n - 1) {
        usleep(10000);
        zn_comm_abort(s.groups[axis], zn_fail(ZN_ERR_IO, "the disk is gone"));
        CHECK(strcmp(zn_error_message(), text) == 0);
    } else {
        zn_status status = gather_in(&s.of[other], &parts[other], 0);
        bool waits = s.job_ranks[other][s.of[other].n - 1] == w->n - 1;
        CHECK(status == ZN_ERR_IO || (status == ZN_OK && !waits));
        if (!waits) /* it learns of the failure in the job */
            CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_ERR_IO);
    }
    check_failed(&s, parts, ZN_ERR_IO, text);
    split_end(&s);
}

static void a_failure_in_one_group_is_heard_in_all(void **state)
{
    (void)state;
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++) {
        atomic_store(&failing_axis, axis);
        on_mesh((struct zn_mesh){2, 1, 2}, abort_in_one_group);
        on_mesh((struct zn_mesh){2, 1, 3}, abort_in_one_group);
        on_mesh((struct zn_mesh){1, 2, 2}, abort_in_one_group); /* data is a group of one */
    }
}

/* Ranks 2 and 3 ask their tensor group for different things; all hear of it by their ranks in the job. */
static void disagree_in_one_group(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    struct zn_shared parts[ZN_N_AXES];
    char text[256];
    split_begin(&s, w, mesh);
    alloc_in_all(&s, parts);
    if (w->rank >= 2)
        CHECK(gather_in(&s.of[ZN_TENSOR], &parts[ZN_TENSOR], w->rank) == ZN_ERR_INTERNAL);
    else
        CHECK(gather_in(&s.of[ZN_DATA], &parts[ZN_DATA], 0) == ZN_ERR_INTERNAL);
    snprintf(text, sizeof text, "%s", zn_error_message());
    CHECK(strstr(text, "ranks disagree: rank 2 asks in request ") && strstr(text, " of group tensor for gather"));
    CHECK(strstr(text, "unit 2") && strstr(text, "rank 3 asks") && strstr(text, "unit 3"));
    check_failed(&s, parts, ZN_ERR_INTERNAL, text);
    split_end(&s);
}

/* A request of one group comes after something that failed. */
static void fail_a_source(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    struct zn_shared parts[ZN_N_AXES];
    unsigned char to[MAX_RANKS * 64];
    zn_event before, done;
    split_begin(&s, w, mesh);
    alloc_in_all(&s, parts);
    zn_event_init(&before);
    zn_event_init(&done);
    zn_event_set(&before, ZN_ERR_NUMERIC, "the kernel failed", 0);
    struct zn_gather gather = {.from = &parts[ZN_SEQUENCE], .n_bytes = 64, .to = zn_extent_of(to, sizeof to), .after = {&before}};
    if (w->rank == 2) /* sequence is a group of one: the caller hears at once */
        CHECK(zn_comm_gather(s.groups[ZN_SEQUENCE], &gather, &done) == ZN_ERR_NUMERIC);
    else
        CHECK(zn_comm_agree(s.groups[ZN_WORLD], ZN_OK) == ZN_ERR_NUMERIC);
    check_failed(&s, parts, ZN_ERR_NUMERIC, "rank 2: the kernel failed");
    zn_event_fini(&before);
    zn_event_fini(&done);
    split_end(&s);
}

static void ranks_of_a_group_that_disagree_are_told_by_name(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){2, 1, 2}, disagree_in_one_group);
}

static void a_failed_source_in_a_group_of_one_fails_the_job(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){2, 1, 2}, fail_a_source);
}

/* ---- What is refused, and what is the job's ---- */

static void split_wrongly(const struct world *w, const struct zn_mesh *mesh)
{
    zn_comm *groups[ZN_N_AXES] = {NULL}, *more[ZN_N_AXES] = {NULL};
    struct zn_shared part;
    unsigned char to[64];
    CHECK(zn_comm_split(w->comm, &(struct zn_mesh){3, 1, 1}, groups) == ZN_ERR_USAGE);
    CHECK(strstr(zn_error_message(), "3 × 1 × 1 ranks (data × sequence × tensor), but there are 4"));
    struct zn_mesh own = w->rank == 2 ? (struct zn_mesh){4, 1, 1} : *mesh;
    CHECK(zn_comm_split(w->comm, &own, groups) == ZN_ERR_INTERNAL);
    CHECK(strcmp(zn_error_message(), "ranks disagree: rank 0 splits them into 2 × 1 × 2, rank 2 into 4 × 1 × 1") == 0);
    CHECK(!groups[ZN_WORLD] && !groups[ZN_NODE]);
    CHECK(zn_comm_split(w->comm, mesh, groups) == ZN_OK);
    CHECK(zn_comm_split(w->comm, mesh, more) == ZN_ERR_INTERNAL && !more[ZN_WORLD]);
    CHECK(zn_comm_split(groups[ZN_NODE], mesh, more) == ZN_ERR_INTERNAL && !more[ZN_WORLD]);
    CHECK(zn_comm_alloc(groups[ZN_DATA], 64, &part) == ZN_OK);
    struct zn_gather gather = {.from = &part, .n_bytes = 16, .to = zn_extent_of(to, sizeof to)};
    CHECK(zn_comm_gather(groups[ZN_TENSOR], &gather, NULL) == ZN_ERR_INTERNAL);
    CHECK(zn_comm_gather(w->comm, &gather, NULL) == ZN_ERR_INTERNAL);
    zn_comm_free(groups[ZN_DATA], &part);
    zn_comm_destroy_groups(groups);
    zn_comm_destroy_groups(groups); /* nothing is left of them */
}

static void wrong_splits_are_refused_on_all_ranks(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){2, 1, 2}, split_wrongly);
}

static atomic_int n_speak;

static void ask_to_speak_in_groups(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    split_begin(&s, w, mesh);
    for (zn_axis axis = ZN_N_AXES; axis-- > ZN_WORLD;)
        atomic_fetch_add(&n_speak, zn_comm_speaks(s.groups[axis]));
    split_end(&s);
}

static void one_rank_speaks_for_all_groups(void **state)
{
    (void)state;
    on_mesh((struct zn_mesh){2, 1, 2}, ask_to_speak_in_groups);
    assert_int_equal(atomic_load(&n_speak), 1);
}

/* ---- The log ---- */

static void log_all(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    struct zn_shared parts[ZN_N_AXES];
    zn_request_log *log = NULL;
    int mine = 1, all[MAX_RANKS];
    CHECK(zn_request_log_create(w->rank, &log) == ZN_OK && log);
    split_begin(&s, w, mesh);
    alloc_in_all(&s, parts);
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++) {
        zn_comm_log_requests(s.groups[axis], log);
        CHECK(gather_in(&s.of[axis], &parts[axis], 5) == ZN_OK);
        zn_comm_free(s.groups[axis], &parts[axis]);
    }
    CHECK(zn_comm_exchange(s.groups[ZN_TENSOR], &mine, sizeof mine, all) == ZN_OK);
    split_end(&s);
    zn_comm_log_requests(w->comm, NULL);
    zn_request_log_destroy(log);
}

static void lines_of_the_log_name_groups_of_some_ranks(void **state)
{
    (void)state;
    char prefix[] = "/tmp/zn-groups-XXXXXX", path[64], text[1024];
    static const char wanted[] = "0 gather parameters, unit 5: 64 as bytes\n"
                                 "0 gather parameters, unit 5: 64 as bytes, group data\n"
                                 "0 gather parameters, unit 5: 64 as bytes, group sequence\n"
                                 "0 gather parameters, unit 5: 64 as bytes, group tensor\n"
                                 "0 gather parameters, unit 5: 64 as bytes, group replica\n"
                                 "0 gather parameters, unit 5: 64 as bytes\n" /* the node: all ranks */
                                 "0 exchange: 4, group tensor\n";
    assert_non_null(mkdtemp(prefix));
    snprintf(path, sizeof path, "%s/log", prefix);
    setenv("ZINC_REQUEST_LOG", path, 1);
    on_mesh((struct zn_mesh){2, 1, 2}, log_all);
    unsetenv("ZINC_REQUEST_LOG");
    for (int r = 0; r < 4; r++) {
        snprintf(path, sizeof path, "%s/log.%d", prefix, r);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        assert_string_equal(text, wanted);
        unlink(path);
    }
    rmdir(prefix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_by_two),
        cmocka_unit_test(two_by_three),
        cmocka_unit_test(two_by_two_by_two),
        cmocka_unit_test(along_one_axis),
        cmocka_unit_test(a_group_of_one_has_no_thread),
        cmocka_unit_test(a_group_of_one_is_done_at_once),
        cmocka_unit_test(a_failure_in_one_group_is_heard_in_all),
        cmocka_unit_test(ranks_of_a_group_that_disagree_are_told_by_name),
        cmocka_unit_test(a_failed_source_in_a_group_of_one_fails_the_job),
        cmocka_unit_test(wrong_splits_are_refused_on_all_ranks),
        cmocka_unit_test(one_rank_speaks_for_all_groups),
        cmocka_unit_test(lines_of_the_log_name_groups_of_some_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
