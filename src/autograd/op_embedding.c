/* Token and position embedding. */
#include "autograd/node.h"

static zn_status embedding_forward(zn_tape *t, struct zn_node *n)
{
    zn_addr table, positions;
    ZN_TRY(tape_param(t, n->param[0], &table));
    ZN_TRY(tape_param(t, n->param[1], &positions));
    if (positions)
        positions += (zn_addr)(tape_past(t) * tensor_cols(n->out)) * zn_dtype_bytes(tape_param_type(t));
    return zn_run_embedding_forward(
        tape_device(t), &(struct zn_embedding_forward_args){.y = tape_use(t, n->out),
                                                            .table = table,
                                                            .positions = positions,
                                                            .ids = tape_use(t, n->in[0]),
                                                            .rows = tensor_rows(n->out),
                                                            .width = tensor_cols(n->out),
                                                            .period = n->out->dims[1],
                                                            .table_type = tape_param_type(t)});
}

static zn_status embedding_backward(zn_tape *t, struct zn_node *n)
{
    zn_addr d_table, d_positions, dy = tape_gradient(t, n->out);
    ZN_TRY(tape_open_gradient(t, n->param[0], &d_table));
    ZN_TRY(tape_open_gradient(t, n->param[1], &d_positions));
    if (!d_table && !d_positions)
        return ZN_OK;
    ZN_TRY(zn_run_embedding_backward(tape_device(t),
                                     &(struct zn_embedding_backward_args){
                                         .d_table = d_table,
                                         .d_positions = d_positions,
                                         .dy = dy,
                                         .ids = tape_use(t, n->in[0]),
                                         .rows = tensor_rows(n->out),
                                         .width = tensor_cols(n->out),
                                         .period = n->out->dims[1],
                                         .n_ids = n->param[0]->dims[0],
                                         .n_positions = n->param[1] ? n->param[1]->dims[0] : 0}));
    ZN_TRY(tape_close_gradient(t, n->param[0], d_table));
    return tape_close_gradient(t, n->param[1], d_positions);
}

zn_tensor *zn_embedding(zn_tape *t, zn_tensor *ids, const zn_param *table,
                        const zn_param *positions)
{
    static const struct op op = {"embedding", embedding_forward, embedding_backward, false};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = ids;
    n->param[0] = table;
    n->param[1] = positions;
    if (positions && positions->dims[0] < tape_past(t) + ids->dims[1])
        tape_fail(t, positions->name, "the sequence is longer than the positions");
    if (positions && positions->dims[1] != table->dims[1])
        tape_fail(t, positions->name, "its rows are not as wide as those of the table");
    int64_t dims[] = {ids->dims[0], ids->dims[1], table->dims[1]};
    return tape_run(t, n, tape_tensor(t, ZN_F32, 3, dims));
}
