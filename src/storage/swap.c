/* Making of swap files. Everything that can be wrong with a folder is found here, before the first
 * step: missing, not writable, in memory, without direct I/O, too full. */
#include "storage/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/size.h"
#include "storage/storage.h"

/* Some file systems cannot make a file without a name; there it has one for a moment. */
static int open_nameless(const char *folder)
{
    int fd = open(folder, O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    char *name;
    if (asprintf(&name, "%s/.zinc-swap-XXXXXX", folder) < 0) {
        errno = ENOMEM;
        return -1;
    }
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0 && unlink(name) != 0) {
        int cause = errno;
        close(fd);
        fd = -1;
        errno = cause;
    }
    free(name);
    return fd;
}

static const char *memory_type(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) != 0)
        return NULL;
    switch ((uint32_t)s.f_type) {
    case TMPFS_MAGIC:
        return "tmpfs";
    case RAMFS_MAGIC:
        return "ramfs";
    case HUGETLBFS_MAGIC:
        return "hugetlbfs";
    default:
        return NULL;
    }
}

/* Some file systems take the flag and refuse the transfer, so one block is tried. Returns 0, or the
 * errno that says why not; then the flag is off again. */
static int try_direct(int fd)
{
    void *block = NULL;
    int cause = 0, flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
        return errno;
    if (posix_memalign(&block, ZN_STORAGE_ALIGNMENT, ZN_STORAGE_ALIGNMENT) != 0) {
        cause = ENOMEM;
    } else {
        memset(block, 0, ZN_STORAGE_ALIGNMENT);
        errno = EIO; /* what a short transfer means here */
        if (pwrite(fd, block, ZN_STORAGE_ALIGNMENT, 0) != ZN_STORAGE_ALIGNMENT ||
            pread(fd, block, ZN_STORAGE_ALIGNMENT, 0) != ZN_STORAGE_ALIGNMENT)
            cause = errno;
    }
    free(block);
    if (cause)
        fcntl(fd, F_SETFL, flags);
    return cause;
}

/* A disk that is full or broken is no reason to do without direct I/O. */
static zn_status choose_direct(struct swap_file *file, bool allow_buffered)
{
    int cause = memory_type(file->fd) ? EOPNOTSUPP : try_direct(file->fd);
    if (cause == ENOSPC || cause == EDQUOT || cause == EIO)
        return zn_fail(ZN_ERR_IO, "%s: cannot write a test block of %d bytes: %s", file->path,
                       ZN_STORAGE_ALIGNMENT, strerror(cause));
    if (cause && !allow_buffered)
        return zn_fail(ZN_ERR_UNSUPPORTED,
                       "%s: its file system does not take direct I/O (O_DIRECT: %s); give another folder, or "
                       "--allow-buffered-swap",
                       file->path, strerror(cause));
    file->direct = cause == 0;
    return ZN_OK;
}

/* What there is to be had; UINT64_MAX where the file system does not tell. */
static uint64_t free_bytes(int fd)
{
    struct statvfs s;
    if (fstatvfs(fd, &s) != 0 || s.f_blocks == 0)
        return UINT64_MAX;
    return (uint64_t)s.f_bavail * s.f_frsize;
}

static zn_status fail_full(const struct swap_file *file, uint64_t n_bytes, uint64_t n_free, int cause)
{
    char wanted[ZN_SIZE_TEXT], left[ZN_SIZE_TEXT];
    return zn_fail(ZN_ERR_IO, "%s: no room for a swap file of %llu bytes (%s): %llu bytes (%s) are free: %s",
                   file->path, (unsigned long long)n_bytes, zn_size_text((size_t)n_bytes, wanted),
                   (unsigned long long)n_free, zn_size_text((size_t)n_free, left), strerror(cause));
}

/* For file systems without fallocate: written blocks are reserved ones. Returns 0 or the errno. */
static int fill_with_zeros(int fd, uint64_t n_bytes)
{
    void *zeros = NULL;
    int cause = 0;
    if (posix_memalign(&zeros, ZN_STORAGE_ALIGNMENT, ZN_MIB) != 0)
        return ENOMEM;
    memset(zeros, 0, ZN_MIB);
    for (uint64_t at = 0; at < n_bytes && !cause;) {
        size_t n = n_bytes - at < ZN_MIB ? (size_t)(n_bytes - at) : ZN_MIB;
        ssize_t put = pwrite(fd, zeros, n, (off_t)at);
        if (put > 0)
            at += (uint64_t)put;
        else if (put == 0 || errno != EINTR)
            cause = put == 0 ? ENOSPC : errno;
    }
    free(zeros);
    return cause;
}

static zn_status reserve(struct swap_file *file, uint64_t n_bytes)
{
    int result, cause;
    do
        result = fallocate(file->fd, 0, 0, (off_t)n_bytes);
    while (result != 0 && errno == EINTR);
    cause = result == 0 ? 0 : errno;
    if (cause == EOPNOTSUPP || cause == ENOSYS)
        cause = fill_with_zeros(file->fd, n_bytes);
    if (cause == ENOSPC || cause == EDQUOT || cause == EFBIG) {
        /* Another rank was first. The part that was taken is given back, and counts as free. */
        if (ftruncate(file->fd, 0) != 0)
            cause = errno;
        return fail_full(file, n_bytes, free_bytes(file->fd), cause);
    }
    if (cause)
        return zn_fail(ZN_ERR_IO, "%s: cannot reserve a swap file of %llu bytes: %s", file->path,
                       (unsigned long long)n_bytes, strerror(cause));
    return ZN_OK;
}

/* Looks before it takes, so that a disk that is too small is not filled for a moment, which would
 * hurt others. */
static zn_status prepare(struct swap_file *file, uint64_t n_bytes, bool allow_buffered)
{
    const char *memory = memory_type(file->fd);
    if (memory && !allow_buffered)
        return zn_fail(ZN_ERR_UNSUPPORTED,
                       "%s: lies in memory (%s), where swap saves none; give a folder on a disk, or "
                       "--allow-buffered-swap",
                       file->path, memory);
    uint64_t n_free = free_bytes(file->fd);
    if (n_bytes > INT64_MAX || n_bytes > n_free)
        return fail_full(file, n_bytes, n_free, ENOSPC);
    ZN_TRY(choose_direct(file, allow_buffered));
    return reserve(file, n_bytes);
}

zn_status swap_file_init(struct swap_file *file, const char *path, uint64_t n_bytes, bool allow_buffered)
{
    struct swap_file made = {.path = strdup(path)};
    zn_status status;
    if (!made.path)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    made.fd = open_nameless(path);
    if (made.fd < 0) {
        status = zn_fail(ZN_ERR_IO, "%s: cannot make a swap file here: %s", path, strerror(errno));
        goto undo_path;
    }
    status = prepare(&made, n_bytes, allow_buffered);
    if (status != ZN_OK)
        goto undo_file;
    *file = made;
    return ZN_OK;
undo_file:
    close(made.fd);
undo_path:
    free(made.path);
    return status;
}

void swap_file_fini(struct swap_file *file)
{
    close(file->fd);
    free(file->path);
}
