/* The storage's functions: they check what they are given, count, and hand on to the backend. */
#include "storage/private.h"

/* Takes the request where it is sound. */
static zn_status check_and_start(zn_storage *s, struct storage_request *r)
{
    r->mark = (struct zn_mark){.timeline = s->timeline,
                               .track = ZN_TRACK_NVME,
                               .label = r->write ? "write" : "read",
                               .n_bytes = r->n_bytes};
    const uint64_t mask = ZN_STORAGE_ALIGNMENT - 1;
    if ((r->offset & mask) || (r->n_bytes & mask) || ((uintptr_t)r->buffer & mask))
        return zn_fail(ZN_ERR_INTERNAL, "storage: %zu bytes at offset %llu, memory %p: not multiples of %d",
                       r->n_bytes, (unsigned long long)r->offset, (void *)r->buffer, ZN_STORAGE_ALIGNMENT);
    if (r->offset > s->n_bytes || r->n_bytes > s->n_bytes - r->offset)
        return zn_fail(ZN_ERR_INTERNAL, "storage: %zu bytes at offset %llu are beyond its %llu bytes", r->n_bytes,
                       (unsigned long long)r->offset, (unsigned long long)s->n_bytes);
    ZN_TRY(zn_request_log_add(s->requests, "%s at %llu: %zu", r->mark.label, (unsigned long long)r->offset, r->n_bytes));
    ZN_TRY(s->ops->start(s, r));
    if (r->write)
        s->bytes_written += r->n_bytes;
    else
        s->bytes_read += r->n_bytes;
    return ZN_OK;
}

static zn_status start(zn_storage *s, struct storage_request *r, struct zn_extent memory)
{
    void *pointer;
    zn_status status = zn_extent_pointer(memory, r->n_bytes, "storage", &pointer);
    if (status == ZN_OK) {
        r->buffer = pointer;
        status = check_and_start(s, r);
    }
    return zn_event_fail(r->done.event, status);
}

zn_status zn_storage_read(zn_storage *storage, uint64_t offset, struct zn_extent to, size_t n_bytes, zn_event *after,
                          zn_event *done)
{
    return zn_storage_read_after(storage, offset, to, n_bytes, after, NULL, done);
}

zn_status zn_storage_read_after(zn_storage *storage, uint64_t offset, struct zn_extent to, size_t n_bytes, zn_event *after,
                                zn_event *also, zn_event *done)
{
    return start(storage,
                 &(struct storage_request){.offset = offset,
                                           .n_bytes = n_bytes,
                                           .after = zn_event_ticket(after),
                                           .also = zn_event_ticket(also),
                                           .done = zn_event_ticket(done)},
                 to);
}

zn_status zn_storage_write(zn_storage *storage, uint64_t offset, struct zn_extent from, size_t n_bytes,
                           zn_event *after, zn_event *done)
{
    return start(storage,
                 &(struct storage_request){.write = true,
                                           .offset = offset,
                                           .n_bytes = n_bytes,
                                           .after = zn_event_ticket(after),
                                           .done = zn_event_ticket(done)},
                 from);
}

void zn_storage_trace(zn_storage *storage, zn_timeline *timeline)
{
    storage->timeline = timeline;
}

void zn_storage_log_requests(zn_storage *storage, zn_request_log *log)
{
    storage->requests = log;
}

void zn_storage_register(zn_storage *storage, struct zn_extent memory)
{
    void *pointer;
    if (storage->ops->register_memory && memory.n_bytes > 0 &&
        zn_extent_pointer(memory, memory.n_bytes, "storage", &pointer) == ZN_OK)
        storage->ops->register_memory(storage, pointer, memory.n_bytes);
}

void zn_storage_destroy(zn_storage *storage)
{
    if (storage)
        storage->ops->destroy(storage);
}

uint64_t zn_storage_bytes_read(const zn_storage *storage)
{
    return storage->bytes_read;
}

uint64_t zn_storage_bytes_written(const zn_storage *storage)
{
    return storage->bytes_written;
}

const char *zn_storage_description(const zn_storage *storage)
{
    return storage->description;
}

size_t zn_storage_buffer_bytes(const zn_storage *storage)
{
    return storage->buffer_bytes;
}

size_t zn_storage_registered_bytes(const zn_storage *storage)
{
    return storage->registered_bytes;
}
