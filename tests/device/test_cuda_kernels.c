/* Every kernel on a CUDA device against the processor's, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/discrete_kernels.h"
#include "device/on_cuda.h"

int main(void)
{
    return run_kernel_tests(&on_cuda);
}
