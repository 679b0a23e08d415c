/* The cpu backend from inside: the context a kernel gets and the tables of the instruction
 * sets. Kernel sources named k_*.c are compiled once for each instruction set with ZN_ISA set
 * to plain, avx2, avx512 or neon (names end in it); all give the same bits: no contraction
 * (-ffp-contract=off), sums in ZN_LANES lanes whatever the register width. */
#ifndef ZN_DEVICE_CPU_CPU_H
#define ZN_DEVICE_CPU_CPU_H

#include "device/cpu/isa.h"
#include "device/device.h"

enum { ZN_SCRATCH_FLOATS = ZN_CPU_SCRATCH_BYTES / 4 };

struct zn_cpu {
    zn_device device;
    int n_threads;
    float *scratch; /* ZN_SCRATCH_FLOATS for each thread, for the one kernel that runs */
    const char *isa;
    const struct zn_cpu_kernels *kernels;
};

typedef zn_status (*zn_cpu_kernel)(const struct zn_cpu *cpu, const void *args);

struct zn_cpu_kernels {
    zn_cpu_kernel run[ZN_N_KERNELS];
    double (*fma_chains)(float *x, int64_t n); /* n rounds from 2 vectors of floats; returns their flops */
};

extern const struct zn_cpu_kernels zn_cpu_kernels_plain;
extern const struct zn_cpu_kernels zn_cpu_kernels_avx2;
extern const struct zn_cpu_kernels zn_cpu_kernels_avx512;
extern const struct zn_cpu_kernels zn_cpu_kernels_neon;

#define ZN_JOIN_(a, b) a##_##b
#define ZN_JOIN(a, b) ZN_JOIN_(a, b)

/* The name of this translation unit's version of a kernel: zn_k_gemm_avx2. */
#define ZN_K(name) ZN_JOIN(zn_k_##name, ZN_ISA)

static inline float *zn_floats(zn_addr address)
{
    return (float *)(uintptr_t)address;
}

/* A thread's part of the scratch. */
static inline float *zn_scratch(const struct zn_cpu *cpu, int thread)
{
    return cpu->scratch ? cpu->scratch + (size_t)thread * ZN_SCRATCH_FLOATS : NULL;
}

static inline void *zn_pointer(zn_addr address)
{
    return (void *)(uintptr_t)address;
}

#endif
