/* The device's memory, and the host's that is pinned. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>

#include "standin/exports.h"
#include "standin/standin.h"

enum { PAGE = 4096, GUARD = 64 * PAGE, OFFSET = 512 /* what the real driver aligns to */, MAX_BLOCKS = 8192, N_KEPT = 64 };
static const size_t device_bytes = (size_t)4 << 30;

struct block {
    char *map; /* with GUARD bytes before and behind that nothing is mapped in */
    size_t n_bytes;
};

static mtx_t lock; /* guards all below; zero is a plain one */
static struct block blocks[MAX_BLOCKS], freed[N_KEPT], pinned[MAX_BLOCKS];
static int n_blocks, n_freed, n_pinned;
static size_t n_used;

static size_t map_bytes(size_t n_bytes)
{
    return (n_bytes + OFFSET + PAGE - 1) / PAGE * PAGE + 2 * GUARD;
}

static char *block_memory(const struct block *b)
{
    return b->map + GUARD + OFFSET;
}

/* Under the lock. */
static struct block *find_block(zn_cu_address address)
{
    char *at = (char *)(uintptr_t)(address & ~FAR);
    for (int i = 0; i < n_blocks && (address & FAR); i++)
        if (at >= block_memory(&blocks[i]) && at <= block_memory(&blocks[i]) + blocks[i].n_bytes)
            return &blocks[i];
    return NULL;
}

void *device_pointer(zn_cu_address address, size_t n_bytes)
{
    char *at = (char *)(uintptr_t)(address & ~FAR);
    mtx_lock(&lock);
    const struct block *b = find_block(address);
    bool fits = b && n_bytes <= (size_t)(block_memory(b) + b->n_bytes - at);
    mtx_unlock(&lock);
    return fits ? at : NULL;
}

zn_cu_enum cuMemGetInfo_v2(size_t *free_bytes, size_t *n_bytes)
{
    mtx_lock(&lock);
    *free_bytes = device_bytes - n_used;
    *n_bytes = device_bytes;
    mtx_unlock(&lock);
    return sticky_error();
}

