/* Passes with 16-bit parameters: inside a segment the bits of fp32 with the same values, between
 * segments the working precision, whether activations are kept or computed again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "autograd/module.h"
#include "base/rng.h"
#include "device/halves.h"

enum { BATCH = 2, TIME = 33, ROWS = BATCH * TIME, WIDTH = 24, INNER = 40, N_BLOCKS = 2 };
enum { VOCABULARY = 4100 }; /* the head takes it in two panels */
enum { PARTS = N_BLOCKS + 2 };
enum { TABLE, POSITIONS, FINAL_WEIGHT, FIRST_BLOCK };
enum { NORM_WEIGHT, NORM_BIAS, UP_WEIGHT, UP_BIAS, DOWN_WEIGHT, DOWN_BIAS, BLOCK_PARAMS };
enum { N_PARAMS = FIRST_BLOCK + N_BLOCKS * BLOCK_PARAMS };

/* A model and, as the one who implements the hooks, its parameters. */
struct world {
    zn_module module;
    zn_param params[N_PARAMS];
    zn_dtype type;
    float *values[N_PARAMS]; /* what the type can hold */
    uint16_t *halves[N_PARAMS];
    float *gradient[N_PARAMS], *fresh[N_PARAMS];
    int32_t ids[ROWS], targets[ROWS];
    double loss;
    bool on_sim;
    int n_boundaries; /* seen, all of them in the type */
};

static zn_status acquire(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    (void)row;
    struct world *w = self;
    *address = w->type == ZN_F32 ? (zn_addr)(uintptr_t)w->values[p->index]
                                 : (zn_addr)(uintptr_t)w->halves[p->index];
    return ZN_OK;
}

static zn_status open_gradient(void *self, const zn_param *p, int64_t row, zn_addr *address)
{
    (void)row;
    *address = (zn_addr)(uintptr_t)((struct world *)self)->fresh[p->index];
    return ZN_OK;
}

static zn_status close_gradient(void *self, const zn_param *p, int64_t row)
{
    (void)row;
    struct world *w = self;
    for (int64_t i = 0; i < p->n_elements && !w->on_sim; i++)
        w->gradient[p->index][i] += w->fresh[p->index][i];
    return ZN_OK;
}

static const struct zn_param_hooks hooks = {.acquire = acquire,
                                            .open_gradient = open_gradient,
                                            .close_gradient = close_gradient};

static zn_tensor *run_block(zn_tape *t, const zn_param *p, zn_tensor *x)
{
    zn_tensor *h = zn_layernorm(t, x, &p[NORM_WEIGHT], &p[NORM_BIAS], 1e-5f);
    h = zn_gelu(t, zn_linear(t, h, &p[UP_WEIGHT], &p[UP_BIAS], ZN_IN_OUT), ZN_GELU_TANH);
    return zn_add(t, x, zn_linear(t, h, &p[DOWN_WEIGHT], &p[DOWN_BIAS], ZN_OUT_IN));
}

/* The embedding, a block, or the head. */
static zn_tensor *run_part(const struct world *w, zn_tape *t, int part, zn_tensor *x,
                           const struct zn_batch *batch)
{
    const zn_param *p = w->params;
    if (part == 0)
        return zn_embedding(t, batch->ids, &p[TABLE], &p[POSITIONS]);
    if (part < PARTS - 1)
        return run_block(t, &p[FIRST_BLOCK + (part - 1) * BLOCK_PARAMS], x);
    x = zn_rmsnorm(t, x, &p[FINAL_WEIGHT], 1e-5f);
    return zn_head_loss(t, x,
                        &(struct zn_head){.weight = &p[TABLE],
                                          .targets = batch->targets,
                                          .loss = batch->loss,
                                          .scale = batch->scale,
                                          .keep_logits = batch->keep_logits});
}

static void check_boundary(struct world *w, const zn_tensor *x)
{
    const float *values = (const float *)(uintptr_t)zn_tensor_address(x);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        float rounded = values[i];
        free(round_to(&rounded, 1, w->type));
        assert_true(rounded == values[i]);
    }
    w->n_boundaries++;
}

/* Each part a segment, or all of them one. */
static zn_tensor *forward(const zn_module *module, zn_tape *t, int segment, zn_tensor *x,
                          const struct zn_batch *batch)
{
    struct world *w = (struct world *)module;
    if (x && !w->on_sim && w->type != ZN_F32)
        check_boundary(w, x);
    if (module->n_segments == PARTS)
        return run_part(w, t, segment, x, batch);
    for (int part = 0; part < PARTS; part++)
        x = run_part(w, t, part, x, batch);
    return x;
}

