/* Attention against a plain double-precision reference, forward and backward, and its bits across
 * threads and instruction sets. */
#include "device/variants.h"

VARIANTS(attention_forward)
VARIANTS(attention_backward)

enum { GAP = 5 }; /* unused columns at the end of each row */

struct shape {
    int64_t batch, seq_len, heads, kv_heads, head_dim, window;
    int64_t examples; /* other than 0: sequences of examples of many lengths up to this one */
};

/* The position of a token within its example. Lengths go up and down, and differ between sequences. */
static int64_t position_of(const struct shape *s, int64_t b, int64_t t)
{
    if (s->examples == 0)
        return t;
    int64_t length = 1 + b % s->examples;
    for (; t >= length; length = 1 + length * 7 % s->examples)
        t -= length;
    return t;
}

/* q, k and v lie side by side in one row, as the projection writes them. */
static int64_t row_size(const struct shape *s)
{
    return (s->heads + 2 * s->kv_heads) * s->head_dim + GAP;
}

static int64_t out_row_size(const struct shape *s)
{
    return s->heads * s->head_dim + GAP;
}

static int64_t n_rows(const struct shape *s)
{
    return s->batch * s->seq_len;
}

static double scale_of(const struct shape *s)
{
    return 1.0 / sqrt((double)s->head_dim);
}

/* ---- the reference: the same layouts in double, every pair of query and key by itself ---- */

static int64_t q_at(const struct shape *s, int64_t b, int64_t t, int64_t h)
{
    return (b * s->seq_len + t) * row_size(s) + h * s->head_dim;
}

static int64_t k_at(const struct shape *s, int64_t b, int64_t t, int64_t h)
{
    return (b * s->seq_len + t) * row_size(s) +
           (s->heads + h / (s->heads / s->kv_heads)) * s->head_dim;
}

static int64_t v_at(const struct shape *s, int64_t b, int64_t t, int64_t h)
{
    return k_at(s, b, t, h) + s->kv_heads * s->head_dim;
}

static int64_t out_at(const struct shape *s, int64_t b, int64_t t, int64_t h)
{
    return (b * s->seq_len + t) * out_row_size(s) + h * s->head_dim;
}

static bool sees(const struct shape *s, int64_t b, int64_t query, int64_t key)
{
    return key <= query && key >= query - position_of(s, b, query) && (s->window == 0 || query - key < s->window);
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The weights of one query over all keys; returns log-sum-exp. */
static double reference_weights(const struct shape *s, const double *qkv, int64_t b, int64_t h,
                                int64_t query, double *weights)
{
    double max = -INFINITY, sum = 0;
    for (int64_t key = 0; key < s->seq_len; key++) {
        weights[key] = sees(s, b, query, key)
                           ? scale_of(s) * dot(qkv + q_at(s, b, query, h), qkv + k_at(s, b, key, h),
                                               s->head_dim)
                           : -INFINITY;
        max = fmax(max, weights[key]);
    }
    for (int64_t key = 0; key < s->seq_len; key++)
        sum += weights[key] = exp(weights[key] - max);
    for (int64_t key = 0; key < s->seq_len; key++)
        weights[key] /= sum;
    return max + log(sum);
}

static void reference_forward(const struct shape *s, const double *qkv, double *out, double *lse)
{
    double *weights = calloc((size_t)s->seq_len, sizeof *weights);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t query = 0; query < s->seq_len; query++) {
                lse[(b * s->heads + h) * s->seq_len + query] =
                    reference_weights(s, qkv, b, h, query, weights);
                double *o = out + out_at(s, b, query, h);
                for (int64_t i = 0; i < s->head_dim; i++) {
                    o[i] = 0;
                    for (int64_t key = 0; key <= query; key++)
                        o[i] += weights[key] * qkv[v_at(s, b, key, h) + i];
                }
            }
    free(weights);
}

