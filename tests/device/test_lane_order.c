/* Norms, losses and sums in the order of device/kernels.h, written as plain loops: every instruction set and number of threads
 * gives these bits. */
#include "base/exact.h"
#include "device/cpu/fastmath.h"
#include "device/kernel_test.h"

/* Rows and columns around the lanes and ZN_SUM_ROWS; the last ones use the team. */
static const int64_t shapes[][2] = {{1, 1}, {3, 15}, {2, 16}, {5, 17}, {64, 33}, {65, 100}, {67, 1000}, {193, 768}};
static const float eps = 1e-5f;

static void same_floats(const float *got, const float *want, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s[%lld] is %.9g, in the stated order %.9g", what, (long long)i, (double)got[i], (double)want[i]);
}

static float lane_sum(const float *terms, int64_t n)
{
    float lanes[ZN_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lanes[i % ZN_LANES] += terms[i];
    for (int width = ZN_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

/* dst(cols) = the rows of src(rows,cols), a chunk of ZN_SUM_ROWS after the other. */
static void chunk_sum(float *dst, const float *src, int64_t rows, int64_t cols)
{
    for (int64_t c = 0; c < cols; c++) {
        dst[c] = 0.0f;
        for (int64_t first = 0; first < rows; first += ZN_SUM_ROWS) {
            float sum = 0.0f;
            for (int64_t r = first; r < rows && r < first + ZN_SUM_ROWS; r++)
                sum += src[r * cols + c];
            dst[c] += sum;
        }
    }
}

struct norm {
    int64_t rows, cols;
    float *x, *weight, *bias, *dy;                     /* in */
    float *y, *mean, *rstd, *dx, *d_weight, *d_bias;   /* of the kernels, and after them */
    float *terms, *more, *partial;                     /* room */
};

static struct norm norm_init(const int64_t shape[2])
{
    int64_t rows = shape[0], cols = shape[1], n = rows * cols;
    return (struct norm){rows, cols, new_normal(n, 1), new_normal(cols, 2), new_normal(cols, 3), new_normal(n, 4),
                         new_floats(n), new_floats(rows), new_floats(rows), new_floats(n), new_floats(cols), new_floats(cols),
                         new_floats(n), new_floats(n), new_floats(2 * n)};
}

static void norm_fini(struct norm *t)
{
    float *all[] = {t->x,  t->weight,   t->bias,   t->dy,    t->y,    t->mean,   t->rstd,
                    t->dx, t->d_weight, t->d_bias, t->terms, t->more, t->partial};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

/* Forward of one row; `centred` is layer norm's. */
static void check_forward_row(const struct norm *t, int64_t r, bool centred)
{
    int64_t n = t->cols;
    const float *x = t->x + r * n;
    float mean = centred ? lane_sum(x, n) / (float)n : 0.0f, *y = t->more;
    for (int64_t i = 0; i < n; i++)
        t->terms[i] = (x[i] - mean) * (x[i] - mean);
    float rstd = 1.0f / sqrtf(lane_sum(t->terms, n) / (float)n + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = centred ? (x[i] - mean) * rstd * t->weight[i] + t->bias[i] : x[i] * rstd * t->weight[i];
    if (centred)
        same_floats(t->mean + r, &mean, 1, "mean");
    same_floats(t->rstd + r, &rstd, 1, "rstd");
    same_floats(t->y + r * n, y, n, "y");
}

/* Backward of one row; leaves the terms of d_weight in `terms`. */
static void check_backward_row(const struct norm *t, int64_t r, bool centred)
{
    int64_t n = t->cols;
    const float *x = t->x + r * n, *dy = t->dy + r * n;
    float mean = centred ? t->mean[r] : 0.0f, rstd = t->rstd[r], *dx = t->more + r * n, *terms = t->terms + r * n;
    for (int64_t i = 0; i < n; i++)
        terms[i] = dy[i] * t->weight[i];
    float mean_g = centred ? lane_sum(terms, n) / (float)n : 0.0f;
    for (int64_t i = 0; i < n; i++)
        terms[i] = dy[i] * t->weight[i] * ((x[i] - mean) * rstd);
    float mean_gh = lane_sum(terms, n) / (float)n;
    for (int64_t i = 0; i < n; i++) {
        float h = (x[i] - mean) * rstd, g = dy[i] * t->weight[i];
        dx[i] = ((centred ? g - mean_g : g) - h * mean_gh) * rstd;
        terms[i] = dy[i] * h;
    }
    same_floats(t->dx + r * n, dx, n, "dx");
}

static void check_norm(const struct norm *t, bool centred)
{
    float *sum = new_floats(t->cols);
    for (int64_t r = 0; r < t->rows; r++)
        check_forward_row(t, r, centred);
    for (int64_t r = 0; r < t->rows; r++)
        check_backward_row(t, r, centred);
    chunk_sum(sum, t->terms, t->rows, t->cols);
    same_floats(t->d_weight, sum, t->cols, "d_weight");
    chunk_sum(sum, t->dy, t->rows, t->cols);
    if (centred)
        same_floats(t->d_bias, sum, t->cols, "d_bias");
    free(sum);
}

static void layer_norm(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct norm t = norm_init(shapes[i]);
        size_t row = (size_t)t.cols * sizeof(float), rows = (size_t)t.rows * sizeof(float);
        struct zn_layernorm_forward_args f = {.y = ADDRESS(t.y), .x = ADDRESS(t.x), .weight = ADDRESS(t.weight),
                                              .bias = ADDRESS(t.bias), .mean = ADDRESS(t.mean), .rstd = ADDRESS(t.rstd),
                                              .rows = t.rows, .cols = t.cols, .eps = eps};
        struct zn_layernorm_backward_args b = {.dx = ADDRESS(t.dx), .d_weight = ADDRESS(t.d_weight), .d_bias = ADDRESS(t.d_bias),
                                               .dy = ADDRESS(t.dy), .x = f.x, .weight = f.weight, .mean = f.mean, .rstd = f.rstd,
                                               .partial = ADDRESS(t.partial), .rows = t.rows, .cols = t.cols};
        struct output forward[] = {{t.y, rows * (size_t)t.cols}, {t.mean, rows}, {t.rstd, rows}};
        struct output backward[] = {{t.dx, rows * (size_t)t.cols}, {t.d_weight, row}, {t.d_bias, row}};
        run_everywhere(ZN_KERNEL_layernorm_forward, &f, forward, 3);
        run_everywhere(ZN_KERNEL_layernorm_backward, &b, backward, 3);
        check_norm(&t, true);
        norm_fini(&t);
    }
}

static void rms_norm(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct norm t = norm_init(shapes[i]);
        size_t row = (size_t)t.cols * sizeof(float), rows = (size_t)t.rows * sizeof(float);
        struct zn_rmsnorm_forward_args f = {.y = ADDRESS(t.y), .x = ADDRESS(t.x), .weight = ADDRESS(t.weight),
                                            .rstd = ADDRESS(t.rstd), .rows = t.rows, .cols = t.cols, .eps = eps};
        struct zn_rmsnorm_backward_args b = {.dx = ADDRESS(t.dx), .d_weight = ADDRESS(t.d_weight), .dy = ADDRESS(t.dy),
                                             .x = f.x, .weight = f.weight, .rstd = f.rstd, .partial = ADDRESS(t.partial),
                                             .rows = t.rows, .cols = t.cols};
        struct output forward[] = {{t.y, rows * (size_t)t.cols}, {t.rstd, rows}};
        struct output backward[] = {{t.dx, rows * (size_t)t.cols}, {t.d_weight, row}};
        run_everywhere(ZN_KERNEL_rmsnorm_forward, &f, forward, 2);
        run_everywhere(ZN_KERNEL_rmsnorm_backward, &b, backward, 2);
        check_norm(&t, false);
        norm_fini(&t);
    }
}

static void column_sums(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        int64_t rows = shapes[i][0], cols = shapes[i][1];
        float *src = new_normal(rows * cols, 5), *partial = new_floats(rows * cols);
        float *dst = new_floats(cols), *want = new_floats(cols);
        struct zn_column_sum_args a = {.dst = ADDRESS(dst), .src = ADDRESS(src), .partial = ADDRESS(partial), .rows = rows,
                                       .cols = cols, .stride = cols};
        struct output out = {dst, (size_t)cols * sizeof *dst};
        run_everywhere(ZN_KERNEL_column_sum, &a, &out, 1);
        chunk_sum(want, src, rows, cols);
        same_floats(dst, want, cols, "sum");
        free(src);
        free(dst);
        free(want);
        free(partial);
    }
}

static void sums_of_squares(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 15, 17, ZN_SUM_ELEMENTS - 1, ZN_SUM_ELEMENTS + 18, 3 * ZN_SUM_ELEMENTS + 5};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        float *x = new_normal(sizes[s], 6);
        double partial[8];
        zn_exact got = {0}, want = {0};
        struct zn_sum_squares_args a = {
            .sum = ADDRESS(&got), .src = ADDRESS(x), .partial = ADDRESS(partial), .n_elements = sizes[s]};
        struct output out = {&got, sizeof got};
        run_everywhere(ZN_KERNEL_sum_squares, &a, &out, 1);
        for (int64_t first = 0; first < sizes[s]; first += ZN_SUM_ELEMENTS) {
            double lanes[ZN_LANES] = {0};
            for (int64_t i = first; i < sizes[s] && i < first + ZN_SUM_ELEMENTS; i++)
                lanes[(i - first) % ZN_LANES] += (double)x[i] * (double)x[i];
            for (int width = ZN_LANES / 2; width > 0; width /= 2)
                for (int l = 0; l < width; l++)
                    lanes[l] += lanes[l + width];
            zn_exact_add(&want, lanes[0]);
        }
        assert_memory_equal(&got, &want, sizeof got);
        free(x);
    }
}

