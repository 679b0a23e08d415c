/* Rotary embedding and causal attention; q, k and v apart or side by side in one tensor. */
#include "autograd/node.h"

static zn_status rotate(zn_tape *t, struct zn_node *n, zn_addr y, zn_addr x, bool inverse)
{
    int64_t width = tensor_cols(n->in[0]), head_dim = width / n->as.rope.heads;
    zn_addr from = (zn_addr)(tape_past(t) * (head_dim / 2)) * sizeof(float);
    return zn_run_rope(tape_device(t),
                       &(struct zn_rope_args){.y = y,
                                              .x = x,
                                              .cos = tape_constant(t, n->as.rope.cos) + from,
                                              .sin = tape_constant(t, n->as.rope.sin) + from,
                                              .position_ids = tape_position_ids(t, n),
                                              .rows = tensor_rows(n->in[0]),
                                              .heads = n->as.rope.heads,
                                              .head_dim = head_dim,
                                              .period = n->in[0]->dims[1],
                                              .y_stride = width,
                                              .x_stride = width,
                                              .inverse = inverse});
}

static zn_status rope_forward(zn_tape *t, struct zn_node *n)
{
    return rotate(t, n, tape_use(t, n->out), tape_use(t, n->in[0]), false);
}

static zn_status rope_backward(zn_tape *t, struct zn_node *n)
{
    struct gradient *dx;
    zn_addr dy = tape_gradient(t, n->out);
    ZN_TRY(tape_contribution(t, n->in[0], &dx));
    if (!dx)
        return ZN_OK;
    ZN_TRY(rotate(t, n, dx->address, dy, true));
    return tape_contributed(t, n->in[0], dx);
}

zn_tensor *zn_rope(zn_tape *t, zn_tensor *x, int64_t heads, const zn_constant *cos,
                   const zn_constant *sin)
{
    static const struct op op = {"rope", rope_forward, rope_backward, false};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = x;
    n->as.rope.heads = heads;
    n->as.rope.cos = cos;
    n->as.rope.sin = sin;
    if (tensor_cols(x) % (2 * heads) != 0)
        tape_fail(t, "rope", "its input does not fit the heads");
    if ((tape_past(t) + x->dims[1]) * (tensor_cols(x) / heads / 2) > cos->n_elements)
        tape_fail(t, "rope", "the sequence is longer than the table of angles");
    return tape_run(t, n, tape_tensor(t, ZN_F32, x->ndim, x->dims));
}

/* q, k and v by address and row stride: three tensors, or three parts of the rows of one. */
struct operands {
    zn_addr q, k, v;
    int64_t q_stride, k_stride, v_stride;
};

static struct operands side_by_side(const struct zn_attention *how, zn_addr base)
{
    int64_t q = how->heads * how->head_dim, kv = how->kv_heads * how->head_dim;
    int64_t stride = q + 2 * kv;
    return (struct operands){.q = base,
                             .k = base + (zn_addr)q * sizeof(float),
                             .v = base + (zn_addr)(q + kv) * sizeof(float),
                             .q_stride = stride,
                             .k_stride = stride,
                             .v_stride = stride};
}

static struct operands apart(const struct zn_attention *how, zn_addr q, zn_addr k, zn_addr v)
{
    return (struct operands){.q = q,
                             .k = k,
                             .v = v,
                             .q_stride = how->heads * how->head_dim,
                             .k_stride = how->kv_heads * how->head_dim,
                             .v_stride = how->kv_heads * how->head_dim};
}

static struct operands inputs(zn_tape *t, const struct zn_node *n)
{
    const struct zn_attention *how = &n->as.attention;
    if (!n->in[1])
        return side_by_side(how, tape_use(t, n->in[0]));
    return apart(how, tape_use(t, n->in[0]), tape_use(t, n->in[1]), tape_use(t, n->in[2]));
}

static zn_status append(zn_tape *t, zn_addr cache, zn_addr rows, int64_t stride, int64_t width,
                        int64_t seq_len)
{
    zn_addr end = cache + (zn_addr)(tape_past(t) * width) * sizeof(float);
    return zn_run_copy_rows(tape_device(t), &(struct zn_copy_rows_args){.dst = end,
                                                                        .src = rows,
                                                                        .rows = seq_len,
                                                                        .width = width,
                                                                        .dst_stride = width,
                                                                        .src_stride = stride});
}

/* Adds the new keys and values to the cache, which then stands for all of them. */
static zn_status extend(zn_tape *t, const struct zn_attention *how, int64_t seq_len, struct operands *x)
{
    int64_t width = how->kv_heads * how->head_dim;
    zn_addr keys, values;
    tape_cache_take(t, width, &keys, &values);
    ZN_TRY(append(t, keys, x->k, x->k_stride, width, seq_len));
    ZN_TRY(append(t, values, x->v, x->v_stride, width, seq_len));
    x->k = keys;
    x->v = values;
    x->k_stride = x->v_stride = width;
    return ZN_OK;
}

