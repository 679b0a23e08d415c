/* PTX of the kernels: the build's, or made now by NVRTC. */
#include "device/cuda/ptx.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/private.h"
#include "device/discrete/source.h"

/* The failure of a compilation, with the compiler's words. */
static zn_status fail_compile(const struct zn_nvrtc_api *nvrtc, zn_nvrtc_program program)
{
    size_t n_bytes = 0;
    char *log = nvrtc->nvrtcGetProgramLogSize(program, &n_bytes) == 0 ? calloc(1, n_bytes + 1) : NULL;
    if (log)
        nvrtc->nvrtcGetProgramLog(program, log);
    zn_status status = zn_fail(ZN_ERR_UNSUPPORTED, "NVRTC cannot compile the kernels: %.1000s", log ? log : "no words about it");
    free(log);
    return status;
}

static zn_status compile(const struct zn_nvrtc_api *nvrtc, zn_nvrtc_program program, int major, int minor, char **ptx)
{
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=compute_%d%d", major, minor);
    const char *const options[] = {arch, "--fmad=false", "--std=c++17", "--device-as-default-execution-space"};
    size_t n_bytes = 0;
    if (nvrtc->nvrtcCompileProgram(program, (int)(sizeof options / sizeof options[0]), options) != 0 ||
        nvrtc->nvrtcGetPTXSize(program, &n_bytes) != 0)
        return fail_compile(nvrtc, program);
    char *text = calloc(1, n_bytes + 1);
    if (!text)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the kernels' PTX");
    if (nvrtc->nvrtcGetPTX(program, text) != 0) {
        free(text);
        return fail_compile(nvrtc, program);
    }
    *ptx = text;
    return ZN_OK;
}

zn_status zn_ptx_make(int major, int minor, char **ptx)
{
    struct zn_nvrtc_api nvrtc;
    zn_nvrtc_program program;
    ZN_TRY(zn_nvrtc_load(&nvrtc));
    if (nvrtc.nvrtcCreateProgram(&program, zn_kernel_source, "kernels.k", 0, NULL, NULL) != 0)
        return zn_fail(ZN_ERR_UNSUPPORTED, "NVRTC takes no program");
    zn_status status = compile(&nvrtc, program, major, minor, ptx);
    nvrtc.nvrtcDestroyProgram(&program);
    return status;
}

zn_status cuda_find_ptx(const zn_cuda *cuda, const char **ptx, char **made)
{
    *made = NULL;
    if (!zn_kernel_ptx[0])
        ZN_TRY(zn_ptx_make(cuda->info.major, cuda->info.minor, made));
    *ptx = *made ? *made : zn_kernel_ptx;
    return ZN_OK;
}
