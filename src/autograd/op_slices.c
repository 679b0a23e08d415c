/* What ranks of a tensor-parallel group sum: gradients on the way to slices of a weight, results on the way back (Megatron-LM's
 * operators f and g). Sums are taken in rank order, so all ranks have the same bits of them. */
#include "autograd/node.h"

/* ---- f: nothing forward, a sum backward ---- */

static zn_status copy_forward(zn_tape *t, struct zn_node *n)
{
    (void)t, (void)n;
    return ZN_OK;
}

static zn_status copy_backward(zn_tape *t, struct zn_node *n)
{
    struct gradient *dx;
    zn_addr dy = tape_gradient(t, n->out);
    ZN_TRY(tape_contribution(t, n->in[0], &dx));
    if (!dx)
        return ZN_OK;
    ZN_TRY(tape_exchange(t, ZN_SUM_OVER_SLICES, dy, dx->address, n->out->n_elements));
    return tape_contributed(t, n->in[0], dx);
}

zn_tensor *zn_copy_to_slices(zn_tape *t, zn_tensor *x, const zn_param *weight)
{
    static const struct op op = {"copy to slices", copy_forward, copy_backward, false};
    if (!zn_is_sliced(weight))
        return x;
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = x;
    return tape_run(t, n, tape_same(t, x));
}

/* ---- g: a sum forward, nothing backward; and the bias of a layer whose inputs are sliced ---- */

/* A row of positions that all rows have. */
static zn_status add_bias(zn_tape *t, struct zn_node *n)
{
    zn_addr bias;
    if (!n->param[0])
        return ZN_OK;
    ZN_TRY(tape_param(t, n->param[0], &bias));
    return zn_run_embedding_forward(tape_device(t), &(struct zn_embedding_forward_args){.y = tape_use(t, n->out),
                                                                                        .positions = bias,
                                                                                        .rows = tensor_rows(n->out),
                                                                                        .width = tensor_cols(n->out),
                                                                                        .period = 1,
                                                                                        .table_type = tape_param_type(t, n->param[0])});
}

static zn_status sum_forward(zn_tape *t, struct zn_node *n)
{
    ZN_TRY(tape_exchange(t, ZN_SUM_OVER_SLICES, tape_use(t, n->in[0]), tape_use(t, n->out), n->out->n_elements));
    return add_bias(t, n);
}

static zn_status sum_backward(zn_tape *t, struct zn_node *n)
{
    ZN_TRY(tape_bias_gradient(t, n->param[0], n->out));
    return tape_contribute_same(t, n->in[0], n->out);
}

static zn_tensor *sum_slices(zn_tape *t, zn_tensor *x, const zn_param *bias)
{
    static const struct op op = {"sum slices", sum_forward, sum_backward, false};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = x;
    n->param[0] = bias;
    return tape_run(t, n, tape_tensor(t, ZN_F32, x->ndim, x->dims));
}

zn_tensor *zn_linear_of_slices(zn_tape *t, zn_tensor *x, const zn_param *weight, const zn_param *bias, zn_layout layout)
{
    if (!zn_is_sliced(weight))
        return zn_linear(t, x, weight, bias, layout);
    return sum_slices(t, zn_linear(t, x, weight, NULL, layout), bias);
}

/* ---- Gradients of copies ---- */

/* The gradient of a parameter that several ranks hold is the sum of theirs, in rank order: of all ranks, or of those that hold the
 * same slice. */
zn_status tape_sum_copies(zn_tape *t, const zn_param *param, zn_addr gradient, int64_t n_elements)
{
    const struct zn_slice *s = &param->slice;
    zn_addr all;
    if (!s->sums_gradients)
        return ZN_OK;
    if (!zn_is_sliced(param))
        return tape_exchange(t, ZN_SUM_OVER_SLICES, gradient, gradient, n_elements);
    size_t n_bytes = (size_t)n_elements * sizeof(float);
    ZN_TRY(tape_scratch(t, (size_t)(s->count * s->copies) * n_bytes, &all));
    ZN_TRY(tape_exchange(t, ZN_GATHER_SLICES, gradient, all, n_elements));
    zn_addr first = all + (zn_addr)(s->index * s->copies) * n_bytes;
    for (int i = 1; i < s->copies; i++)
        ZN_TRY(zn_run_add(tape_device(t), &(struct zn_add_args){.y = gradient,
                                                                .a = i == 1 ? first : gradient,
                                                                .b = first + (zn_addr)i * n_bytes,
                                                                .n_elements = n_elements}));
    return ZN_OK;
}
