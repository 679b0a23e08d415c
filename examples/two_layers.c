/* A network of two layers of one's own: each byte predicts the next.   cc two_layers.c $(pkg-config --cflags --libs zinc) */
#include <stdio.h>
#include <stdlib.h>
#include <zinc/zinc.h>
#define TRY(call) if ((call) != ZN_OK) exit((fprintf(stderr, "two_layers: %s\n", zn_error_message()), 1))
static const zn_param *table, *up, *down;

static zn_tensor *forward(void *self, zn_tape *tape, int segment, zn_tensor *x, const struct zn_batch *batch)
{
    (void)self;
    if (segment == 0)
        return zn_linear(tape, zn_embedding(tape, zn_batch_ids(batch), table, NULL), up, NULL, ZN_OUT_IN);
    return zn_head(tape, zn_gelu(tape, x, ZN_GELU_TANH), down, batch);
}

int main(int argc, char **argv)
{
    struct zn_network_options shape = {.size = sizeof shape, .name = "two-layers", .n_segments = 2, .n_parameters = 3,
                                       .vocabulary = 256, .max_seq_len = 64, .forward = forward};
    struct zn_step_result step = {.size = sizeof step};
    zn_context *context; zn_network *network; zn_model *model; zn_options *options; zn_engine *engine;
    TRY(zn_network_create(&shape, &network));
    TRY(zn_network_declare(network, "table", 0, 2, (int64_t[]){256, 32}, ZN_INIT_NORMAL, 0.1f, &table));
    TRY(zn_network_declare(network, "up", 0, 2, (int64_t[]){64, 32}, ZN_INIT_NORMAL, 0.1f, &up));
    TRY(zn_network_declare(network, "down", 1, 2, (int64_t[]){256, 64}, ZN_INIT_NORMAL, 0.1f, &down));
    TRY(zn_model_of_network(network, &model));
    TRY(zn_options_create("train", &options));
    TRY(zn_options_set(options, "data", argc > 1 ? argv[1] : "demo.txt"));
    TRY(zn_options_set(options, "steps", "20"));
    TRY(zn_options_set(options, "lr", "1e-2"));
    TRY(zn_context_create(NULL, &context));
    struct zn_engine_setup setup = {.size = sizeof setup, .context = context, .options = options, .model = model};
    TRY(zn_engine_create(&setup, &engine));
    while (!zn_engine_is_done(engine)) {
        TRY(zn_engine_step(engine, &step));
        printf("step %d: loss %.17g\n", (int)step.step, step.loss);
    }
    zn_engine_destroy(engine);
    zn_context_destroy(context); /* the rest goes with the process */
}
