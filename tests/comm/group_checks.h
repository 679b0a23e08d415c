/* What the groups of a job must do, called by all its ranks together: from threads in test_groups.c, from processes in
 * comm_mpi.c. A check that fails ends the whole program. */
#ifndef ZN_TESTS_COMM_GROUP_CHECKS_H
#define ZN_TESTS_COMM_GROUP_CHECKS_H

#include "comm/checks.h"

enum { MAX_GROUP = 16 };

/* A job in its mesh, as one rank sees it. */
struct split {
    struct world world;
    struct zn_mesh mesh;
    zn_comm *groups[ZN_N_AXES];
    int job_ranks[ZN_N_AXES][MAX_GROUP];
    struct world of[ZN_N_AXES]; /* the groups, for checks.h */
};

/* Ranks tell one another their numbers in the job; on the mesh's axes they must be those of its arithmetic. */
static inline void check_members(struct split *s, zn_axis axis)
{
    zn_comm *comm = s->groups[axis];
    int n = zn_comm_n_ranks(comm), rank = zn_comm_rank(comm), *job_ranks = s->job_ranks[axis];
    CHECK(n <= MAX_GROUP && rank >= 0 && rank < n);
    CHECK(zn_comm_exchange(comm, &s->world.rank, sizeof s->world.rank, job_ranks) == ZN_OK);
    CHECK(job_ranks[rank] == s->world.rank);
    for (int i = 1; i < n; i++)
        CHECK(job_ranks[i - 1] < job_ranks[i]);
    CHECK(zn_comm_n_local(comm) >= 1 && zn_comm_n_local(comm) <= n && zn_comm_local_rank(comm) < zn_comm_n_local(comm));
    s->of[axis] = (struct world){comm, s->world.clock, rank, n, job_ranks};
    if (axis == ZN_NODE) {
        CHECK(n == zn_comm_n_local(s->world.comm) && rank == zn_comm_local_rank(s->world.comm) && zn_comm_n_local(comm) == n);
        return;
    }
    struct zn_members m = zn_mesh_members(&s->mesh, axis, s->world.rank);
    CHECK(m.n_ranks == n && m.index == rank);
    for (int i = 0; i < n; i++)
        CHECK(job_ranks[i] == m.first + i * m.stride);
}

static inline void split_begin(struct split *s, const struct world *w, const struct zn_mesh *mesh)
{
    *s = (struct split){.world = *w, .mesh = *mesh};
    CHECK(zn_comm_split(w->comm, mesh, s->groups) == ZN_OK);
    CHECK(s->groups[ZN_WORLD] == w->comm);
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++) {
        check_members(s, axis);
        CHECK(zn_comm_buffer_bytes(s->groups[axis]) > 0);
    }
}

static inline void split_end(struct split *s)
{
    zn_comm_destroy_groups(s->groups);
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++)
        CHECK(!s->groups[axis]);
}

/* ---- Many requests in all groups at once ---- */

enum { LANE_REQUESTS = 10, LANE_PIECE = 6000 }; /* of each group; bytes of a request's piece at most */

struct asked {
    zn_event done;
    bool reduces;
    size_t n; /* elements or bytes */
    uint64_t seed;
    zn_dtype wire;
};

/* The requests of one rank to one group: each has its own place in the memory that is given and in the results. */
struct lane {
    const struct world *w;
    zn_axis axis;
    struct zn_shared part;
    unsigned char *results;
    uint64_t sent[ZN_N_COMM_KINDS];
    struct asked asked[LANE_REQUESTS];
    int n_asked;
};

static inline size_t place(const struct lane *lane, int i)
{
    return (size_t)i * (size_t)lane->w->n * LANE_PIECE;
}

static inline void lane_begin(struct lane *lane, const struct world *w, zn_axis axis)
{
    *lane = (struct lane){.w = w, .axis = axis};
    CHECK(zn_comm_alloc(w->comm, place(lane, LANE_REQUESTS), &lane->part) == ZN_OK);
    lane->results = malloc(place(lane, LANE_REQUESTS));
    CHECK(lane->results);
}

