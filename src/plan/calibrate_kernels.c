/* Runs each kernel some times; the median counts. */
#include "plan/calibrate_kernels.h"

#include "base/median.h"

enum {
    N_ROUNDS = 3,
    TOKENS = 1024, /* of one window */
    WIDTH = 1024,
    INNER = 3 * WIDTH,
    HEADS = 16,
    HEAD_DIM = WIDTH / HEADS,
    PANEL_ROWS = 256, /* of logits: see op_head.c */
    PANEL_COLS = 1024,
    TABLE_ROWS = 8192,
    PLACE_BYTES = 16 << 20,
    STATES = 8 << 20, /* elements of an update */
};

struct lab {
    zn_device *device;
    int n_cores;
    zn_addr memory;
    double *rates;
};

/* The i-th of twelve places of 16 MiB. */
static zn_addr place(const struct lab *lab, int i)
{
    return lab->memory + (zn_addr)i * PLACE_BYTES;
}

static zn_status time_of(const struct lab *lab, zn_kernel kernel, const void *args, double *seconds)
{
    double rounds[N_ROUNDS];
    ZN_TRY(lab->device->ops->run(lab->device, kernel, args)); /* pages and caches */
    for (int i = 0; i < N_ROUNDS; i++) {
        double start = zn_clock_now(lab->device->clock);
        ZN_TRY(lab->device->ops->run(lab->device, kernel, args));
        rounds[i] = zn_clock_now(lab->device->clock) - start;
    }
    *seconds = zn_median(rounds, N_ROUNDS);
    return ZN_OK;
}

static zn_status measure(const struct lab *lab, zn_kernel kernel, const void *args)
{
    double seconds;
    ZN_TRY(time_of(lab, kernel, args, &seconds));
    lab->rates[kernel] = seconds > 0 ? zn_kernel_work(kernel, args, lab->n_cores) / seconds : 0;
    return ZN_OK;
}

#define MEASURE(lab, name, ...) ZN_TRY(measure(lab, ZN_KERNEL_##name, &(struct zn_##name##_args){__VA_ARGS__}))

/* ---- What goes over model states: far more than caches hold ---- */

static zn_status measure_states(const struct lab *l)
{
    MEASURE(l, zero, .dst = place(l, 0), .n_bytes = 4 * STATES);
    MEASURE(l, copy, .dst = place(l, 0), .src = place(l, 4), .n_bytes = 4 * STATES);
    MEASURE(l, cast, .dst = place(l, 0), .src = place(l, 4), .dst_type = ZN_BF16, .src_type = ZN_F32, .n_elements = STATES);
    MEASURE(l, add, .y = place(l, 0), .a = place(l, 0), .b = place(l, 4), .n_elements = STATES);
    MEASURE(l, sum_squares, .sum = place(l, 11), .src = place(l, 0), .partial = place(l, 10), .n_elements = STATES);
    MEASURE(l, adam, .param = place(l, 0), .grad = place(l, 2), .exp_avg = place(l, 4), .exp_avg_sq = place(l, 6),
            .copy = place(l, 8), .copy_type = ZN_BF16, .n_elements = STATES, .grad_scale = 1, .one_minus_beta1 = 0.1f,
            .beta2 = 0.999f, .one_minus_beta2 = 0.001f, .eps = 1e-8f, .step_size = 1e-6f, .root_correction = 1, .keep = 1);
    MEASURE(l, adam_8bit, .adam = {.param = place(l, 0), .grad = place(l, 2), .exp_avg = place(l, 4), .exp_avg_sq = place(l, 6),
            .copy = place(l, 8), .copy_type = ZN_BF16, .n_elements = STATES, .grad_scale = 1, .one_minus_beta1 = 0.1f,
            .beta2 = 0.999f, .one_minus_beta2 = 0.001f, .eps = 1e-8f, .step_size = 1e-6f, .root_correction = 1, .keep = 1},
            .exp_avg_scales = place(l, 5), .exp_avg_sq_scales = place(l, 7));
    MEASURE(l, sgd, .param = place(l, 0), .grad = place(l, 2), .momentum_buffer = place(l, 4), .copy = place(l, 8),
            .copy_type = ZN_BF16, .n_elements = STATES, .grad_scale = 1, .lr = 1e-6f, .momentum = 0.9f);
    MEASURE(l, lion, .param = place(l, 0), .grad = place(l, 2), .exp_avg = place(l, 4), .copy = place(l, 8), .copy_type = ZN_BF16,
            .n_elements = STATES, .grad_scale = 1, .beta1 = 0.9f, .one_minus_beta1 = 0.1f, .beta2 = 0.99f,
            .one_minus_beta2 = 0.01f, .lr = 1e-6f, .keep = 1);
    MEASURE(l, adagrad, .param = place(l, 0), .grad = place(l, 2), .sum = place(l, 6), .copy = place(l, 8), .copy_type = ZN_BF16,
            .n_elements = STATES, .grad_scale = 1, .lr = 1e-6f, .eps = 1e-10f);
    return ZN_OK;
}

