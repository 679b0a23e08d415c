/* Anonymous and memfd mappings. */
#include "comm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/size.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096 };

/* A mapping has at least one page. */
static size_t mapped_bytes(size_t n_bytes)
{
    return zn_round_up(n_bytes > 0 ? n_bytes : 1, PAGE);
}

static zn_status no_memory(size_t n_bytes, int error)
{
    char size[ZN_SIZE_TEXT];
    return zn_fail(ZN_ERR_MEMORY, "no %s of shared memory: %s", zn_size_text(n_bytes, size),
                   strerror(error));
}

zn_status memory_create_private(size_t n_bytes, struct memory_offer *offer, unsigned char **address)
{
    size_t size = mapped_bytes(n_bytes);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return no_memory(n_bytes, errno);
    madvise(map, size, MADV_HUGEPAGE); /* where it can be had */
    *offer = (struct memory_offer){
        .n_bytes = (int64_t)size, .address = (uintptr_t)map, .pid = getpid(), .fd = -1};
    *address = map;
    return ZN_OK;
}

/* Takes every page now: memory that is not there is an error here, not a SIGBUS later. Through the
 * mapping where the kernel can, since that honours the wish for huge pages. */
static int populate(int fd, void *map, size_t size)
{
    if (madvise(map, size, MADV_POPULATE_WRITE) == 0)
        return 0;
    return errno == EINVAL ? posix_fallocate(fd, 0, (off_t)size) : errno;
}

zn_status memory_create_shared(size_t n_bytes, struct memory_offer *offer, unsigned char **address)
{
    size_t size = mapped_bytes(n_bytes);
    uint64_t random[2] = {0};
    char name[sizeof offer->name];
    zn_status status;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return zn_fail(ZN_ERR_IO, "no random numbers: %s", strerror(errno));
    snprintf(name, sizeof name, "zinc-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return zn_fail(ZN_ERR_IO, "memfd_create: %s", strerror(errno));
    if (ftruncate(fd, (off_t)size) != 0) {
        status = no_memory(n_bytes, errno);
        goto undo_fd;
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        status = no_memory(n_bytes, errno);
        goto undo_fd;
    }
    madvise(map, size, MADV_HUGEPAGE);
    int error = populate(fd, map, size);
    if (error) {
        status = no_memory(n_bytes, error);
        goto undo_map;
    }
    *offer = (struct memory_offer){.n_bytes = (int64_t)size, .pid = getpid(), .fd = fd};
    memcpy(offer->name, name, sizeof name);
    *address = map;
    return ZN_OK;

undo_map:
    munmap(map, size);
undo_fd:
    close(fd);
    return status;
}

void memory_close(struct memory_offer *offer)
{
    if (offer->fd >= 0)
        close(offer->fd);
    offer->fd = -1;
}

zn_status memory_attach(const struct memory_offer *offer, unsigned char **address)
{
    if (offer->fd < 0) {
        *address = (unsigned char *)(uintptr_t)offer->address;
        return ZN_OK;
    }
    char path[64], target[128] = "", wanted[80];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", offer->pid, offer->fd);
    snprintf(wanted, sizeof wanted, "/memfd:%.*s (deleted)", (int)sizeof offer->name, offer->name);
    if (readlink(path, target, sizeof target - 1) < 0)
        return zn_fail(ZN_ERR_IO,
                       "cannot reach the shared memory of another rank on this node: %s: %s", path,
                       strerror(errno));
    if (strcmp(target, wanted) != 0)
        return zn_fail(ZN_ERR_UNSUPPORTED,
                       "ranks on this node do not see each other's processes (%s is another's): "
                       "start them in one PID namespace",
                       path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return zn_fail(ZN_ERR_IO, "%s: %s", path, strerror(errno));
    size_t size = (size_t)offer->n_bytes;
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error = errno;
    close(fd);
    if (map == MAP_FAILED)
        return no_memory(size, error);
    *address = map;
    return ZN_OK;
}

void memory_unmap(unsigned char *address, size_t n_bytes)
{
    if (address)
        munmap(address, mapped_bytes(n_bytes));
}
