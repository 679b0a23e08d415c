/* Cross-entropy over panels of the vocabulary, so that the logits of all columns never exist at
 * once: a running maximum and sum for each row, and the gradient in place of the logits. */
#include <math.h>
#include <omp.h>

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cpu/softmax.h"

static const int32_t *ids_at(zn_addr address)
{
    return zn_pointer(address);
}

/* Joins the softmax of a panel to the running one. A side that has seen nothing but -infinity
 * has no part in it; its shift of -infinity would make not-a-number of zero. */
static void join_panel(float *row_max, float *row_sum, float max, float sum)
{
    float joint = max > *row_max ? max : *row_max;
    float shift = joint == -INFINITY ? 0.0f : joint;
    *row_sum = *row_sum * zn_exp(*row_max - shift) + sum * zn_exp(max - shift);
    *row_max = joint;
}

zn_status ZN_K(loss_panel)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_loss_panel_args *a = args;
    float *row_max = zn_floats(a->row_max), *row_sum = zn_floats(a->row_sum);
    float *target_logit = zn_floats(a->target_logit);
#pragma omp parallel for num_threads(cpu->n_threads)
    for (int64_t row = 0; row < a->rows; row++) {
        const float *logits = zn_floats(a->logits) + row * a->stride;
        int64_t target = ids_at(a->targets)[row] - a->first_col;
        if (a->first) {
            row_max[row] = -INFINITY;
            row_sum[row] = target_logit[row] = 0.0f;
        }
        float max = zn_row_max(logits, a->cols);
        float sum = zn_row_exp_sum(logits, a->cols, max == -INFINITY ? 0.0f : max);
        if (ids_at(a->targets)[row] >= 0 && target >= 0 && target < a->cols)
            target_logit[row] = logits[target];
        join_panel(&row_max[row], &row_sum[row], max, sum);
    }
    return ZN_OK;
}

zn_status ZN_K(loss_finish)(const struct zn_cpu *cpu, const void *args)
{
    (void)cpu; /* one logarithm a row, and a sum that must run in row order */
    const struct zn_loss_finish_args *a = args;
    const float *row_max = zn_floats(a->row_max), *row_sum = zn_floats(a->row_sum);
    const float *target_logit = zn_floats(a->target_logit);
    float *lse = zn_floats(a->lse);
    double *loss = zn_pointer(a->loss), sum = 0.0;
    for (int64_t row = 0; row < a->rows; row++) {
        lse[row] = row_max[row] + zn_log(row_sum[row]);
        if (ids_at(a->targets)[row] >= 0)
            sum += (double)lse[row] - (double)target_logit[row];
    }
    *loss += sum;
    return ZN_OK;
}

static void clear_row(float *logits, int64_t cols)
{
    for (int64_t i = 0; i < cols; i++)
        logits[i] = 0.0f;
}

/* No logit is above the log-sum-exp by more than its rounding. */
static void differentiate_row(float *logits, int64_t cols, float lse, float scale)
{
    int64_t i = 0;
    for (; i + ZN_LANE_FLOATS <= cols; i += ZN_LANE_FLOATS)
        zn_vector_store(logits + i, zn_vector_exp(zn_vector_load(logits + i) - lse) * scale);
    for (; i < cols; i++)
        logits[i] = zn_exp(logits[i] - lse) * scale;
}

zn_status ZN_K(loss_gradient)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_loss_gradient_args *a = args;
    const float *lse = zn_floats(a->lse);
#pragma omp parallel for num_threads(cpu->n_threads)
    for (int64_t row = 0; row < a->rows; row++) {
        float *logits = zn_floats(a->logits) + row * a->stride;
        int32_t id = ids_at(a->targets)[row];
        int64_t target = id - a->first_col;
        if (id < 0) {
            clear_row(logits, a->cols);
            continue;
        }
        bool here = target >= 0 && target < a->cols;
        float scale = a->weights ? zn_floats(a->weights)[row] : a->scale;
        float at_target = here ? (zn_exp(logits[target] - lse[row]) - 1.0f) * scale : 0.0f;
        differentiate_row(logits, a->cols, lse[row], scale);
        if (here)
            logits[target] = at_target;
    }
    return ZN_OK;
}

/* ---- Pairs ---- */

/* The rows from `begin` on that have this number; *sum is of what they add to their sequence. */
static int64_t add_sequence(const struct zn_pair_loss_args *a, int64_t begin, int32_t sequence, double *sum)
{
    const float *lse = zn_floats(a->lse), *logit = zn_floats(a->target_logit);
    const float *reference_lse = zn_floats(a->reference_lse), *reference_logit = zn_floats(a->reference_logit);
    int64_t row = begin;
    *sum = 0.0;
    for (; row < a->rows && ids_at(a->sequences)[row] == sequence; row++)
        if (ids_at(a->targets)[row] >= 0)
            *sum += ((double)logit[row] - (double)lse[row]) - ((double)reference_logit[row] - (double)reference_lse[row]);
    return row;
}

zn_status ZN_K(pair_loss)(const struct zn_cpu *cpu, const void *args)
{
    (void)cpu; /* a few operations a row, in row order */
    const struct zn_pair_loss_args *a = args;
    float *weights = zn_floats(a->weights);
    double *sums = zn_pointer(a->sums), chosen, rejected;
    for (int64_t row = 0; row < a->rows;) {
        int32_t sequence = ids_at(a->sequences)[row];
        if (sequence < 0) {
            weights[row++] = 0.0f;
            continue;
        }
        int64_t middle = add_sequence(a, row, sequence, &chosen), end = add_sequence(a, middle, sequence + 1, &rejected);
        double x = (double)a->beta * (chosen - rejected);
        float e = zn_exp(x < 0.0 ? (float)x : -(float)x), sigmoid = (x < 0.0 ? 1.0f : e) / (1.0f + e);
        sums[0] += (double)zn_log(1.0f + e) + (x < 0.0 ? -x : 0.0);
        sums[1] += x > 0.0 ? 1.0 : 0.0;
        sums[2] += x;
        for (float weight = a->beta * sigmoid * a->scale; row < end; row++)
            weights[row] = row < middle ? weight : -weight;
    }
    return ZN_OK;
}
