/* What only passes with a cache use: products bounded by the reading of weights, in whatever type
 * they are kept, and the logits of the last token.
 *
 * Few rows go through gemv, many through gemm; both widen 16-bit weights as they read them. That is
 * exact, so the type shows in the speed only. */
#include "autograd/node.h"

static zn_status few_rows(zn_tape *t, const struct product *p, zn_addr weight, zn_addr bias,
                          zn_addr partial, int64_t in, int64_t out)
{
    return zn_run_gemv(tape_device(t), &(struct zn_gemv_args){.y = p->y,
                                                              .x = p->x,
                                                              .w = weight,
                                                              .bias = bias,
                                                              .partial = partial,
                                                              .w_type = tape_param_type(t),
                                                              .bias_type = tape_param_type(t),
                                                              .rows = p->rows,
                                                              .n = out,
                                                              .k = in,
                                                              .transpose_w = p->layout == ZN_OUT_IN});
}

static zn_status many_rows(zn_tape *t, const struct product *p, zn_addr weight, zn_addr bias, int64_t in,
                           int64_t out)
{
    return zn_run_gemm(tape_device(t), &(struct zn_gemm_args){.a = p->x,
                                                              .b = weight,
                                                              .c = p->y,
                                                              .bias = bias,
                                                              .m = p->rows,
                                                              .n = out,
                                                              .k = in,
                                                              .a_stride = in,
                                                              .b_stride = p->weight->dims[1],
                                                              .c_stride = out,
                                                              .b_type = tape_param_type(t),
                                                              .bias_type = tape_param_type(t),
                                                              .transpose_b = p->layout == ZN_OUT_IN});
}

zn_status tape_product(zn_tape *t, const struct product *p)
{
    bool out_in = p->layout == ZN_OUT_IN, few = p->rows <= ZN_GEMV_ROWS;
    int64_t in = p->weight->dims[out_in ? 1 : 0], out = p->weight->dims[out_in ? 0 : 1];
    zn_addr weight, bias, partial = 0;
    ZN_TRY(tape_param(t, p->weight, &weight));
    ZN_TRY(tape_param(t, p->bias, &bias));
    if (!out_in) {
        /* Many rows take as much as few can need, so that one plan serves both. */
        int64_t rows = few ? p->rows : ZN_GEMV_ROWS;
        int64_t chunks = (in + ZN_GEMV_DEPTH - 1) / ZN_GEMV_DEPTH;
        ZN_TRY(tape_scratch(t, (size_t)(rows * chunks * out) * sizeof(float), &partial));
    }
    return few ? few_rows(t, p, weight, bias, partial, in, out) : many_rows(t, p, weight, bias, in, out);
}

static zn_status logits_forward(zn_tape *t, struct zn_node *n)
{
    const zn_tensor *x = n->in[0];
    int64_t before = (tensor_rows(x) - 1) * tensor_cols(x);
    return tape_product(t, &(struct product){.y = tape_use(t, n->out),
                                             .x = tape_use(t, x) + (zn_addr)before * sizeof(float),
                                             .weight = n->param[0],
                                             .rows = 1,
                                             .layout = ZN_OUT_IN});
}

static zn_status logits_backward(zn_tape *t, struct zn_node *n)
{
    (void)t, (void)n;
    return zn_fail(ZN_ERR_INTERNAL, "logits: a pass with a cache has no gradients");
}

zn_tensor *zn_head_logits(zn_tape *t, zn_tensor *x, const zn_param *weight, zn_addr logits)
{
    static const struct op op = {"logits", logits_forward, logits_backward, false};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = x;
    n->param[0] = weight;
    if (!tape_cache(t))
        tape_fail(t, "logits", "only a pass with a cache has them");
    if (weight->dims[1] != tensor_cols(x))
        tape_fail(t, weight->name, "its shape does not fit the input of the head");
    return tape_run(t, n, zn_tape_external(t, ZN_F32, 1, (int64_t[]){weight->dims[0]}, logits));
}
