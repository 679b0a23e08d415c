/* Products on a CUDA device in the canonical order, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/discrete_products.h"
#include "device/on_cuda.h"

int main(void)
{
    return run_product_tests(&on_cuda);
}