static void declare(struct world *w, int index, int64_t rows, int64_t cols)
{
    zn_param *p = &w->params[index];
    *p = (zn_param){.index = index, .ndim = rows ? 2 : 1, .n_elements = (rows ? rows : 1) * cols};
    p->dims[0] = rows ? rows : cols;
    p->dims[1] = cols;
    size_t n = (size_t)p->n_elements;
    w->values[index] = malloc(n * sizeof(float));
    w->gradient[index] = calloc(n, sizeof(float));
    w->fresh[index] = calloc(n, sizeof(float));
    assert_true(w->values[index] && w->gradient[index] && w->fresh[index]);
    for (size_t i = 0; i < n; i++)
        w->values[index][i] =
            (float)((rows ? 0 : 1) + 0.2 * zn_random_normal((uint64_t)index + 1, i));
}

/* With values that `rounded` can hold, taken in `type`: that or fp32. */
static struct world *world_create(int n_segments, zn_dtype rounded, zn_dtype type)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    declare(w, TABLE, VOCABULARY, WIDTH);
    declare(w, POSITIONS, TIME, WIDTH);
    declare(w, FINAL_WEIGHT, 0, WIDTH);
    for (int b = FIRST_BLOCK; b < N_PARAMS; b += BLOCK_PARAMS) {
        declare(w, b + NORM_WEIGHT, 0, WIDTH);
        declare(w, b + NORM_BIAS, 0, WIDTH);
        declare(w, b + UP_WEIGHT, WIDTH, INNER);
        declare(w, b + UP_BIAS, 0, INNER);
        declare(w, b + DOWN_WEIGHT, WIDTH, INNER);
        declare(w, b + DOWN_BIAS, 0, WIDTH);
    }
    for (int i = 0; i < N_PARAMS; i++)
        w->halves[i] = round_to(w->values[i], w->params[i].n_elements, rounded);
    for (int i = 0; i < ROWS; i++) {
        w->ids[i] = (int32_t)zn_random_below(77, (uint64_t)i, VOCABULARY);
        w->targets[i] = (int32_t)zn_random_below(78, (uint64_t)i, VOCABULARY);
    }
    w->type = type;
    w->module = (zn_module){.forward = forward, .n_segments = n_segments};
    return w;
}

static void world_destroy(struct world *w)
{
    for (int i = 0; i < N_PARAMS; i++) {
        free(w->values[i]);
        free(w->halves[i]);
        free(w->gradient[i]);
        free(w->fresh[i]);
    }
    free(w);
}

struct way {
    bool trains, recompute, keep_logits;
};

static void pass(struct world *w, zn_device *device, zn_lifetimes *lifetimes, zn_addr base,
                 struct way way)
{
    zn_tape *tape;
    int64_t dims[] = {BATCH, TIME};
    assert_int_equal(zn_tape_create(device, &hooks, w, w->type, &tape), ZN_OK);
    zn_tape_start(tape, lifetimes, w->on_sim, base);
    struct zn_batch batch = {
        .ids = zn_tape_external(tape, ZN_I32, 2, dims, (zn_addr)(uintptr_t)w->ids),
        .targets = zn_tape_external(tape, ZN_I32, 2, dims, (zn_addr)(uintptr_t)w->targets),
        .loss = (zn_addr)(uintptr_t)&w->loss,
        .scale = 1.0f / ROWS,
        .keep_logits = way.keep_logits,
    };
    zn_status status = way.trains ? zn_module_train(&w->module, tape, &batch, 1,
                                                   &(struct zn_module_style){.recompute = way.recompute})
                                  : zn_module_evaluate(&w->module, tape, &batch);
    if (status != ZN_OK)
        fail_msg("%s", zn_error_message());
    zn_tape_destroy(tape);
}

