/* Models from config.json: their parameters by name, shape and number, and what is refused. */
#include "files.h"

#include "models/model.h"

#define GPT2_124M                                                                                  \
    "{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_embd\":768,\"n_layer\":12,\"n_head\":12,"   \
    "\"n_positions\":1024}"
#define SMOLLM2_135M                                                                               \
    "{\"model_type\":\"llama\",\"vocab_size\":49152,\"hidden_size\":576,"                          \
    "\"intermediate_size\":1536,\"num_hidden_layers\":30,\"num_attention_heads\":9,"               \
    "\"num_key_value_heads\":3,\"max_position_embeddings\":8192,\"rope_theta\":100000,"            \
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true}"

static zn_status create(const char *config, zn_model **model)
{
    zn_json *root;
    OK(zn_json_load_buffer(config, strlen(config), "config.json", &root));
    zn_status status = zn_model_create(root, 1, model);
    zn_json_destroy(root);
    return status;
}

static const zn_param *find(const zn_model *model, const char *name)
{
    for (int i = 0; i < model->module->n_params; i++)
        if (strcmp(model->module->params[i].name, name) == 0)
            return &model->module->params[i];
    fail_msg("no parameter '%s'", name);
    return NULL;
}

static void check_shape(const zn_model *model, const char *name, int segment, int64_t rows,
                        int64_t cols)
{
    const zn_param *p = find(model, name);
    assert_int_equal(p->segment, segment);
    assert_int_equal(p->ndim, cols ? 2 : 1);
    assert_int_equal(p->dims[0], rows);
    assert_int_equal(p->n_elements, rows * (cols ? cols : 1));
    if (cols)
        assert_int_equal(p->dims[1], cols);
}

/* What every list of parameters keeps: names once, indices in order, segments in order. */
static void check_list(const zn_model *model, int n_params, int n_segments)
{
    const zn_module *m = model->module;
    assert_int_equal(m->n_params, n_params);
    assert_int_equal(m->n_segments, n_segments);
    for (int i = 0; i < n_params; i++) {
        assert_int_equal(m->params[i].index, i);
        assert_true(i == 0 || m->params[i].segment >= m->params[i - 1].segment);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(m->params[i].name, m->params[j].name);
    }
}

static void gpt2_has_its_parameters(void **state)
{
    (void)state;
    zn_model *model;
    OK(create(GPT2_124M, &model));
    assert_int_equal(zn_model_n_elements(model), 124439808);
    check_list(model, 4 + 12 * 12, 14);
    check_shape(model, "transformer.wte.weight", 0, 50257, 768);
    check_shape(model, "transformer.wpe.weight", 0, 1024, 768);
    check_shape(model, "transformer.h.0.ln_1.weight", 1, 768, 0);
    check_shape(model, "transformer.h.11.attn.c_attn.weight", 12, 768, 2304); /* (in,out) */
    check_shape(model, "transformer.h.11.attn.c_attn.bias", 12, 2304, 0);
    check_shape(model, "transformer.h.5.mlp.c_fc.weight", 6, 768, 3072);
    check_shape(model, "transformer.h.5.mlp.c_proj.weight", 6, 3072, 768);
    check_shape(model, "transformer.ln_f.bias", 13, 768, 0);
    assert_true(model->tied && model->has_dropout);
    assert_int_equal(model->max_positions, 1024);
    assert_true(zn_model_ignores(model, "h.3.attn.bias"));
    assert_true(zn_model_ignores(model, "lm_head.weight"));
    assert_false(zn_model_ignores(model, "h.3.attn.c_attn.bias"));
    zn_model_destroy(model);
}

static void smollm2_has_its_parameters(void **state)
{
    (void)state;
    zn_model *model;
    OK(create(SMOLLM2_135M, &model));
    assert_int_equal(zn_model_n_elements(model), 134515008);
    check_list(model, 2 + 30 * 9, 32);
    check_shape(model, "model.embed_tokens.weight", 0, 49152, 576);
    check_shape(model, "model.layers.0.self_attn.q_proj.weight", 1, 576, 576);
    check_shape(model, "model.layers.29.self_attn.k_proj.weight", 30, 192, 576);
    check_shape(model, "model.layers.29.mlp.gate_proj.weight", 30, 1536, 576);
    check_shape(model, "model.layers.29.mlp.down_proj.weight", 30, 576, 1536);
    check_shape(model, "model.layers.7.post_attention_layernorm.weight", 8, 576, 0);
    check_shape(model, "model.norm.weight", 31, 576, 0);
    assert_true(model->tied && !model->has_dropout);
    zn_model_destroy(model);
}

