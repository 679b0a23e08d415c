/* The common source of kernels as C, and the table of them. The source brings the declarations of device/kernels.h itself. */
#include "kernels.k"

#include "device/discrete/launch.h"
#include "standin/functions.h"

#define ENTRY(name, args, addresses, items)                                                                                       \
    static void run_##name(const void *a)                                                                                         \
    {                                                                                                                             \
        k_##name(*(const struct zn_##args##_args *)a);                                                                            \
    }
ZN_LAUNCHES(ENTRY)

const struct CUfunc_st standin_functions[] = {
#define ROW(name, args, addresses, items) {"k_" #name, run_##name, sizeof(struct zn_##args##_args), addresses, items},
    ZN_LAUNCHES(ROW)
};
const int standin_n_functions = (int)(sizeof standin_functions / sizeof standin_functions[0]);