static zn_status attention_forward(zn_tape *t, struct zn_node *n)
{
    const struct zn_attention *how = &n->as.attention;
    struct operands x = inputs(t, n);
    if (tape_cache(t))
        ZN_TRY(extend(t, how, n->out->dims[1], &x));
    return zn_run_attention_forward(
        tape_device(t), &(struct zn_attention_forward_args){.out = tape_use(t, n->out),
                                                            .lse = tape_use(t, n->extra[0]),
                                                            .q = x.q,
                                                            .k = x.k,
                                                            .v = x.v,
                                                            .position_ids = tape_position_ids(t, n),
                                                            .batch = n->out->dims[0],
                                                            .seq_len = n->out->dims[1],
                                                            .past = tape_past(t),
                                                            .heads = how->heads,
                                                            .kv_heads = how->kv_heads,
                                                            .head_dim = how->head_dim,
                                                            .q_stride = x.q_stride,
                                                            .k_stride = x.k_stride,
                                                            .v_stride = x.v_stride,
                                                            .out_stride = tensor_cols(n->out),
                                                            .window = how->window,
                                                            .scale = how->scale});
}

/* Writes the gradients of q, k and v to d. */
static zn_status attention_gradients(zn_tape *t, struct zn_node *n, const struct operands *d)
{
    const struct zn_attention *how = &n->as.attention;
    struct operands x = inputs(t, n);
    int64_t batch = n->out->dims[0], seq_len = n->out->dims[1];
    size_t per_head = (size_t)(batch * how->heads * seq_len) * sizeof(float);
    zn_addr delta, partial = 0;
    ZN_TRY(tape_scratch(t, per_head, &delta));
    if (how->heads != how->kv_heads)
        ZN_TRY(tape_scratch(t, 2 * per_head * (size_t)how->head_dim, &partial));
    return zn_run_attention_backward(
        tape_device(t), &(struct zn_attention_backward_args){.dq = d->q,
                                                             .dk = d->k,
                                                             .dv = d->v,
                                                             .d_out = tape_gradient(t, n->out),
                                                             .out = tape_use(t, n->out),
                                                             .lse = tape_use(t, n->extra[0]),
                                                             .q = x.q,
                                                             .k = x.k,
                                                             .v = x.v,
                                                             .delta = delta,
                                                             .partial = partial,
                                                             .position_ids = tape_position_ids(t, n),
                                                             .batch = batch,
                                                             .seq_len = seq_len,
                                                             .heads = how->heads,
                                                             .kv_heads = how->kv_heads,
                                                             .head_dim = how->head_dim,
                                                             .q_stride = x.q_stride,
                                                             .k_stride = x.k_stride,
                                                             .v_stride = x.v_stride,
                                                             .out_stride = tensor_cols(n->out),
                                                             .dq_stride = d->q_stride,
                                                             .dk_stride = d->k_stride,
                                                             .dv_stride = d->v_stride,
                                                             .window = how->window,
                                                             .scale = how->scale});
}

static zn_status attention_backward(zn_tape *t, struct zn_node *n)
{
    struct gradient *d[NODE_INPUTS] = {0};
    zn_addr at[NODE_INPUTS];
    int n_inputs = n->in[1] ? 3 : 1;
    for (int i = 0; i < n_inputs; i++)
        ZN_TRY(tape_contribution_at(t, n->in[i], &d[i], &at[i]));
    const struct zn_attention *how = &n->as.attention;
    struct operands to = n_inputs == 1 ? side_by_side(how, at[0]) : apart(how, at[0], at[1], at[2]);
    ZN_TRY(attention_gradients(t, n, &to));
    for (int i = 0; i < n_inputs; i++)
        ZN_TRY(tape_contributed(t, n->in[i], d[i]));
    return ZN_OK;
}

static zn_tensor *attention(zn_tape *t, zn_tensor *q, zn_tensor *k, zn_tensor *v,
                            const struct zn_attention *how)
{
    static const struct op op = {"attention", attention_forward, attention_backward, false};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = q;
    n->in[1] = k;
    n->in[2] = v;
    n->as.attention = *how;
    const zn_cache *cache = tape_cache(t);
    if (cache && (q->dims[0] != 1 || cache->past + q->dims[1] > cache->capacity))
        tape_fail(t, "attention", "a cache holds one sequence, no longer than its capacity");
    int64_t dims[] = {q->dims[0], q->dims[1], how->heads * how->head_dim};
    n->extra[0] = tape_tensor(t, ZN_F32, 1, (int64_t[]){dims[0] * dims[1] * how->heads});
    return tape_run(t, n, tape_tensor(t, ZN_F32, 3, dims));
}

zn_tensor *zn_attention(zn_tape *t, zn_tensor *q, zn_tensor *k, zn_tensor *v,
                        const struct zn_attention *how)
{
    int64_t kv = how->kv_heads * how->head_dim;
    if (how->heads < 1 || how->kv_heads < 1 || tensor_cols(q) != how->heads * how->head_dim || tensor_cols(k) != kv ||
        tensor_cols(v) != kv || how->heads % how->kv_heads != 0)
        tape_fail(t, "attention", "its inputs do not fit the heads");
    if (tensor_rows(k) != tensor_rows(q) || tensor_rows(v) != tensor_rows(q))
        tape_fail(t, "attention", "its inputs have different numbers of rows");
    return attention(t, q, k, v, how);
}

zn_tensor *zn_attention_fused(zn_tape *t, zn_tensor *qkv, const struct zn_attention *how)
{
    if (tensor_cols(qkv) != (how->heads + 2 * how->kv_heads) * how->head_dim ||
        how->heads % how->kv_heads != 0)
        tape_fail(t, "attention", "its input does not fit the heads");
    return attention(t, qkv, NULL, NULL, how);
}