/* Known sizes of models on the hub. */
static void kin_have_their_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        int64_t n_elements;
        int n_params;
    } known[] = {
        {"{\"model_type\":\"qwen2\",\"vocab_size\":151936,\"hidden_size\":896,\"intermediate_"
         "size\":4864,"
         "\"num_hidden_layers\":24,\"num_attention_heads\":14,\"num_key_value_heads\":2,"
         "\"tie_word_embeddings\":true}", /* Qwen2.5-0.5B */
         494032768, 2 + 24 * 12},
        {"{\"model_type\":\"qwen3\",\"vocab_size\":151936,\"hidden_size\":1024,\"intermediate_"
         "size\":3072,"
         "\"num_hidden_layers\":28,\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_"
         "dim\":128,"
         "\"tie_word_embeddings\":true}", /* Qwen3-0.6B */
         596049920, 2 + 28 * 11},
        {"{\"model_type\":\"mistral\",\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_"
         "size\":14336,"
         "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8}", /* 7B v0.1 */
         7241732096, 3 + 32 * 9},
        {"{\"model_type\":\"llama\",\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_"
         "size\":11008,"
         "\"num_hidden_layers\":32,\"num_attention_heads\":32}", /* Llama 2 7B */
         6738415616, 3 + 32 * 9},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        zn_model *model;
        OK(create(known[i].config, &model));
        assert_int_equal(zn_model_n_elements(model), known[i].n_elements);
        assert_int_equal(model->module->n_params, known[i].n_params);
        zn_model_destroy(model);
    }
}

/* ---- Refusals: a small good config with some keys changed ---- */

struct refusal {
    const char *keys; /* put before the others; a key given here is left out there */
    zn_status code;
    const char *says, *and_says;
};

static const char *const llama_keys[][2] = {
    {"vocab_size", "101"},
    {"hidden_size", "32"},
    {"intermediate_size", "88"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"},
    {"num_key_value_heads", "2"},
    {"max_position_embeddings", "128"},
};

static const char *const gpt2_keys[][2] = {
    {"vocab_size", "101"}, {"n_embd", "32"},      {"n_layer", "2"},
    {"n_head", "4"},       {"n_positions", "40"},
};

static void check_refusals(const char *type, const char *const keys[][2], size_t n_keys,
                           const struct refusal *refusals, size_t n_refusals)
{
    for (size_t i = 0; i < n_refusals; i++) {
        char config[2048], quoted[64];
        int n = snprintf(config, sizeof config, "{\"model_type\":\"%s\"", type);
        if (*refusals[i].keys)
            n += snprintf(config + n, sizeof config - (size_t)n, ",%s", refusals[i].keys);
        for (size_t k = 0; k < n_keys; k++) {
            snprintf(quoted, sizeof quoted, "\"%s\"", keys[k][0]);
            if (!strstr(refusals[i].keys, quoted))
                n += snprintf(config + n, sizeof config - (size_t)n, ",%s:%s", quoted, keys[k][1]);
        }
        snprintf(config + n, sizeof config - (size_t)n, "}");
        zn_model *model = NULL;
        zn_fail_text(ZN_OK, "");
        zn_status status = create(config, &model);
        if (status != refusals[i].code)
            fail_msg("%s: code %d, '%s'", config, (int)status, zn_error_message());
        if (status == ZN_OK)
            zn_model_destroy(model);
        else
            check_message(refusals[i].says, refusals[i].and_says);
    }
}

static void llama_refuses_by_name(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"", ZN_OK, "", ""},
        {"\"hidden_act\":\"gelu\"", ZN_ERR_UNSUPPORTED, "hidden_act", "gelu"},
        {"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}", ZN_ERR_UNSUPPORTED, "rope_type",
         "yarn"},
        {"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4}", ZN_ERR_UNSUPPORTED, "rope_type",
         "dynamic"},
        {"\"rope_parameters\":{\"rope_type\":\"longrope\"}", ZN_ERR_UNSUPPORTED, "rope_type",
         "longrope"},
        {"\"rope_parameters\":{\"rope_type\":\"linear\"}", ZN_ERR_INPUT, "rope_parameters",
         "factor"},
        {"\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}", ZN_ERR_INPUT, "rope_scaling",
         "factor"},
        {"\"rope_theta\":-1", ZN_ERR_INPUT, "rope_theta", "positive"},
        {"\"partial_rotary_factor\":0.5", ZN_ERR_UNSUPPORTED, "partial_rotary_factor", ""},
        {"\"head_dim\":7", ZN_ERR_INPUT, "head_dim 7", "odd"},
        {"\"num_key_value_heads\":3", ZN_ERR_INPUT, "num_attention_heads 4",
         "num_key_value_heads 3"},
        {"\"vocab_size\":0", ZN_ERR_INPUT, "config.json", "vocab_size"},
        {"\"hidden_size\":-5", ZN_ERR_INPUT, "config.json", "hidden_size"},
        {"\"hidden_size\":\"32\"", ZN_ERR_INPUT, "hidden_size", "string"},
        {"\"intermediate_size\":2.5", ZN_ERR_INPUT, "config.json", "intermediate_size"},
        {"\"vocab_size\":null", ZN_ERR_INPUT, "config.json", "vocab_size"},
        {"\"num_hidden_layers\":2000000000", ZN_ERR_INPUT, "config.json", "num_hidden_layers"},
        {"\"vocab_size\":2147483647,\"hidden_size\":2147483640", ZN_ERR_INPUT, "embed_tokens",
         "too large"},
    };
    check_refusals("llama", llama_keys, COUNT(llama_keys), refusals, COUNT(refusals));
}

