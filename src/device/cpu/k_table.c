/* The table of this instruction set's kernels. */
#include "device/cpu/cpu.h"

#define DECLARE(name) zn_status ZN_K(name)(const struct zn_cpu *cpu, const void *args);
ZN_KERNELS(DECLARE)

#define ENTRY(name) [ZN_KERNEL_##name] = ZN_K(name),
double ZN_K(fma_chains)(float *x, int64_t n);

const struct zn_cpu_kernels ZN_JOIN(zn_cpu_kernels, ZN_ISA) = {.run = {ZN_KERNELS(ENTRY)}, .fma_chains = ZN_K(fma_chains)};
