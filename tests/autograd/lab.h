/* A small laboratory for operators: parameters in host memory behind the tape's hooks, a pass
 * recorded on the sim device, packed, and replayed on the processor, as the engine does it.
 *
 * Inputs are parameters too: rows of a table taken once each, so that the gradient of an input
 * arrives at a hook like any other. The loss is a fixed linear functional of the output, by an
 * operator of the laboratory's own, or that of the head. */
#ifndef ZN_TESTS_AUTOGRAD_LAB_H
#define ZN_TESTS_AUTOGRAD_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/node.h"
#include "base/rng.h"
#include "device/device.h"

enum { LAB_PARAMS = 8, LAB_ROWS = 512, LAB_THREADS = 1 };

/* Fails the test with the recorded text. */
#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != ZN_OK)                                                                 \
            fail_msg("%s: %s", #expression, zn_error_message());                                   \
    } while (0)

struct lab_param {
    zn_param param;
    float *values, *gradient, *slot;
    int n_uses;
    bool is_open, is_frozen;
    unsigned char *quanta; /* what is kept in the place of the values, or NULL */
    zn_dtype type;
    int64_t tile_rows; /* 0: it is whole */
};

struct lab {
    zn_ledger ledger;
    zn_clock real, simulated;
    zn_device *cpu, *sim;
    struct lab_param params[LAB_PARAMS];
    int n_params;
    int64_t batch, seq_len;
    int32_t ids[LAB_ROWS], targets[LAB_ROWS];
    float *coefficients, *output; /* of the linear functional */
    int64_t n_output;
    double head_loss;
    float scale;
    zn_constant constants[2];
    /* What is tested: runs operators and ends in lab_functional or zn_head_loss. */
    void (*forward)(struct lab *lab, zn_tape *tape);
    struct zn_attention attention; /* and what else a forward wants to be told */
    zn_layout layout;
    zn_gelu_form gelu;
    bool keep_logits;
    const zn_device *device; /* of the pass that runs */
};

/* A pass, planned: follow it on the processor any number of times. */
struct lab_plan {
    zn_lifetimes *lifetimes;
    zn_tape *tape;
    char *arena;
};

/* ---- Hooks ---- */

static inline zn_status lab_acquire(void *self, const zn_param *param, int64_t row, zn_addr *address)
{
    struct lab *lab = self;
    const struct lab_param *p = &lab->params[param->index];
    int64_t first = row * (param->n_elements / param->dims[0]);
    assert_true(row == 0 || p->tile_rows > 0);
    *address = p->quanta ? (zn_addr)(uintptr_t)p->quanta + zn_dtype_size(p->type, first) : (zn_addr)(uintptr_t)(p->values + first);
    return ZN_OK;
}

static inline zn_dtype lab_type(void *self, const zn_param *param)
{
    return ((const struct lab *)self)->params[param->index].type;
}

static inline int64_t lab_tile_rows(void *self, const zn_param *param)
{
    int64_t rows = ((const struct lab *)self)->params[param->index].tile_rows;
    return rows ? rows : param->dims[0];
}

/* The first use writes in place, a further one to the slot: each must overwrite what is there. */
static inline zn_status lab_open_gradient(void *self, const zn_param *param, int64_t row, zn_addr *address)
{
    struct lab *lab = self;
    assert_int_equal(row, 0);
    struct lab_param *p = &lab->params[param->index];
    *address = 0;
    if (p->is_frozen)
        return ZN_OK;
    assert_false(p->is_open);
    p->is_open = true;
    *address = (zn_addr)(uintptr_t)(p->n_uses++ == 0 ? p->gradient : p->slot);
    return ZN_OK;
}

static inline zn_status lab_close_gradient(void *self, const zn_param *param, int64_t row)
{
    struct lab *lab = self;
    assert_int_equal(row, 0);
    struct lab_param *p = &lab->params[param->index];
    assert_true(p->is_open);
    p->is_open = false;
    for (int64_t i = 0; i < param->n_elements && p->n_uses > 1 && lab->device == lab->cpu; i++)
        p->gradient[i] += p->slot[i];
    return ZN_OK;
}

static inline zn_addr lab_constant(void *self, const zn_constant *constant)
{
    (void)self;
    return (zn_addr)(uintptr_t)constant->values;
}

static const struct zn_param_hooks lab_hooks = {.tile_rows = lab_tile_rows,
                                                .type = lab_type,
                                                .acquire = lab_acquire,
                                                .open_gradient = lab_open_gradient,
                                                .close_gradient = lab_close_gradient,
                                                .constant = lab_constant};

/* ---- Making one ---- */