static void kin_refuse_by_name(void **state)
{
    (void)state;
    static const struct refusal qwen2[] = {
        {"", ZN_OK, "", ""},
        {"\"use_sliding_window\":true,\"layer_types\":[\"full_attention\"]", ZN_ERR_INPUT,
         "layer_types", "1 entries for 2 layers"},
        {"\"use_sliding_window\":true,\"layer_types\":[\"full_attention\",\"chunked_attention\"]",
         ZN_ERR_UNSUPPORTED, "layer_types", "chunked_attention"},
        {"\"sliding_window\":0,\"use_sliding_window\":true", ZN_ERR_INPUT, "config.json",
         "sliding_window"},
    };
    static const struct refusal mistral[] = {
        {"", ZN_OK, "", ""},
        {"\"sliding_window\":null", ZN_OK, "", ""},
        {"\"sliding_window\":8,\"layer_types\":[]", ZN_ERR_INPUT, "layer_types",
         "0 entries for 2 layers"},
        {"\"sliding_window\":null,\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
         ZN_ERR_INPUT, "layer 1", "sliding_window"},
    };
    check_refusals("qwen2", llama_keys, COUNT(llama_keys), qwen2, COUNT(qwen2));
    check_refusals("qwen3", llama_keys, COUNT(llama_keys), qwen2, COUNT(qwen2));
    check_refusals("mistral", llama_keys, COUNT(llama_keys), mistral, COUNT(mistral));
}

static void gpt2_refuses_by_name(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"", ZN_OK, "", ""},
        {"\"n_head\":5", ZN_ERR_INPUT, "n_embd 32", "n_head 5"},
        {"\"activation_function\":\"relu\"", ZN_ERR_UNSUPPORTED, "activation_function", "relu"},
        {"\"add_cross_attention\":true", ZN_ERR_UNSUPPORTED, "add_cross_attention", ""},
        {"\"n_layer\":100000000", ZN_ERR_INPUT, "config.json", "n_layer"},
        {"\"n_layer\":true", ZN_ERR_INPUT, "config.json", "n_layer"},
        {"\"n_inner\":2147483647,\"n_embd\":2147483644", ZN_ERR_INPUT, "attn.c_attn.weight",
         "too large"},
        {"\"attn_pdrop\":\"0.1\"", ZN_ERR_INPUT, "config.json", "attn_pdrop"},
    };
    check_refusals("gpt2", gpt2_keys, COUNT(gpt2_keys), refusals, COUNT(refusals));
}

static void another_architecture_is_refused_by_name(void **state)
{
    (void)state;
    zn_model *model;
    FAILS(create("{\"model_type\":\"bert\"}", &model), ZN_ERR_UNSUPPORTED, "config.json", "'bert'");
    FAILS(create("{\"vocab_size\":10}", &model), ZN_ERR_INPUT, "config.json", "model_type");
    FAILS(create("{\"model_type\":7}", &model), ZN_ERR_INPUT, "config.json", "model_type");
    FAILS(create("[1,2]", &model), ZN_ERR_INPUT, "config.json", "");
    FAILS(create("{\"model_type\":\"gpt2\",\"vocab_size\":10}", &model), ZN_ERR_INPUT,
          "config.json", "n_embd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_has_its_parameters),
        cmocka_unit_test(smollm2_has_its_parameters),
        cmocka_unit_test(kin_have_their_sizes),
        cmocka_unit_test(llama_refuses_by_name),
        cmocka_unit_test(kin_refuse_by_name),
        cmocka_unit_test(gpt2_refuses_by_name),
        cmocka_unit_test(another_architecture_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