/* One query's part of the gradient. */
static void reference_query_backward(const struct shape *s, const double *qkv, const double *d_out,
                                     double *d_qkv, int64_t b, int64_t h, int64_t query,
                                     double *weights)
{
    reference_weights(s, qkv, b, h, query, weights);
    const double *d_o = d_out + out_at(s, b, query, h), *q = qkv + q_at(s, b, query, h);
    double mean = 0;
    for (int64_t key = 0; key <= query; key++)
        mean += weights[key] * dot(d_o, qkv + v_at(s, b, key, h), s->head_dim);
    for (int64_t key = 0; key <= query; key++) {
        const double *k = qkv + k_at(s, b, key, h);
        double d_weight = dot(d_o, qkv + v_at(s, b, key, h), s->head_dim);
        double d_score = weights[key] * (d_weight - mean) * scale_of(s);
        for (int64_t i = 0; i < s->head_dim; i++) {
            d_qkv[v_at(s, b, key, h) + i] += weights[key] * d_o[i];
            d_qkv[q_at(s, b, query, h) + i] += d_score * k[i];
            d_qkv[k_at(s, b, key, h) + i] += d_score * q[i];
        }
    }
}

static void reference_backward(const struct shape *s, const double *qkv, const double *d_out,
                               double *d_qkv)
{
    double *weights = calloc((size_t)s->seq_len, sizeof *weights);
    memset(d_qkv, 0, (size_t)(n_rows(s) * row_size(s)) * sizeof *d_qkv);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t query = 0; query < s->seq_len; query++)
                reference_query_backward(s, qkv, d_out, d_qkv, b, h, query, weights);
    free(weights);
}

/* ---- the kernels ---- */

struct run {
    struct shape shape;
    float *qkv, *d_out;                         /* in */
    float *out, *lse, *d_qkv, *delta, *partial; /* written by the kernels */
    int32_t *position_ids;
};

static struct run run_init(struct shape s)
{
    int64_t n = n_rows(&s);
    struct run r = {.shape = s, .position_ids = calloc((size_t)n, sizeof(int32_t))};
    for (int64_t i = 0; i < n; i++)
        r.position_ids[i] = (int32_t)position_of(&s, i / s.seq_len, i % s.seq_len);
    r.qkv = random_floats("qkv", n * row_size(&s), 1.5);
    r.d_out = random_floats("d_out", n * out_row_size(&s), 1.0);
    /* Not-a-number shows what a kernel forgot to write, and what it reads before it writes. */
    r.out = filled_floats(n * out_row_size(&s), NAN);
    r.lse = filled_floats(n * s.heads, NAN);
    r.d_qkv = filled_floats(n * row_size(&s), NAN);
    r.delta = filled_floats(n * s.heads, NAN);
    r.partial = filled_floats(2 * n * s.heads * s.head_dim, NAN);
    return r;
}

static void run_fini(struct run *r)
{
    free(r->qkv);
    free(r->d_out);
    free(r->out);
    free(r->lse);
    free(r->d_qkv);
    free(r->delta);
    free(r->partial);
    free(r->position_ids);
}

static void run_kernels(struct run *r, const struct variant *forward,
                        const struct variant *backward, int n_threads)
{
    const struct shape *s = &r->shape;
    int64_t stride = row_size(s), out_stride = out_row_size(s), k = s->heads * s->head_dim;
    int64_t v = k + s->kv_heads * s->head_dim;
    struct zn_attention_forward_args f = {
        .out = address_of(r->out),
        .lse = address_of(r->lse),
        .q = address_of(r->qkv),
        .k = address_of(r->qkv + k),
        .v = address_of(r->qkv + v),
        .position_ids = s->examples ? address_of(r->position_ids) : 0,
        .batch = s->batch,
        .seq_len = s->seq_len,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = s->head_dim,
        .q_stride = stride,
        .k_stride = stride,
        .v_stride = stride,
        .out_stride = out_stride,
        .window = s->window,
        .scale = (float)scale_of(s),
    };
    run_variant(forward, n_threads, &f);
    struct zn_attention_backward_args b = {
        .dq = address_of(r->d_qkv),
        .dk = address_of(r->d_qkv + k),
        .dv = address_of(r->d_qkv + v),
        .d_out = address_of(r->d_out),
        .out = f.out,
        .lse = f.lse,
        .q = f.q,
        .k = f.k,
        .v = f.v,
        .delta = address_of(r->delta),
        .partial = s->heads == s->kv_heads ? 0 : address_of(r->partial),
        .position_ids = f.position_ids,
        .batch = s->batch,
        .seq_len = s->seq_len,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = s->head_dim,
        .q_stride = stride,
        .k_stride = stride,
        .v_stride = stride,
        .out_stride = out_stride,
        .dq_stride = stride,
        .dk_stride = stride,
        .dv_stride = stride,
        .window = s->window,
        .scale = f.scale,
    };
    run_variant(backward, n_threads, &b);
}

