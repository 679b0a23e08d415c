/* Chains of fused multiply-adds in registers: the most that products could reach. No kernel: a measurement asks for it. */
#include "device/cpu/cpu.h"
#include "device/cpu/lanes.h"

enum { N_CHAINS = 12 }; /* more than an instruction's latency has room for, and no more than there are registers */

double ZN_K(fma_chains)(float *x, int64_t n)
{
    zn_vector sums[N_CHAINS], factor = zn_vector_load(x), term = zn_vector_load(x + ZN_LANE_FLOATS);
#pragma GCC unroll 16
    for (int c = 0; c < N_CHAINS; c++)
        sums[c] = zn_vector_all((float)c);
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 16
        for (int c = 0; c < N_CHAINS; c++)
            sums[c] = zn_vector_fma(sums[c], factor, term);
    for (int c = 1; c < N_CHAINS; c++)
        sums[0] += sums[c];
    zn_vector_store(x, sums[0]); /* nobody may leave them out */
    return 2.0 * N_CHAINS * ZN_LANE_FLOATS * (double)n;
}
