/* One CUDA device: its context and the module of kernels. */
#include <stdlib.h>

#include "device/cuda/private.h"

static zn_status choose(zn_cuda *c, int index)
{
    int n;
    ZN_TRY(cuda_start(&c->cu, &n));
    if (index < 0 || index >= n)
        return zn_fail(ZN_ERR_USAGE, "CUDA device %d: there %s %d, counted from 0", index, n == 1 ? "is" : "are", n);
    ZN_TRY(cuda_describe(&c->cu, index, &c->id, &c->info));
    if (c->info.missing[0])
        return zn_fail(ZN_ERR_UNSUPPORTED, "CUDA device %d (%s) cannot be used: %s", index, c->info.name, c->info.missing);
    return ZN_OK;
}

static zn_status make_context(zn_cuda *c)
{
    const struct zn_cu_api *cu = &c->cu;
    size_t free_bytes = 0, n_bytes = 0;
    /* Threads that wait for the device sleep; a context that others have made already keeps its own way. */
    cu->cuDevicePrimaryCtxSetFlags_v2(c->id, ZN_CU_CTX_SCHED_BLOCKING_SYNC);
    CUDA_TRY(cuDevicePrimaryCtxRetain, &c->context, c->id);
    CUDA_TRY(cuCtxSetCurrent, c->context);
    CUDA_TRY(cuMemGetInfo_v2, &free_bytes, &n_bytes);
    c->info.free_bytes = free_bytes;
    return ZN_OK;
}

static zn_status load_module(zn_cuda *c, const char *ptx)
{
    char log[2048] = "";
    zn_cu_enum options[] = {ZN_CU_JIT_ERROR_LOG_BUFFER, ZN_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    zn_status status = zn_cu_check(&c->cu, c->cu.cuModuleLoadDataEx(&c->module, ptx, 2, options, values), "loading the kernels");
    if (status != ZN_OK)
        c->module = NULL;
    return status != ZN_OK && log[0] ? zn_add_context(status, "%s", log) : status;
}

static zn_status load_kernels(zn_cuda *c)
{
    const struct zn_cu_api *cu = &c->cu;
    const char *ptx;
    char *made;
    ZN_TRY(cuda_find_ptx(c, &ptx, &made));
    zn_status status = load_module(c, ptx);
    free(made);
    ZN_TRY(status);
    for (int i = 0; i < ZN_N_LAUNCHES; i++)
        ZN_TRY(zn_cu_check(cu, cu->cuModuleGetFunction(&c->functions[i], c->module, zn_launch_infos[i].name), zn_launch_infos[i].name));
    return ZN_OK;
}

zn_status zn_cuda_open(int index, zn_cuda **cuda)
{
    zn_cuda *c = calloc(1, sizeof *c);
    if (!c)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a CUDA device");
    pthread_mutex_init(&c->lock, NULL);
    zn_status status = zn_cu_load(&c->cu);
    if (status == ZN_OK)
        status = choose(c, index);
    if (status == ZN_OK)
        status = make_context(c);
    if (status == ZN_OK)
        status = load_kernels(c);
    if (status != ZN_OK) {
        zn_cuda_close(c);
        return status;
    }
    *cuda = c;
    return ZN_OK;
}

void zn_cuda_close(zn_cuda *c)
{
    if (!c)
        return;
    if (c->context)
        c->cu.cuCtxSetCurrent(c->context);
    if (c->module)
        c->cu.cuModuleUnload(c->module);
    if (c->context) {
        c->cu.cuCtxSetCurrent(NULL);
        c->cu.cuDevicePrimaryCtxRelease_v2(c->id);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

const struct zn_cuda_info *zn_cuda_info(const zn_cuda *cuda)
{
    return &cuda->info;
}

const char *zn_cuda_staging_cause(zn_cuda *cuda)
{
    pthread_mutex_lock(&cuda->lock); /* the text is written once */
    const char *cause = cuda->staging_cause;
    pthread_mutex_unlock(&cuda->lock);
    return cause;
}

zn_status zn_cuda_use_fast_math(zn_cuda *cuda)
{
    if (!cuda->is_fast)
        ZN_TRY(zn_lt_load(&cuda->lt));
    cuda->is_fast = true;
    return ZN_OK;
}

zn_status zn_device_create_cuda(zn_cuda *cuda, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    zn_driver *driver;
    ZN_TRY(cuda_create_driver(cuda, &driver));
    return zn_device_create_discrete(driver, ledger, clock, device);
}
