/* The linear operator: products with a weight matrix in either stored layout. */
#include "autograd/node.h"

static int64_t columns_in(const struct zn_node *n)
{
    return n->param[0]->dims[n->as.linear.layout == ZN_OUT_IN ? 1 : 0];
}

static int64_t columns_out(const struct zn_node *n)
{
    return n->param[0]->dims[n->as.linear.layout == ZN_OUT_IN ? 0 : 1];
}

static zn_addr float_at(zn_addr base, int64_t index)
{
    return base + (zn_addr)index * sizeof(float);
}

/* y = x Wᵀ + b, W stored (out,in); y = x W + b, W stored (in,out). */
static zn_status linear_forward(zn_tape *t, struct zn_node *n)
{
    return tape_product(t, &(struct product){.y = tape_use(t, n->out),
                                             .x = tape_use(t, n->in[0]),
                                             .weight = n->param[0],
                                             .bias = n->param[1],
                                             .rows = tensor_rows(n->in[0]),
                                             .layout = n->as.linear.layout});
}

/* dx = dy W or dy Wᵀ. */
static zn_status input_gradient(zn_tape *t, struct zn_node *n, zn_addr dy)
{
    struct gradient *dx;
    ZN_TRY(tape_contribution(t, n->in[0], &dx));
    if (!dx)
        return ZN_OK;
    int64_t in = columns_in(n), out = columns_out(n), row = 0;
    bool out_in = n->as.linear.layout == ZN_OUT_IN;
    for (struct panel w = {0}; row < n->param[0]->dims[0]; row += w.n_rows) {
        ZN_TRY(tape_panel(t, n->param[0], row, &w));
        ZN_TRY(zn_run_gemm(tape_device(t),
                           &(struct zn_gemm_args){.a = out_in ? float_at(dy, row) : dy,
                                                  .b = w.address,
                                                  .c = out_in ? dx->address : float_at(dx->address, row),
                                                  .m = tensor_rows(n->in[0]),
                                                  .n = out_in ? in : w.n_rows,
                                                  .k = out_in ? w.n_rows : out,
                                                  .a_stride = out,
                                                  .b_stride = n->param[0]->dims[1],
                                                  .c_stride = in,
                                                  .b_type = w.type,
                                                  .transpose_b = !out_in,
                                                  .adds = out_in && row > 0}));
    }
    return tape_contributed(t, n->in[0], dx);
}

/* dW(out,in) = dyᵀ x, or dW(in,out) = xᵀ dy. */
static zn_status weight_gradient(zn_tape *t, struct zn_node *n, zn_addr dy)
{
    int64_t in = columns_in(n), out = columns_out(n), row = 0;
    zn_addr x = tape_use(t, n->in[0]);
    bool out_in = n->as.linear.layout == ZN_OUT_IN;
    for (struct tile dw; row < n->param[0]->dims[0]; row += dw.n_rows) {
        ZN_TRY(tape_open_tile_gradient(t, n->param[0], row, &dw));
        if (!dw.address)
            return ZN_OK;
        ZN_TRY(zn_run_gemm(tape_device(t), &(struct zn_gemm_args){.a = float_at(out_in ? dy : x, row),
                                                                  .b = out_in ? x : dy,
                                                                  .c = dw.address,
                                                                  .m = dw.n_rows,
                                                                  .n = out_in ? in : out,
                                                                  .k = tensor_rows(n->in[0]),
                                                                  .a_stride = out_in ? out : in,
                                                                  .b_stride = out_in ? in : out,
                                                                  .c_stride = out_in ? in : out,
                                                                  .transpose_a = true}));
        ZN_TRY(tape_close_tile_gradient(t, n->param[0], &dw));
    }
    return ZN_OK;
}

zn_status tape_bias_gradient(zn_tape *t, const zn_param *bias, const zn_tensor *y)
{
    zn_addr db, partial, dy = tape_gradient(t, y);
    ZN_TRY(tape_open_gradient(t, bias, &db));
    if (!db)
        return ZN_OK;
    int64_t rows = tensor_rows(y), cols = tensor_cols(y);
    size_t chunks = (size_t)((rows + ZN_SUM_ROWS - 1) / ZN_SUM_ROWS);
    ZN_TRY(tape_scratch(t, chunks * (size_t)cols * sizeof(float), &partial));
    ZN_TRY(zn_run_column_sum(
        tape_device(t),
        &(struct zn_column_sum_args){
            .dst = db, .src = dy, .partial = partial, .rows = rows, .cols = cols, .stride = cols}));
    return tape_close_gradient(t, bias, db);
}

static zn_status linear_backward(zn_tape *t, struct zn_node *n)
{
    zn_addr dy = tape_gradient(t, n->out);
    ZN_TRY(weight_gradient(t, n, dy));
    ZN_TRY(tape_bias_gradient(t, n->param[1], n->out));
    return input_gradient(t, n, dy);
}

static zn_tensor *plain_linear(zn_tape *t, zn_tensor *x, const zn_param *weight, const zn_param *bias, zn_layout layout)
{
    static const struct op op = {"linear", linear_forward, linear_backward, false};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = x;
    n->param[0] = weight;
    n->param[1] = bias;
    n->as.linear.layout = layout;
    if (weight->ndim != 2 || tensor_cols(x) != columns_in(n) ||
        (bias && bias->n_elements != columns_out(n)))
        tape_fail(t, weight->name, "its shape does not fit the input of linear");
    int64_t dims[ZN_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        dims[i] = x->dims[i];
    dims[x->ndim - 1] = columns_out(n);
    return tape_run(t, n, tape_tensor(t, ZN_F32, x->ndim, dims));
}

/* A low-rank adapter is a branch beside the weight: y = W x + b + scale × B (A x). */
zn_tensor *zn_linear(zn_tape *t, zn_tensor *x, const zn_param *weight, const zn_param *bias,
                     zn_layout layout)
{
    const struct zn_adapter *adapter = weight->adapter;
    zn_tensor *y = plain_linear(t, x, weight, bias, layout);
    if (!adapter || !zn_tape_has_adapters(t))
        return y;
    zn_tensor *low = plain_linear(t, x, adapter->a, NULL, ZN_OUT_IN);
    return zn_add_scaled(t, y, plain_linear(t, low, adapter->b, NULL, ZN_OUT_IN), adapter->scale);
}
