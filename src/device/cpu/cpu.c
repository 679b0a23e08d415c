/* The processor as a device: its memory is the process's own, and a kernel has run when the call
 * returns. */
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/size.h"

enum { PAGE = 4096, HUGE_PAGE = 2 * 1024 * 1024 };

static const struct zn_cpu_kernels *kernels_of(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx512") == 0)
        return &zn_cpu_kernels_avx512;
    if (strcmp(isa, "avx2") == 0)
        return &zn_cpu_kernels_avx2;
#elif defined(__aarch64__)
    if (strcmp(isa, "neon") == 0)
        return &zn_cpu_kernels_neon;
#else
    (void)isa;
#endif
    return &zn_cpu_kernels_plain;
}

/* Bytes really mapped: whole pages, at least one. */
static size_t mapped_bytes(size_t n_bytes)
{
    return zn_round_up(n_bytes ? n_bytes : 1, PAGE);
}

/* A map that begins on a multiple of HUGE_PAGE, so that the system can back all of it with large
 * pages: mapped with room to spare, the ends given back. NULL when there is no memory. */
static char *map_huge(size_t n_bytes)
{
    char *map =
        mmap(NULL, n_bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
    if (before)
        munmap(map, before);
    munmap(map + before + n_bytes, HUGE_PAGE - before);
    /* Advice only: a system without large pages is slower, not wrong. */
    madvise(map + before, n_bytes, MADV_HUGEPAGE);
    return map + before;
}

static size_t scratch_bytes(const struct zn_cpu *cpu)
{
    return (size_t)cpu->n_threads * ZN_CPU_SCRATCH_BYTES;
}

static void cpu_destroy(zn_device *device)
{
    struct zn_cpu *cpu = (struct zn_cpu *)device;
    munmap(cpu->scratch, scratch_bytes(cpu));
    free(cpu);
}

static zn_status cpu_alloc(zn_device *device, size_t n_bytes, zn_addr *address)
{
    (void)device;
    char *map = NULL, text[ZN_SIZE_TEXT];
    if (n_bytes < HUGE_PAGE) {
        map = mmap(NULL, mapped_bytes(n_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
        if (map == MAP_FAILED)
            map = NULL;
    } else if (n_bytes <= SIZE_MAX - 2 * (size_t)HUGE_PAGE) {
        map = map_huge(mapped_bytes(n_bytes));
    }
    if (!map)
        return zn_fail(ZN_ERR_MEMORY, "cannot allocate %s (%zu bytes) of memory",
                       zn_size_text(n_bytes, text), n_bytes);
    *address = (zn_addr)(uintptr_t)map;
    return ZN_OK;
}

static void cpu_free(zn_device *device, zn_addr address, size_t n_bytes)
{
    (void)device;
    munmap(zn_pointer(address), mapped_bytes(n_bytes));
}

static zn_status cpu_write(zn_device *device, zn_addr dst, const void *src, size_t n_bytes)
{
    (void)device;
    if (n_bytes)
        memcpy(zn_pointer(dst), src, n_bytes);
    return ZN_OK;
}

static zn_status cpu_read(zn_device *device, void *dst, zn_addr src, size_t n_bytes)
{
    (void)device;
    if (n_bytes)
        memcpy(dst, zn_pointer(src), n_bytes);
    return ZN_OK;
}

static zn_status cpu_run(zn_device *device, zn_kernel kernel, const void *args)
{
    const struct zn_cpu *cpu = (const struct zn_cpu *)device;
    if (!device->timeline)
        return cpu->kernels->run[kernel](cpu, args);
    double begin = zn_clock_now(device->clock);
    zn_status status = cpu->kernels->run[kernel](cpu, args);
    const struct zn_mark mark = {.timeline = device->timeline, .track = device->track, .label = zn_kernel_name(kernel)};
    zn_timeline_note(&mark, begin, zn_clock_now(device->clock));
    return status;
}

static zn_status cpu_synchronize(zn_device *device)
{
    (void)device;
    return ZN_OK;
}

/* A kernel has run when its call returns. */
static zn_status cpu_record(zn_device *device, zn_event *done)
{
    zn_event_set(done, ZN_OK, NULL, zn_clock_now(device->clock));
    return ZN_OK;
}

static zn_status cpu_wait(zn_device *device, zn_event *event)
{
    return zn_event_wait(event, device->clock);
}

static const struct zn_device_ops cpu_ops = {
    .name = "cpu",
    .destroy = cpu_destroy,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_write,
    .read = cpu_read,
    .run = cpu_run,
    .synchronize = cpu_synchronize,
    .record = cpu_record,
    .wait = cpu_wait,
};

zn_status zn_device_create_cpu(zn_ledger *ledger, zn_clock *clock, int n_threads, const char *isa,
                               zn_device **device)
{
    if (n_threads < 1)
        return zn_fail(ZN_ERR_USAGE, "a device needs at least one thread, not %d", n_threads);
    const char *chosen;
    ZN_TRY(zn_cpu_isa_choose(isa, &chosen));
    struct zn_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a device");
    cpu->n_threads = n_threads;
    cpu->scratch = (float *)map_huge(scratch_bytes(cpu));
    if (!cpu->scratch) {
        free(cpu);
        return zn_fail(ZN_ERR_MEMORY, "no memory for the scratch of %d threads", n_threads);
    }
    cpu->device = (zn_device){.ops = &cpu_ops, .space = ZN_SPACE_HOST, .ledger = ledger, .clock = clock};
    cpu->isa = chosen;
    cpu->kernels = kernels_of(chosen);
    *device = &cpu->device;
    return ZN_OK;
}

double zn_device_cpu_fma_rate(zn_device *device)
{
    enum { N_ROUNDS = 1 << 22, MAX_VECTOR_FLOATS = 16 };
    const struct zn_cpu *cpu = (const struct zn_cpu *)device;
    double flops = 0, begin = zn_clock_now(device->clock);
#pragma omp parallel num_threads(cpu->n_threads)
    {
        float x[2 * MAX_VECTOR_FLOATS] = {[0] = 0.5f};
        double mine = cpu->kernels->fma_chains(x, N_ROUNDS);
#pragma omp atomic
        flops += mine; /* whole numbers: the order does not show */
    }
    return flops / (zn_clock_now(device->clock) - begin);
}
