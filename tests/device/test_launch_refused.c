/* What a device with memory of its own does not compute is refused by name, not taken for something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "device/discrete/launch.h"

static struct zn_launch_list list;

static void refuse(zn_kernel kernel, const void *args, const char *text)
{
    assert_int_equal(zn_launch_plan(kernel, args, &list), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), text));
    assert_non_null(strstr(zn_error_message(), "--offload-optimizer cpu"));
}

static void optimizers_of_the_processor_are_refused(void **state)
{
    (void)state;
    struct zn_adam_args adam = {.n_elements = 4};
    assert_int_equal(zn_launch_plan(ZN_KERNEL_adam, &adam, &list), ZN_OK);
    adam.state_type = ZN_BF16;
    refuse(ZN_KERNEL_adam, &adam, "moments in bf16");
    refuse(ZN_KERNEL_adam_8bit, &(struct zn_adam_8bit_args){.adam = {.n_elements = 4}}, "adam_8bit");
    refuse(ZN_KERNEL_lion, &(struct zn_lion_args){.n_elements = 4}, "lion");
    refuse(ZN_KERNEL_adagrad, &(struct zn_adagrad_args){.n_elements = 4}, "adagrad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(optimizers_of_the_processor_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
