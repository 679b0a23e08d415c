/* What every communicator must do, called by all its ranks together: from threads in
 * test_threads.c, from processes in comm_mpi.c. A check that fails ends the whole program. */
#ifndef ZN_TESTS_COMM_CHECKS_H
#define ZN_TESTS_COMM_CHECKS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "comm/comm.h"
#include "tensor/half.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (last failure: %s)\n", __FILE__, __LINE__, #condition,      \
                    zn_error_message());                                                           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct world {
    zn_comm *comm;
    zn_clock *clock;
    int rank, n;
    const int *job_ranks; /* of a group's ranks; NULL: the same */
};

/* A rank by its number in the job: what it gives and what it is called follow from that, so that groups are told apart. */
static inline int name_of(const struct world *w, int rank)
{
    return w->job_ranks ? w->job_ranks[rank] : rank;
}

/* A value that every rank can work out: mostly ordinary, some at the edges of the 16-bit types. */
static inline float value_of(uint64_t seed, int rank, int64_t i)
{
    static const float edges[] = {0.0f,     -0.0f,      65504.0f, 65520.0f,   -70000.0f,
                                  0x1p-24f, 0x1.8p-25f, 0x1p-25f, 0x1p-14f,   0x1p-140f,
                                  3.4e38f,  INFINITY,   NAN,      1.00390625f};
    uint64_t bits = zn_random_bits(seed + (uint64_t)rank * 977, (uint64_t)i);
    if (bits % 61 == 0)
        return edges[(bits >> 8) % (sizeof edges / sizeof *edges)];
    return (float)(int32_t)(bits >> 32) * 0x1p-30f;
}

static inline unsigned char byte_of(uint64_t seed, int rank, size_t i)
{
    return (unsigned char)zn_random_bits(seed + (uint64_t)rank * 977, i);
}

static inline float round_to(float x, zn_dtype wire)
{
    return wire == ZN_BF16  ? zn_bf16_to_float(zn_float_to_bf16(x))
           : wire == ZN_F16 ? zn_f16_to_float(zn_float_to_f16(x))
                            : x;
}

static inline bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || zn_float_bits(a) == zn_float_bits(b);
}

/* The sum's i-th element of the piece of `rank`, by the words of the contract. */
static inline float expected_sum(uint64_t seed, const struct world *w, int64_t n_elements,
                                 int64_t i, zn_dtype wire)
{
    int64_t at = (int64_t)w->rank * n_elements + i;
    volatile float sum = round_to(value_of(seed, name_of(w, 0), at), wire);
    for (int r = 1; r < w->n; r++)
        sum = sum + round_to(value_of(seed, name_of(w, r), at), wire);
    return sum;
}

static inline void wait_for(const struct world *w, zn_event *event)
{
    CHECK(zn_event_wait(event, w->clock) == ZN_OK);
    zn_event_fini(event);
}

/* Pieces at an offset of their own on every rank; in place they lie where they belong in `to`. */
static inline void check_gather(const struct world *w, uint64_t seed, size_t n_bytes, bool in_place)
{
    struct zn_shared part;
    size_t total = (size_t)w->n * n_bytes, room = 4096;
    CHECK(zn_comm_alloc(w->comm, total + room, &part) == ZN_OK);
    CHECK((uintptr_t)part.address % 4096 == 0);
    for (size_t i = 0; i < total + room; i++)
        CHECK(part.address[i] == 0);
    size_t offset = in_place ? (size_t)w->rank * n_bytes : (size_t)(w->rank % 8) * 64;
    unsigned char *to = in_place ? part.address : malloc(total + 1);
    for (size_t i = 0; i < n_bytes; i++)
        part.address[offset + i] = byte_of(seed, name_of(w, w->rank), i);
    zn_event done;
    zn_event_init(&done);
    struct zn_gather gather = {.tag = {ZN_COMM_GATHER_PARAM, 7},
                               .from = &part,
                               .offset = offset,
                               .n_bytes = n_bytes,
                               .to = zn_extent_of(to, total)};
    CHECK(zn_comm_gather(w->comm, &gather, &done) == ZN_OK);
    wait_for(w, &done);
    /* What was given may change now: a rank that still reads would see it. */
    if (!in_place)
        memset(part.address + offset, 0xee, n_bytes);
    for (int r = 0; r < w->n; r++)
        for (size_t i = 0; i < n_bytes; i++)
            CHECK(to[(size_t)r * n_bytes + i] == byte_of(seed, name_of(w, r), i));
    if (!in_place)
        free(to);
    zn_comm_free(w->comm, &part);
}

