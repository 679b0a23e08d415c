/* Where a build has no PTX, NVRTC makes it of the embedded source; without one of the two, what is missing is said. Not in a program that
 * has loaded the stand-in for the driver: NVRTC would call it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/ptx.h"
#include "device/discrete/launch.h"

/* Whether the text has every kernel, with arguments of the host's size. */
static bool has_all_kernels(const char *ptx, const char *whose)
{
    char entry[200], parameter[200];
    for (int i = 0; i < ZN_N_LAUNCHES; i++) {
        snprintf(entry, sizeof entry, ".entry %s(", zn_launch_infos[i].name);
        snprintf(parameter, sizeof parameter, "%s_param_0[%zu]", zn_launch_infos[i].name, zn_launch_infos[i].n_bytes);
        if (!strstr(ptx, entry) || !strstr(ptx, parameter)) {
            printf("%s: %s is not there, or not with %s\n", whose, entry, parameter);
            return false;
        }
    }
    return strstr(ptx, ".target sm_75") != NULL;
}

/* A machine without the driver or a device says so. */
static bool says_what_is_missing(void)
{
    zn_cuda *cuda = NULL;
    bool is_open = zn_cuda_open(0, &cuda) == ZN_OK;
    zn_cuda_close(cuda);
    if (is_open || strstr(zn_error_message(), "NVIDIA's driver is"))
        return true;
    printf("a CUDA device: %s\n", zn_error_message());
    return false;
}

int main(void)
{
    char *ptx = NULL;
    bool is_right = says_what_is_missing() && (!zn_kernel_ptx[0] || has_all_kernels(zn_kernel_ptx, "the build's PTX"));
    if (zn_ptx_make(7, 5, &ptx) != ZN_OK) {
        puts(zn_error_message());
        return is_right && strstr(zn_error_message(), "NVRTC is not installed") ? 77 : 1;
    }
    is_right = has_all_kernels(ptx, "NVRTC's PTX") && is_right;
    free(ptx);
    puts(zn_kernel_ptx[0] ? "the build's PTX and NVRTC's have all kernels" : "NVRTC's PTX has all kernels");
    return is_right ? 0 : 1;
}
