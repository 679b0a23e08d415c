/* Swap files: one in each folder, without a name, mode 0600, of full size from the start. They are
 * gone when the last descriptor is closed, so also when the process is killed. */
#ifndef ZN_STORAGE_SWAP_H
#define ZN_STORAGE_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct swap_file {
    int fd;
    bool direct; /* O_DIRECT; else through the page cache */
    char *path;  /* of the folder; the file's own copy */
};

/* Blocks: a file system that cannot reserve is filled with zeros. Folders in memory and file systems
 * without O_DIRECT are refused unless `allow_buffered`. */
zn_status swap_file_init(struct swap_file *file, const char *path, uint64_t n_bytes, bool allow_buffered);
void swap_file_fini(struct swap_file *file);

#endif
