/* Cutting a kernel's work among the threads. The cuts are constants, never derived from the
 * number of threads, and a small call stays on the caller: starting the team costs some
 * microseconds. */
#ifndef ZN_DEVICE_CPU_RANGES_H
#define ZN_DEVICE_CPU_RANGES_H

#include <stdint.h>

#include "device/cpu/cpu.h"

enum {
    ZN_RANGE_ELEMENTS = 16384, /* what one thread takes at a time of an elementwise kernel */
    ZN_SERIAL_BELOW = 32768,   /* elements for which the team is not worth its start */
};

static inline int64_t zn_min_count(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t zn_pieces(int64_t n, int64_t piece)
{
    return (n + piece - 1) / piece;
}

/* Calls work(args, begin, end) for the ranges of [0, n), each once, on any thread. */
static inline void zn_for_ranges(const struct zn_cpu *cpu, int64_t n,
                                 void (*work)(const void *args, int64_t begin, int64_t end),
                                 const void *args)
{
    int64_t n_ranges = zn_pieces(n, ZN_RANGE_ELEMENTS);
#pragma omp parallel for schedule(static) num_threads(cpu->n_threads) if (n >= ZN_SERIAL_BELOW)
    for (int64_t r = 0; r < n_ranges; r++)
        work(args, r * ZN_RANGE_ELEMENTS, zn_min_count(n, (r + 1) * ZN_RANGE_ELEMENTS));
}

#endif
