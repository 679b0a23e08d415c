/* Token and position embedding. */
#include "autograd/node.h"

/* The id of the first row that this rank has of the table. */
static int64_t first_row(const zn_param *table)
{
    return zn_is_sliced(table) ? table->slice.index * table->dims[0] : 0;
}

/* Rows that other ranks of a tensor-parallel group have are zero here, and the sum over them has all. */
static zn_status clear_rows(zn_tape *t, const struct zn_node *n)
{
    if (!zn_is_sliced(n->param[0]))
        return ZN_OK;
    return zn_run_zero(tape_device(t), &(struct zn_zero_args){.dst = tape_use(t, n->out),
                                                              .n_bytes = n->out->n_elements * (int64_t)sizeof(float)});
}

static zn_status sum_rows(zn_tape *t, const struct zn_node *n)
{
    zn_addr y = tape_use(t, n->out);
    return zn_is_sliced(n->param[0]) ? tape_exchange(t, ZN_SUM_OVER_SLICES, y, y, n->out->n_elements) : ZN_OK;
}

/* y(row) = table(id), plus what is added by position; either may be 0. */
static zn_status take_rows(zn_tape *t, struct zn_node *n, const struct tile *table, zn_addr positions)
{
    const zn_param *read = n->param[table->address ? 0 : 1];
    return zn_run_embedding_forward(
        tape_device(t), &(struct zn_embedding_forward_args){.y = tape_use(t, n->out),
                                                            .table = table->address,
                                                            .positions = positions,
                                                            .ids = tape_use(t, n->in[0]),
                                                            .position_ids = tape_position_ids(t, n),
                                                            .rows = tensor_rows(n->out),
                                                            .width = tensor_cols(n->out),
                                                            .period = n->out->dims[1],
                                                            .first_id = first_row(n->param[0]) + table->row,
                                                            .n_ids = table->n_rows,
                                                            .table_type = tape_param_type(t, read)});
}

static zn_status embedding_forward(zn_tape *t, struct zn_node *n)
{
    zn_addr positions;
    struct tile table;
    if (zn_is_sliced(n->param[0]) && tape_leaves_out_values(t))
        return ZN_OK;
    ZN_TRY(clear_rows(t, n));
    for (int64_t row = 0; row < n->param[0]->dims[0]; row += table.n_rows) {
        ZN_TRY(tape_tile(t, n->param[0], row, &table));
        ZN_TRY(take_rows(t, n, &table, 0));
    }
    ZN_TRY(sum_rows(t, n));
    if (!n->param[1])
        return ZN_OK;
    ZN_TRY(tape_param(t, n->param[1], &positions));
    positions += (zn_addr)(tape_past(t) * tensor_cols(n->out)) * zn_dtype_bytes(tape_param_type(t, n->param[1]));
    return take_rows(t, n, &(struct tile){0}, positions);
}

static zn_status add_rows(zn_tape *t, struct zn_node *n, const struct tile *d_table, zn_addr d_positions)
{
    return zn_run_embedding_backward(tape_device(t),
                                     &(struct zn_embedding_backward_args){
                                         .d_table = d_table->address,
                                         .d_positions = d_positions,
                                         .dy = tape_gradient(t, n->out),
                                         .ids = tape_use(t, n->in[0]),
                                         .position_ids = tape_position_ids(t, n),
                                         .rows = tensor_rows(n->out),
                                         .width = tensor_cols(n->out),
                                         .period = n->out->dims[1],
                                         .first_id = first_row(n->param[0]) + d_table->row,
                                         .n_ids = d_table->n_rows,
                                         .n_positions = n->param[1] ? n->param[1]->dims[0] : 0});
}

static zn_status embedding_backward(zn_tape *t, struct zn_node *n)
{
    struct tile d_table;
    for (int64_t row = 0; row < n->param[0]->dims[0]; row += d_table.n_rows) {
        ZN_TRY(tape_open_tile_gradient(t, n->param[0], row, &d_table));
        if (!d_table.address)
            break;
        ZN_TRY(add_rows(t, n, &d_table, 0));
        ZN_TRY(tape_close_tile_gradient(t, n->param[0], &d_table));
    }
    zn_addr d_positions;
    ZN_TRY(tape_open_gradient(t, n->param[1], &d_positions));
    if (d_positions)
        ZN_TRY(add_rows(t, n, &(struct tile){0}, d_positions));
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