/* Learns the lifetimes on sim, then runs in an arena of exactly that size. */
static void run(struct world *w, struct way way)
{
    zn_ledger ledger;
    zn_clock real, virtual;
    zn_device *sim, *cpu;
    zn_lifetimes *lifetimes;
    zn_ledger_init(&ledger);
    zn_clock_init_real(&real);
    zn_clock_init_virtual(&virtual);
    const struct zn_sim_rates rates = {.flops = 1e12, .memory_bytes = 1e11};
    assert_int_equal(zn_device_create_sim(&ledger, &virtual, &rates, &sim), ZN_OK);
    assert_int_equal(zn_device_create_cpu(&ledger, &real, 2, NULL, &cpu), ZN_OK);
    assert_int_equal(zn_lifetimes_create(&lifetimes), ZN_OK);
    w->on_sim = true;
    pass(w, sim, lifetimes, (zn_addr)1 << 46, way);
    assert_int_equal(zn_lifetimes_pack(lifetimes), ZN_OK);
    size_t n_bytes = zn_lifetimes_peak(lifetimes);
    zn_addr arena;
    assert_int_equal(zn_device_alloc(cpu, ZN_TIER_DEVICE, ZN_KIND_ACTIVATIONS, n_bytes, &arena),
                     ZN_OK);
    w->on_sim = false;
    pass(w, cpu, lifetimes, arena, way);
    zn_device_free(cpu, ZN_TIER_DEVICE, ZN_KIND_ACTIVATIONS, arena, n_bytes);
    zn_lifetimes_destroy(lifetimes);
    zn_device_destroy(cpu);
    zn_device_destroy(sim);
}

static void assert_same(const struct world *a, const struct world *b)
{
    assert_true(a->loss > 0);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    for (int i = 0; i < N_PARAMS; i++)
        assert_memory_equal(a->gradient[i], b->gradient[i],
                            (size_t)a->params[i].n_elements * sizeof(float));
}

static const zn_dtype types[] = {ZN_BF16, ZN_F16};
static const struct way keeping = {.trains = true}, again = {.trains = true, .recompute = true};

static void a_segment_has_the_bits_of_fp32(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        struct way way = {.trains = true, .keep_logits = form & 2};
        zn_dtype type = types[form & 1];
        struct world *narrow = world_create(1, type, type), *wide = world_create(1, type, ZN_F32);
        run(narrow, way);
        run(wide, way);
        assert_same(narrow, wide);
        world_destroy(narrow);
        world_destroy(wide);
    }
}

static void recompute_has_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *a = world_create(PARTS, types[i], types[i]);
        struct world *b = world_create(PARTS, types[i], types[i]);
        run(a, keeping);
        run(b, again);
        assert_same(a, b);
        world_destroy(a);
        world_destroy(b);
    }
}

static void between_segments_is_the_working_precision(void **state)
{
    (void)state;
    static const struct {
        struct way way;
        int n_boundaries;
    } cases[] = {{{.trains = true}, PARTS - 1},
                 {{.trains = true, .recompute = true}, PARTS - 1 + PARTS - 2},
                 {{.trains = false}, PARTS - 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int i = 0; i < 2; i++) {
            struct world *w = world_create(PARTS, types[i], types[i]);
            run(w, cases[c].way);
            assert_int_equal(w->n_boundaries, cases[c].n_boundaries);
            world_destroy(w);
        }
}

static void rounding_shows_in_16_bits_only(void **state)
{
    (void)state;
    struct world *one = world_create(1, ZN_BF16, ZN_F32);
    struct world *several = world_create(PARTS, ZN_BF16, ZN_F32);
    struct world *rounded = world_create(PARTS, ZN_BF16, ZN_BF16);
    run(one, keeping);
    run(several, keeping);
    run(rounded, keeping);
    assert_same(one, several);
    assert_memory_not_equal(&one->loss, &rounded->loss, sizeof one->loss);
    /* A rounding is 2^-9 at most, and the loss is about as large as the values rounded. */
    assert_true((one->loss - rounded->loss) / one->loss < 0x1p-8);
    assert_true((rounded->loss - one->loss) / one->loss < 0x1p-8);
    world_destroy(one);
    world_destroy(several);
    world_destroy(rounded);
}

static void evaluation_has_the_loss_of_training(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *a = world_create(PARTS, types[i], types[i]);
        struct world *b = world_create(PARTS, types[i], types[i]);
        run(a, keeping);
        run(b, (struct way){.trains = false});
        assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
        world_destroy(a);
        world_destroy(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_has_the_bits_of_fp32),
        cmocka_unit_test(recompute_has_the_same_bits),
        cmocka_unit_test(between_segments_is_the_working_precision),
        cmocka_unit_test(rounding_shows_in_16_bits_only),
        cmocka_unit_test(evaluation_has_the_loss_of_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
