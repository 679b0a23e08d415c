/* Layer norm and RMS norm against double precision and finite differences. */
#include "device/halves.h"
#include "device/kernel_test.h"

static const float eps = 1e-5f;

/* Rows and columns around the lanes and ZN_SUM_ROWS; the last ones use the team. */
static const int64_t shapes[][2] = {{1, 1},   {3, 15},   {2, 16},    {5, 17},
                                    {64, 33}, {65, 100}, {67, 1000}, {193, 768}};

struct norm {
    int64_t rows, cols;
    float *x, *weight, *bias, *y, *mean, *rstd;
    float *dy, *dx, *d_weight, *d_bias, *partial;
    uint16_t *weight_16, *bias_16; /* used unless type is fp32 */
    zn_dtype type;
};

static struct norm norm_init(int64_t rows, int64_t cols)
{
    int64_t n = rows * cols, chunks = (rows + ZN_SUM_ROWS - 1) / ZN_SUM_ROWS;
    struct norm t = {
        .rows = rows,
        .cols = cols,
        .x = new_normal(n, 1),
        .weight = new_normal(cols, 2),
        .bias = new_normal(cols, 3),
        .dy = new_normal(n, 4),
        .y = new_floats(n),
        .mean = new_floats(rows),
        .rstd = new_floats(rows),
        .dx = new_floats(n),
        .d_weight = new_floats(cols),
        .d_bias = new_floats(cols),
        .partial = new_floats(2 * chunks * cols),
    };
    for (int64_t i = 0; i < n; i++)
        t.x[i] = 2.0f * t.x[i] + 0.5f;
    return t;
}

/* Weight and bias become what the type can hold, and are taken in that type from now on. */
static void norm_narrow(struct norm *t, zn_dtype type)
{
    t->weight_16 = round_to(t->weight, t->cols, type);
    t->bias_16 = round_to(t->bias, t->cols, type);
    t->type = type;
}

static zn_addr weight_of(const struct norm *t)
{
    return t->type == ZN_F32 ? ADDRESS(t->weight) : ADDRESS(t->weight_16);
}

static zn_addr bias_of(const struct norm *t)
{
    return t->type == ZN_F32 ? ADDRESS(t->bias) : ADDRESS(t->bias_16);
}

