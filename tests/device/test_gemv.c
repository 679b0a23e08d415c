/* The product of few rows with a matrix: double precision within a bound; the same bits on every
 * instruction set and thread count, for every type of the same weights and any number of rows. */
#include "device/kernel_test.h"
#include "tensor/half.h"

struct problem {
    int64_t rows, n, k;
    bool transpose, biased;
    float *x, *w, *bias, *y, *partial;
    uint16_t *bf16, *f16;
};

/* Weights are multiples of 2^-7 below 1 in size, which all three types hold exactly. */
static struct problem problem_init(int64_t rows, int64_t n, int64_t k, bool transpose, bool biased)
{
    int64_t chunks = (k + ZN_GEMV_DEPTH - 1) / ZN_GEMV_DEPTH;
    struct problem p = {
        .rows = rows,
        .n = n,
        .k = k,
        .transpose = transpose,
        .biased = biased,
        .x = new_normal(rows * k, 1),
        .w = new_floats(n * k),
        .bias = new_normal(n, 3),
        .y = new_floats(rows * n),
        .partial = new_floats(rows * chunks * n),
        .bf16 = new_bytes((size_t)(n * k) * 2),
        .f16 = new_bytes((size_t)(n * k) * 2),
    };
    for (int64_t i = 0; i < n * k; i++) {
        p.w[i] = (float)((int)zn_random_below(2, (uint64_t)i, 255) - 127) / 128.0f;
        p.bf16[i] = zn_float_to_bf16(p.w[i]);
        p.f16[i] = zn_float_to_f16(p.w[i]);
    }
    return p;
}

static void problem_fini(struct problem *p)
{
    free(p->x);
    free(p->w);
    free(p->bias);
    free(p->y);
    free(p->partial);
    free(p->bf16);
    free(p->f16);
}

static struct zn_gemv_args arguments(const struct problem *p, zn_dtype type)
{
    const void *w = type == ZN_BF16 ? (void *)p->bf16 : type == ZN_F16 ? (void *)p->f16 : p->w;
    return (struct zn_gemv_args){
        .y = ADDRESS(p->y),
        .x = ADDRESS(p->x),
        .w = ADDRESS(w),
        .bias = p->biased ? ADDRESS(p->bias) : 0,
        .partial = p->transpose ? 0 : ADDRESS(p->partial),
        .w_type = type,
        .rows = p->rows,
        .n = p->n,
        .k = p->k,
        .x_stride = p->k,
        .y_stride = p->n,
        .transpose_w = p->transpose,
    };
}

static void run(const struct problem *p, zn_dtype type)
{
    struct zn_gemv_args a = arguments(p, type);
    struct output out = {p->y, (size_t)(p->rows * p->n) * sizeof(float)};
    run_everywhere(ZN_KERNEL_gemv, &a, &out, 1);
}

static const struct {
    int64_t n, k;
} shapes[] = {{1, 1}, {3, 5}, {4, 16}, {7, 31}, {33, 64}, {130, 97}, {4100, 40}, {257, 1100}};

static void check_values(const struct problem *p)
{
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t j = 0; j < p->n; j++) {
            double want = p->biased ? (double)p->bias[j] : 0, size = fabs(want);
            for (int64_t i = 0; i < p->k; i++) {
                double w = (double)p->w[p->transpose ? j * p->k + i : i * p->n + j];
                want += (double)p->x[r * p->k + i] * w;
                size += fabs((double)p->x[r * p->k + i] * w);
            }
            /* Sums of at most 1100/16 terms in a lane: far fewer roundings than 64. */
            if (!(fabs((double)p->y[r * p->n + j] - want) <= 64 * 0x1p-24 * size))
                fail_msg("y(%lld,%lld) of (%lld,%lld) is %.9g, not %.9g", (long long)r, (long long)j,
                         (long long)p->n, (long long)p->k, (double)p->y[r * p->n + j], want);
        }
    }
}

static void values_are_near_double_precision(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        for (int kind = 0; kind < 4; kind++) {
            struct problem p = problem_init(1 + (int64_t)s % 3, shapes[s].n, shapes[s].k, kind & 1, kind & 2);
            run(&p, ZN_F32);
            check_values(&p);
            problem_fini(&p);
        }
    }
}

static void types_that_hold_the_weights_give_the_same_bits(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        for (int transpose = 0; transpose < 2; transpose++) {
            struct problem p = problem_init(2, shapes[s].n, shapes[s].k, transpose, true);
            size_t n_bytes = (size_t)(p.rows * p.n) * sizeof(float);
            float *want = new_floats(p.rows * p.n);
            run(&p, ZN_F32);
            memcpy(want, p.y, n_bytes);
            run(&p, ZN_BF16);
            assert_memory_equal(p.y, want, n_bytes);
            run(&p, ZN_F16);
            assert_memory_equal(p.y, want, n_bytes);
            free(want);
            problem_fini(&p);
        }
    }
}

static void a_row_does_not_depend_on_the_others(void **state)
{
    (void)state;
    for (int transpose = 0; transpose < 2; transpose++) {
        struct problem p = problem_init(ZN_GEMV_ROWS, 130, 97, transpose, true);
        float *all = new_floats(p.rows * p.n);
        run(&p, ZN_BF16);
        memcpy(all, p.y, (size_t)(p.rows * p.n) * sizeof(float));
        for (int64_t r = 0; r < ZN_GEMV_ROWS; r++) {
            struct problem one = p;
            one.rows = 1;
            one.x = p.x + r * p.k;
            run(&one, ZN_BF16);
            assert_memory_equal(p.y, all + r * p.n, (size_t)p.n * sizeof(float));
        }
        free(all);
        problem_fini(&p);
    }
}

static void not_a_number_stays_one(void **state)
{
    (void)state;
    for (int transpose = 0; transpose < 2; transpose++) {
        struct problem p = problem_init(1, 40, 50, transpose, false);
        p.w[0] = NAN; /* (0,0) in both layouts */
        run(&p, ZN_F32);
        assert_true(isnan(p.y[0]) && !isnan(p.y[1]) && !isnan(p.y[39]));
        problem_fini(&p);
    }
}

static void too_many_rows_are_refused(void **state)
{
    (void)state;
    struct problem p = problem_init(ZN_GEMV_ROWS + 1, 4, 4, true, false);
    struct zn_gemv_args a = arguments(&p, ZN_F32);
    assert_int_equal(run_on("plain", 1, ZN_KERNEL_gemv, &a), ZN_ERR_INTERNAL);
    problem_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_near_double_precision),
        cmocka_unit_test(types_that_hold_the_weights_give_the_same_bits),
        cmocka_unit_test(a_row_does_not_depend_on_the_others),
        cmocka_unit_test(not_a_number_stays_one),
        cmocka_unit_test(too_many_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
