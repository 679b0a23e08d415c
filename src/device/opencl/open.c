/* One OpenCL device: its context and the program of kernels. */
#include <stdlib.h>
#include <string.h>

#include "device/discrete/source.h"
#include "device/opencl/private.h"

/* The failure of a build, with the end of the compiler's words. */
static zn_status fail_build(zn_opencl *o, cl_int error)
{
    char log[4096] = "";
    size_t n_bytes = 0;
    o->cl.clGetProgramBuildInfo(o->program, o->id, ZN_CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, &n_bytes);
    return zn_fail(ZN_ERR_UNSUPPORTED, "OpenCL: the kernels cannot be built for %s (%d): %s", o->info.name, (int)error, log);
}

static zn_status build(zn_opencl *o)
{
    cl_int error;
    const char *text = zn_kernel_source;
    o->context = o->cl.clCreateContext(NULL, 1, &o->id, NULL, NULL, &error);
    ZN_TRY(zn_cl_check(error, "clCreateContext"));
    o->program = o->cl.clCreateProgramWithSource(o->context, 1, &text, NULL, &error);
    ZN_TRY(zn_cl_check(error, "clCreateProgramWithSource"));
    error = o->cl.clBuildProgram(o->program, 1, &o->id, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt", NULL, NULL);
    return error == 0 ? ZN_OK : fail_build(o, error);
}

static zn_status choose(zn_opencl *o, int index, bool takes_any)
{
    struct opencl_found found[ZN_OPENCL_MAX_DEVICES];
    int n;
    ZN_TRY(opencl_find(&o->cl, found, &n));
    ZN_TRY(opencl_check_count(n));
    if (index < 0 || index >= n)
        return zn_fail(ZN_ERR_USAGE, "OpenCL device %d: there are %d, counted from 0", index, n);
    if (found[index].info.missing[0] && !takes_any)
        return zn_fail(ZN_ERR_UNSUPPORTED, "OpenCL device %d (%s) cannot be used: %s", index, found[index].info.name,
                       found[index].info.missing);
    o->id = found[index].id;
    o->info = found[index].info;
    return ZN_OK;
}

static zn_status open_device(int index, bool takes_any, zn_opencl **opencl)
{
    zn_opencl *o = calloc(1, sizeof *o);
    if (!o)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an OpenCL device");
    zn_status status = zn_cl_load(&o->cl);
    if (status == ZN_OK)
        status = choose(o, index, takes_any);
    if (status == ZN_OK)
        status = build(o);
    if (status != ZN_OK) {
        zn_opencl_close(o);
        return status;
    }
    *opencl = o;
    return ZN_OK;
}

zn_status zn_opencl_open(int index, zn_opencl **opencl)
{
    return open_device(index, false, opencl);
}

zn_status zn_opencl_open_any(int index, zn_opencl **opencl)
{
    return open_device(index, true, opencl);
}

void zn_opencl_close(zn_opencl *o)
{
    if (!o)
        return;
    if (o->program)
        o->cl.clReleaseProgram(o->program);
    if (o->context)
        o->cl.clReleaseContext(o->context);
    free(o);
}

const struct zn_opencl_info *zn_opencl_info(const zn_opencl *opencl)
{
    return &opencl->info;
}

zn_status zn_device_create_opencl(zn_opencl *opencl, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    zn_driver *driver;
    ZN_TRY(opencl_create_driver(opencl, &driver));
    return zn_device_create_discrete(driver, ledger, clock, device);
}