static double *doubles(const float *x, int64_t n)
{
    double *y = calloc((size_t)n, sizeof *y);
    assert_non_null(y);
    for (int64_t i = 0; x && i < n; i++)
        y[i] = (double)x[i];
    return y;
}

/* Rows of `cols` used columns, each element within `bound` of the root mean square of the
 * reference or of its own size; the gap behind keeps its value. */
static void check_rows(const struct shape *s, const char *what, const float *got,
                       const double *expected, int64_t cols, double bound)
{
    int64_t stride = cols + GAP;
    double squares = 0;
    for (int64_t row = 0; row < n_rows(s); row++)
        squares += dot(expected + row * stride, expected + row * stride, cols);
    double typical = sqrt(squares / (double)(n_rows(s) * cols));
    for (int64_t row = 0; row < n_rows(s); row++)
        for (int64_t i = 0; i < stride; i++) {
            double x = (double)got[row * stride + i], y = expected[row * stride + i];
            if (i < cols ? !(fabs(x - y) <= bound * (typical + fabs(y))) : !isnan(x))
                fail_msg("%s(%lld,%lld) is %.9g, not %.9g: time %lld heads %lld/%lld dim %lld "
                         "window %lld",
                         what, (long long)row, (long long)i, x, y, (long long)s->seq_len,
                         (long long)s->heads, (long long)s->kv_heads, (long long)s->head_dim,
                         (long long)s->window);
        }
}

static void check_shape(struct shape s)
{
    struct run r = run_init(s);
    int64_t n_qkv = n_rows(&s) * row_size(&s), n_out = n_rows(&s) * out_row_size(&s);
    int64_t n_lse = n_rows(&s) * s.heads;
    double *qkv = doubles(r.qkv, n_qkv), *d_out = doubles(r.d_out, n_out);
    double *out = doubles(NULL, n_out), *lse = doubles(NULL, n_lse), *d_qkv = doubles(NULL, n_qkv);
    reference_forward(&s, qkv, out, lse);
    reference_backward(&s, qkv, d_out, d_qkv);
    run_kernels(&r, &attention_forward_variants[0], &attention_backward_variants[0], 2);
    check_rows(&s, "out", r.out, out, s.heads * s.head_dim, 1e-5);
    for (int64_t i = 0; i < n_lse; i++)
        assert_true(fabs((double)r.lse[i] - lse[i]) <= 2e-6 * (1 + fabs(lse[i])));
    check_rows(&s, "d_qkv", r.d_qkv, d_qkv, row_size(&s) - GAP, 2e-5);
    free(qkv);
    free(d_out);
    free(out);
    free(lse);
    free(d_qkv);
    run_fini(&r);
}

static void is_right_for_every_length(void **state)
{
    (void)state;
    static const int64_t times[] = {1, 2, 15, 17, 63, 64, 65, 128, 129, 257, 330};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        check_shape((struct shape){
            .batch = 2, .seq_len = times[i], .heads = 2, .kv_heads = 2, .head_dim = 16});
}

static void is_right_for_every_window(void **state)
{
    (void)state;
    static const int64_t windows[] = {1, 2, 13, 63, 64, 65, 150, 300, 329, 330, 1000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        check_shape((struct shape){.batch = 1,
                                   .seq_len = 330,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 16,
                                   .window = windows[i]});
        check_shape((struct shape){.batch = 2,
                                   .seq_len = 40,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .head_dim = 8,
                                   .window = windows[i]});
    }
}

