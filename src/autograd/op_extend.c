/* What linear's forward pass and passes with a cache use: products with a weight in whatever type it is kept, and the logits of the
 * last token. Widening 16-bit weights is exact, so the type shows in the speed only. */
#include "autograd/node.h"

/* Rows row … row+n of the weight, which are some of the columns of y or a part of the sum over k. Panels are whole chunks of k
 * (ZN_GEMM_K), so their products have the bits of one. */
static zn_status multiply_panel(zn_tape *t, const struct product *p, const struct panel *w, zn_addr bias)
{
    bool out_in = p->layout == ZN_OUT_IN;
    int64_t in = p->weight->dims[out_in ? 1 : 0], out = p->weight->dims[out_in ? 0 : 1];
    zn_addr skipped = (zn_addr)w->row * sizeof(float);
    return zn_run_gemm(tape_device(t), &(struct zn_gemm_args){.a = out_in ? p->x : p->x + skipped,
                                                              .b = w->address,
                                                              .c = out_in ? p->y + skipped : p->y,
                                                              .bias = bias,
                                                              .m = p->rows,
                                                              .n = out_in ? w->n_rows : out,
                                                              .k = out_in ? in : w->n_rows,
                                                              .a_stride = in,
                                                              .b_stride = p->weight->dims[1],
                                                              .c_stride = out,
                                                              .b_type = w->type,
                                                              .bias_type = tape_param_type(t, p->bias),
                                                              .transpose_b = out_in,
                                                              .adds = !out_in && w->row > 0});
}

/* y += b, where the weight came in panels: a parameter that is acquired may take the place of the one before. */
static zn_status add_bias(zn_tape *t, const struct product *p)
{
    int64_t out = p->weight->dims[p->layout == ZN_OUT_IN ? 0 : 1], in = p->weight->n_elements / out;
    zn_addr bias;
    if (!p->bias || tape_is_whole(t, p->weight))
        return ZN_OK;
    ZN_TRY(tape_param(t, p->bias, &bias));
    return zn_run_gemm(tape_device(t), &(struct zn_gemm_args){.a = p->x,
                                                              .b = bias,
                                                              .c = p->y,
                                                              .bias = bias,
                                                              .m = p->rows,
                                                              .n = out,
                                                              .k = 0, /* nothing but the bias */
                                                              .a_stride = in,
                                                              .b_stride = out,
                                                              .c_stride = out,
                                                              .b_type = tape_param_type(t, p->bias),
                                                              .bias_type = tape_param_type(t, p->bias),
                                                              .adds = true});
}

zn_status tape_product(zn_tape *t, const struct product *p)
{
    zn_addr bias = 0;
    int64_t row = 0;
    for (struct panel w = {0}; row < p->weight->dims[0]; row += w.n_rows) {
        ZN_TRY(tape_panel(t, p->weight, row, &w));
        if (tape_is_whole(t, p->weight))
            ZN_TRY(tape_param(t, p->bias, &bias));
        ZN_TRY(multiply_panel(t, p, &w, bias));
    }
    return add_bias(t, p);
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
