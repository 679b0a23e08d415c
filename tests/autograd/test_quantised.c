/* Products with quantised weights have the bits of those with the dequantised ones, forward and backward, in both layouts, in several
 * panels and in tiles. */
#include "autograd/lab.h"

#include "tensor/quantum.h"

enum { X, WEIGHT, BIAS };

static void forward(struct lab *lab, zn_tape *t)
{
    lab_functional(lab, t, zn_linear(t, lab_input(lab, t, X), lab_at(lab, WEIGHT), lab_at(lab, BIAS), lab->layout));
}

/* Quantises the weight; its values become those that the quanta stand for. */
static void quantise(struct lab *lab, zn_dtype type)
{
    struct lab_param *w = &lab->params[WEIGHT];
    int64_t n = w->param.n_elements;
    w->quanta = calloc(1, zn_dtype_size(type, n));
    assert_non_null(w->quanta);
    zn_addr values = (zn_addr)(uintptr_t)w->values, quanta = (zn_addr)(uintptr_t)w->quanta;
    OK(zn_run_quantise(lab->cpu, &(struct zn_quantise_args){.dst = quanta, .src = values, .type = type, .n_elements = n, .mean = 0.05f}));
    OK(zn_run_dequantise(lab->cpu, &(struct zn_dequantise_args){.dst = values, .src = quanta, .type = type, .n_elements = n}));
}

struct shape {
    int64_t rows, in, out, tile;
};

static void check(zn_dtype type, zn_layout layout, const struct shape *s)
{
    struct lab *lab = lab_create(1, s->rows);
    bool out_in = layout == ZN_OUT_IN;
    lab->forward = forward;
    lab->layout = layout;
    lab_param(lab, "x", (int64_t[]){s->rows, s->in, 0}, 0, 1);
    lab_param(lab, "weight", (int64_t[]){out_in ? s->out : s->in, out_in ? s->in : s->out, 0}, 0, 0.02);
    lab_param(lab, "bias", (int64_t[]){s->out, 0}, 0, 1);
    struct lab_param *w = &lab->params[WEIGHT];
    quantise(lab, type);
    unsigned char *quanta = w->quanta;
    w->quanta = NULL;
    w->is_frozen = true;
    struct lab_plan plain = lab_record(lab, true);
    lab_replay(lab, &plain, true);
    size_t n_out = (size_t)lab->n_output * sizeof(float), n_in = (size_t)(s->rows * s->in) * sizeof(float);
    float *y = malloc(n_out), *dx = malloc(n_in);
    memcpy(y, lab->output, n_out);
    memcpy(dx, lab->params[X].gradient, n_in);
    memset(lab->output, 0xff, n_out);
    memset(lab->params[X].gradient, 0xff, n_in);
    w->quanta = quanta;
    w->type = type;
    w->tile_rows = s->tile;
    memset(w->values, 0xff, (size_t)w->param.n_elements * sizeof(float));
    struct lab_plan quantised = lab_record(lab, true);
    lab_replay(lab, &quantised, true);
    assert_memory_equal(lab->output, y, n_out);
    assert_memory_equal(lab->params[X].gradient, dx, n_in);
    free(y), free(dx);
    lab_plan_fini(&plain);
    lab_plan_fini(&quantised);
    lab_destroy(lab);
}

static void products_have_the_bits_of_dequantised_weights(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.rows = 5, .in = 40, .out = 72},                   /* few rows, one panel */
        {.rows = 40, .in = 333, .out = 129},                /* blocks that cross rows */
        {.rows = 33, .in = 1100, .out = 2000},              /* several panels in both layouts */
        {.rows = 33, .in = 2100, .out = 2052, .tile = 1024} /* tiles of several panels, the last of them short */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (zn_dtype type = ZN_INT8; type <= ZN_NF4; type++) {
            check(type, ZN_OUT_IN, &shapes[i]);
            check(type, ZN_IN_OUT, &shapes[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_have_the_bits_of_dequantised_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