zn_cu_enum cuMemAlloc_v2(zn_cu_address *address, size_t n_bytes)
{
    if (sticky_error())
        return sticky_error();
    if (n_bytes == 0)
        return ZN_CUDA_ERROR_INVALID_VALUE;
    if (fault_is_due(FAULT_alloc) || n_bytes > device_bytes)
        return ZN_CUDA_ERROR_OUT_OF_MEMORY;
    mtx_lock(&lock);
    char *map = MAP_FAILED;
    if (n_blocks < MAX_BLOCKS && n_bytes <= device_bytes - n_used)
        map = mmap(NULL, map_bytes(n_bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map != MAP_FAILED) {
        mprotect(map + GUARD, map_bytes(n_bytes) - 2 * GUARD, PROT_READ | PROT_WRITE);
        blocks[n_blocks] = (struct block){map, n_bytes};
        memset(block_memory(&blocks[n_blocks]), 0xa5, n_bytes); /* new memory holds anything */
        *address = (zn_cu_address)(uintptr_t)block_memory(&blocks[n_blocks++]) | FAR;
        n_used += n_bytes;
    }
    mtx_unlock(&lock);
    return map == MAP_FAILED ? ZN_CUDA_ERROR_OUT_OF_MEMORY : 0;
}

/* Freed memory stays unmapped for a while, so that nothing else comes to lie there. */
zn_cu_enum cuMemFree_v2(zn_cu_address address)
{
    zn_cu_enum result = ZN_CUDA_ERROR_INVALID_VALUE;
    mtx_lock(&lock);
    struct block *b = find_block(address);
    if (b && ((zn_cu_address)(uintptr_t)block_memory(b) | FAR) == address) {
        struct block *kept = &freed[n_freed++ % N_KEPT];
        if (kept->map)
            munmap(kept->map, map_bytes(kept->n_bytes));
        mprotect(b->map, map_bytes(b->n_bytes), PROT_NONE);
        madvise(b->map, map_bytes(b->n_bytes), MADV_DONTNEED);
        n_used -= b->n_bytes;
        *kept = *b;
        *b = blocks[--n_blocks];
        result = sticky_error();
    }
    mtx_unlock(&lock);
    return result;
}

zn_cu_enum cuMemGetAddressRange_v2(zn_cu_address *base, size_t *n_bytes, zn_cu_address address)
{
    mtx_lock(&lock);
    const struct block *b = find_block(address);
    if (b) {
        *base = (zn_cu_address)(uintptr_t)block_memory(b) | FAR;
        *n_bytes = b->n_bytes;
    }
    mtx_unlock(&lock);
    return b ? 0 : ZN_CUDA_ERROR_NOT_FOUND;
}

/* ---- The host's ---- */

bool is_host_pinned(const void *memory, size_t n_bytes)
{
    const char *first = memory;
    bool is_in = false;
    mtx_lock(&lock);
    for (int i = 0; i < n_pinned && !is_in; i++)
        is_in = first >= pinned[i].map && first + n_bytes <= pinned[i].map + pinned[i].n_bytes;
    mtx_unlock(&lock);
    return is_in;
}

/* Pages belong to one registration. */
static zn_cu_enum add_pinned(char *memory, size_t n_bytes)
{
    zn_cu_enum result = 0;
    uintptr_t first = (uintptr_t)memory / PAGE, end = ((uintptr_t)memory + n_bytes + PAGE - 1) / PAGE;
    mtx_lock(&lock);
    for (int i = 0; i < n_pinned; i++) {
        uintptr_t other = (uintptr_t)pinned[i].map / PAGE, other_end = ((uintptr_t)pinned[i].map + pinned[i].n_bytes + PAGE - 1) / PAGE;
        if (first < other_end && other < end)
            result = ZN_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (n_pinned == MAX_BLOCKS)
        result = ZN_CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        pinned[n_pinned++] = (struct block){memory, n_bytes};
    mtx_unlock(&lock);
    return result;
}

static zn_cu_enum remove_pinned(const void *memory)
{
    zn_cu_enum result = ZN_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    mtx_lock(&lock);
    for (int i = 0; i < n_pinned && result; i++)
        if (pinned[i].map == memory) {
            pinned[i] = pinned[--n_pinned];
            result = 0;
        }
    mtx_unlock(&lock);
    return result;
}

zn_cu_enum cuMemHostRegister_v2(void *memory, size_t n_bytes, unsigned flags)
{
    (void)flags;
    if (fault_is_set(FAULT_pin))
        return ZN_CUDA_ERROR_NOT_SUPPORTED;
    return sticky_error() ? sticky_error() : add_pinned(memory, n_bytes);
}

zn_cu_enum cuMemHostUnregister(void *memory)
{
    return remove_pinned(memory);
}

zn_cu_enum cuMemHostAlloc(void **memory, size_t n_bytes, unsigned flags)
{
    (void)flags;
    if (sticky_error())
        return sticky_error();
    *memory = aligned_alloc(PAGE, (n_bytes + PAGE - 1) / PAGE * PAGE);
    return *memory ? add_pinned(*memory, n_bytes) : ZN_CUDA_ERROR_OUT_OF_MEMORY;
}

zn_cu_enum cuMemFreeHost(void *memory)
{
    zn_cu_enum result = remove_pinned(memory);
    if (!result)
        free(memory);
    return result;
}

/* ---- Faults ---- */

static _Thread_local volatile sig_atomic_t is_on_device;
static struct sigaction before;

void enter_device(void)
{
    is_on_device = 1;
}

void leave_device(void)
{
    is_on_device = 0;
}

/* The device goes on, on memory that nobody reads, and its context has failed. */
static void handle_fault(int signal, siginfo_t *info, void *context)
{
    uintptr_t page = (uintptr_t)info->si_addr / PAGE * PAGE;
    (void)context;
    if (is_on_device && page) {
        void *map = mmap((void *)page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        set_sticky_error(ZN_CUDA_ERROR_ILLEGAL_ADDRESS);
        if (map != MAP_FAILED)
            return;
    }
    sigaction(signal, &before, NULL); /* the host's own fault happens again and ends it */
}

void install_fault_handler(void)
{
    struct sigaction action = {.sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (now.sa_sigaction == handle_fault)
        return;
    sigaction(SIGSEGV, &action, &before);
}