static inline void check_reduce(const struct world *w, uint64_t seed, int64_t n_elements,
                                zn_dtype wire, bool adds, bool in_place)
{
    struct zn_shared part;
    int64_t total = (int64_t)w->n * n_elements;
    size_t offset = 256;
    CHECK(zn_comm_alloc(w->comm, offset + (size_t)total * sizeof(float), &part) == ZN_OK);
    float *mine = (float *)(void *)(part.address + offset);
    float *own = malloc((size_t)n_elements * sizeof(float) + 1);
    float *to = in_place ? mine + (int64_t)w->rank * n_elements : own;
    for (int64_t i = 0; i < total; i++)
        mine[i] = value_of(seed, name_of(w, w->rank), i);
    for (int64_t i = 0; i < n_elements && !in_place; i++)
        to[i] = (float)i * 0.25f;
    zn_event done;
    zn_event_init(&done);
    struct zn_reduce reduce = {.tag = {ZN_COMM_REDUCE_GRAD, 9},
                               .from = &part,
                               .offset = offset,
                               .n_elements = n_elements,
                               .wire = wire,
                               .to = zn_extent_of(to, (size_t)n_elements * sizeof(float)),
                               .adds = adds};
    CHECK(zn_comm_reduce(w->comm, &reduce, &done) == ZN_OK);
    wait_for(w, &done);
    for (int64_t i = 0; i < n_elements; i++) {
        volatile float wanted = expected_sum(seed, w, n_elements, i, wire);
        float before = in_place ? value_of(seed, name_of(w, w->rank), (int64_t)w->rank * n_elements + i)
                                : (float)i * 0.25f;
        if (adds)
            wanted = before + wanted;
        CHECK(same_float(to[i], wanted));
    }
    free(own);
    zn_comm_free(w->comm, &part);
}

static inline void check_exchange(const struct world *w)
{
    for (size_t n_bytes = 1; n_bytes <= ZN_EXCHANGE_BYTES; n_bytes *= 16) {
        unsigned char mine[ZN_EXCHANGE_BYTES], *all = malloc((size_t)w->n * n_bytes);
        for (size_t i = 0; i < n_bytes; i++)
            mine[i] = byte_of(n_bytes, name_of(w, w->rank), i);
        CHECK(zn_comm_exchange(w->comm, mine, n_bytes, all) == ZN_OK);
        for (int r = 0; r < w->n; r++)
            for (size_t i = 0; i < n_bytes; i++)
                CHECK(all[(size_t)r * n_bytes + i] == byte_of(n_bytes, name_of(w, r), i));
        free(all);
    }
    CHECK(zn_comm_exchange(w->comm, NULL, ZN_EXCHANGE_BYTES + 1, NULL) == ZN_ERR_INTERNAL);
}

/* A failure that is agreed upon leaves the communicator usable. */
static inline void check_agree(const struct world *w)
{
    CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_OK);
    int first = w->n / 2;
    zn_status mine = ZN_OK;
    if (w->rank >= first)
        mine = zn_fail(w->rank == first ? ZN_ERR_INPUT : ZN_ERR_MEMORY, "file %d is bad", w->rank);
    CHECK(zn_comm_agree(w->comm, mine) == ZN_ERR_INPUT);
    char wanted[64];
    if (w->n > 1)
        snprintf(wanted, sizeof wanted, "rank %d: file %d is bad", name_of(w, first), first);
    else
        snprintf(wanted, sizeof wanted, "file 0 is bad");
    CHECK(strcmp(zn_error_message(), wanted) == 0);
    CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_OK);
}

/* A failure that goes through two agreements names its rank once. */
static inline void check_agreed_again(const struct world *w)
{
    int last = w->n - 1;
    char wanted[64];
    zn_status status = zn_comm_agree(w->comm, w->rank == last ? zn_fail(ZN_ERR_INPUT, "bad file") : ZN_OK);
    CHECK(status == ZN_ERR_INPUT);
    CHECK(zn_comm_agree(w->comm, status) == ZN_ERR_INPUT);
    if (w->n > 1)
        snprintf(wanted, sizeof wanted, "rank %d: bad file", name_of(w, last));
    else
        snprintf(wanted, sizeof wanted, "bad file");
    CHECK(strcmp(zn_error_message(), wanted) == 0);
}

/* One rank of each node, once. */
static inline void check_speaks(const struct world *w)
{
    for (int round = 0; round < 2; round++) {
        struct {
            int speaks, is_first; /* of its node */
        } mine = {zn_comm_speaks(w->comm), zn_comm_local_rank(w->comm) == 0}, *all = calloc((size_t)w->n, sizeof *all);
        CHECK(all && zn_comm_exchange(w->comm, &mine, sizeof mine, all) == ZN_OK);
        int n_speak = 0, n_nodes = 0;
        for (int r = 0; r < w->n; r++) {
            n_speak += all[r].speaks;
            n_nodes += all[r].is_first;
        }
        CHECK(n_speak == (round == 0 ? n_nodes : 0));
        free(all);
    }
}

/* An allocation that one rank cannot make fails on all, and nothing else does. */
static inline void check_alloc_fails_together(const struct world *w)
{
    struct zn_shared part;
    CHECK(zn_comm_alloc(w->comm, (size_t)1 << 62, &part) == ZN_ERR_MEMORY);
    CHECK(zn_comm_agree(w->comm, ZN_OK) == ZN_OK);
}

/* Many requests at once, of all sorts and sizes, in an order that only the seed decides; each rank
 * submits at its own pace. Traffic must come out exactly. */
