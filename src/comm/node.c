/* Slots, and sleeping on them. Words are atomics; everything else in a slot is
 * written by its owner before it sets `ready`, and read by others between that and their `done`. */
#include "comm/node.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/private.h"

enum {
    SPINS = 64,           /* before sleeping: about a microsecond */
    LOOK_AROUND_MS = 100, /* a sleeper wakes to look for failures */
};

struct comm_slot {
    alignas(128) _Atomic uint32_t ready; /* request it has reached */
    _Atomic uint32_t done;               /* request it has finished reading for */
    _Atomic uint32_t n_sleepers;         /* on the two words above */
    _Atomic uint32_t n_left, n_gone;     /* of the first slot: how many ranks have */
    struct comm_asked asked;
    alignas(64) unsigned char mailbox[ZN_EXCHANGE_BYTES];
};

size_t node_slot_bytes(void)
{
    return sizeof(struct comm_slot);
}

void node_clear_slot(struct comm_node *node)
{
    struct comm_slot *slot = node->slots[node->me];
    atomic_store(&slot->ready, 0);
    atomic_store(&slot->done, 0);
    atomic_store(&slot->n_left, 0);
    atomic_store(&slot->n_gone, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* False when the time was up. */
static bool futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    struct timespec time = {.tv_nsec = LOOK_AROUND_MS * 1000000L};
    return syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, NULL, 0) == 0 || errno != ETIMEDOUT;
}

