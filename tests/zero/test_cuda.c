/* Training on a CUDA device gives the processor's bits, also where everything is late by chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/on_cuda.h"
#include "zero/discrete_matrix.h"

int main(void)
{
    setenv("ZINC_STANDIN_LAG", "7", 0);
    return run_matrix(&on_cuda);
}
