/* Products on an OpenCL device in the canonical order, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/discrete_products.h"
#include "device/on_opencl.h"

int main(void)
{
    return run_product_tests(&on_opencl);
}