static void norm_fini(struct norm *t)
{
    free(t->weight_16);
    free(t->bias_16);
    float *all[] = {t->x,  t->weight, t->bias,     t->y,      t->mean,   t->rstd,
                    t->dy, t->dx,     t->d_weight, t->d_bias, t->partial};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

/* One row of the reference; centred for layer norm. */
static void reference_row(const double *x, const double *weight, const double *bias, int64_t n,
                          bool centred, double *y)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        mean += x[i];
    mean = centred ? mean / (double)n : 0;
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    double rstd = 1 / sqrt(square / (double)n + (double)eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd * weight[i] + (bias ? bias[i] : 0);
}

static void run_layernorm(struct norm *t, bool with_bias)
{
    struct zn_layernorm_forward_args a = {
        .y = ADDRESS(t->y),
        .x = ADDRESS(t->x),
        .weight = weight_of(t),
        .weight_type = t->type,
        .bias_type = t->type,
        .bias = with_bias ? bias_of(t) : 0,
        .mean = ADDRESS(t->mean),
        .rstd = ADDRESS(t->rstd),
        .rows = t->rows,
        .cols = t->cols,
        .eps = eps,
    };
    size_t rows = (size_t)t->rows * sizeof(float);
    struct output out[] = {{t->y, rows * (size_t)t->cols}, {t->mean, rows}, {t->rstd, rows}};
    run_everywhere(ZN_KERNEL_layernorm_forward, &a, out, 3);
}

static void run_layernorm_backward(struct norm *t, bool with_bias)
{
    struct zn_layernorm_backward_args a = {
        .dx = ADDRESS(t->dx),
        .d_weight = ADDRESS(t->d_weight),
        .d_bias = with_bias ? ADDRESS(t->d_bias) : 0,
        .dy = ADDRESS(t->dy),
        .x = ADDRESS(t->x),
        .weight = weight_of(t),
        .weight_type = t->type,
        .mean = ADDRESS(t->mean),
        .rstd = ADDRESS(t->rstd),
        .partial = ADDRESS(t->partial),
        .rows = t->rows,
        .cols = t->cols,
    };
    size_t cols = (size_t)t->cols * sizeof(float);
    struct output out[] = {{t->dx, cols * (size_t)t->rows}, {t->d_weight, cols}, {t->d_bias, cols}};
    run_everywhere(ZN_KERNEL_layernorm_backward, &a, out, 3);
}

static void run_rmsnorm(struct norm *t)
{
    struct zn_rmsnorm_forward_args a = {
        .y = ADDRESS(t->y),
        .x = ADDRESS(t->x),
        .weight = weight_of(t),
        .weight_type = t->type,
        .rstd = ADDRESS(t->rstd),
        .rows = t->rows,
        .cols = t->cols,
        .eps = eps,
    };
    size_t rows = (size_t)t->rows * sizeof(float);
    struct output out[] = {{t->y, rows * (size_t)t->cols}, {t->rstd, rows}};
    run_everywhere(ZN_KERNEL_rmsnorm_forward, &a, out, 2);
}

static void run_rmsnorm_backward(struct norm *t)
{
    struct zn_rmsnorm_backward_args a = {
        .dx = ADDRESS(t->dx),
        .d_weight = ADDRESS(t->d_weight),
        .dy = ADDRESS(t->dy),
        .x = ADDRESS(t->x),
        .weight = weight_of(t),
        .weight_type = t->type,
        .rstd = ADDRESS(t->rstd),
        .partial = ADDRESS(t->partial),
        .rows = t->rows,
        .cols = t->cols,
    };
    size_t cols = (size_t)t->cols * sizeof(float);
    struct output out[] = {{t->dx, cols * (size_t)t->rows}, {t->d_weight, cols}};
    run_everywhere(ZN_KERNEL_rmsnorm_backward, &a, out, 2);
}

static double *row_of(const float *x, int64_t row, int64_t n)
{
    double *d = new_bytes((size_t)n * sizeof *d);
    for (int64_t i = 0; i < n; i++)
        d[i] = (double)x[row * n + i];
    return d;
}

static void check_forward(const struct norm *t, bool centred, bool with_bias)
{
    int64_t n = t->cols;
    double *weight = row_of(t->weight, 0, n), *bias = row_of(t->bias, 0, n);
    double *y = new_bytes((size_t)n * sizeof *y);
    for (int64_t r = 0; r < t->rows; r++) {
        double *x = row_of(t->x, r, n);
        reference_row(x, weight, with_bias ? bias : NULL, n, centred, y);
        for (int64_t i = 0; i < n; i++)
            assert_near((double)t->y[r * n + i], y[i], 2e-6, "y", r * n + i);
        free(x);
    }
    free(weight);
    free(bias);
    free(y);
}

/* The derivative of sum(y × dy) of one row by x[i] or weight[i]. */
static double slope(double *x, double *weight, const double *dy, int64_t n, bool centred,
                    double *at)
{
    const double h = 1e-5;
    double *y = new_bytes((size_t)n * sizeof *y), saved = *at, sum[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        *at = saved + (side ? h : -h);
        reference_row(x, weight, NULL, n, centred, y);
        for (int64_t i = 0; i < n; i++)
            sum[side] += y[i] * dy[i];
    }
    *at = saved;
    free(y);
    return (sum[1] - sum[0]) / (2 * h);
}

static void check_backward(const struct norm *t, bool centred)
{
    int64_t n = t->cols;
    double *weight = row_of(t->weight, 0, n);
    double *d_weight = new_bytes((size_t)n * sizeof *d_weight);
    double *d_bias = new_bytes((size_t)n * sizeof *d_bias);
    for (int64_t r = 0; r < t->rows; r++) {
        double *x = row_of(t->x, r, n), *dy = row_of(t->dy, r, n);
        for (int64_t i = 0; i < n; i++) {
            double dx = slope(x, weight, dy, n, centred, &x[i]);
            assert_near((double)t->dx[r * n + i], dx, 5e-6, "dx", r * n + i);
            d_weight[i] += slope(x, weight, dy, n, centred, &weight[i]);
            d_bias[i] += dy[i];
        }
        free(x);
        free(dy);
    }
    for (int64_t i = 0; i < n; i++) {
        assert_near((double)t->d_weight[i], d_weight[i], 1e-5, "d_weight", i);
        if (centred)
            assert_near((double)t->d_bias[i], d_bias[i], 1e-5, "d_bias", i);
    }
    free(weight);
    free(d_weight);
    free(d_bias);
}

static void layernorm_forward_is_the_formula(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct norm t = norm_init(shapes[s][0], shapes[s][1]);
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            run_layernorm(&t, with_bias);
            check_forward(&t, true, with_bias);
        }
        norm_fini(&t);
    }
}

