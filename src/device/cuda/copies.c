/* Copies between the host's memory and a CUDA device's. Registered memory is read and written by the device itself; other memory goes
 * through two pinned pieces a queue, of which the host fills or empties one while the device has the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "device/cuda/private.h"

void cuda_pin(struct cuda_driver *d, void *memory, size_t n_bytes)
{
    const struct zn_cu_api *cu = &d->cuda->cu;
    struct cuda_pin *pin = malloc(sizeof *pin);
    if (!pin)
        return;
    *pin = (struct cuda_pin){.memory = memory, .n_bytes = n_bytes};
    zn_status status = zn_cu_check(cu, cu->cuMemHostRegister_v2(memory, n_bytes, ZN_CU_MEMHOSTREGISTER_PORTABLE), "cuMemHostRegister");
    if (status != ZN_OK) {
        char text[ZN_SIZE_TEXT];
        pthread_mutex_lock(&d->cuda->lock);
        if (!d->cuda->staging_cause[0])
            snprintf(d->cuda->staging_cause, sizeof d->cuda->staging_cause, "%s of the host's memory are copied through staging: %s",
                     zn_size_text(n_bytes, text), zn_error_message());
        pthread_mutex_unlock(&d->cuda->lock);
        free(pin);
        return;
    }
    pthread_mutex_lock(&d->lock);
    pin->next = d->pins;
    d->pins = pin;
    pthread_mutex_unlock(&d->lock);
}

void cuda_unpin(struct cuda_driver *d, void *memory)
{
    pthread_mutex_lock(&d->lock);
    struct cuda_pin **at = &d->pins, *pin;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    pin = *at;
    if (pin)
        *at = pin->next;
    pthread_mutex_unlock(&d->lock);
    if (pin)
        d->cuda->cu.cuMemHostUnregister(memory);
    free(pin);
}

static bool is_pinned(struct cuda_driver *d, const void *memory, size_t n_bytes)
{
    const char *first = memory;
    bool is_in = false;
    pthread_mutex_lock(&d->lock);
    for (const struct cuda_pin *p = d->pins; p && !is_in; p = p->next)
        is_in = first >= p->memory && first < p->memory + p->n_bytes && n_bytes <= (size_t)(p->memory + p->n_bytes - first);
    pthread_mutex_unlock(&d->lock);
    return is_in;
}

static zn_status make_staging(struct cuda_driver *d, zn_driver_queue *queue)
{
    const struct zn_cu_api *cu = &d->cuda->cu;
    void *memory;
    for (int i = 0; i < CUDA_STAGING_PIECES; i++)
        if (!queue->used[i])
            CUDA_TRY(cuEventCreate, &queue->used[i], ZN_CU_EVENT_BLOCKING_SYNC | ZN_CU_EVENT_DISABLE_TIMING);
    if (!queue->staging) {
        CUDA_TRY(cuMemHostAlloc, &memory, (size_t)CUDA_STAGING_PIECES * CUDA_STAGING_PIECE, ZN_CU_MEMHOSTALLOC_PORTABLE);
        queue->staging = memory;
    }
    return ZN_OK;
}

void cuda_free_staging(struct cuda_driver *d, zn_driver_queue *queue)
{
    const struct zn_cu_api *cu = &d->cuda->cu;
    for (int i = 0; i < CUDA_STAGING_PIECES; i++)
        if (queue->used[i])
            cu->cuEventDestroy_v2(queue->used[i]);
    if (queue->staging)
        cu->cuMemFreeHost(queue->staging);
}

static size_t piece_bytes(size_t n_bytes, size_t at)
{
    return n_bytes - at < CUDA_STAGING_PIECE ? n_bytes - at : CUDA_STAGING_PIECE;
}

/* A piece is filled once the copy before, of this call or an earlier one, has left it. */
static zn_status write_staged(struct cuda_driver *d, zn_driver_queue *queue, zn_addr dst, const char *src, size_t n_bytes)
{
    const struct zn_cu_api *cu = &d->cuda->cu;
    ZN_TRY(make_staging(d, queue));
    for (size_t at = 0, i = 0; at < n_bytes; at += CUDA_STAGING_PIECE, i = (i + 1) % CUDA_STAGING_PIECES) {
        char *piece = queue->staging + i * CUDA_STAGING_PIECE;
        size_t n = piece_bytes(n_bytes, at);
        CUDA_TRY(cuEventSynchronize, queue->used[i]);
        memcpy(piece, src + at, n);
        CUDA_TRY(cuMemcpyHtoDAsync_v2, dst + at, piece, n, queue->stream);
        CUDA_TRY(cuEventRecord, queue->used[i], queue->stream);
    }
    return ZN_OK;
}

/* One piece ahead: the next is on its way while the host empties the last. */
static zn_status read_staged(struct cuda_driver *d, zn_driver_queue *queue, char *dst, zn_addr src, size_t n_bytes)
{
    const struct zn_cu_api *cu = &d->cuda->cu;
    ZN_TRY(make_staging(d, queue));
    size_t n_pieces = (n_bytes + CUDA_STAGING_PIECE - 1) / CUDA_STAGING_PIECE;
    for (size_t k = 0; k <= n_pieces; k++) {
        if (k < n_pieces) {
            size_t at = k * CUDA_STAGING_PIECE, i = k % CUDA_STAGING_PIECES;
            CUDA_TRY(cuMemcpyDtoHAsync_v2, queue->staging + i * CUDA_STAGING_PIECE, src + at, piece_bytes(n_bytes, at), queue->stream);
            CUDA_TRY(cuEventRecord, queue->used[i], queue->stream);
        }
        if (k > 0) {
            size_t at = (k - 1) * CUDA_STAGING_PIECE, i = (k - 1) % CUDA_STAGING_PIECES;
            CUDA_TRY(cuEventSynchronize, queue->used[i]);
            memcpy(dst + at, queue->staging + i * CUDA_STAGING_PIECE, piece_bytes(n_bytes, at));
        }
    }
    return ZN_OK;
}

zn_status cuda_write(struct cuda_driver *d, zn_driver_queue *queue, zn_addr dst, const void *src, size_t n_bytes)
{
    const struct zn_cu_api *cu = &d->cuda->cu;
    if (!is_pinned(d, src, n_bytes))
        return write_staged(d, queue, dst, src, n_bytes);
    CUDA_TRY(cuMemcpyHtoDAsync_v2, dst, src, n_bytes, queue->stream);
    return ZN_OK;
}

zn_status cuda_read(struct cuda_driver *d, zn_driver_queue *queue, void *dst, zn_addr src, size_t n_bytes)
{
    const struct zn_cu_api *cu = &d->cuda->cu;
    if (!is_pinned(d, dst, n_bytes))
        return read_staged(d, queue, dst, src, n_bytes);
    CUDA_TRY(cuMemcpyDtoHAsync_v2, dst, src, n_bytes, queue->stream);
    return ZN_OK;
}