/* The next request of the group: what it is follows from group and number, so all its ranks ask for the same. */
static inline void lane_ask(struct lane *lane, uint64_t seed, zn_event *after)
{
    const struct world *w = lane->w;
    int q = lane->n_asked++, me = name_of(w, w->rank);
    struct asked *a = &lane->asked[q];
    uint64_t bits = zn_random_bits(seed + 31 * (uint64_t)lane->axis, (uint64_t)q), others = (uint64_t)w->n - 1;
    unsigned char *source = lane->part.address + place(lane, q), *to = lane->results + place(lane, q);
    *a = (struct asked){.reduces = bits & 1, .seed = bits, .wire = (zn_dtype[]){ZN_F32, ZN_BF16, ZN_F16}[(bits >> 1) % 3]};
    a->n = 1 + (size_t)(bits >> 20) % (LANE_PIECE / sizeof(float));
    zn_event_init(&a->done);
    if (a->reduces) {
        for (size_t i = 0; i < (size_t)w->n * a->n; i++)
            ((float *)(void *)source)[i] = value_of(bits, me, (int64_t)i);
        struct zn_reduce reduce = {.tag = {ZN_COMM_REDUCE_GRAD, q}, .from = &lane->part, .offset = place(lane, q),
                                   .n_elements = (int64_t)a->n, .wire = a->wire, .to = zn_extent_of(to, a->n * sizeof(float)), .after = {after}};
        CHECK(zn_comm_reduce(w->comm, &reduce, &a->done) == ZN_OK);
        lane->sent[ZN_COMM_REDUCE_GRAD] += others * a->n * (a->wire == ZN_F32 ? 4 : 2);
        return;
    }
    for (size_t i = 0; i < a->n; i++)
        source[i] = byte_of(bits, me, i);
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, q}, .from = &lane->part, .offset = place(lane, q), .n_bytes = a->n,
                               .to = zn_extent_of(to, (size_t)w->n * a->n), .after = {after}};
    CHECK(zn_comm_gather(w->comm, &gather, &a->done) == ZN_OK);
    lane->sent[ZN_COMM_GATHER_PARAM] += others * a->n;
}

static inline void lane_check(struct lane *lane)
{
    const struct world *w = lane->w;
    for (int q = 0; q < lane->n_asked; q++) {
        struct asked *a = &lane->asked[q];
        const unsigned char *found = lane->results + place(lane, q);
        CHECK(zn_event_wait(&a->done, w->clock) == ZN_OK);
        for (size_t i = 0; i < a->n && a->reduces; i++)
            CHECK(same_float(((const float *)(const void *)found)[i], expected_sum(a->seed, w, (int64_t)a->n, (int64_t)i, a->wire)));
        for (size_t i = 0; i < (size_t)w->n * a->n && !a->reduces; i++)
            CHECK(found[i] == byte_of(a->seed, name_of(w, (int)(i / a->n)), i % a->n));
    }
}

/* When no request of another group comes after one of these any more. */
static inline void lane_forget(struct lane *lane)
{
    while (lane->n_asked > 0)
        zn_event_fini(&lane->asked[--lane->n_asked].done);
}

/* All groups have many requests under way. Each rank submits in an order between groups, and at a pace, of its own; some requests
 * come after one of another group. Only what comes before it may hold a request up. */
static inline void check_interleaved(struct split *s, uint64_t seed, int n_rounds)
{
    static _Thread_local struct lane lanes[ZN_N_AXES];
    uint64_t before[ZN_N_AXES][ZN_N_COMM_KINDS];
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++) {
        lane_begin(&lanes[axis], &s->of[axis], axis);
        for (int k = 0; k < ZN_N_COMM_KINDS; k++)
            before[axis][k] = zn_comm_sent(s->groups[axis], (zn_comm_kind)k);
    }
    for (int round = 0; round < n_rounds; round++) {
        uint64_t own = seed + 1000 * (uint64_t)s->world.rank + 7 * (uint64_t)round;
        for (int left = ZN_N_AXES * LANE_REQUESTS, i = 0; left > 0; i++) {
            uint64_t bits = zn_random_bits(own, (uint64_t)i);
            struct lane *lane = &lanes[bits % ZN_N_AXES], *other = lane > lanes ? lane - 1 : NULL;
            if (lane->n_asked == LANE_REQUESTS)
                continue;
            /* A single rank's requests run on the caller, so they come after nothing that others may still have to submit. */
            bool follows = other && lane->w->n > 1 && other->n_asked > lane->n_asked && bits >> 8 & 1;
            lane_ask(lane, seed + (uint64_t)round, follows ? &other->asked[lane->n_asked].done : NULL);
            left--;
            if ((bits >> 16) % 8 == 0)
                usleep(200);
        }
        for (int i = 0; i < ZN_N_AXES; i++)
            lane_check(&lanes[(i + s->world.rank) % ZN_N_AXES]);
        for (int i = 0; i < ZN_N_AXES; i++)
            lane_forget(&lanes[i]);
    }
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++) {
        for (int k = 0; k < ZN_N_COMM_KINDS; k++)
            CHECK(zn_comm_sent(s->groups[axis], (zn_comm_kind)k) - before[axis][k] == lanes[axis].sent[k]);
        free(lanes[axis].results);
        zn_comm_free(s->groups[axis], &lanes[axis].part);
    }
}

/* Two groups, of which ranks with an even number ask the first before the second, and the others the second before the first;
 * and a group that goes on while a request of another waits for an event. */