static void examples_see_only_themselves(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 13, 40, 65, 150, 400};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int64_t window = 0; window <= 30; window += 30)
            check_shape((struct shape){.batch = 2,
                                       .seq_len = 330,
                                       .heads = 2,
                                       .kv_heads = window ? 2 : 1,
                                       .head_dim = 16,
                                       .window = window,
                                       .examples = lengths[i]});
}

/* A sequence that is one example is the sequence. */
static void one_example_has_the_bits_of_none(void **state)
{
    (void)state;
    struct shape s = {.batch = 2, .seq_len = 200, .heads = 4, .kv_heads = 2, .head_dim = 24, .window = 90};
    struct run plain = run_init(s);
    run_kernels(&plain, &attention_forward_variants[0], &attention_backward_variants[0], 2);
    s.examples = 1000000;
    struct run r = run_init(s);
    for (int64_t i = 0; i < n_rows(&s); i++)
        r.position_ids[i] = (int32_t)(i % s.seq_len);
    run_kernels(&r, &attention_forward_variants[0], &attention_backward_variants[0], 2);
    assert_same_bits("out", plain.out, r.out, n_rows(&s) * out_row_size(&s));
    assert_same_bits("d_qkv", plain.d_qkv, r.d_qkv, n_rows(&s) * row_size(&s));
    run_fini(&plain);
    run_fini(&r);
}

static void is_right_for_every_head_size(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 8, 20, 32, 64, 80, 96, 128, 576};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_shape((struct shape){
            .batch = 1, .seq_len = 70, .heads = 2, .kv_heads = 2, .head_dim = sizes[i]});
}

static void is_right_for_every_group_size(void **state)
{
    (void)state;
    for (int64_t group = 1; group <= 4; group++)
        for (int64_t kv_heads = 1; kv_heads <= 2; kv_heads++)
            check_shape((struct shape){.batch = 2,
                                       .seq_len = 75,
                                       .heads = group * kv_heads,
                                       .kv_heads = kv_heads,
                                       .head_dim = 24,
                                       .window = group == 3 ? 50 : 0});
}

/* The reference's own gradient, against differences of its forward: within 1e-8. */
static void reference_has_the_gradient_of_its_forward(void **state)
{
    (void)state;
    struct shape s = {.batch = 2, .seq_len = 7, .heads = 4, .kv_heads = 2, .head_dim = 3, .window = 5};
    struct run r = run_init(s);
    int64_t n_qkv = n_rows(&s) * row_size(&s), n_out = n_rows(&s) * out_row_size(&s);
    double *qkv = doubles(r.qkv, n_qkv), *d_out = doubles(r.d_out, n_out),
           *out = doubles(NULL, n_out);
    double *lse = doubles(NULL, n_rows(&s) * s.heads), *d_qkv = doubles(NULL, n_qkv);
    reference_backward(&s, qkv, d_out, d_qkv);
    const double step = 1e-5;
    for (int64_t i = 0; i < n_qkv; i++) {
        double value = qkv[i], loss[2];
        for (int side = 0; side < 2; side++) {
            qkv[i] = side ? value + step : value - step;
            reference_forward(&s, qkv, out, lse);
            loss[side] = dot(out, d_out, n_out);
        }
        qkv[i] = value;
        assert_true(fabs((loss[1] - loss[0]) / (2 * step) - d_qkv[i]) <= 1e-8);
    }
    free(qkv);
    free(d_out);
    free(out);
    free(lse);
    free(d_qkv);
    run_fini(&r);
}

