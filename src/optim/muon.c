/* Muon (Jordan et al. 2024): hidden matrices move along their momentum made orthogonal by Newton–Schulz, all in fp32; the rest is
 * AdamW's. Weight decay is apart from the gradient. Uses momentum, muon_original, and for the rest beta1, beta2 and eps.
 *
 *   m ← μ·m + (1-μ)·g;  X = μ·m + (1-μ)·g  (Nesterov);  X ← X / (‖X‖ + 1e-7)
 *   five times X ← a·X + (b·A + c·A²)·X with A = X·Xᵀ, or, where X has more rows than columns, the same of its transpose
 *   p ← p - lr·(scale·X + decay·p)
 *
 * The mean instead of the sum of gradients changes nothing but the size of m, since X is divided by its own. */
#include <math.h>

#include "base/exact.h"
#include "base/size.h"
#include "device/device.h"
#include "optim/adam.h"
#include "tensor/sums.h"

enum { MOMENTUM, EXP_AVG, EXP_AVG_SQ, N_ITERATIONS = 5, ALIGNMENT = 4096 };

static const float A = 3.4445f, B = -4.7750f, C = 2.0315f;
static const double EPS = 1e-7;

/* y = a + scale × b; without a, scale × b. */
static zn_status add_scaled(zn_device *device, zn_addr y, zn_addr a, zn_addr b, int64_t n_elements, double scale)
{
    return zn_run_add_scaled(
        device, &(struct zn_add_scaled_args){.y = y, .a = a, .b = b, .n_elements = n_elements, .scale = (float)scale});
}

static zn_status prepare(zn_device *device, const struct zn_update *u)
{
    zn_addr m = u->state[MOMENTUM];
    double momentum = u->hyperparameters->momentum, part = (1 - momentum) * (double)u->grad_scale;
    int64_t n = u->n_elements;
    ZN_TRY(add_scaled(device, m, 0, m, n, momentum));
    ZN_TRY(add_scaled(device, m, m, u->grad, n, part));
    ZN_TRY(add_scaled(device, u->direction, 0, u->grad, n, part));
    return add_scaled(device, u->direction, u->direction, m, n, momentum);
}

static int64_t shorter(int64_t rows, int64_t columns)
{
    return rows < columns ? rows : columns;
}

static size_t aligned(int64_t n_elements, size_t width)
{
    return zn_round_up((size_t)n_elements * width, ALIGNMENT);
}

/* Another X, A and A², a sum of squares and its partial sums. */
static size_t work_bytes(int64_t rows, int64_t columns)
{
    int64_t n = shorter(rows, columns);
    return aligned(rows * columns, sizeof(float)) + 2 * aligned(n * n, sizeof(float)) + ALIGNMENT +
           aligned(rows * columns / ZN_SUM_ELEMENTS + 1, sizeof(double));
}

static zn_status normalize(zn_device *device, zn_addr x, int64_t n_elements, zn_addr sum, zn_addr partial)
{
    zn_exact squares;
    ZN_TRY(zn_run_zero(device, &(struct zn_zero_args){.dst = sum, .n_bytes = sizeof squares}));
    ZN_TRY(zn_run_sum_squares(device, &(struct zn_sum_squares_args){.sum = sum, .src = x, .partial = partial, .n_elements = n_elements}));
    ZN_TRY(zn_device_read(device, &squares, sum, sizeof squares));
    return add_scaled(device, x, 0, x, n_elements, 1 / (sqrt(zn_exact_value(&squares)) + EPS));
}