static void layernorm_backward_is_the_slope(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct norm t = norm_init(shapes[s][0], shapes[s][1]);
        run_layernorm(&t, true);
        run_layernorm_backward(&t, true);
        if (t.cols > 1 && t.cols <= 100)
            check_backward(&t, true);
        norm_fini(&t);
    }
}

static void layernorm_backward_without_bias_leaves_it_alone(void **state)
{
    (void)state;
    struct norm t = norm_init(65, 17);
    run_layernorm(&t, false);
    t.d_bias[16] = 7.0f;
    run_layernorm_backward(&t, false);
    assert_true(t.d_bias[0] == 0.0f && t.d_bias[16] == 7.0f);
    norm_fini(&t);
}

static void rmsnorm_forward_is_the_formula(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct norm t = norm_init(shapes[s][0], shapes[s][1]);
        run_rmsnorm(&t);
        check_forward(&t, false, false);
        norm_fini(&t);
    }
}

static void rmsnorm_backward_is_the_slope(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct norm t = norm_init(shapes[s][0], shapes[s][1]);
        run_rmsnorm(&t);
        run_rmsnorm_backward(&t);
        if (t.cols <= 100)
            check_backward(&t, false);
        norm_fini(&t);
    }
}

static void run_all(struct norm *t, bool layernorm)
{
    if (layernorm) {
        run_layernorm(t, true);
        run_layernorm_backward(t, true);
    } else {
        run_rmsnorm(t);
        run_rmsnorm_backward(t);
    }
}

static void check_16_bits(int64_t rows, int64_t cols, zn_dtype type, bool layernorm)
{
    struct norm narrow = norm_init(rows, cols), wide = norm_init(rows, cols);
    norm_narrow(&narrow, type);
    memcpy(wide.weight, narrow.weight, (size_t)cols * sizeof(float));
    memcpy(wide.bias, narrow.bias, (size_t)cols * sizeof(float));
    run_all(&narrow, layernorm);
    run_all(&wide, layernorm);
    size_t n_bytes = (size_t)(rows * cols) * sizeof(float);
    assert_memory_equal(narrow.y, wide.y, n_bytes);
    assert_memory_equal(narrow.dx, wide.dx, n_bytes);
    assert_memory_equal(narrow.d_weight, wide.d_weight, (size_t)cols * sizeof(float));
    norm_fini(&narrow);
    norm_fini(&wide);
}

static void weights_of_16_bits_have_the_bits_of_fp32(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int form = 0; form < 4; form++)
            check_16_bits(shapes[s][0], shapes[s][1], form & 1 ? ZN_BF16 : ZN_F16, form & 2);
}

static void no_rows_have_no_gradient(void **state)
{
    (void)state;
    struct norm t = norm_init(0, 17);
    t.d_weight[3] = 1.0f;
    run_layernorm_backward(&t, true);
    assert_true(t.d_weight[3] == 0.0f);
    norm_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layernorm_forward_is_the_formula),
        cmocka_unit_test(layernorm_backward_is_the_slope),
        cmocka_unit_test(layernorm_backward_without_bias_leaves_it_alone),
        cmocka_unit_test(rmsnorm_forward_is_the_formula),
        cmocka_unit_test(rmsnorm_backward_is_the_slope),
        cmocka_unit_test(weights_of_16_bits_have_the_bits_of_fp32),
        cmocka_unit_test(no_rows_have_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