static void has_the_same_bits_for_all_threads_and_instruction_sets(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.batch = 2, .seq_len = 330, .heads = 3, .kv_heads = 3, .head_dim = 24},
        {.batch = 2, .seq_len = 130, .heads = 6, .kv_heads = 2, .head_dim = 20, .window = 70},
        {.batch = 2, .seq_len = 200, .heads = 3, .kv_heads = 1, .head_dim = 24, .examples = 50},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        struct run expected = run_init(*s);
        run_kernels(&expected, &attention_forward_variants[0], &attention_backward_variants[0], 1);
        for (int v = 0; attention_forward_variants[v].isa; v++)
            for (int n_threads = 1; n_threads <= 3; n_threads++) {
                const struct variant *forward = &attention_forward_variants[v];
                if (!variant_runs_here(forward))
                    continue;
                struct run r = run_init(*s);
                run_kernels(&r, forward, &attention_backward_variants[v], n_threads);
                assert_same_bits(forward->isa, expected.out, r.out, n_rows(s) * out_row_size(s));
                assert_same_bits(forward->isa, expected.lse, r.lse, n_rows(s) * s->heads);
                assert_same_bits(forward->isa, expected.d_qkv, r.d_qkv, n_rows(s) * row_size(s));
                run_fini(&r);
            }
        run_fini(&expected);
    }
}

/* Scores beyond the range of exp: the greatest score is taken off first, tile by tile. */
static void survives_large_scores(void **state)
{
    (void)state;
    struct shape s = {.batch = 1, .seq_len = 600, .heads = 1, .kv_heads = 1, .head_dim = 8};
    struct run r = run_init(s);
    for (int64_t i = 0; i < n_rows(&s) * row_size(&s); i++)
        r.qkv[i] *= 30.0f;
    run_kernels(&r, &attention_forward_variants[0], &attention_backward_variants[0], 2);
    double *qkv = doubles(r.qkv, n_rows(&s) * row_size(&s)), *lse = doubles(NULL, s.seq_len);
    double *out = doubles(NULL, n_rows(&s) * out_row_size(&s));
    reference_forward(&s, qkv, out, lse);
    check_rows(&s, "out", r.out, out, s.head_dim, 2e-3); /* scores of 10^4 have errors of 10^-3 */
    for (int64_t i = 0; i < n_rows(&s) * row_size(&s); i++)
        assert_true(i % row_size(&s) >= row_size(&s) - GAP || isfinite(r.d_qkv[i]));
    free(qkv);
    free(lse);
    free(out);
    run_fini(&r);
}

static void shows_not_a_number(void **state)
{
    (void)state;
    struct shape s = {.batch = 1, .seq_len = 70, .heads = 1, .kv_heads = 1, .head_dim = 8};
    struct run r = run_init(s);
    r.qkv[q_at(&s, 0, 66, 0)] = NAN;
    run_kernels(&r, &attention_forward_variants[0], &attention_backward_variants[0], 1);
    assert_true(isnan(r.out[out_at(&s, 0, 66, 0)]) && isnan(r.lse[66]));
    assert_true(isfinite(r.out[out_at(&s, 0, 65, 0)]) && isfinite(r.lse[67]));
    run_fini(&r);
}

static void refuses_heads_that_form_no_groups(void **state)
{
    (void)state;
    struct zn_cpu cpu = {.n_threads = 1};
    struct zn_attention_forward_args f = {.heads = 3, .kv_heads = 2};
    struct zn_attention_backward_args b = {.heads = 3, .kv_heads = 2};
    assert_int_equal(attention_forward_variants[0].run(&cpu, &f), ZN_ERR_UNSUPPORTED);
    assert_int_equal(attention_backward_variants[0].run(&cpu, &b), ZN_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_has_the_gradient_of_its_forward),
        cmocka_unit_test(is_right_for_every_length),
        cmocka_unit_test(is_right_for_every_window),
        cmocka_unit_test(examples_see_only_themselves),
        cmocka_unit_test(one_example_has_the_bits_of_none),
        cmocka_unit_test(is_right_for_every_head_size),
        cmocka_unit_test(is_right_for_every_group_size),
        cmocka_unit_test(has_the_same_bits_for_all_threads_and_instruction_sets),
        cmocka_unit_test(survives_large_scores),
        cmocka_unit_test(shows_not_a_number),
        cmocka_unit_test(refuses_heads_that_form_no_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
