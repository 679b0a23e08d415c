/* Rotary embedding against double precision; its inverse is its gradient. */
#include "device/kernel_test.h"

struct rope {
    int64_t rows, heads, head_dim, period, stride;
    float *x, *y, *cosine, *sine;
    int32_t *position_ids; /* NULL: rows count, and begin again after a period */
};

static struct rope rope_init(int64_t rows, int64_t heads, int64_t head_dim, int64_t period,
                             int64_t stride)
{
    int64_t d = head_dim / 2;
    struct rope t = {
        .rows = rows,
        .heads = heads,
        .head_dim = head_dim,
        .period = period,
        .stride = stride,
        .x = new_normal(rows * stride, 1),
        .y = new_floats(rows * stride),
        .cosine = new_floats(period * d),
        .sine = new_floats(period * d),
    };
    for (int64_t p = 0; p < period; p++) {
        for (int64_t i = 0; i < d; i++) {
            double angle = (double)p * pow(10000.0, -(double)i / (double)d);
            t.cosine[p * d + i] = (float)cos(angle);
            t.sine[p * d + i] = (float)sin(angle);
        }
    }
    return t;
}

static void rope_fini(struct rope *t)
{
    free(t->x);
    free(t->y);
    free(t->cosine);
    free(t->sine);
    free(t->position_ids);
}

static void turn(const struct rope *t, float *y, const float *x, bool inverse)
{
    struct zn_rope_args a = {
        .y = ADDRESS(y),
        .x = ADDRESS(x),
        .cos = ADDRESS(t->cosine),
        .sin = ADDRESS(t->sine),
        .position_ids = t->position_ids ? ADDRESS(t->position_ids) : 0,
        .rows = t->rows,
        .heads = t->heads,
        .head_dim = t->head_dim,
        .period = t->period,
        .y_stride = t->stride,
        .x_stride = t->stride,
        .inverse = inverse,
    };
    struct output out = {y, (size_t)(t->rows * t->stride) * sizeof *y};
    run_everywhere(ZN_KERNEL_rope, &a, &out, 1);
}

/* Element i of a row's head after the turn, from tables in double. */
static double reference(const struct rope *t, int64_t row, int64_t head, int64_t i, double direction)
{
    int64_t d = t->head_dim / 2, k = i % d, p = t->position_ids ? t->position_ids[row] : row % t->period;
    const float *x = t->x + row * t->stride + head * t->head_dim;
    double c = (double)t->cosine[p * d + k], s = direction * (double)t->sine[p * d + k];
    double a = (double)x[k], b = (double)x[k + d];
    return i < d ? a * c - b * s : b * c + a * s;
}

static void check_turns(struct rope t)
{
    int64_t rows = t.rows, heads = t.heads, head_dim = t.head_dim, stride = t.stride;
    for (int inverse = 0; inverse < 2; inverse++) {
        memset(t.y, 0, (size_t)(rows * stride) * sizeof *t.y);
        turn(&t, t.y, t.x, inverse);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < stride; i++) {
                double want = 0; /* what lies between the rows stays */
                if (i < heads * head_dim)
                    want = reference(&t, r, i / head_dim, i % head_dim, inverse ? -1 : 1);
                assert_near((double)t.y[r * stride + i], want, 3e-7, "y", r * stride + i);
            }
        }
    }
    rope_fini(&t);
}

static void check_all(int64_t rows, int64_t heads, int64_t head_dim, int64_t period, int64_t stride)
{
    check_turns(rope_init(rows, heads, head_dim, period, stride));
}

/* Attention sees only differences of positions, so no loss tells whether they begin again with each example. */
static void positions_are_those_of_the_examples(void **state)
{
    (void)state;
    struct rope t = rope_init(130, 5, 64, 65, 330);
    t.position_ids = calloc((size_t)t.rows, sizeof *t.position_ids);
    assert_non_null(t.position_ids);
    for (int64_t r = 0; r < t.rows; r++)
        t.position_ids[r] = (int32_t)(r % 23);
    check_turns(t);
}

static void pairs_are_turned(void **state)
{
    (void)state;
    check_all(1, 1, 2, 1, 2);
    check_all(7, 3, 30, 5, 90);
    check_all(9, 2, 34, 4, 71);
    check_all(130, 5, 64, 65, 330); /* uses the team */
}

static void y_may_be_x(void **state)
{
    (void)state;
    struct rope t = rope_init(130, 5, 64, 65, 320);
    turn(&t, t.y, t.x, false);
    turn(&t, t.x, t.x, false);
    assert_memory_equal(t.x, t.y, (size_t)(t.rows * t.stride) * sizeof(float));
    rope_fini(&t);
}

static void inverse_undoes_and_is_the_gradient(void **state)
{
    (void)state;
    struct rope t = rope_init(40, 3, 32, 20, 96);
    int64_t n = t.rows * t.stride;
    float *dy = new_normal(n, 9), *dx = new_floats(n), *back = new_floats(n);
    turn(&t, t.y, t.x, false);
    turn(&t, back, t.y, true);
    turn(&t, dx, dy, true);
    double of_y = 0, of_x = 0; /* <dy, R x> = <R' dy, x> for a linear map */
    for (int64_t i = 0; i < n; i++) {
        assert_near((double)back[i], (double)t.x[i], 5e-7, "x", i);
        of_y += (double)dy[i] * (double)t.y[i];
        of_x += (double)dx[i] * (double)t.x[i];
    }
    assert_near(of_x, of_y, 1e-5, "inner product", 0);
    free(dy);
    free(dx);
    free(back);
    rope_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_turned),
        cmocka_unit_test(positions_are_those_of_the_examples),
        cmocka_unit_test(y_may_be_x),
        cmocka_unit_test(inverse_undoes_and_is_the_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