/* ---- What goes over activations ---- */

static zn_status measure_rows(const struct lab *l)
{
    zn_addr x = place(l, 0), y = place(l, 1), z = place(l, 2), small = place(l, 3), w = place(l, 4);
    MEASURE(l, copy_rows, .dst = y, .src = x, .rows = TOKENS, .width = WIDTH, .dst_stride = WIDTH, .src_stride = INNER);
    MEASURE(l, mul, .y = y, .a = x, .b = z, .n_elements = TOKENS * WIDTH);
    MEASURE(l, round, .x = x, .type = ZN_BF16, .n_elements = TOKENS * WIDTH);
    MEASURE(l, column_sum, .dst = small, .src = x, .partial = w, .rows = TOKENS, .cols = INNER, .stride = INNER);
    MEASURE(l, layernorm_forward, .y = y, .x = x, .weight = w, .bias = w, .mean = small, .rstd = small, .rows = TOKENS,
            .cols = WIDTH, .eps = 1e-5f);
    MEASURE(l, layernorm_backward, .dx = y, .d_weight = small, .d_bias = small, .dy = z, .x = x, .weight = w, .mean = w,
            .rstd = w, .partial = place(l, 5), .rows = TOKENS, .cols = WIDTH);
    MEASURE(l, rmsnorm_forward, .y = y, .x = x, .weight = w, .rstd = small, .rows = TOKENS, .cols = WIDTH, .eps = 1e-5f);
    MEASURE(l, rmsnorm_backward, .dx = y, .d_weight = small, .dy = z, .x = x, .weight = w, .rstd = w,
            .partial = place(l, 5), .rows = TOKENS, .cols = WIDTH);
    MEASURE(l, rope, .y = y, .x = x, .cos = w, .sin = w, .rows = TOKENS, .heads = HEADS, .head_dim = HEAD_DIM,
            .period = TOKENS, .y_stride = WIDTH, .x_stride = WIDTH);
    return ZN_OK;
}

static zn_status measure_pointwise(const struct lab *l)
{
    zn_addr x = place(l, 0), y = place(l, 1), z = place(l, 2);
    MEASURE(l, gelu_forward, .y = y, .x = x, .n_elements = TOKENS * INNER, .tanh_form = true);
    MEASURE(l, gelu_backward, .dx = z, .dy = y, .x = x, .n_elements = TOKENS * INNER, .tanh_form = true);
    MEASURE(l, swiglu_forward, .y = y, .gate = x, .up = z, .n_elements = TOKENS * INNER);
    MEASURE(l, swiglu_backward, .d_gate = place(l, 3), .d_up = place(l, 4), .dy = y, .gate = x, .up = z,
            .n_elements = TOKENS * INNER);
    return ZN_OK;
}

