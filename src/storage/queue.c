/* Requests in, blocks out. */
#include "storage/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* A transfer that is interrupted time after time without moving anything has failed. */
enum { MAX_IDLE = 100 };

void queue_init(struct block_queue *q, const struct swap_file *files, int n_files)
{
    *q = (struct block_queue){.files = files, .n_files = n_files};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    pthread_cond_init(&q->idle, NULL);
}

void queue_fini(struct block_queue *q)
{
    pthread_cond_destroy(&q->idle);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
}

void queue_tune(struct block_queue *q, size_t block_bytes, int depth)
{
    pthread_mutex_lock(&q->lock);
    q->block_bytes = block_bytes;
    q->depth = depth;
    pthread_mutex_unlock(&q->lock);
}

void queue_push(struct block_queue *q, struct queued *r)
{
    r->next = NULL;
    pthread_mutex_lock(&q->lock);
    if (q->last)
        q->last->next = r;
    else
        q->first = r;
    q->last = r;
    q->n_open++;
    pthread_cond_broadcast(&q->work); /* it may have a block for everyone */
    pthread_mutex_unlock(&q->lock);
}

void queue_end_request(struct queued *r, zn_status status, const char *message)
{
    zn_clock clock;
    zn_clock_init_real(&clock);
    double now = zn_clock_now(&clock);
    if (r->n_taken > 0)
        zn_timeline_note(&r->asked.mark, r->began, now);
    zn_ticket_set(r->asked.done, status, status == ZN_OK ? NULL : message, now);
    free(r);
}

static void leave_list(struct block_queue *q)
{
    q->first = q->first->next;
    if (!q->first)
        q->last = NULL;
}

/* The fault's turn is the first block of its request. */
static void plant_fault(const struct block_queue *q, struct block *b)
{
    if (!q->has_fault || b->request->number != q->fault.at_request || b->request->n_taken > 0)
        return;
    size_t half = b->n_bytes / 2 / ZN_STORAGE_ALIGNMENT * ZN_STORAGE_ALIGNMENT;
    if (q->fault.short_transfer && half > 0) {
        b->n_ask = half;
        b->next_fault = q->fault.error;
    } else {
        b->fault = q->fault.error;
    }
}

/* With the lock held: cuts a block off the first request, up to the end of the stripe. */
static bool take(struct block_queue *q, struct block *b)
{
    struct queued *r = q->first;
    if (!r || q->n_under_way >= q->depth)
        return false;
    uint64_t at = r->asked.offset + r->n_taken, stripe = at / q->block_bytes;
    size_t within = (size_t)(at % q->block_bytes), n = q->block_bytes - within;
    if (n > r->asked.n_bytes - r->n_taken)
        n = r->asked.n_bytes - r->n_taken;
    int index = (int)(stripe % (uint64_t)q->n_files);
    *b = (struct block){
        .request = r,
        .file = &q->files[index],
        .file_index = index,
        .write = r->asked.write,
        .offset = stripe / (uint64_t)q->n_files * q->block_bytes + within,
        .buffer = r->asked.buffer + r->n_taken,
        .n_bytes = n,
        .n_ask = n,
    };
    plant_fault(q, b);
    if (r->n_taken == 0 && r->asked.mark.timeline) {
        zn_clock clock;
        zn_clock_init_real(&clock);
        r->began = zn_clock_now(&clock);
    }
    r->n_taken += n;
    r->n_under_way++;
    q->n_under_way++;
    if (r->n_taken == r->asked.n_bytes)
        leave_list(q);
    return true;
}

bool queue_take(struct block_queue *q, struct block *b)
{
    pthread_mutex_lock(&q->lock);
    bool found = take(q, b);
    pthread_mutex_unlock(&q->lock);
    return found;
}

bool queue_wait_take(struct block_queue *q, struct block *b)
{
    bool found;
    pthread_mutex_lock(&q->lock);
    while (!(found = take(q, b)) && !q->ending)
        pthread_cond_wait(&q->work, &q->lock);
    pthread_mutex_unlock(&q->lock);
    return found;
}

/* With the lock held: the first failure stands, and nothing more of the request is begun. */
static void note_failure(struct block_queue *q, const struct block *b, const char *cause)
{
    struct queued *r = b->request;
    if (r->n_taken < r->asked.n_bytes) {
        r->n_taken = r->asked.n_bytes;
        leave_list(q); /* one that is cut in part is always the first */
    }
    if (r->status != ZN_OK)
        return;
    r->status = ZN_ERR_IO;
    snprintf(r->message, sizeof r->message, "%s: cannot %s %zu bytes at offset %llu: %s",
             zn_shown(b->file->path).text, b->write ? "write" : "read", b->n_bytes, (unsigned long long)b->offset,
             cause);
}

static void end_block(struct block_queue *q, struct block *b, const char *cause)
{
    struct queued *r = b->request;
    pthread_mutex_lock(&q->lock);
    if (cause)
        note_failure(q, b, cause);
    q->n_under_way--;
    r->n_under_way--;
    bool ended = r->n_taken == r->asked.n_bytes && r->n_under_way == 0;
    pthread_mutex_unlock(&q->lock);
    if (!ended)
        return;
    queue_end_request(r, r->status, r->message);
    pthread_mutex_lock(&q->lock);
    if (--q->n_open == 0)
        pthread_cond_broadcast(&q->idle);
    pthread_mutex_unlock(&q->lock);
}

bool queue_finish(struct block_queue *q, struct block *b, int64_t result)
{
    if (b->fault)
        result = -b->fault;
    b->fault = b->next_fault;
    b->next_fault = 0;
    if (result == (int64_t)b->n_bytes) {
        end_block(q, b, NULL);
        return false;
    }
    if (result == 0) {
        end_block(q, b, b->write ? "nothing was written" : "unexpected end of the file");
        return false;
    }
    if (result < 0 && result != -EINTR && result != -EAGAIN) {
        end_block(q, b, strerror((int)-result));
        return false;
    }
    /* What goes again begins on a boundary, as O_DIRECT wants; some of it may move twice. */
    size_t moved = result > 0 ? (size_t)result / ZN_STORAGE_ALIGNMENT * ZN_STORAGE_ALIGNMENT : 0;
    b->n_idle = moved ? 0 : b->n_idle + 1;
    if (b->n_idle > MAX_IDLE) {
        end_block(q, b, result < 0 ? strerror((int)-result) : "only parts of a sector move");
        return false;
    }
    b->offset += moved;
    b->buffer += moved;
    b->n_bytes -= moved;
    b->n_ask = b->n_bytes;
    return true;
}

void queue_drain(struct block_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->n_open > 0)
        pthread_cond_wait(&q->idle, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

void queue_close(struct block_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->ending = true;
    pthread_cond_broadcast(&q->work);
    pthread_mutex_unlock(&q->lock);
}

bool queue_is_closed(struct block_queue *q)
{
    pthread_mutex_lock(&q->lock);
    bool ending = q->ending;
    pthread_mutex_unlock(&q->lock);
    return ending;
}