enum { ROWS = 37, COLS = 1003, PANEL = 400 };

/* One panel of one row joins what the row has so far. */
static void join_panel(const float *logits, int64_t n, float *row_max, float *row_sum)
{
    float max = -INFINITY, terms[PANEL];
    for (int64_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int64_t i = 0; i < n; i++)
        terms[i] = zn_exp(logits[i] - max);
    float joint = *row_max > max ? *row_max : max;
    *row_sum = *row_sum * zn_exp(*row_max - joint) + lane_sum(terms, n) * zn_exp(max - joint);
    *row_max = joint;
}

static void loss_and_its_gradient(void **state)
{
    (void)state;
    float *logits = new_normal(ROWS * COLS, 7), *want = new_floats(ROWS * COLS), row_max[ROWS], row_sum[ROWS], at_target[ROWS];
    int32_t targets[ROWS];
    double loss = 0, want_loss = 0;
    for (int r = 0; r < ROWS; r++)
        targets[r] = r * 997 % COLS;
    for (int64_t i = 0; i < ROWS * COLS; i++)
        want[i] = logits[i] *= 9.0f;
    for (int64_t col = 0; col < COLS; col += PANEL) {
        struct zn_loss_panel_args a = {.logits = ADDRESS(logits + col), .targets = ADDRESS(targets), .row_max = ADDRESS(row_max),
                                       .row_sum = ADDRESS(row_sum), .target_logit = ADDRESS(at_target), .rows = ROWS,
                                       .cols = COLS - col < PANEL ? COLS - col : PANEL, .stride = COLS, .first_col = col,
                                       .first = col == 0};
        struct output out[] = {{row_max, sizeof row_max}, {row_sum, sizeof row_sum}, {at_target, sizeof at_target}};
        run_everywhere(ZN_KERNEL_loss_panel, &a, out, 3);
    }
    struct zn_loss_finish_args finish = {.lse = ADDRESS(row_sum), .loss = ADDRESS(&loss), .row_max = ADDRESS(row_max),
                                         .row_sum = ADDRESS(row_sum), .target_logit = ADDRESS(at_target),
                                         .targets = ADDRESS(targets), .rows = ROWS};
    struct output finished[] = {{row_sum, sizeof row_sum}, {&loss, sizeof loss}};
    run_everywhere(ZN_KERNEL_loss_finish, &finish, finished, 2);
    struct zn_loss_gradient_args gradient = {.logits = ADDRESS(logits), .targets = ADDRESS(targets), .lse = ADDRESS(row_sum),
                                             .rows = ROWS, .cols = COLS, .stride = COLS, .scale = 0.125f};
    struct output out = {logits, ROWS * COLS * sizeof *logits};
    run_everywhere(ZN_KERNEL_loss_gradient, &gradient, &out, 1);

    for (int r = 0; r < ROWS; r++) {
        float max = -INFINITY, sum = 0.0f, *row = want + r * COLS;
        for (int64_t col = 0; col < COLS; col += PANEL)
            join_panel(row + col, COLS - col < PANEL ? COLS - col : PANEL, &max, &sum);
        float lse = max + zn_log(sum);
        want_loss += (double)lse - (double)row[targets[r]];
        for (int64_t i = 0; i < COLS; i++)
            row[i] = (i == targets[r] ? zn_exp(row[i] - lse) - 1.0f : zn_exp(row[i] - lse)) * 0.125f;
        same_floats(row_sum + r, &lse, 1, "lse");
    }
    same_floats(logits, want, ROWS * COLS, "gradient");
    assert_memory_equal(&loss, &want_loss, sizeof loss);
    free(logits);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm),      cmocka_unit_test(rms_norm),
        cmocka_unit_test(column_sums),     cmocka_unit_test(sums_of_squares),
        cmocka_unit_test(loss_and_its_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