static inline float *lab_floats(int64_t n)
{
    float *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

static inline struct lab *lab_create(int64_t batch, int64_t seq_len)
{
    struct lab *lab = calloc(1, sizeof *lab);
    assert_non_null(lab);
    zn_ledger_init(&lab->ledger);
    zn_clock_init_real(&lab->real);
    zn_clock_init_virtual(&lab->simulated);
    OK(zn_device_create_cpu(&lab->ledger, &lab->real, LAB_THREADS, NULL, &lab->cpu));
    OK(zn_device_create_sim(&lab->ledger, &lab->simulated,
                            &(struct zn_sim_rates){.flops = 1e12, .memory_bytes = 1e11},
                            &lab->sim));
    lab->batch = batch;
    lab->seq_len = seq_len;
    lab->scale = 1;
    assert_true(batch * seq_len <= LAB_ROWS);
    for (int i = 0; i < LAB_ROWS; i++)
        lab->ids[i] = i;
    return lab;
}

static inline void lab_destroy(struct lab *lab)
{
    for (int i = 0; i < lab->n_params; i++) {
        free(lab->params[i].values);
        free(lab->params[i].gradient);
        free(lab->params[i].slot);
        free(lab->params[i].quanta);
    }
    free(lab->coefficients);
    free(lab->output);
    zn_device_destroy(lab->cpu);
    zn_device_destroy(lab->sim);
    free(lab);
}

/* The next parameter: mean + stddev × normal. dims ends with 0. Returns its index. */
static inline int lab_param(struct lab *lab, const char *name, const int64_t *dims, double mean,
                            double stddev)
{
    assert_true(lab->n_params < LAB_PARAMS);
    struct lab_param *p = &lab->params[lab->n_params];
    p->param = (zn_param){.index = lab->n_params, .n_elements = 1};
    strncpy(p->param.name, name, sizeof p->param.name - 1);
    for (; dims[p->param.ndim]; p->param.ndim++) {
        p->param.dims[p->param.ndim] = dims[p->param.ndim];
        p->param.n_elements *= dims[p->param.ndim];
    }
    p->values = lab_floats(p->param.n_elements);
    p->gradient = lab_floats(p->param.n_elements);
    p->slot = lab_floats(p->param.n_elements);
    uint64_t key = zn_random_key(11, name);
    for (int64_t i = 0; i < p->param.n_elements; i++)
        p->values[i] = (float)(mean + stddev * zn_random_normal(key, (uint64_t)i));
    return lab->n_params++;
}

static inline const zn_param *lab_at(struct lab *lab, int index)
{
    return index < lab->n_params ? &lab->params[index].param : NULL;
}

/* ---- Inside forward ---- */

static inline zn_tensor *lab_ids(struct lab *lab, zn_tape *t, int32_t *ids)
{
    return zn_tape_external(t, ZN_I32, 2, (int64_t[]){lab->batch, lab->seq_len},
                            (zn_addr)(uintptr_t)ids);
}

/* (B,T,C) whose row i is row i of parameter `index`. */
static inline zn_tensor *lab_input(struct lab *lab, zn_tape *t, int index)
{
    assert_int_equal(lab->params[index].param.dims[0], lab->batch * lab->seq_len);
    return zn_embedding(t, lab_ids(lab, t, lab->ids), &lab->params[index].param, NULL);
}

static inline zn_status functional_forward(zn_tape *t, struct zn_node *n)
{
    return zn_run_copy(tape_device(t), &(struct zn_copy_args){.dst = tape_use(t, n->out),
                                                              .src = tape_use(t, n->in[0]),
                                                              .n_bytes = n->in[0]->n_elements *
                                                                         (int64_t)sizeof(float)});
}

static inline zn_status functional_backward(zn_tape *t, struct zn_node *n)
{
    struct gradient *dx;
    ZN_TRY(tape_contribution(t, n->in[0], &dx));
    if (!dx)
        return ZN_OK;
    ZN_TRY(zn_run_copy(tape_device(t), &(struct zn_copy_args){.dst = dx->address,
                                                              .src = tape_use(t, n->in[1]),
                                                              .n_bytes = n->in[0]->n_elements *
                                                                         (int64_t)sizeof(float)}));
    return tape_contributed(t, n->in[0], dx);
}

/* The loss is Σ coefficient × y. */
static inline void lab_functional(struct lab *lab, zn_tape *t, zn_tensor *y)
{
    static const struct op op = {"functional", functional_forward, functional_backward, true};
    if (!lab->output) {
        uint64_t key = zn_random_key(3, "coefficients");
        lab->n_output = y->n_elements;
        lab->output = lab_floats(y->n_elements);
        lab->coefficients = lab_floats(y->n_elements);
        for (int64_t i = 0; i < y->n_elements; i++)
            lab->coefficients[i] = (float)zn_random_normal(key, (uint64_t)i);
    }
    assert_int_equal(y->n_elements, lab->n_output);
    struct zn_node *n = tape_node(t, &op);
    n->in[0] = y;
    n->in[1] = zn_tape_external(t, ZN_F32, y->ndim, y->dims, (zn_addr)(uintptr_t)lab->coefficients);
    tape_run(t, n, zn_tape_external(t, ZN_F32, y->ndim, y->dims, (zn_addr)(uintptr_t)lab->output));
}

/* ---- Passes ---- */

/* Everything that a pass opened is closed again. */
static inline void lab_check_balance(const struct lab *lab)
{
    for (int i = 0; i < lab->n_params; i++)
        assert_false(lab->params[i].is_open);
}

static inline zn_status lab_pass(struct lab *lab, zn_tape *tape, bool trains)
{
    lab->device = tape_device(tape);
    lab->head_loss = 0;
    for (int i = 0; i < lab->n_params; i++)
        lab->params[i].n_uses = 0;
    zn_tape_record(tape, trains);
    lab->forward(lab, tape);
    zn_status status = zn_tape_status(tape);
    if (status == ZN_OK && trains)
        status = zn_tape_backward(tape, NULL);
    lab_check_balance(lab);
    return status;
}

/* Records a pass on sim, packs it, and makes a tape on the processor that follows it. */
static inline struct lab_plan lab_record(struct lab *lab, bool trains)
{
    struct lab_plan plan = {0};
    zn_tape *recorder;
    OK(zn_lifetimes_create(&plan.lifetimes));
    OK(zn_tape_create(lab->sim, &lab_hooks, lab, ZN_F32, &recorder));
    zn_tape_start(recorder, plan.lifetimes, true, (zn_addr)1 << 46);
    OK(lab_pass(lab, recorder, trains));
    zn_tape_destroy(recorder);
    OK(zn_lifetimes_pack(plan.lifetimes));
    plan.arena = aligned_alloc(64, zn_lifetimes_peak(plan.lifetimes) + 64);
    assert_non_null(plan.arena);
    OK(zn_tape_create(lab->cpu, &lab_hooks, lab, ZN_F32, &plan.tape));
    return plan;
}

static inline void lab_plan_fini(struct lab_plan *plan)
{
    zn_tape_destroy(plan->tape);
    zn_lifetimes_destroy(plan->lifetimes);
    free(plan->arena);
}

/* Starts the tape in an arena of not-a-number: what is read before it is written is seen. */
static inline void lab_start(const struct lab_plan *plan)
{
    memset(plan->arena, 0xff, zn_lifetimes_peak(plan->lifetimes));
    zn_tape_start(plan->tape, plan->lifetimes, false, (zn_addr)(uintptr_t)plan->arena);
}

static inline void lab_replay(struct lab *lab, const struct lab_plan *plan, bool trains)
{
    lab_start(plan);
    OK(lab_pass(lab, plan->tape, trains));
}

/* The loss as the last pass left it. */
static inline double lab_loss(const struct lab *lab)
{
    double sum = (double)lab->scale * lab->head_loss;
    for (int64_t i = 0; i < lab->n_output; i++)
        sum += (double)lab->coefficients[i] * (double)lab->output[i];
    return sum;
}

/* ---- Finite differences ---- */

/* (f(x+h) - f(x-h)) / 2h with the steps that fp32 really takes. */
static inline double lab_difference(struct lab *lab, const struct lab_plan *plan, float *x,
                                    double h)
{
    float middle = *x, above = (float)(middle + h), below = (float)(middle - h);
    *x = above;
    lab_replay(lab, plan, false);
    double high = lab_loss(lab);
    *x = below;
    lab_replay(lab, plan, false);
    double low = lab_loss(lab);
    *x = middle;
    return (high - low) / ((double)above - (double)below);
}

/* Richardson's combination of two central differences: what is left is of fourth order in h. */
static inline double lab_slope(struct lab *lab, const struct lab_plan *plan, float *x)
{
    const double h = 1.0 / 32;
    return (4 * lab_difference(lab, plan, x, h / 2) - lab_difference(lab, plan, x, h)) / 3;
}

/* Holds every element of every gradient to finite differences: |g - slope| ≤ bound × (rms + |slope|), rms that
 * of the parameter's slopes. */
static inline void lab_check_gradients(struct lab *lab, double bound)
{
    struct lab_plan train = lab_record(lab, true), evaluate = lab_record(lab, false);
    for (int i = 0; i < lab->n_params; i++)
        memset(lab->params[i].gradient, 0xff,
               (size_t)lab->params[i].param.n_elements * sizeof(float));
    lab_replay(lab, &train, true);
    for (int i = 0; i < lab->n_params; i++) {
        struct lab_param *p = &lab->params[i];
        int64_t n = p->param.n_elements;
        double *slope = calloc((size_t)n, sizeof *slope), squares = 0;
        assert_non_null(slope);
        for (int64_t e = 0; e < n && !p->is_frozen; e++) {
            slope[e] = lab_slope(lab, &evaluate, &p->values[e]);
            squares += slope[e] * slope[e];
        }
        double rms = sqrt(squares / (double)n);
        for (int64_t e = 0; e < n && !p->is_frozen; e++) {
            double g = (double)p->gradient[e];
            if (!(fabs(g - slope[e]) <= bound * (rms + fabs(slope[e]))))
                fail_msg("gradient of %s[%lld] is %.7g, finite differences say %.7g", p->param.name,
                         (long long)e, g, slope[e]);
        }
        assert_true(rms > 0 || p->is_frozen); /* a case that tests nothing is no case */
        free(slope);
    }
    lab_plan_fini(&train);
    lab_plan_fini(&evaluate);
}

#endif
