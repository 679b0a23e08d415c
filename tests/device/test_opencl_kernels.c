/* Every kernel on an OpenCL device against the processor's, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/discrete_kernels.h"
#include "device/on_opencl.h"

int main(void)
{
    return run_kernel_tests(&on_opencl);
}