/* One iteration from x to y. The product of x with itself is symmetric to the bit, since both orders have the same terms. */
static zn_status iterate(zn_device *device, const struct zn_matrix *matrix, zn_addr y, zn_addr x, zn_addr product, zn_addr square)
{
    int64_t rows = matrix->rows, columns = matrix->columns, n = shorter(rows, columns);
    bool is_wide = rows <= columns;
    ZN_TRY(zn_run_gemm(device, &(struct zn_gemm_args){.a = x, .b = x, .c = product, .m = n, .n = n, .k = is_wide ? columns : rows,
                                                      .a_stride = columns, .b_stride = columns, .c_stride = n,
                                                      .transpose_a = !is_wide, .transpose_b = is_wide}));
    ZN_TRY(zn_run_gemm(device, &(struct zn_gemm_args){.a = product, .b = product, .c = square, .m = n, .n = n, .k = n,
                                                      .a_stride = n, .b_stride = n, .c_stride = n}));
    ZN_TRY(add_scaled(device, square, 0, square, n * n, C));
    ZN_TRY(add_scaled(device, square, square, product, n * n, B));
    ZN_TRY(add_scaled(device, y, 0, x, rows * columns, A));
    return zn_run_gemm(device, &(struct zn_gemm_args){.a = is_wide ? square : x, .b = is_wide ? x : square, .c = y,
                                                      .m = rows, .n = columns, .k = n, .a_stride = is_wide ? n : columns,
                                                      .b_stride = is_wide ? columns : n, .c_stride = columns, .adds = true});
}

static zn_status transform(zn_device *device, const struct zn_matrix *matrix)
{
    int64_t n_elements = matrix->rows * matrix->columns, n = shorter(matrix->rows, matrix->columns);
    zn_addr x = matrix->direction, y = matrix->work, product = y + aligned(n_elements, sizeof(float));
    zn_addr square = product + aligned(n * n, sizeof(float)), sum = square + aligned(n * n, sizeof(float));
    ZN_TRY(normalize(device, x, n_elements, sum, sum + ALIGNMENT));
    for (int i = 0; i < N_ITERATIONS; i++) {
        ZN_TRY(iterate(device, matrix, y, x, product, square));
        zn_addr last = x;
        x = y;
        y = last;
    }
    if (x == matrix->direction)
        return ZN_OK;
    return zn_run_copy(device, &(struct zn_copy_args){.dst = matrix->direction, .src = x, .n_bytes = n_elements * (int64_t)sizeof(float)});
}

/* As first published, or so that elements are about as large as AdamW's (Liu et al. 2025). */
static double scale_of(const struct zn_update *u)
{
    double rows = (double)u->rows, columns = (double)u->columns;
    if (u->hyperparameters->muon_original)
        return rows > columns ? sqrt(rows / columns) : 1;
    return 0.2 * sqrt(rows > columns ? rows : columns);
}

static zn_status apply(zn_device *device, const struct zn_update *u)
{
    return zn_run_sgd(device, &(struct zn_sgd_args){.param = u->param,
                                                    .grad = u->direction,
                                                    .copy = u->copy,
                                                    .copy_type = u->copy_type,
                                                    .n_elements = u->n_elements,
                                                    .grad_scale = (float)scale_of(u),
                                                    .lr = (float)u->lr,
                                                    .coupled_decay = (float)u->decay});
}

/* Of the rest. */
static zn_status update(zn_device *device, const struct zn_update *u)
{
    struct zn_update rest = *u;
    rest.state[0] = u->state[EXP_AVG];
    rest.state[1] = u->state[EXP_AVG_SQ];
    struct zn_adam_args args = zn_adam_args_of(&rest, true);
    return zn_run_adam(device, &args);
}

const zn_optimizer zn_optimizer_muon = {.name = "muon",
                                        .title = "muon",
                                        .n_states = 3,
                                        .state = {[MOMENTUM] = {.name = "momentum_buffer", .type = ZN_F32, .of = ZN_OF_MATRICES},
                                                  [EXP_AVG] = {.name = "exp_avg", .type = ZN_F32, .of = ZN_OF_REST},
                                                  [EXP_AVG_SQ] = {.name = "exp_avg_sq", .type = ZN_F32, .of = ZN_OF_REST}},
                                        .granularity = ZN_BY_MATRIX,
                                        .defaults = {.momentum = 0.95},
                                        .update = update,
                                        .prepare = prepare,
                                        .work_bytes = work_bytes,
                                        .transform = transform,
                                        .apply = apply};
