/* Names of devices: which backend and index they mean, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "device/open.h"

static void names_mean_a_backend_and_an_index(void **state)
{
    struct zn_device_name name;
    (void)state;
    assert_int_equal(zn_device_name_parse("cpu", &name), ZN_OK);
    assert_null(name.backend);
    for (size_t i = 0; zn_backend_at(i); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", zn_backend_at(i)->name);
        assert_int_equal(zn_device_name_parse(text, &name), ZN_OK);
        assert_ptr_equal(name.backend, zn_backend_at(i));
        assert_int_equal(name.index, -1);
        strcat(text, ":12");
        assert_int_equal(zn_device_name_parse(text, &name), ZN_OK);
        assert_ptr_equal(name.backend, zn_backend_at(i));
        assert_int_equal(name.index, 12);
    }
    assert_string_equal(zn_backend_at(0)->name, "opencl");
}

static void other_names_are_refused(void **state)
{
    static const char *const names[] = {"opencl:", "opencl:-1", "opencl:x", "opencl:1x", "opencl:99999", "openc", "opencl0", "cpu:0", ""};
    struct zn_device_name name;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(zn_device_name_parse(names[i], &name), ZN_ERR_USAGE);
        assert_non_null(strstr(zn_error_message(), "--device"));
    }
}

/* Ranks of a node take devices in turn unless they are told which. */
static void ranks_share_devices(void **state)
{
    (void)state;
    struct zn_accelerator_choice choice = {.name = "opencl", .n_local = 3, .n_threads = 1};
    zn_accelerator *a;
    if (zn_accelerator_open(&choice, &a) != ZN_OK) {
        print_message("no OpenCL device: %s\n", zn_error_message());
        skip();
    }
    assert_string_equal(zn_accelerator_name(a), "opencl:0");
    assert_in_range(zn_accelerator_n_sharing(a), 1, 3);
    assert_true(zn_accelerator_info(a)->memory_bytes > 0);
    zn_accelerator_close(a);
    choice.name = "opencl:0";
    choice.local_rank = 2;
    assert_int_equal(zn_accelerator_open(&choice, &a), ZN_OK);
    assert_int_equal(zn_accelerator_n_sharing(a), 3);
    zn_accelerator_close(a);
    choice.name = "opencl:4000";
    assert_int_equal(zn_accelerator_open(&choice, &a), ZN_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_mean_a_backend_and_an_index),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(ranks_share_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