static void rest_a_moment(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Sequence numbers may wrap around. */
static bool reached(uint32_t word, uint32_t sequence)
{
    return (int32_t)(word - sequence) >= 0;
}

static void set_word(struct comm_slot *slot, _Atomic uint32_t *word, uint32_t sequence)
{
    atomic_store(word, sequence);
    if (atomic_load(&slot->n_sleepers) > 0)
        futex_wake(word);
}

static zn_status wait_for_word(struct comm_node *node, struct comm_slot *slot, _Atomic uint32_t *word,
                               uint32_t sequence)
{
    struct comm_job *job = node->job;
    for (int i = 0; i < SPINS; i++) {
        if (reached(atomic_load(word), sequence))
            return ZN_OK;
        rest_a_moment();
    }
    for (;;) {
        /* The failure is read before the word: what others reached before one of them failed in a
         * later request has succeeded. */
        zn_status failed = job_check(job);
        uint32_t seen = atomic_load(word);
        if (reached(seen, sequence))
            return ZN_OK;
        ZN_TRY(failed);
        atomic_fetch_add(&slot->n_sleepers, 1);
        bool in_time = futex_wait(word, seen);
        atomic_fetch_sub(&slot->n_sleepers, 1);
        if (in_time)
            continue;
        if (job->look_around)
            job->look_around(job->context);
        /* A rank may end when all words of its last request are set, so they are looked at again. */
        if (job_has_dead(job) && !reached(atomic_load(word), sequence))
            job_look_for_dead(job);
    }
}

void node_set_ready(struct comm_node *node, const struct comm_asked *asked)
{
    struct comm_slot *slot = node->slots[node->me];
    slot->asked = *asked;
    set_word(slot, &slot->ready, asked->sequence);
}

const struct comm_asked *node_asked(const struct comm_node *node, int local)
{
    return &node->slots[local]->asked;
}

bool node_same(const struct comm_asked *a, const struct comm_asked *b)
{
    return a->op == b->op && a->kind == b->kind && a->unit == b->unit && a->region == b->region &&
           a->wire == b->wire && a->sequence == b->sequence && a->n_bytes == b->n_bytes;
}

static const char *op_text(int32_t op)
{
    static const char *const texts[] = {
#define COMM_OP_TEXT(name, text) text,
        COMM_OPS(COMM_OP_TEXT)
#undef COMM_OP_TEXT
    };
    return op >= 0 && op < (int32_t)(sizeof texts / sizeof *texts) ? texts[op] : "?";
}

static void describe(char *text, size_t size, int rank, const struct comm_asked *asked)
{
    bool is_group = asked->axis != ZN_WORLD;
    int n = snprintf(text, size, "rank %d asks in request %u%s%s for %s of %llu bytes", rank, asked->sequence,
                     is_group ? " of group " : "", is_group ? zn_axis_name((zn_axis)asked->axis) : "", op_text(asked->op),
                     (unsigned long long)asked->n_bytes);
    if (n > 0 && (size_t)n < size && asked->op <= COMM_REDUCE)
        snprintf(text + n, size - (size_t)n, " (kind %d, unit %d, memory %d, %s)", asked->kind,
                 asked->unit, asked->region,
                 asked->op == COMM_REDUCE ? zn_dtype_name((zn_dtype)asked->wire) : "bytes");
}

zn_status node_disagree(int rank, const struct comm_asked *asked, int other_rank,
                        const struct comm_asked *other)
{
    char texts[2][256];
    bool first = rank < other_rank; /* the same text, whoever finds it */
    describe(texts[0], sizeof texts[0], first ? rank : other_rank, first ? asked : other);
    describe(texts[1], sizeof texts[1], first ? other_rank : rank, first ? other : asked);
    return zn_fail(ZN_ERR_INTERNAL, "ranks disagree: %s, %s", texts[0], texts[1]);
}

/* By its rank in the job. */
static int name_of(const struct comm_node *node, int local)
{
    return node->job_ranks[node->ranks[local]];
}

/* A rank that failed comes to the agreement at the end while others are still on the way: what it brings is the cause. */
static zn_status failure_brought(const struct comm_node *node, int local)
{
    struct comm_vote vote;
    if (node_asked(node, local)->op != COMM_AGREE)
        return ZN_OK;
    memcpy(&vote, node_mailbox(node, local), sizeof vote);
    zn_status status = (zn_status)vote.status;
    if (status == ZN_OK)
        return ZN_OK;
    zn_fail_text(status, vote.text);
    return vote.names_rank ? status : zn_add_context(status, "rank %d", name_of(node, local));
}

static zn_status tell_difference(const struct comm_node *node, int local, const struct comm_asked *mine)
{
    ZN_TRY(failure_brought(node, local));
    ZN_TRY(failure_brought(node, node->me));
    return node_disagree(name_of(node, node->me), mine, name_of(node, local), node_asked(node, local));
}

zn_status node_wait_ready(struct comm_node *node, int local, const struct comm_asked *mine)
{
    struct comm_slot *slot = node->slots[local];
    ZN_TRY(wait_for_word(node, slot, &slot->ready, mine->sequence));
    if (node_same(mine, &slot->asked))
        return ZN_OK;
    zn_status status = tell_difference(node, local, mine);
    node_fail(node, status, zn_error_message());
    return job_check(node->job);
}

void node_set_done(struct comm_node *node, uint32_t sequence)
{
    struct comm_slot *slot = node->slots[node->me];
    set_word(slot, &slot->done, sequence);
}

zn_status node_wait_done(struct comm_node *node, uint32_t sequence)
{
    for (int i = 0; i < node->n_local; i++) {
        struct comm_slot *slot = node->slots[i];
        ZN_TRY(wait_for_word(node, slot, &slot->done, sequence));
    }
    return ZN_OK;
}

void node_wake(struct comm_node *node)
{
    for (int i = 0; i < node->n_local; i++) {
        futex_wake(&node->slots[i]->ready);
        futex_wake(&node->slots[i]->done);
    }
}

void node_fail(struct comm_node *node, zn_status status, const char *text)
{
    job_fail(node->job, status, text);
    node_wake(node);
}

unsigned char *node_mailbox(const struct comm_node *node, int local)
{
    return node->slots[local]->mailbox;
}

bool node_leave(struct comm_node *node, double seconds)
{
    struct comm_slot *first = node->slots[0];
    uint32_t n = (uint32_t)node->n_local, left = atomic_fetch_add(&first->n_left, 1) + 1;
    if (left == n)
        futex_wake(&first->n_left);
    for (double waited = 0; left != n; left = atomic_load(&first->n_left)) {
        if (seconds >= 0 && waited >= seconds)
            return false;
        if (!futex_wait(&first->n_left, left))
            waited += LOOK_AROUND_MS * 1e-3;
    }
    return atomic_fetch_add(&first->n_gone, 1) + 1 == n;
}
