/* The output layer with cross-entropy, over chunks of tokens and panels of the vocabulary.
 *
 * Logits of all tokens never exist at once. With `keep_logits` those of one chunk of tokens do,
 * and serve loss and gradient; without, or when the weight comes in tiles, only one panel of them
 * does: a first sweep over the panels finds each row's log-sum-exp, a second computes the logits
 * again and their gradient. Panels and chunks are whole blocks of the grid of matrix products, tiles
 * whole panels, and both ways add in the same order, so they give the same bits.
 *
 * Where ranks of a tensor-parallel group hold slices of the weight, each has the logits of its own rows of it, panel by panel; of
 * every token they exchange the log-sum-exp of their logits and the target's logit, never logits. Rows that are padding have none. */
#include "autograd/node.h"

enum { HEAD_TOKENS = 256, HEAD_PANEL = 1024 };

struct sweep {
    zn_tape *t;
    const struct zn_head *head;
    zn_addr x, targets;
    struct tile weight, dw; /* the present ones; dw is 0 when not wanted */
    zn_addr row_max, row_sum, target_logit; /* running statistics; row_sum ends as log-sum-exp */
    zn_addr logits;
    int64_t logits_stride;
    zn_addr dx; /* 0 when not wanted */
    zn_addr weights; /* of pairs: rows floats; 0: one scale for all rows */
    int64_t rows, width, vocabulary;
    int64_t first_col, n_live; /* of the vocabulary: the first here, and how many of those here are no padding */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static zn_addr float_at(zn_addr base, int64_t index)
{
    return base ? base + (zn_addr)index * sizeof(float) : 0;
}

/* Rows of the weight from `row` on, which is in the present tile. */
static zn_addr weight_at(const struct sweep *s, int64_t row)
{
    return s->weight.address +
           (zn_addr)((row - s->weight.row) * s->width) * zn_dtype_bytes(tape_param_type(s->t, s->head->weight));
}

static int64_t chunk_rows(const struct sweep *s, int64_t row)
{
    return least(HEAD_TOKENS, s->rows - row);
}

/* Panels come in order, so a tile begins where the one before it ended. */
static zn_status reach_tile(struct sweep *s, int64_t col)
{
    if (s->weight.address && col >= s->weight.row && col < s->weight.row + s->weight.n_rows)
        return ZN_OK;
    return tape_tile(s->t, s->head->weight, col, &s->weight);
}

static zn_status open_tile(struct sweep *s, int64_t col)
{
    if (s->dw.n_rows > 0 && col < s->dw.row + s->dw.n_rows)
        return ZN_OK;
    return tape_open_tile_gradient(s->t, s->head->weight, col, &s->dw);
}

/* Panels up to `end` are done. */
static zn_status close_tile(struct sweep *s, int64_t end)
{
    if (end < s->dw.row + s->dw.n_rows)
        return ZN_OK;
    ZN_TRY(tape_close_tile_gradient(s->t, s->head->weight, &s->dw));
    return ZN_OK;
}

/* logits(chunk, panel) = x(chunk) · weight(panel)ᵀ */
static zn_status compute_logits(const struct sweep *s, int64_t row, int64_t col, int64_t cols)
{
    return zn_run_gemm(tape_device(s->t),
                       &(struct zn_gemm_args){.a = float_at(s->x, row * s->width),
                                              .b = weight_at(s, col),
                                              .c = s->logits,
                                              .m = chunk_rows(s, row),
                                              .n = cols,
                                              .k = s->width,
                                              .a_stride = s->width,
                                              .b_stride = s->width,
                                              .c_stride = s->logits_stride,
                                              .b_type = tape_param_type(s->t, s->head->weight),
                                              .transpose_b = true});
}

static zn_status run_along(const struct sweep *s, zn_addr logits, int64_t row, int64_t col,
                           int64_t cols)
{
    return zn_run_loss_panel(
        tape_device(s->t),
        &(struct zn_loss_panel_args){.logits = logits,
                                     .targets = s->targets + (zn_addr)row * sizeof(int32_t),
                                     .row_max = float_at(s->row_max, row),
                                     .row_sum = float_at(s->row_sum, row),
                                     .target_logit = float_at(s->target_logit, row),
                                     .rows = chunk_rows(s, row),
                                     .cols = cols,
                                     .stride = s->logits_stride,
                                     .first_col = s->first_col + col,
                                     .first = col == 0});
}

static zn_status finish_into(const struct sweep *s, int64_t row, zn_addr loss)
{
    return zn_run_loss_finish(
        tape_device(s->t),
        &(struct zn_loss_finish_args){.lse = float_at(s->row_sum, row),
                                      .loss = loss,
                                      .row_max = float_at(s->row_max, row),
                                      .row_sum = float_at(s->row_sum, row),
                                      .target_logit = float_at(s->target_logit, row),
                                      .targets = s->targets + (zn_addr)row * sizeof(int32_t),
                                      .rows = chunk_rows(s, row)});
}

static zn_status finish(const struct sweep *s, int64_t row)
{
    return finish_into(s, row, s->head->loss);
}

/* All ranks' log-sum-exps are joined as logits are, in rank order; the target's logit is zero on all ranks but one. */
static zn_status join_slices(const struct sweep *s)
{
    const struct zn_slice *slice = &s->head->weight->slice;
    zn_addr all, unused, targets;
    size_t n_bytes = (size_t)s->rows * sizeof(float);
    if (!zn_is_sliced(s->head->weight))
        return ZN_OK;
    ZN_TRY(tape_scratch(s->t, sizeof(double), &unused));
    ZN_TRY(tape_scratch(s->t, 2 * (size_t)slice->count * n_bytes, &all));
    ZN_TRY(tape_scratch(s->t, n_bytes, &targets));
    for (int64_t row = 0; row < s->rows; row += HEAD_TOKENS)
        ZN_TRY(finish_into(s, row, unused));
    ZN_TRY(tape_exchange(s->t, ZN_GATHER_SLICES, s->row_sum, all, 2 * s->rows));
    for (int r = 0; r < slice->count; r++) {
        zn_addr lse = all + 2 * (zn_addr)r * n_bytes, target = lse + n_bytes;
        ZN_TRY(zn_run_loss_panel(tape_device(s->t), &(struct zn_loss_panel_args){.logits = lse,
                                                                                .targets = s->targets,
                                                                                .row_max = s->row_max,
                                                                                .row_sum = s->row_sum,
                                                                                .target_logit = targets,
                                                                                .rows = s->rows,
                                                                                .cols = 1,
                                                                                .stride = 1,
                                                                                .first_col = INT32_MAX, /* nobody's target */
                                                                                .first = r == 0}));
        if (r > 0)
            ZN_TRY(zn_run_add(tape_device(s->t), &(struct zn_add_args){.y = s->target_logit,
                                                                       .a = r == 1 ? all + n_bytes : s->target_logit,
                                                                       .b = target,
                                                                       .n_elements = s->rows}));
    }
    return ZN_OK;
}

/* From logits(chunk, cols) to their gradient, in place, then to those of x and weight. */
static zn_status differentiate(const struct sweep *s, int64_t row, int64_t col, int64_t cols)
{
    int64_t m = chunk_rows(s, row);
    ZN_TRY(zn_run_loss_gradient(
        tape_device(s->t),
        &(struct zn_loss_gradient_args){.logits = s->logits,
                                        .targets = s->targets + (zn_addr)row * sizeof(int32_t),
                                        .lse = float_at(s->row_sum, row),
                                        .weights = float_at(s->weights, row),
                                        .rows = m,
                                        .cols = cols,
                                        .stride = s->logits_stride,
                                        .first_col = s->first_col + col,
                                        .scale = s->head->scale}));
    if (s->dx)
        ZN_TRY(zn_run_gemm(tape_device(s->t),
                           &(struct zn_gemm_args){.a = s->logits,
                                                  .b = weight_at(s, col),
                                                  .c = float_at(s->dx, row * s->width),
                                                  .m = m,
                                                  .n = s->width,
                                                  .k = cols,
                                                  .a_stride = s->logits_stride,
                                                  .b_stride = s->width,
                                                  .c_stride = s->width,
                                                  .b_type = tape_param_type(s->t, s->head->weight),
                                                  .adds = col > 0}));
    if (!s->dw.address)
        return ZN_OK;
    return zn_run_gemm(tape_device(s->t),
                       &(struct zn_gemm_args){.a = s->logits,
                                              .b = float_at(s->x, row * s->width),
                                              .c = float_at(s->dw.address, (col - s->dw.row) * s->width),
                                              .m = cols,
                                              .n = s->width,
                                              .k = m,
                                              .a_stride = s->logits_stride,
                                              .b_stride = s->width,
                                              .c_stride = s->width,
                                              .transpose_a = true,
                                              .adds = row > 0});
}

/* The loss alone, one panel of logits at a time; row_sum ends as log-sum-exp. */
static zn_status sweep_loss(struct sweep *s)
{
    for (int64_t col = 0; col < s->vocabulary; col += HEAD_PANEL) {
        int64_t cols = least(HEAD_PANEL, s->n_live - col);
        ZN_TRY(reach_tile(s, col));
        for (int64_t row = 0; row < s->rows && cols > 0; row += HEAD_TOKENS) {
            ZN_TRY(compute_logits(s, row, col, cols));
            ZN_TRY(run_along(s, s->logits, row, col, cols));
        }
    }
    ZN_TRY(join_slices(s));
    for (int64_t row = 0; row < s->rows; row += HEAD_TOKENS)
        ZN_TRY(finish(s, row));
    return ZN_OK;
}

/* Panels up to the present one's end have their gradients: what is padding of it has none. */
static zn_status clear_padding(const struct sweep *s, int64_t col, int64_t cols)
{
    int64_t first = s->n_live > col ? s->n_live : col, n = col + cols - first;
    if (n <= 0 || !s->dw.address)
        return ZN_OK;
    return zn_run_zero(tape_device(s->t), &(struct zn_zero_args){.dst = float_at(s->dw.address, (first - s->dw.row) * s->width),
                                                                 .n_bytes = n * s->width * (int64_t)sizeof(float)});
}

static zn_status sweep_again(struct sweep *s)
{
    for (int64_t col = 0; col < s->vocabulary; col += HEAD_PANEL) {
        int64_t cols = least(HEAD_PANEL, s->vocabulary - col), live = least(cols, s->n_live - col);
        ZN_TRY(reach_tile(s, col));
        ZN_TRY(open_tile(s, col));
        for (int64_t row = 0; row < s->rows && live > 0; row += HEAD_TOKENS) {
            ZN_TRY(compute_logits(s, row, col, live));
            ZN_TRY(differentiate(s, row, col, live));
        }
        ZN_TRY(clear_padding(s, col, cols));
        ZN_TRY(close_tile(s, col + cols));
    }
    return ZN_OK;
}

static zn_status sweep_keeping(struct sweep *s)
{
    ZN_TRY(reach_tile(s, 0));
    ZN_TRY(open_tile(s, 0));
    for (int64_t row = 0; row < s->rows; row += HEAD_TOKENS) {
        ZN_TRY(compute_logits(s, row, 0, s->vocabulary));
        for (int64_t col = 0; col < s->vocabulary; col += HEAD_PANEL)
            ZN_TRY(run_along(s, float_at(s->logits, col), row, col,
                             least(HEAD_PANEL, s->vocabulary - col)));
        ZN_TRY(finish(s, row));
        ZN_TRY(differentiate(s, row, 0, s->vocabulary));
    }
    return close_tile(s, s->vocabulary);
}

/* What ranks exchange lies side by side, as does what a reference leaves. */
static zn_status take_statistics(struct sweep *s)
{
    size_t n_bytes = (size_t)s->rows * sizeof(float);
    if (s->head->reference_to) {
        s->row_sum = s->head->reference_to;
        s->target_logit = s->row_sum + n_bytes;
        return ZN_OK;
    }
    if (!zn_is_sliced(s->head->weight)) {
        ZN_TRY(tape_scratch(s->t, n_bytes, &s->row_sum));
        return tape_scratch(s->t, n_bytes, &s->target_logit);
    }
    ZN_TRY(tape_scratch(s->t, 2 * n_bytes, &s->row_sum));
    s->target_logit = s->row_sum + n_bytes;
    return ZN_OK;
}

static zn_status sweep_init(struct sweep *s, zn_tape *t, struct zn_node *n, bool whole_rows)
{
    const struct zn_head *head = &n->as.head;
    *s = (struct sweep){.t = t,
                        .head = head,
                        .x = tape_use(t, n->in[0]),
                        .targets = tape_use(t, head->targets),
                        .rows = tensor_rows(n->in[0]),
                        .width = tensor_cols(n->in[0]),
                        .vocabulary = head->weight->dims[0],
                        .first_col = zn_is_sliced(head->weight) ? head->weight->slice.index * head->weight->dims[0] : 0,
                        .n_live = zn_param_n_held(head->weight) / head->weight->dims[1]};
    s->logits_stride = whole_rows ? s->vocabulary : least(HEAD_PANEL, s->vocabulary);
    size_t n_logits = (size_t)(least(HEAD_TOKENS, s->rows) * s->logits_stride);
    ZN_TRY(tape_scratch(t, (size_t)s->rows * sizeof(float), &s->row_max));
    ZN_TRY(take_statistics(s));
    if (head->pairs.sequences)
        ZN_TRY(tape_scratch(t, (size_t)s->rows * sizeof(float), &s->weights));
    return tape_scratch(t, n_logits * sizeof(float), &s->logits);
}

/* After the sweep over all tokens. */
static zn_status compare_pairs(const struct sweep *s)
{
    const struct zn_head *head = s->head;
    if (!head->pairs.sequences)
        return ZN_OK;
    return zn_run_pair_loss(tape_device(s->t),
                            &(struct zn_pair_loss_args){.weights = s->weights,
                                                        .sums = head->pairs.sums,
                                                        .lse = s->row_sum,
                                                        .target_logit = s->target_logit,
                                                        .reference_lse = head->pairs.reference,
                                                        .reference_logit = float_at(head->pairs.reference, s->rows),
                                                        .targets = s->targets,
                                                        .sequences = tape_use(s->t, head->pairs.sequences),
                                                        .rows = s->rows,
                                                        .beta = head->pairs.beta,
                                                        .scale = head->scale});
}

static zn_status head_forward(zn_tape *t, struct zn_node *n)
{
    if (tape_is_recording(t))
        return ZN_OK; /* backward follows at once and computes the loss on its way */
    struct sweep s;
    ZN_TRY(sweep_init(&s, t, n, false));
    ZN_TRY(sweep_loss(&s));
    return compare_pairs(&s);
}

static zn_status head_backward(zn_tape *t, struct zn_node *n)
{
    struct sweep s;
    struct gradient *dx;
    bool keeps = n->as.head.keep_logits && !tape_is_tiled(t, n->param[0]) && !zn_is_sliced(n->param[0]) && !n->as.head.pairs.sequences;
    ZN_TRY(sweep_init(&s, t, n, keeps));
    ZN_TRY(tape_contribution(t, n->in[0], &dx));
    s.dx = gradient_address(dx);
    if (keeps) {
        ZN_TRY(sweep_keeping(&s));
    } else {
        ZN_TRY(sweep_loss(&s));
        ZN_TRY(compare_pairs(&s));
        s.weight = (struct tile){0};
        ZN_TRY(sweep_again(&s));
    }
    return tape_contributed(t, n->in[0], dx);
}

zn_tensor *zn_head_loss(zn_tape *t, zn_tensor *x, const struct zn_head *head)
{
    static const struct op op = {"head", head_forward, head_backward, true};
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = x;
    n->param[0] = head->weight;
    n->as.head = *head;
    if (head->weight->dims[1] != tensor_cols(x))
        tape_fail(t, head->weight->name, "its shape does not fit the input of the head");
    if (head->targets->n_elements != tensor_rows(x))
        tape_fail(t, "head", "there is not one target for each row");
    if (head->pairs.sequences && head->pairs.sequences->n_elements != tensor_rows(x))
        tape_fail(t, "head", "there is not one number of a sequence for each row");
    return tape_run(t, n, zn_tape_external(t, ZN_F64, 1, (int64_t[]){1}, head->loss));
}
