/* Extents of buffers: what is within reach of the host's code gives a pointer, all else is refused with its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "memory/buffer.h"

static void memory_within_the_buffer_is_given(void **state)
{
    (void)state;
    unsigned char memory[64];
    void *pointer = NULL;
    const struct zn_buffer b = {.name = "b", .n_bytes = sizeof memory, .space = ZN_SPACE_HOST, .base = (zn_addr)(uintptr_t)memory};
    assert_int_equal(zn_extent_pointer(zn_buffer_extent(&b, 16), 48, "a read", &pointer), ZN_OK);
    assert_ptr_equal(pointer, memory + 16);
}

static void refused(struct zn_extent extent, size_t n_bytes, const char *message)
{
    void *pointer = &extent;
    assert_int_equal(zn_extent_pointer(extent, n_bytes, "a read", &pointer), ZN_ERR_INTERNAL);
    assert_ptr_equal(pointer, &extent);
    assert_string_equal(zn_error_message(), message);
}

static void what_is_out_of_reach_is_refused(void **state)
{
    (void)state;
    unsigned char memory[64];
    refused(zn_extent_of(memory, 64), 65, "a read: 65 bytes where there are 64");
    refused((struct zn_extent){ZN_SPACE_DEVICE, 4096, 64}, 64, "a read: its memory is a device's, which it cannot reach");
    refused((struct zn_extent){ZN_SPACE_SWAP, 0, 64}, 64, "a read: its memory is in the swap, which it cannot reach");
}

static void a_simulated_world_has_addresses_alone(void **state)
{
    (void)state;
    void *pointer;
    assert_int_equal(zn_extent_pointer((struct zn_extent){ZN_SPACE_NOWHERE, (zn_addr)1 << 45, 64}, 64, "a read", &pointer), ZN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_within_the_buffer_is_given),
        cmocka_unit_test(what_is_out_of_reach_is_refused),
        cmocka_unit_test(a_simulated_world_has_addresses_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
