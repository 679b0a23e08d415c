/* Weights for products: as they are kept, or widened panel by panel where they are quantised. */
#include "autograd/node.h"

enum { PANEL_ELEMENTS = 1 << 20 };

bool tape_is_whole(const zn_tape *t, const zn_param *param)
{
    return !tape_is_tiled(t, param) && !zn_dtype_is_quantised(tape_param_type(t, param));
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of all panels but the last. */
static int64_t panel_rows(const zn_param *param)
{
    int64_t rows = PANEL_ELEMENTS / param->dims[1] / ZN_GEMM_K * ZN_GEMM_K;
    return rows < ZN_GEMM_K ? ZN_GEMM_K : rows;
}

zn_status tape_panel(zn_tape *t, const zn_param *param, int64_t row, struct panel *w)
{
    zn_dtype type = tape_param_type(t, param);
    int64_t columns = param->dims[1];
    if (row >= w->tile.row + w->tile.n_rows)
        ZN_TRY(tape_tile(t, param, row, &w->tile));
    w->row = row;
    if (!zn_dtype_is_quantised(type)) {
        w->n_rows = w->tile.n_rows;
        w->address = w->tile.address;
        w->type = type;
        return ZN_OK;
    }
    if (!w->scratch)
        ZN_TRY(tape_scratch(t, (size_t)(least(panel_rows(param), param->dims[0]) * columns) * sizeof(float), &w->scratch));
    w->n_rows = least(panel_rows(param), w->tile.row + w->tile.n_rows - row);
    w->address = w->scratch;
    w->type = ZN_F32;
    return zn_run_dequantise(tape_device(t), &(struct zn_dequantise_args){.dst = w->scratch,
                                                                          .src = w->tile.address,
                                                                          .type = type,
                                                                          .first = (row - w->tile.row) * columns,
                                                                          .n_elements = w->n_rows * columns});
}
