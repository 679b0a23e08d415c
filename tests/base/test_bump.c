/* The bump allocator: zeroed, apart, aligned; a reset gives the same memory again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdalign.h>
#include <string.h>

#include "base/bump.h"

static const size_t sizes[] = {1, 16, 100, 0, 5000, 65536, 200000, 24, 60000, 33};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* Takes the sizes and writes all over them. */
static void take_all(zn_bump *bump, unsigned char *at[N_SIZES])
{
    for (int i = 0; i < N_SIZES; i++) {
        at[i] = zn_bump_alloc(bump, sizes[i]);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % alignof(max_align_t), 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(at[i][k], 0);
        memset(at[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < N_SIZES; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (at[i][k] != i + 1)
                fail_msg("block %d was overwritten", i);
}

static void blocks_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    zn_bump bump;
    unsigned char *at[N_SIZES];
    zn_bump_init(&bump);
    take_all(&bump, at);
    zn_bump_fini(&bump);
}

static void a_reset_hands_out_the_same_memory_zeroed_again(void **state)
{
    (void)state;
    zn_bump bump;
    unsigned char *at[N_SIZES];
    zn_bump_init(&bump);
    take_all(&bump, at);
    for (int pass = 0; pass < 4; pass++) {
        unsigned char *again[N_SIZES];
        zn_bump_reset(&bump);
        take_all(&bump, again);
        for (int i = 0; i < N_SIZES; i++)
            assert_ptr_equal(again[i], at[i]); /* nothing was allocated */
    }
    zn_bump_fini(&bump);
}

/* Other requests than before find their way too. */
static void a_reset_serves_other_requests(void **state)
{
    (void)state;
    zn_bump bump;
    unsigned char *at[N_SIZES];
    zn_bump_init(&bump);
    take_all(&bump, at);
    for (int pass = 0; pass < 4; pass++) {
        zn_bump_reset(&bump);
        assert_non_null(zn_bump_alloc(&bump, 70000));
        take_all(&bump, at);
        assert_non_null(zn_bump_alloc(&bump, 300000));
    }
    zn_bump_fini(&bump);
}

static void an_unused_one_ends_like_any_other(void **state)
{
    (void)state;
    zn_bump bump;
    zn_bump_init(&bump);
    zn_bump_reset(&bump);
    zn_bump_fini(&bump);
    assert_null(bump.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),
        cmocka_unit_test(a_reset_hands_out_the_same_memory_zeroed_again),
        cmocka_unit_test(a_reset_serves_other_requests),
        cmocka_unit_test(an_unused_one_ends_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