static zn_status measure_attention(const struct lab *l)
{
    zn_addr q = place(l, 0), k = place(l, 1), v = place(l, 2), out = place(l, 3), lse = place(l, 4);
    MEASURE(l, attention_forward, .out = out, .lse = lse, .q = q, .k = k, .v = v, .batch = 1, .seq_len = TOKENS, .heads = HEADS,
            .kv_heads = HEADS, .head_dim = HEAD_DIM, .q_stride = WIDTH, .k_stride = WIDTH, .v_stride = WIDTH,
            .out_stride = WIDTH, .scale = 0.125f);
    MEASURE(l, attention_backward, .dq = place(l, 5), .dk = place(l, 6), .dv = place(l, 7), .d_out = place(l, 8),
            .out = out, .lse = lse, .q = q, .k = k, .v = v, .delta = place(l, 9), .batch = 1, .seq_len = TOKENS, .heads = HEADS,
            .kv_heads = HEADS, .head_dim = HEAD_DIM, .q_stride = WIDTH, .k_stride = WIDTH, .v_stride = WIDTH,
            .out_stride = WIDTH, .dq_stride = WIDTH, .dk_stride = WIDTH, .dv_stride = WIDTH, .scale = 0.125f);
    return ZN_OK;
}

/* ---- The ends of a model ---- */

static zn_status measure_ends(const struct lab *l, zn_addr ids)
{
    zn_addr logits = place(l, 0), running = place(l, 1);
    zn_addr row_max = running, row_sum = running + 4 * PANEL_ROWS, target_logit = running + 8 * PANEL_ROWS;
    MEASURE(l, loss_panel, .logits = logits, .targets = ids, .row_max = row_max, .row_sum = row_sum,
            .target_logit = target_logit, .rows = PANEL_ROWS, .cols = PANEL_COLS, .stride = PANEL_COLS, .first = true);
    MEASURE(l, loss_gradient, .logits = logits, .targets = ids, .lse = row_sum, .rows = PANEL_ROWS, .cols = PANEL_COLS,
            .stride = PANEL_COLS, .scale = 1);
    MEASURE(l, embedding_forward, .y = place(l, 0), .table = place(l, 4), .positions = place(l, 8), .ids = ids,
            .rows = TOKENS, .width = WIDTH, .period = TOKENS, .n_ids = TABLE_ROWS);
    MEASURE(l, embedding_backward, .d_table = place(l, 4), .d_positions = place(l, 8), .dy = place(l, 0), .ids = ids,
            .rows = TOKENS, .width = WIDTH, .period = TOKENS, .n_ids = TABLE_ROWS, .n_positions = TOKENS);
    return ZN_OK;
}

zn_status kernels_measure(zn_device *device, int n_cores, zn_addr memory, double rates[ZN_N_KERNELS], double *launch)
{
    struct lab l = {.device = device, .n_cores = n_cores, .memory = memory, .rates = rates};
    zn_addr ids = place(&l, 11);
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) /* all over the table */
        tokens[i] = (int32_t)((unsigned)i * 2654435761u % TABLE_ROWS);
    for (int k = 0; k < ZN_N_KERNELS; k++)
        rates[k] = 0;
    /* Numbers as they occur: the slow ways of a processor with very small ones are not a model's. */
    ZN_TRY(zn_run_fill_normal(device, &(struct zn_fill_normal_args){
                                          .dst = memory, .n_elements = (int64_t)(KERNELS_MEMORY_BYTES / 4), .key = 1, .stddev = 1}));
    /* One element, for which the threads meet all the same. */
    const struct zn_gemm_args nothing = {.a = memory, .b = memory, .c = place(&l, 11), .m = 1, .n = 1, .k = 1,
                                         .a_stride = 1, .b_stride = 1, .c_stride = 1};
    ZN_TRY(time_of(&l, ZN_KERNEL_gemm, &nothing, launch));
    ZN_TRY(measure_rows(&l));
    ZN_TRY(measure_pointwise(&l));
    ZN_TRY(measure_attention(&l));
    ZN_TRY(measure_states(&l));
    ZN_TRY(zn_device_write(device, ids, tokens, sizeof tokens));
    return measure_ends(&l, ids);
}
