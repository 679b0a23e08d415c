/* Training on an OpenCL device gives the processor's bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/on_opencl.h"
#include "zero/discrete_matrix.h"

int main(void)
{
    return run_matrix(&on_opencl);
}
