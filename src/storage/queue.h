/* The queue between those who ask and an engine that moves blocks. Requests are cut into blocks of
 * the stripe's size, which belong to one file each; an engine takes a block, tries to move it and
 * brings the result back; the last block of a request ends its event. What is common to all engines
 * is here: striping, short transfers, failures and their texts, faults on purpose. */
#ifndef ZN_STORAGE_QUEUE_H
#define ZN_STORAGE_QUEUE_H

#include <pthread.h>

#include "storage/private.h"
#include "storage/swap.h"

struct queued {
    struct storage_request asked;
    uint64_t number;     /* of the request, from 0 */
    double began;        /* where it is noted: when its first block was taken */
    struct queued *next; /* in the list it is in */
    /* Guarded by the queue's lock: */
    size_t n_taken; /* bytes that were cut into blocks */
    int n_under_way;
    zn_status status; /* the first failure */
    char message[256];
};

struct block {
    struct queued *request;
    const struct swap_file *file;
    int file_index;
    bool write;
    uint64_t offset; /* in the file */
    unsigned char *buffer;
    size_t n_bytes; /* that are left */
    size_t n_ask;   /* that the engine shall ask for now */
    int fault;      /* errno to report instead of the result */
    int next_fault; /* the same of the next attempt */
    int n_idle;     /* attempts one after the other that moved nothing */
};

struct block_queue {
    const struct swap_file *files;
    int n_files;
    struct zn_storage_fault fault;
    bool has_fault;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t work;  /* there may be something to take, or the end */
    pthread_cond_t idle;  /* n_open became 0 */
    struct queued *first, *last; /* with bytes that are not taken */
    size_t block_bytes;
    int depth; /* most blocks under way */
    int n_under_way;
    size_t n_open; /* requests that have not ended */
    bool ending;
};

void queue_init(struct block_queue *queue, const struct swap_file *files, int n_files);
void queue_fini(struct block_queue *queue);

/* Only while nothing is under way. */
void queue_tune(struct block_queue *queue, size_t block_bytes, int depth);

/* The queue owns the request (from malloc) from now on. */
void queue_push(struct block_queue *queue, struct queued *request);

/* Ends a request that is in no list: sets its event and frees it. */
void queue_end_request(struct queued *request, zn_status status, const char *message);

/* The next block, false when there is none now. */
bool queue_take(struct block_queue *queue, struct block *block);

/* Sleeps until there is one; false when the queue is ending. */
bool queue_wait_take(struct block_queue *queue, struct block *block);

/* `result`: bytes moved, or -errno. True: the block, which is what is left of it now, has to go
 * again. False: it has ended. */
bool queue_finish(struct block_queue *queue, struct block *block, int64_t result);

/* Blocks until every request has ended. */
void queue_drain(struct block_queue *queue);

/* No more requests will come: engines end. */
void queue_close(struct block_queue *queue);
bool queue_is_closed(struct block_queue *queue);

#endif
