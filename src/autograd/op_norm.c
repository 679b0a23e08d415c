/* Layer norm and RMS norm; row statistics are saved for backward. */
#include "autograd/node.h"

static size_t partial_bytes(int64_t rows, int64_t cols)
{
    return (size_t)((rows + ZN_SUM_ROWS - 1) / ZN_SUM_ROWS) * (size_t)cols * sizeof(float);
}

/* Rows of the norm: groups of as many elements as the weight has. */
static int64_t norm_rows(const struct zn_node *n)
{
    return n->in[0]->n_elements / n->param[0]->n_elements;
}

/* The kernels write all gradients; one that nobody wants goes to a scratch block. */
static zn_status open_or_scratch(zn_tape *t, const zn_param *param, zn_addr *wanted,
                                 zn_addr *address)
{
    ZN_TRY(tape_open_gradient(t, param, wanted));
    *address = *wanted;
    if (!param || *wanted)
        return ZN_OK;
    return tape_scratch(t, (size_t)param->n_elements * sizeof(float), address);
}

static zn_status layernorm_forward(zn_tape *t, struct zn_node *n)
{
    zn_addr weight, bias;
    ZN_TRY(tape_param(t, n->param[0], &weight));
    ZN_TRY(tape_param(t, n->param[1], &bias));
    return zn_run_layernorm_forward(
        tape_device(t), &(struct zn_layernorm_forward_args){.y = tape_use(t, n->out),
                                                            .x = tape_use(t, n->in[0]),
                                                            .weight = weight,
                                                            .bias = bias,
                                                            .mean = tape_use(t, n->extra[0]),
                                                            .rstd = tape_use(t, n->extra[1]),
                                                            .rows = norm_rows(n),
                                                            .cols = n->param[0]->n_elements,
                                                            .weight_type = tape_param_type(t, n->param[0]),
                                                            .bias_type = tape_param_type(t, n->param[1]),
                                                            .eps = n->as.norm.eps});
}

static zn_status layernorm_backward(zn_tape *t, struct zn_node *n)
{
    zn_addr weight, dw, db, dx_at, dw_at, db_at, partial;
    struct gradient *dx;
    int64_t rows = norm_rows(n), cols = n->param[0]->n_elements;
    zn_addr dy = tape_gradient(t, n->out);
    ZN_TRY(tape_param(t, n->param[0], &weight));
    ZN_TRY(tape_contribution_at(t, n->in[0], &dx, &dx_at));
    ZN_TRY(open_or_scratch(t, n->param[0], &dw, &dw_at));
    ZN_TRY(open_or_scratch(t, n->param[1], &db, &db_at));
    ZN_TRY(tape_scratch(t, 2 * partial_bytes(rows, cols), &partial));
    ZN_TRY(zn_run_layernorm_backward(
        tape_device(t), &(struct zn_layernorm_backward_args){.dx = dx_at,
                                                             .d_weight = dw_at,
                                                             .d_bias = db_at,
                                                             .dy = dy,
                                                             .x = tape_use(t, n->in[0]),
                                                             .weight = weight,
                                                             .mean = tape_use(t, n->extra[0]),
                                                             .rstd = tape_use(t, n->extra[1]),
                                                             .partial = partial,
                                                             .rows = rows,
                                                             .cols = cols,
                                                             .weight_type = tape_param_type(t, n->param[0])}));
    ZN_TRY(tape_close_gradient(t, n->param[0], dw));
    ZN_TRY(tape_close_gradient(t, n->param[1], db));
    return tape_contributed(t, n->in[0], dx);
}

static zn_status rmsnorm_forward(zn_tape *t, struct zn_node *n)
{
    zn_addr weight;
    ZN_TRY(tape_param(t, n->param[0], &weight));
    return zn_run_rmsnorm_forward(
        tape_device(t), &(struct zn_rmsnorm_forward_args){.y = tape_use(t, n->out),
                                                          .x = tape_use(t, n->in[0]),
                                                          .weight = weight,
                                                          .rstd = tape_use(t, n->extra[0]),
                                                          .rows = norm_rows(n),
                                                          .cols = n->param[0]->n_elements,
                                                          .weight_type = tape_param_type(t, n->param[0]),
                                                          .eps = n->as.norm.eps});
}

static zn_status rmsnorm_backward(zn_tape *t, struct zn_node *n)
{
    zn_addr weight, dw, dx_at, dw_at, partial;
    struct gradient *dx;
    int64_t rows = norm_rows(n), cols = n->param[0]->n_elements;
    zn_addr dy = tape_gradient(t, n->out);
    ZN_TRY(tape_param(t, n->param[0], &weight));
    ZN_TRY(tape_contribution_at(t, n->in[0], &dx, &dx_at));
    ZN_TRY(open_or_scratch(t, n->param[0], &dw, &dw_at));
    ZN_TRY(tape_scratch(t, partial_bytes(rows, cols), &partial));
    ZN_TRY(zn_run_rmsnorm_backward(
        tape_device(t), &(struct zn_rmsnorm_backward_args){.dx = dx_at,
                                                           .d_weight = dw_at,
                                                           .dy = dy,
                                                           .x = tape_use(t, n->in[0]),
                                                           .weight = weight,
                                                           .rstd = tape_use(t, n->extra[0]),
                                                           .partial = partial,
                                                           .rows = rows,
                                                           .cols = cols,
                                                           .weight_type = tape_param_type(t, n->param[0])}));
    ZN_TRY(tape_close_gradient(t, n->param[0], dw));
    return tape_contributed(t, n->in[0], dx);
}

static struct zn_node *norm_node(zn_tape *t, const struct op *op, zn_tensor *x,
                                 const zn_param *weight, float eps, int n_extras)
{
    struct zn_node *n = tape_node(t, op);
    n->in[0] = x;
    n->param[0] = weight;
    n->as.norm.eps = eps;
    if (tensor_cols(x) % weight->n_elements != 0)
        tape_fail(t, weight->name, "its shape does not fit the input of the norm");
    for (int i = 0; i < n_extras; i++)
        n->extra[i] = tape_tensor(t, ZN_F32, 1, (int64_t[]){norm_rows(n)});
    return n;
}

zn_tensor *zn_layernorm(zn_tape *t, zn_tensor *x, const zn_param *weight, const zn_param *bias,
                        float eps)
{
    static const struct op op = {"layernorm", layernorm_forward, layernorm_backward, false};
    struct zn_node *n = norm_node(t, &op, x, weight, eps, 2);
    if (bias && bias->n_elements != weight->n_elements)
        tape_fail(t, bias->name, "its shape does not fit the weight of the norm");
    n->param[1] = bias;
    return tape_run(t, n, tape_tensor(t, ZN_F32, x->ndim, x->dims));
}

zn_tensor *zn_rmsnorm(zn_tape *t, zn_tensor *x, const zn_param *weight, float eps)
{
    static const struct op op = {"rmsnorm", rmsnorm_forward, rmsnorm_backward, false};
    struct zn_node *n = norm_node(t, &op, x, weight, eps, 1);
    return tape_run(t, n, tape_tensor(t, ZN_F32, x->ndim, x->dims));
}