static inline void check_random(const struct world *w, uint64_t seed, int n_requests,
                                size_t max_bytes)
{
    enum { SLOTS = 4 };
    struct zn_shared parts[SLOTS];
    unsigned char *results[SLOTS];
    zn_event done[SLOTS];
    struct {
        bool busy, reduces;
        size_t n;
        zn_dtype wire;
        uint64_t seed;
    } slots[SLOTS] = {0};
    uint64_t sent[ZN_N_COMM_KINDS], others = (uint64_t)w->n - 1;
    for (int k = 0; k < ZN_N_COMM_KINDS; k++)
        sent[k] = zn_comm_sent(w->comm, (zn_comm_kind)k);
    for (int s = 0; s < SLOTS; s++) {
        CHECK(zn_comm_alloc(w->comm, (size_t)w->n * max_bytes, &parts[s]) == ZN_OK);
        results[s] = malloc((size_t)w->n * max_bytes);
    }
    for (int q = 0; q < n_requests + SLOTS; q++) {
        int s = q % SLOTS;
        if (slots[s].busy) {
            wait_for(w, &done[s]);
            slots[s].busy = false;
            for (size_t i = 0; i < slots[s].n && slots[s].reduces; i++)
                CHECK(same_float(((float *)(void *)results[s])[i],
                                 expected_sum(slots[s].seed, w, (int64_t)slots[s].n, (int64_t)i,
                                              slots[s].wire)));
            for (size_t i = 0; i < (size_t)w->n * slots[s].n && !slots[s].reduces; i++)
                CHECK(results[s][i] ==
                      byte_of(slots[s].seed, name_of(w, (int)(i / slots[s].n)), i % slots[s].n));
        }
        if (q >= n_requests)
            continue;
        uint64_t bits = zn_random_bits(seed, (uint64_t)q);
        slots[s].busy = true;
        slots[s].reduces = bits & 1;
        slots[s].wire = (zn_dtype[]){ZN_F32, ZN_BF16, ZN_F16}[(bits >> 1) % 3];
        slots[s].seed = bits;
        slots[s].n = 1 + (size_t)(bits >> 20) % (max_bytes / sizeof(float));
        zn_event_init(&done[s]);
        if (zn_random_bits(seed + (uint64_t)w->rank, (uint64_t)q) % 8 == 0)
            usleep(300);
        if (slots[s].reduces) {
            for (size_t i = 0; i < (size_t)w->n * slots[s].n; i++)
                ((float *)(void *)parts[s].address)[i] = value_of(bits, name_of(w, w->rank), (int64_t)i);
            struct zn_reduce reduce = {.tag = {ZN_COMM_REDUCE_GRAD, q},
                                       .from = &parts[s],
                                       .n_elements = (int64_t)slots[s].n,
                                       .wire = slots[s].wire,
                                       .to = zn_extent_of(results[s], slots[s].n * sizeof(float))};
            CHECK(zn_comm_reduce(w->comm, &reduce, &done[s]) == ZN_OK);
            sent[ZN_COMM_REDUCE_GRAD] += others * slots[s].n * (slots[s].wire == ZN_F32 ? 4 : 2);
        } else {
            for (size_t i = 0; i < slots[s].n; i++)
                parts[s].address[i] = byte_of(bits, name_of(w, w->rank), i);
            int kind = bits & 16 ? ZN_COMM_GATHER_PARAM : ZN_COMM_GATHER_GRAD;
            struct zn_gather gather = {
                .tag = {kind, q}, .from = &parts[s], .n_bytes = slots[s].n, .to = zn_extent_of(results[s], (size_t)w->n * slots[s].n)};
            CHECK(zn_comm_gather(w->comm, &gather, &done[s]) == ZN_OK);
            sent[kind] += others * slots[s].n;
        }
    }
    for (int k = 0; k < ZN_N_COMM_KINDS; k++)
        CHECK(zn_comm_sent(w->comm, (zn_comm_kind)k) == sent[k]);
    for (int s = 0; s < SLOTS; s++) {
        free(results[s]);
        zn_comm_free(w->comm, &parts[s]);
    }
}

static inline void check_all(const struct world *w)
{
    static const zn_dtype wires[] = {ZN_F32, ZN_BF16, ZN_F16};
    check_exchange(w);
    check_agree(w);
    check_agreed_again(w);
    check_alloc_fails_together(w);
    for (int place = 0; place < 2; place++) {
        check_gather(w, 1, 1, place);
        check_gather(w, 2, 4096, place);
        check_gather(w, 3, 100003, place);
        for (int t = 0; t < 3; t++)
            for (int adds = 0; adds < 2; adds++) {
                check_reduce(w, 4, 1, wires[t], adds, place);
                check_reduce(w, 5, 4096, wires[t], adds, place);
                check_reduce(w, 6, 10007, wires[t], adds, place);
            }
    }
    check_gather(w, 7, 0, false);
    check_reduce(w, 8, 0, ZN_F32, false, false);
    check_random(w, 9, 60, 20000);
}

#endif
