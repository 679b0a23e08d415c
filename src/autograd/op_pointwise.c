/* Element by element: add, with a scale too, mul, gelu and the gated MLP's silu(gate) × up. */
#include "autograd/node.h"

static zn_status add_forward(zn_tape *t, struct zn_node *n)
{
    return zn_run_add(tape_device(t), &(struct zn_add_args){.y = tape_use(t, n->out),
                                                            .a = tape_use(t, n->in[0]),
                                                            .b = tape_use(t, n->in[1]),
                                                            .n_elements = n->out->n_elements});
}

static zn_status add_backward(zn_tape *t, struct zn_node *n)
{
    ZN_TRY(tape_contribute_same(t, n->in[0], n->out));
    return tape_contribute_same(t, n->in[1], n->out);
}

static zn_status add_scaled_forward(zn_tape *t, struct zn_node *n)
{
    return zn_run_add_scaled(tape_device(t), &(struct zn_add_scaled_args){.y = tape_use(t, n->out),
                                                                          .a = tape_use(t, n->in[0]),
                                                                          .b = tape_use(t, n->in[1]),
                                                                          .n_elements = n->out->n_elements,
                                                                          .scale = n->as.scale});
}

static zn_status add_scaled_backward(zn_tape *t, struct zn_node *n)
{
    struct gradient *db;
    ZN_TRY(tape_contribute_same(t, n->in[0], n->out));
    ZN_TRY(tape_contribution(t, n->in[1], &db));
    if (!db)
        return ZN_OK;
    ZN_TRY(zn_run_add_scaled(tape_device(t), &(struct zn_add_scaled_args){.y = db->address,
                                                                          .b = tape_gradient(t, n->out),
                                                                          .n_elements = n->out->n_elements,
                                                                          .scale = n->as.scale}));
    return tape_contributed(t, n->in[1], db);
}

static zn_status multiply(zn_tape *t, zn_addr y, zn_addr a, zn_addr b, int64_t n_elements)
{
    return zn_run_mul(tape_device(t),
                      &(struct zn_mul_args){.y = y, .a = a, .b = b, .n_elements = n_elements});
}

static zn_status mul_forward(zn_tape *t, struct zn_node *n)
{
    return multiply(t, tape_use(t, n->out), tape_use(t, n->in[0]), tape_use(t, n->in[1]),
                    n->out->n_elements);
}

static zn_status mul_backward(zn_tape *t, struct zn_node *n)
{
    zn_addr dy = tape_gradient(t, n->out);
    for (int i = 0; i < 2; i++) {
        struct gradient *dx;
        ZN_TRY(tape_contribution(t, n->in[i], &dx));
        if (!dx)
            continue;
        ZN_TRY(multiply(t, dx->address, dy, tape_use(t, n->in[1 - i]), n->out->n_elements));
        ZN_TRY(tape_contributed(t, n->in[i], dx));
    }
    return ZN_OK;
}

static zn_status gelu_forward(zn_tape *t, struct zn_node *n)
{
    return zn_run_gelu_forward(tape_device(t),
                               &(struct zn_gelu_forward_args){.y = tape_use(t, n->out),
                                                              .x = tape_use(t, n->in[0]),
                                                              .n_elements = n->out->n_elements,
                                                              .tanh_form =
                                                                  n->as.gelu == ZN_GELU_TANH});
}

static zn_status gelu_backward(zn_tape *t, struct zn_node *n)
{
    struct gradient *dx;
    zn_addr dy = tape_gradient(t, n->out);
    ZN_TRY(tape_contribution(t, n->in[0], &dx));
    if (!dx)
        return ZN_OK;
    ZN_TRY(zn_run_gelu_backward(tape_device(t),
                                &(struct zn_gelu_backward_args){.dx = dx->address,
                                                                .dy = dy,
                                                                .x = tape_use(t, n->in[0]),
                                                                .n_elements = n->out->n_elements,
                                                                .tanh_form =
                                                                    n->as.gelu == ZN_GELU_TANH}));
    return tape_contributed(t, n->in[0], dx);
}

static zn_status swiglu_forward(zn_tape *t, struct zn_node *n)
{
    return zn_run_swiglu_forward(
        tape_device(t), &(struct zn_swiglu_forward_args){.y = tape_use(t, n->out),
                                                         .gate = tape_use(t, n->in[0]),
                                                         .up = tape_use(t, n->in[1]),
                                                         .n_elements = n->out->n_elements});
}

static zn_status swiglu_backward(zn_tape *t, struct zn_node *n)
{
    struct gradient *d_gate, *d_up;
    zn_addr gate_at, up_at, dy = tape_gradient(t, n->out);
    ZN_TRY(tape_contribution_at(t, n->in[0], &d_gate, &gate_at));
    ZN_TRY(tape_contribution_at(t, n->in[1], &d_up, &up_at));
    ZN_TRY(zn_run_swiglu_backward(
        tape_device(t), &(struct zn_swiglu_backward_args){.d_gate = gate_at,
                                                          .d_up = up_at,
                                                          .dy = dy,
                                                          .gate = tape_use(t, n->in[0]),
                                                          .up = tape_use(t, n->in[1]),
                                                          .n_elements = n->out->n_elements}));
    ZN_TRY(tape_contributed(t, n->in[0], d_gate));
    return tape_contributed(t, n->in[1], d_up);
}

static struct zn_node *node_of_two(zn_tape *t, const struct op *op, zn_tensor *a, zn_tensor *b)
{
    struct zn_node *n = tape_node(t, op);
    n->in[0] = a;
    n->in[1] = b;
    if (a->n_elements != b->n_elements)
        tape_fail(t, op->name, "its inputs have different shapes");
    return n;
}

static zn_tensor *run_two(zn_tape *t, const struct op *op, zn_tensor *a, zn_tensor *b)
{
    return tape_run(t, node_of_two(t, op, a, b), tape_tensor(t, ZN_F32, a->ndim, a->dims));
}

zn_tensor *zn_add(zn_tape *t, zn_tensor *a, zn_tensor *b)
{
    static const struct op op = {"add", add_forward, add_backward, false};
    return run_two(t, &op, a, b);
}

zn_tensor *zn_add_scaled(zn_tape *t, zn_tensor *a, zn_tensor *b, float scale)
{
    static const struct op op = {"add_scaled", add_scaled_forward, add_scaled_backward, false};
    struct zn_node *n = node_of_two(t, &op, a, b);
    n->as.scale = scale;
    return tape_run(t, n, tape_tensor(t, ZN_F32, a->ndim, a->dims));
}

zn_tensor *zn_mul(zn_tape *t, zn_tensor *a, zn_tensor *b)
{
    static const struct op op = {"mul", mul_forward, mul_backward, false};
    return run_two(t, &op, a, b);
}

zn_tensor *zn_swiglu(zn_tape *t, zn_tensor *gate, zn_tensor *up)
{
    static const struct op op = {"swiglu", swiglu_forward, swiglu_backward, false};
    return run_two(t, &op, gate, up);
}

zn_tensor *zn_gelu(zn_tape *t, zn_tensor *x, zn_gelu_form form)
{
    static const struct op op = {"gelu", gelu_forward, gelu_backward, false};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = x;
    n->as.gelu = form;
    return tape_run(t, n, tape_tensor(t, ZN_F32, x->ndim, x->dims));
}
