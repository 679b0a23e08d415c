/* Slices of parameters: all ranks together hold every element once, in its order, and padding is nobody's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/param.h"

static zn_param slice_of(int ndim, const int64_t *shape, int dim, int parts, int index, int count)
{
    zn_param p = {.ndim = ndim, .n_elements = 1, .slice = {.dim = dim, .parts = parts, .index = index, .count = count, .copies = 1}};
    for (int i = 0; i < ndim; i++) {
        p.shape[i] = shape[i];
        p.dims[i] = i == dim ? (shape[i] + count - 1) / count : shape[i];
        p.n_elements *= p.dims[i];
    }
    return p;
}

static void check(int ndim, const int64_t *shape, int dim, int parts, int count)
{
    zn_param first = slice_of(ndim, shape, dim, parts, 0, count);
    int64_t n_whole = zn_param_n_whole(&first), n_seen = 0;
    char *seen = calloc((size_t)n_whole, 1);
    for (int index = 0; index < count; index++) {
        zn_param p = slice_of(ndim, shape, dim, parts, index, count);
        int64_t before = -1, n;
        for (int64_t held = 0; held < zn_param_n_held(&p); held += n) {
            int64_t whole = zn_param_whole(&p, held, &n);
            assert_int_equal(zn_param_whole_of(&first, index, held, &n), whole);
            assert_true(whole > before && n > 0 && whole + n <= n_whole);
            for (int64_t i = 0; i < n; i++) {
                int64_t left;
                assert_int_equal(zn_param_whole(&p, held + i, &left), whole + i);
                assert_int_equal(left, n - i);
                assert_int_equal(zn_param_held(&p, whole + i), held + i);
                assert_int_equal(seen[whole + i]++, 0);
                n_seen++;
            }
            for (int64_t i = before + 1; i < whole; i++) /* of what others hold, the next that is held here */
                assert_int_equal(zn_param_held(&p, i), held);
            before = whole + n - 1;
        }
        for (int64_t i = before + 1; i < n_whole; i++)
            assert_int_equal(zn_param_held(&p, i), zn_param_n_held(&p));
    }
    assert_int_equal(n_seen, n_whole);
    free(seen);
}

static void slices_are_all_of_a_parameter(void **state)
{
    (void)state;
    check(2, (const int64_t[]){12, 5}, 0, 1, 3);  /* rows */
    check(2, (const int64_t[]){5, 12}, 1, 1, 4);  /* columns */
    check(2, (const int64_t[]){5, 24}, 1, 3, 4);  /* columns of q, k and v */
    check(1, (const int64_t[]){24}, 0, 3, 2);     /* their bias */
    check(2, (const int64_t[]){101, 3}, 0, 1, 4); /* a vocabulary with padding */
    check(2, (const int64_t[]){7, 3}, 0, 1, 3);
}

static void what_is_whole_is_itself(void **state)
{
    (void)state;
    zn_param p = {.ndim = 2, .dims = {3, 4}, .n_elements = 12};
    int64_t n;
    assert_int_equal(zn_param_n_whole(&p), 12);
    assert_int_equal(zn_param_n_held(&p), 12);
    assert_int_equal(zn_param_whole(&p, 5, &n), 5);
    assert_int_equal(n, 7);
    assert_int_equal(zn_param_held(&p, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_all_of_a_parameter),
        cmocka_unit_test(what_is_whole_is_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
