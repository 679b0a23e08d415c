/* Memory that ranks of one node read of each other: anonymous when they are threads, a memfd that
 * the others open through /proc when they are processes. A memfd has no name in any file system,
 * needs no room in /dev/shm, and is gone with the last process that maps it. */
#ifndef ZN_COMM_MEMORY_H
#define ZN_COMM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* How a process finds another one's memory. Goes between ranks as bytes. */
struct memory_offer {
    int64_t n_bytes;  /* of the mapping */
    uint64_t address; /* of threads */
    int32_t pid, fd;  /* fd -1: anonymous, readable by threads of this process only */
    char name[48];    /* random, so that another container's process is not taken for the peer */
};

/* Zeroed; page-aligned. Blocks. The caller calls memory_unmap. */
zn_status memory_create_private(size_t n_bytes, struct memory_offer *offer,
                                unsigned char **address);

/* The same for processes; all pages are there before it returns. The caller also calls
 * memory_close when the others have mapped it. */
zn_status memory_create_shared(size_t n_bytes, struct memory_offer *offer, unsigned char **address);
void memory_close(struct memory_offer *offer);

/* Another rank's memory. Of a process it is mapped: the caller calls memory_unmap. */
zn_status memory_attach(const struct memory_offer *offer, unsigned char **address);

void memory_unmap(unsigned char *address, size_t n_bytes);

#endif
