/* Networks of one's own: declared and run at every placement with the same bits, and what is refused. */
#include "api/engines.h"

enum { VOCABULARY = 256, WIDTH = 32, TIME = 16 };

struct net {
    const zn_param *table, *places, *norm, *q, *k, *v, *up, *down;
    int64_t heads;
    bool is_wrong; /* adds tensors of different shapes */
    bool is_cut;   /* down and up are not used */
};

static zn_context *context;

static int set_up(void **state)
{
    return zn_context_create(NULL, &context) == ZN_OK ? make_test_folder(state) : -1;
}

static int tear_down(void **state)
{
    zn_context_destroy(context);
    return remove_test_folder(state);
}

static zn_tensor *forward(void *self, zn_tape *t, int segment, zn_tensor *x, const struct zn_batch *batch)
{
    const struct net *n = self;
    if (segment == 0)
        return zn_embedding(t, zn_batch_ids(batch), n->table, n->places);
    if (segment == 2)
        return zn_head(t, x, n->table, batch);
    zn_tensor *h = zn_layernorm(t, x, n->norm, NULL, 1e-5f), *q = zn_linear(t, h, n->q, NULL, ZN_OUT_IN);
    zn_tensor *a = zn_causal_attention(t, q, zn_linear(t, h, n->k, NULL, ZN_OUT_IN), zn_linear(t, h, n->v, NULL, ZN_OUT_IN), n->heads, n->heads);
    x = zn_add_scaled(t, x, a, 0.5f);
    if (n->is_cut)
        return x;
    zn_tensor *up = zn_gelu(t, zn_linear(t, x, n->up, NULL, ZN_OUT_IN), ZN_GELU_EXACT);
    return zn_add(t, x, n->is_wrong ? up : zn_linear(t, zn_mul(t, up, up), n->down, NULL, ZN_OUT_IN));
}

static const zn_param *declare(zn_network *network, const char *name, int segment, int64_t rows, int64_t columns)
{
    const zn_param *param;
    OK(zn_network_declare(network, name, segment, 2, (int64_t[]){rows, columns}, ZN_INIT_NORMAL, 0.1f, &param));
    return param;
}

static zn_network *new_network(struct net *n)
{
    zn_network *network;
    *n = (struct net){.heads = 4};
    const struct zn_network_options options = {.size = sizeof options,
                                               .name = "small",
                                               .n_segments = 3,
                                               .n_parameters = 8,
                                               .vocabulary = VOCABULARY,
                                               .max_seq_len = TIME,
                                               .forward = forward,
                                               .self = n};
    OK(zn_network_create(&options, &network));
    n->table = declare(network, "table", 0, VOCABULARY, WIDTH);
    n->places = declare(network, "places", 0, TIME, WIDTH);
    OK(zn_network_declare(network, "norm", 1, 1, (int64_t[]){WIDTH}, ZN_INIT_ONES, 0, &n->norm));
    n->q = declare(network, "q", 1, WIDTH, WIDTH);
    n->k = declare(network, "k", 1, WIDTH, WIDTH);
    n->v = declare(network, "v", 1, WIDTH, WIDTH);
    n->up = declare(network, "up", 1, 2 * WIDTH, WIDTH);
    n->down = declare(network, "down", 1, WIDTH, 2 * WIDTH);
    return network;
}

/* Trains the model with more options; the engine stays. */
static zn_engine *train(const zn_model *model, zn_options *options, struct pair *steps)
{
    zn_engine *engine;
    const struct zn_engine_setup setup = {.size = sizeof setup, .context = context, .options = options, .model = model};
    OK(zn_engine_create(&setup, &engine));
    for (int i = 0; i < STEPS; i++)
        steps[i] = next(engine);
    zn_options_destroy(options);
    return engine;
}

static zn_options *network_options(const char *name, const char *value)
{
    return new_options("data", TOKENS, "steps", "4", "micro-batch", "2", "threads", "1", "lr", "1e-2", name, value, NULL);
}

static void a_network_learns_wherever_its_states_are(void **state)
{
    (void)state;
    struct net net;
    zn_network *network = new_network(&net);
    zn_model *model;
    struct pair usual[STEPS], other[STEPS];
    OK(zn_model_of_network(network, &model));
    zn_engine *engine = train(model, network_options("recompute", "off"), usual);
    assert_true(usual[STEPS - 1].loss < usual[0].loss);
    OK(zn_engine_export(engine, in_folder("exported")));
    zn_engine_destroy(engine);
    static const char *const ways[][2] = {{"stage", "3"}, {"recompute", "on"}, {"tile-limit", "16KiB"}, {"offload-optimizer", "cpu"}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        zn_engine_destroy(train(model, network_options(ways[i][0], ways[i][1]), other));
        assert_memory_equal(usual, other, sizeof usual);
    }
    zn_model_close(model);
    zn_network_destroy(network);
}

static void exported_weights_come_back(void **state)
{
    (void)state;
    struct net net;
    zn_network *network = new_network(&net);
    zn_model *model;
    struct pair first[STEPS], second[STEPS];
    OK(zn_model_of_network(network, &model));
    zn_engine *engine = train(model, network_options("seed", "3"), first);
    OK(zn_engine_export(engine, in_folder("weights")));
    zn_engine_destroy(engine);
    zn_engine_destroy(train(model, network_options("model", in_folder("weights")), second)); /* its config.json is the network's */
    assert_true(second[0].loss < first[0].loss);
    zn_model_close(model);
    zn_network_destroy(network);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    struct net net;
    zn_network *network, *none = NULL;
    zn_model *model;
    const zn_param *param;
    zn_engine *engine = NULL;
    struct zn_network_options options = {.size = 3};
    FAILS(zn_network_create(&options, &none), ZN_ERR_USAGE, "size", "sizeof");
    options = (struct zn_network_options){.size = sizeof options, .name = "with spaces"};
    FAILS(zn_network_create(&options, &none), ZN_ERR_USAGE, "name", "letters");
    assert_null(none);
    network = new_network(&net);
    FAILS(zn_network_declare(network, "one", 0, 1, (int64_t[]){1}, ZN_INIT_ONES, 0, &param), ZN_ERR_USAGE, "small", "8 parameters");
    OK(zn_model_of_network(network, &model));
    struct zn_engine_setup setup = {.size = sizeof setup, .context = context, .model = model};
    zn_options *o = network_options("lora-rank", "4");
    setup.options = o;
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_UNSUPPORTED, "--lora-rank", "one's own");
    zn_options_destroy(o);
    setup.options = o = network_options("seed", "1");
    net.is_wrong = true;
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_INTERNAL, "add", "");
    net.is_wrong = false;
    net.heads = 5;
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_INTERNAL, "attention", "heads");
    net.heads = 0;
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_INTERNAL, "attention", "heads");
    net.heads = 4;
    net.is_cut = true;
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_INPUT, "parameter up", "no gradient");
    assert_null(engine);
    zn_options_destroy(o);
    zn_model_close(model);
    zn_network_destroy(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_learns_wherever_its_states_are),
        cmocka_unit_test(exported_weights_come_back),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