static inline void check_independent(struct split *s, zn_axis first, zn_axis second)
{
    static _Thread_local struct lane lanes[2];
    zn_event gate;
    int turn = s->world.rank % 2;
    lane_begin(&lanes[0], &s->of[first], first);
    lane_begin(&lanes[1], &s->of[second], second);
    lane_ask(&lanes[turn], 1, NULL);
    lane_ask(&lanes[!turn], 1, NULL);
    for (int i = 0; i < 2; i++) {
        lane_check(&lanes[i]);
        lane_forget(&lanes[i]);
    }
    if (s->of[first].n > 1) {
        zn_event_init(&gate);
        lane_ask(&lanes[0], 2, &gate);
        lane_ask(&lanes[1], 2, NULL);
        lane_check(&lanes[1]);
        CHECK(!zn_event_poll(&lanes[0].asked[0].done, 0));
        zn_event_set(&gate, ZN_OK, NULL, 0);
        lane_check(&lanes[0]);
        lane_forget(&lanes[0]);
        lane_forget(&lanes[1]);
        zn_event_fini(&gate);
    }
    for (int i = 0; i < 2; i++) {
        free(lanes[i].results);
        zn_comm_free(lanes[i].w->comm, &lanes[i].part);
    }
}

/* Right after the split all groups ask for the same but for its contents, half of the ranks from the last group to the first:
 * what tells the requests of two groups with the same ranks apart is the group alone. */
static inline void check_alike(struct split *s)
{
    enum { N_BYTES = 3000 };
    struct zn_shared parts[ZN_N_AXES];
    zn_event done[ZN_N_AXES];
    unsigned char *to = malloc((size_t)ZN_N_AXES * MAX_GROUP * N_BYTES);
    CHECK(to);
    for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES; axis++) {
        CHECK(zn_comm_alloc(s->groups[axis], N_BYTES, &parts[axis]) == ZN_OK);
        memset(parts[axis].address, 16 * (int)axis + s->world.rank, N_BYTES);
        zn_event_init(&done[axis]);
    }
    for (int i = 1; i < ZN_N_AXES; i++) {
        int axis = s->world.rank % 2 ? ZN_N_AXES - i : i;
        struct zn_gather gather = {.from = &parts[axis], .n_bytes = N_BYTES, .to = zn_extent_of(to + (size_t)axis * MAX_GROUP * N_BYTES, MAX_GROUP * N_BYTES)};
        CHECK(zn_comm_gather(s->groups[axis], &gather, &done[axis]) == ZN_OK);
        usleep(1000);
    }
    for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES; axis++) {
        wait_for(&s->world, &done[axis]);
        for (int i = 0; i < s->of[axis].n * N_BYTES; i++)
            CHECK(to[(size_t)axis * MAX_GROUP * N_BYTES + (size_t)i] == 16 * (int)axis + s->job_ranks[axis][i / N_BYTES]);
        zn_comm_free(s->groups[axis], &parts[axis]);
    }
    free(to);
}

/* A failure that a group agrees on names its rank in the job, and does so once when the job agrees on it; that of a single rank
 * is named by the job. */
static inline void check_agreed_in_group(struct split *s, zn_axis axis)
{
    int last = s->world.n - 1, wanted_by_job = s->of[axis].n > 1;
    char wanted[64];
    bool is_in = s->job_ranks[axis][s->of[axis].n - 1] == last;
    zn_status status = zn_comm_agree(s->groups[axis], s->world.rank == last ? zn_fail(ZN_ERR_INPUT, "bad file") : ZN_OK);
    CHECK(status == (is_in ? ZN_ERR_INPUT : ZN_OK));
    if (wanted_by_job)
        snprintf(wanted, sizeof wanted, "rank %d: bad file", last);
    else
        snprintf(wanted, sizeof wanted, "bad file");
    CHECK(!is_in || strcmp(zn_error_message(), wanted) == 0);
    CHECK(zn_comm_agree(s->world.comm, status) == ZN_ERR_INPUT);
    if (s->world.n > 1)
        snprintf(wanted, sizeof wanted, "rank %d: bad file", last);
    CHECK(strcmp(zn_error_message(), wanted) == 0);
}

/* What groups have in common with each other. */
static inline void check_queues(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    for (uint64_t round = 0; round < 2; round++) { /* the second in the memory of the first */
        split_begin(&s, w, mesh);
        check_alike(&s);
        for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES; axis++)
            for (zn_axis other = ZN_WORLD; other < axis; other++)
                check_independent(&s, axis, other);
        check_interleaved(&s, 100 + round * 50, 2);
        split_end(&s);
    }
}

/* The same, and that each group is a whole communicator. */
static inline void check_groups(const struct world *w, const struct zn_mesh *mesh)
{
    struct split s;
    split_begin(&s, w, mesh);
    for (zn_axis axis = ZN_WORLD + 1; axis < ZN_N_AXES; axis++) {
        check_all(&s.of[axis]);
        check_agreed_in_group(&s, axis);
    }
    split_end(&s);
    check_queues(w, mesh);
}

#endif
