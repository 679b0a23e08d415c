/* The arena: what it records it hands out again, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "memory/arena.h"

static const size_t sizes[] = {100, 64, 1000, 1, 0, 4096};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static zn_lifetimes *new_lifetimes(void)
{
    zn_lifetimes *l;
    assert_int_equal(zn_lifetimes_create(&l), ZN_OK);
    return l;
}

/* Each block lives one point beyond its birth. */
static zn_lifetimes *record(void)
{
    zn_lifetimes *l = new_lifetimes();
    zn_arena arena;
    zn_arena_start(&arena, l, true);
    for (int i = 0; i < N_SIZES; i++) {
        int64_t block;
        size_t offset;
        assert_int_equal(zn_arena_take(&arena, sizes[i], &block, &offset), ZN_OK);
        assert_int_equal(block, i);
        if (i > 0)
            zn_arena_touch(&arena, i - 1);
        zn_arena_next_point(&arena);
    }
    assert_int_equal(zn_lifetimes_pack(l), ZN_OK);
    return l;
}

/* While recording, no two blocks share an address: a program that compares addresses (to add a
 * gradient to itself) sees what is true. */
static void recorded_blocks_lie_apart(void **state)
{
    (void)state;
    zn_lifetimes *l = new_lifetimes();
    zn_arena arena;
    zn_arena_start(&arena, l, true);
    size_t end = 0;
    for (int i = 0; i < N_SIZES; i++) {
        int64_t block;
        size_t offset;
        assert_int_equal(zn_arena_take(&arena, sizes[i], &block, &offset), ZN_OK);
        assert_true(offset >= end && offset % ZN_BLOCK_ALIGNMENT == 0);
        end = offset + sizes[i];
        zn_arena_next_point(&arena);
    }
    zn_lifetimes_destroy(l);
}

static void a_pass_gets_the_planned_places(void **state)
{
    (void)state;
    zn_lifetimes *l = record();
    size_t peak = zn_lifetimes_peak(l);
    for (int pass = 0; pass < 3; pass++) {
        zn_arena arena;
        zn_arena_start(&arena, l, false);
        for (int i = 0; i < N_SIZES; i++) {
            int64_t block;
            size_t offset;
            assert_int_equal(zn_arena_take(&arena, sizes[i], &block, &offset), ZN_OK);
            assert_int_equal(block, i);
            assert_int_equal(offset, zn_lifetimes_offset(l, i));
            assert_true(offset + sizes[i] <= peak);
            zn_arena_touch(&arena, block);
            zn_arena_next_point(&arena);
        }
    }
    assert_int_equal(zn_lifetimes_n_blocks(l), N_SIZES); /* followed, not recorded again */
    zn_lifetimes_destroy(l);
}

static void check_leaves(zn_arena *arena, size_t n_bytes)
{
    int64_t block = 77;
    size_t offset = 88;
    assert_int_equal(zn_arena_take(arena, n_bytes, &block, &offset), ZN_ERR_INTERNAL);
    assert_non_null(strstr(zn_error_message(), "left its plan"));
    assert_int_equal(block, 77); /* outputs are set only on success */
    assert_int_equal(offset, 88);
}

static void another_size_is_an_error(void **state)
{
    (void)state;
    zn_lifetimes *l = record();
    zn_arena arena;
    zn_arena_start(&arena, l, false);
    check_leaves(&arena, 129);
    check_leaves(&arena, 64);
    zn_lifetimes_destroy(l);
}

static void more_blocks_than_planned_are_an_error(void **state)
{
    (void)state;
    zn_lifetimes *l = record();
    zn_arena arena;
    zn_arena_start(&arena, l, false);
    for (int i = 0; i < N_SIZES; i++) {
        int64_t block;
        size_t offset;
        assert_int_equal(zn_arena_take(&arena, sizes[i], &block, &offset), ZN_OK);
    }
    check_leaves(&arena, 64);
    zn_lifetimes_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_blocks_lie_apart),
        cmocka_unit_test(a_pass_gets_the_planned_places),
        cmocka_unit_test(another_size_is_an_error),
        cmocka_unit_test(more_blocks_than_planned_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
