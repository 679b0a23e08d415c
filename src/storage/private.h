/* What the backends of the storage share: the head of each, its table, and a request. */
#ifndef ZN_STORAGE_PRIVATE_H
#define ZN_STORAGE_PRIVATE_H

#include "storage/storage.h"

struct storage_request {
    bool write;
    uint64_t offset;
    unsigned char *buffer;
    size_t n_bytes;
    struct zn_ticket after, also, done; /* the first two may be empty */
    struct zn_mark mark;
};

struct storage_ops {
    /* Takes a copy of the request. A failure here leaves `done` alone; later ones end it. */
    zn_status (*start)(zn_storage *storage, const struct storage_request *request);
    void (*register_memory)(zn_storage *storage, void *address, size_t n_bytes); /* or NULL */
    void (*destroy)(zn_storage *storage);
};

struct zn_storage {
    const struct storage_ops *ops;
    uint64_t n_bytes;
    _Atomic uint64_t bytes_read, bytes_written; /* counted by whoever submits */
    size_t buffer_bytes, registered_bytes;
    zn_timeline *timeline; /* NULL: none */
    zn_request_log *requests; /* likewise */
    char description[256];
};

#endif
