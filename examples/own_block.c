/* A transformer with a block of one's own, trained by as many ranks as mpirun starts. Nothing here partitions, gathers or
 * reduces: the option stage does.
 *
 *     cc own_block.c $(pkg-config --cflags --libs zinc) -o own_block
 *     mpirun -n 2 ./own_block TEXT STAGE [EXPORT_FOLDER]
 */
#include <stdio.h>
#include <stdlib.h>
#include <zinc/zinc.h>

#define TRY(call) do { if ((call) != ZN_OK) { fprintf(stderr, "own_block: %s\n", zn_error_message()); exit(1); } } while (0)

enum { LAYERS = 3, WIDTH = 48, HEADS = 4, INNER = 96, VOCABULARY = 256, TIME = 32 };

struct block {
    const zn_param *norm, *q, *k, *v, *out, *gate, *up, *down;
};

struct transformer {
    const zn_param *tokens, *places, *norm;
    struct block blocks[LAYERS];
};

/* Attention and feed-forward side by side, from one normalised input. */
static zn_tensor *block_forward(zn_tape *t, const struct block *b, zn_tensor *x)
{
    zn_tensor *h = zn_rmsnorm(t, x, b->norm, 1e-5f);
    zn_tensor *seen = zn_causal_attention(t, zn_linear(t, h, b->q, NULL, ZN_OUT_IN), zn_linear(t, h, b->k, NULL, ZN_OUT_IN),
                                          zn_linear(t, h, b->v, NULL, ZN_OUT_IN), HEADS, HEADS);
    zn_tensor *inner = zn_swiglu(t, zn_linear(t, h, b->gate, NULL, ZN_OUT_IN), zn_linear(t, h, b->up, NULL, ZN_OUT_IN));
    x = zn_add(t, x, zn_linear(t, seen, b->out, NULL, ZN_OUT_IN));
    return zn_add(t, x, zn_linear(t, inner, b->down, NULL, ZN_OUT_IN));
}

static zn_tensor *forward(void *self, zn_tape *t, int segment, zn_tensor *x, const struct zn_batch *batch)
{
    const struct transformer *m = self;
    if (segment == 0)
        return zn_embedding(t, zn_batch_ids(batch), m->tokens, m->places);
    if (segment <= LAYERS)
        return block_forward(t, &m->blocks[segment - 1], x);
    return zn_head(t, zn_rmsnorm(t, x, m->norm, 1e-5f), m->tokens, batch);
}

static const zn_param *matrix(zn_network *network, int layer, const char *name, int64_t rows, int64_t columns)
{
    const zn_param *param;
    char full[64];
    snprintf(full, sizeof full, "block.%d.%s", layer, name);
    TRY(zn_network_declare(network, full, layer + 1, 2, (int64_t[]){rows, columns}, ZN_INIT_NORMAL, 0.05f, &param));
    return param;
}

static void declare(zn_network *network, struct transformer *m)
{
    TRY(zn_network_declare(network, "tokens", 0, 2, (int64_t[]){VOCABULARY, WIDTH}, ZN_INIT_NORMAL, 0.05f, &m->tokens));
    TRY(zn_network_declare(network, "places", 0, 2, (int64_t[]){TIME, WIDTH}, ZN_INIT_NORMAL, 0.05f, &m->places));
    for (int i = 0; i < LAYERS; i++) {
        struct block *b = &m->blocks[i];
        char norm[64];
        snprintf(norm, sizeof norm, "block.%d.norm", i);
        TRY(zn_network_declare(network, norm, i + 1, 1, (int64_t[]){WIDTH}, ZN_INIT_ONES, 0, &b->norm));
        b->q = matrix(network, i, "q", WIDTH, WIDTH);
        b->k = matrix(network, i, "k", WIDTH, WIDTH);
        b->v = matrix(network, i, "v", WIDTH, WIDTH);
        b->out = matrix(network, i, "out", WIDTH, WIDTH);
        b->gate = matrix(network, i, "gate", INNER, WIDTH);
        b->up = matrix(network, i, "up", INNER, WIDTH);
        b->down = matrix(network, i, "down", WIDTH, INNER);
    }
    TRY(zn_network_declare(network, "norm", LAYERS + 1, 1, (int64_t[]){WIDTH}, ZN_INIT_ONES, 0, &m->norm));
}

static void train(zn_context *context, const zn_model *model, const char *text, const char *stage, const char *folder)
{
    zn_options *options;
    zn_data *data;
    zn_engine *engine;
    struct zn_step_result step = {.size = sizeof step};
    TRY(zn_options_create("train", &options));
    TRY(zn_options_set(options, "stage", stage));
    TRY(zn_options_set(options, "steps", "8"));
    TRY(zn_options_set(options, "micro-batch", "2"));
    TRY(zn_data_create(&data));
    TRY(zn_data_add_path(data, text)); /* bytes are its tokens */
    const struct zn_engine_setup setup = {
        .size = sizeof setup, .context = context, .options = options, .model = model, .data = data};
    TRY(zn_engine_create(&setup, &engine));
    while (!zn_engine_is_done(engine)) {
        TRY(zn_engine_step(engine, &step));
        if (zn_context_rank(context) == 0)
            printf("step %lld: loss %.17g\n", (long long)step.step, step.loss);
    }
    if (folder)
        TRY(zn_engine_export(engine, folder));
    zn_engine_destroy(engine);
    zn_data_destroy(data);
    zn_options_destroy(options);
}

int main(int argc, char **argv)
{
    struct transformer transformer;
    zn_context *context;
    zn_network *network;
    zn_model *model;
    if (argc < 3) {
        fprintf(stderr, "usage: own_block TEXT STAGE [EXPORT_FOLDER]\n");
        return 2;
    }
    const struct zn_network_options options = {.size = sizeof options,
                                               .name = "own-block",
                                               .n_segments = LAYERS + 2,
                                               .n_parameters = 3 + 8 * LAYERS,
                                               .vocabulary = VOCABULARY,
                                               .max_seq_len = TIME,
                                               .forward = forward,
                                               .self = &transformer};
    TRY(zn_context_create(NULL, &context));
    TRY(zn_network_create(&options, &network));
    declare(network, &transformer);
    TRY(zn_model_of_network(network, &model));
    train(context, model, argv[1], argv[2], argc > 3 ? argv[3] : NULL);
    zn_model_close(model);
    zn_network_destroy(network);
    zn_context_destroy(context);
    return 0;
}
