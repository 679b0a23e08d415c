/* Sums down columns and sums of squares: the documented order to the bit, and its accuracy. */
#include "base/exact.h"
#include "device/kernel_test.h"

/* rows, cols, stride; the last ones use the team. */
static const int64_t shapes[][3] = {{1, 1, 1},     {63, 15, 15}, {64, 16, 20},   {65, 17, 17},
                                    {130, 33, 64}, {1, 1000, 1000}, {1000, 513, 520}};

static void check_column_sum(int64_t rows, int64_t cols, int64_t stride)
{
    int64_t chunks = (rows + ZN_SUM_ROWS - 1) / ZN_SUM_ROWS;
    float *src = new_normal(rows * stride, 1), *dst = new_floats(cols);
    float *partial = new_floats(chunks * cols);
    struct zn_column_sum_args a = {ADDRESS(dst), ADDRESS(src), ADDRESS(partial), rows, cols, stride};
    run_everywhere(ZN_KERNEL_column_sum, &a, &(struct output){dst, (size_t)cols * sizeof *dst}, 1);
    for (int64_t c = 0; c < cols; c++) {
        float total = 0;
        double exact = 0, size = 0;
        for (int64_t k = 0; k < rows; k += ZN_SUM_ROWS) {
            float sum = 0;
            for (int64_t r = k; r < rows && r < k + ZN_SUM_ROWS; r++) {
                sum += src[r * stride + c];
                exact += (double)src[r * stride + c];
                size += fabs((double)src[r * stride + c]);
            }
            total += sum;
        }
        assert_true(dst[c] == total);
        assert_near((double)dst[c], exact, 1e-7 * (8 + size), "sum", c);
    }
    free(src);
    free(dst);
    free(partial);
}

static void column_sum_in_the_order_promised(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        check_column_sum(shapes[s][0], shapes[s][1], shapes[s][2]);
}

static void column_sum_of_no_rows_is_zero(void **state)
{
    (void)state;
    float dst[3] = {1, 2, 3}, none[1];
    struct zn_column_sum_args a = {ADDRESS(dst), ADDRESS(none), ADDRESS(none), 0, 3, 3};
    run_everywhere(ZN_KERNEL_column_sum, &a, &(struct output){dst, sizeof dst}, 1);
    assert_true(dst[0] == 0 && dst[1] == 0 && dst[2] == 0);
}

static double squares_from(const float *x, int64_t n, zn_exact *sum)
{
    double *partial = new_bytes((size_t)(n / ZN_SUM_ELEMENTS + 1) * sizeof *partial);
    struct zn_sum_squares_args a = {ADDRESS(sum), ADDRESS(x), ADDRESS(partial), n};
    run_everywhere(ZN_KERNEL_sum_squares, &a, &(struct output){sum, sizeof *sum}, 1);
    free(partial);
    return zn_exact_value(sum);
}

static double squares(const float *x, int64_t n, double start)
{
    zn_exact sum = {0};
    zn_exact_add(&sum, start);
    return squares_from(x, n, &sum);
}

static void sum_squares_adds_in_double(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 15, 16, 17, 16383, 16384, 16385, 1000003};
    float *x = new_normal(1000003, 2);
    for (size_t s = 0; s < COUNT(sizes); s++) {
        long double want = 3.25L;
        for (int64_t i = 0; i < sizes[s]; i++)
            want += (long double)x[i] * (long double)x[i];
        assert_near(squares(x, sizes[s], 3.25), (double)want, 1e-13, "sum", sizes[s]);
    }
    free(x);
}

static void sum_squares_in_pieces_has_the_same_bits(void **state)
{
    (void)state;
    enum { N = 100000, CUT = 3 * ZN_SUM_ELEMENTS };
    float *x = new_normal(N, 3);
    zn_exact sum = {0}, other = {0};
    squares_from(x, CUT, &sum);
    double parts = squares_from(x + CUT, N - CUT, &sum);
    assert_true(parts == squares(x, N, 0));
    squares_from(x + CUT, N - CUT, &other); /* the other way round, and merged */
    squares_from(x, CUT, &other);
    assert_true(zn_exact_value(&other) == parts);
    free(x);
}

static void sum_squares_shows_what_is_not_finite(void **state)
{
    (void)state;
    float *x = new_normal(40000, 4);
    for (int64_t at = 0; at < 40000; at += 7919) {
        float saved = x[at];
        x[at] = INFINITY;
        assert_true(!isfinite(squares(x, 40000, 0)));
        x[at] = NAN;
        assert_true(isnan(squares(x, 40000, 0)));
        x[at] = 3e38f; /* its square has no fp32 */
        assert_true(isfinite(squares(x, 40000, 0)));
        x[at] = saved;
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column_sum_in_the_order_promised),
        cmocka_unit_test(column_sum_of_no_rows_is_zero),
        cmocka_unit_test(sum_squares_adds_in_double),
        cmocka_unit_test(sum_squares_in_pieces_has_the_same_bits),
        cmocka_unit_test(sum_squares_shows_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
