/* Models in llama.cpp's words: metadata, names, types and layouts of tensors, and what is refused. */
#include "files.h"

#include "gguf_file.h"
#include "models/gguf.h"

#define LLAMA(type, more)                                                                                                  \
    "{\"model_type\":\"" type "\",\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":88,\"num_hidden_layers\":2," \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":128,\"rms_norm_eps\":1e-5" more "}"
#define GPT2(more)                                                                                                      \
    "{\"model_type\":\"gpt2\",\"vocab_size\":101,\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"n_positions\":40" more "}"

struct made {
    zn_json *config;
    zn_model *model;
    zn_gguf_model *gguf;
    zn_gguf_metadata metadata;
};

static zn_status make(const char *text, struct made *m)
{
    *m = (struct made){0};
    OK(zn_json_load_buffer(text, strlen(text), "config.json", &m->config));
    OK(zn_model_create(m->config, 1, &m->model));
    zn_status status = zn_gguf_model_create(m->config, m->model, &m->gguf);
    zn_gguf_metadata_init(&m->metadata);
    if (status == ZN_OK)
        zn_gguf_model_describe(m->gguf, &m->metadata);
    return status;
}

static void fini(struct made *m)
{
    zn_gguf_metadata_fini(&m->metadata);
    zn_gguf_model_destroy(m->gguf);
    zn_model_destroy(m->model);
    zn_json_destroy(m->config);
}

static struct zn_gguf_param param_of(const struct made *m, const char *name, zn_gguf_type type)
{
    struct zn_gguf_param found = {.n_heads = -1};
    for (int i = 0; i < m->model->module->n_params; i++)
        if (strcmp(m->model->module->params[i].name, name) == 0)
            OK(zn_gguf_model_param(m->gguf, &m->model->module->params[i], type, &found));
    if (found.n_heads < 0)
        fail_msg("no parameter '%s'", name);
    return found;
}

static void check_param(const struct made *m, const char *hub, const char *name, zn_gguf_layout layout, int64_t rows, int64_t cols)
{
    struct zn_gguf_param p = param_of(m, hub, ZN_GGUF_BF16);
    assert_string_equal(p.spec.name, name);
    assert_int_equal(p.layout, layout);
    assert_int_equal(p.spec.n_dims, cols ? 2 : 1);
    assert_int_equal(p.spec.dims[0], rows);
    if (cols)
        assert_int_equal(p.spec.dims[1], cols);
    assert_int_equal(p.spec.type, cols && !strstr(name, "position_embd") ? ZN_GGUF_BF16 : ZN_GGUF_F32);
}

/* All names are there once. */
static void check_names(const struct made *m)
{
    int n = m->model->module->n_params;
    struct zn_gguf_param *p = calloc((size_t)n, sizeof *p);
    assert_non_null(p);
    for (int i = 0; i < n; i++) {
        OK(zn_gguf_model_param(m->gguf, &m->model->module->params[i], ZN_GGUF_F32, &p[i]));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(p[i].spec.name, p[k].spec.name);
    }
    free(p);
}

static void llama_is_described_and_paired(void **state)
{
    (void)state;
    struct made m;
    OK(make(LLAMA("llama", ",\"attention_bias\":true,\"mlp_bias\":true,\"head_dim\":24,\"rope_theta\":500"), &m));
    assert_string_equal(zn_gguf_model_architecture(m.gguf), "llama");
    has_u32(&m.metadata, "llama.vocab_size", 101);
    has_u32(&m.metadata, "llama.context_length", 128);
    has_u32(&m.metadata, "llama.embedding_length", 64);
    has_u32(&m.metadata, "llama.block_count", 2);
    has_u32(&m.metadata, "llama.feed_forward_length", 88);
    has_u32(&m.metadata, "llama.attention.head_count", 4);
    has_u32(&m.metadata, "llama.attention.head_count_kv", 2);
    has_u32(&m.metadata, "llama.attention.key_length", 24);
    has_u32(&m.metadata, "llama.attention.value_length", 24);
    has_u32(&m.metadata, "llama.rope.dimension_count", 24);
    has_f32(&m.metadata, "llama.rope.freq_base", 500);
    has_f32(&m.metadata, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    has_no(&m.metadata, "llama.attention.sliding_window");
    has_no(&m.metadata, "llama.rope.scaling.type");
    check_names(&m);
    check_param(&m, "model.embed_tokens.weight", "token_embd.weight", ZN_GGUF_SAME, 101, 64);
    check_param(&m, "lm_head.weight", "output.weight", ZN_GGUF_SAME, 101, 64);
    check_param(&m, "model.norm.weight", "output_norm.weight", ZN_GGUF_SAME, 64, 0);
    check_param(&m, "model.layers.1.input_layernorm.weight", "blk.1.attn_norm.weight", ZN_GGUF_SAME, 64, 0);
    check_param(&m, "model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", ZN_GGUF_PAIRED, 96, 64);
    check_param(&m, "model.layers.1.self_attn.q_proj.bias", "blk.1.attn_q.bias", ZN_GGUF_PAIRED, 96, 0);
    check_param(&m, "model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", ZN_GGUF_PAIRED, 48, 64);
    check_param(&m, "model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", ZN_GGUF_SAME, 48, 64);
    check_param(&m, "model.layers.0.self_attn.o_proj.bias", "blk.0.attn_output.bias", ZN_GGUF_SAME, 64, 0);
    check_param(&m, "model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight", ZN_GGUF_SAME, 64, 0);
    check_param(&m, "model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight", ZN_GGUF_SAME, 88, 64);
    check_param(&m, "model.layers.0.mlp.up_proj.bias", "blk.0.ffn_up.bias", ZN_GGUF_SAME, 88, 0);
    check_param(&m, "model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", ZN_GGUF_SAME, 64, 88);
    assert_int_equal(param_of(&m, "model.layers.0.self_attn.q_proj.weight", ZN_GGUF_F32).n_heads, 4);
    assert_int_equal(param_of(&m, "model.layers.0.self_attn.k_proj.weight", ZN_GGUF_F32).n_heads, 2);
    fini(&m);
}

static void a_tied_head_is_left_out(void **state)
{
    (void)state;
    struct made m;
    OK(make(LLAMA("llama", ",\"tie_word_embeddings\":true"), &m));
    for (int i = 0; i < m.model->module->n_params; i++)
        assert_string_not_equal(m.model->module->params[i].name, "lm_head.weight");
    check_names(&m);
    fini(&m);
}

static void rows_that_are_no_blocks_fall_back_to_f16(void **state)
{
    (void)state;
    struct made m;
    OK(make(LLAMA("llama", ""), &m));
    struct zn_gguf_param p = param_of(&m, "model.layers.0.mlp.down_proj.weight", ZN_GGUF_Q8_0);
    assert_true(p.falls_back);
    assert_int_equal(p.spec.type, ZN_GGUF_F16);
    p = param_of(&m, "model.layers.0.mlp.up_proj.weight", ZN_GGUF_Q8_0);
    assert_false(p.falls_back);
    assert_int_equal(p.spec.type, ZN_GGUF_Q8_0);
    p = param_of(&m, "model.norm.weight", ZN_GGUF_Q8_0);
    assert_false(p.falls_back);
    assert_int_equal(p.spec.type, ZN_GGUF_F32);
    fini(&m);
}

static void rope_scaling_is_a_key_or_a_tensor(void **state)
{
    (void)state;
    struct made m;
    int64_t n;
    OK(make(LLAMA("llama", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}"), &m));
    has_string(&m.metadata, "llama.rope.scaling.type", "linear");
    has_f32(&m.metadata, "llama.rope.scaling.factor", 4);
    assert_null(zn_gguf_model_rope_factors(m.gguf, &n));
    fini(&m);

    /* Wavelengths 2 pi 10000^(i/8) against 32 / 4 and 32 / 1: the first stays, the second lies between, the others are
     * stretched by 8. */
    OK(make(LLAMA("llama", ",\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"llama3\",\"factor\":8.0,"
                  "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32}"), &m));
    const float *factors = zn_gguf_model_rope_factors(m.gguf, &n);
    has_no(&m.metadata, "llama.rope.scaling.type");
    assert_int_equal(n, 8);
    assert_true(factors[0] == 1);
    assert_true(factors[1] > 1 && factors[1] < 8);
    for (int i = 2; i < 8; i++)
        assert_true(factors[i] == 8);
    fini(&m);
}

static void mistral_is_a_llama_with_a_window(void **state)
{
    (void)state;
    struct made m;
    OK(make(LLAMA("mistral", ",\"sliding_window\":8"), &m));
    assert_string_equal(zn_gguf_model_architecture(m.gguf), "llama");
    has_u32(&m.metadata, "llama.attention.sliding_window", 8);
    has_no(&m.metadata, "llama.attention.sliding_window_pattern");
    assert_int_equal(zn_gguf_model_window(m.gguf), 8);
    check_param(&m, "model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight", ZN_GGUF_PAIRED, 32, 64);
    fini(&m);
    OK(make(LLAMA("mistral", ",\"sliding_window\":128"), &m)); /* as long as the context: it does not matter */
    assert_int_equal(zn_gguf_model_window(m.gguf), 0);
    fini(&m);
    OK(make(LLAMA("mistral", ",\"sliding_window\":null"), &m));
    has_no(&m.metadata, "llama.attention.sliding_window");
    fini(&m);
}

static void qwen_is_not_paired(void **state)
{
    (void)state;
    struct made m;
    uint64_t n = 0;
    struct gguf_at at = {0};
    OK(make(LLAMA("qwen2", ",\"use_sliding_window\":true,\"sliding_window\":6,\"max_window_layers\":1"), &m));
    assert_string_equal(zn_gguf_model_architecture(m.gguf), "qwen2");
    has_u32(&m.metadata, "qwen2.attention.head_count_kv", 2);
    has_u32(&m.metadata, "qwen2.attention.sliding_window", 6);
    assert_true(find_pair(&m.metadata, "qwen2.attention.sliding_window_pattern", ZN_GGUF_BOOL, &n, &at));
    assert_int_equal(n, 2);
    assert_memory_equal(take_bytes(&at, 2), "\0\1", 2);
    check_names(&m);
    check_param(&m, "model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", ZN_GGUF_SAME, 64, 64);
    check_param(&m, "model.layers.1.self_attn.k_proj.bias", "blk.1.attn_k.bias", ZN_GGUF_SAME, 32, 0);
    fini(&m);
    OK(make(LLAMA("qwen3", ",\"head_dim\":12"), &m));
    assert_string_equal(zn_gguf_model_architecture(m.gguf), "qwen3");
    has_u32(&m.metadata, "qwen3.attention.key_length", 12);
    check_names(&m);
    check_param(&m, "model.layers.1.self_attn.q_norm.weight", "blk.1.attn_q_norm.weight", ZN_GGUF_SAME, 12, 0);
    check_param(&m, "model.layers.1.self_attn.k_norm.weight", "blk.1.attn_k_norm.weight", ZN_GGUF_SAME, 12, 0);
    fini(&m);
}

static void gpt2_is_transposed(void **state)
{
    (void)state;
    struct made m;
    OK(make(GPT2(",\"n_inner\":72,\"tie_word_embeddings\":false"), &m));
    assert_string_equal(zn_gguf_model_architecture(m.gguf), "gpt2");
    has_u32(&m.metadata, "gpt2.context_length", 40);
    has_u32(&m.metadata, "gpt2.feed_forward_length", 72);
    has_u32(&m.metadata, "gpt2.attention.head_count", 4);
    has_f32(&m.metadata, "gpt2.attention.layer_norm_epsilon", 1e-5f);
    has_no(&m.metadata, "gpt2.rope.freq_base");
    check_names(&m);
    check_param(&m, "transformer.wte.weight", "token_embd.weight", ZN_GGUF_SAME, 101, 32);
    check_param(&m, "transformer.wpe.weight", "position_embd.weight", ZN_GGUF_SAME, 40, 32);
    check_param(&m, "transformer.ln_f.bias", "output_norm.bias", ZN_GGUF_SAME, 32, 0);
    check_param(&m, "lm_head.weight", "output.weight", ZN_GGUF_SAME, 101, 32);
    check_param(&m, "transformer.h.1.ln_1.bias", "blk.1.attn_norm.bias", ZN_GGUF_SAME, 32, 0);
    check_param(&m, "transformer.h.1.attn.c_attn.weight", "blk.1.attn_qkv.weight", ZN_GGUF_TRANSPOSED, 96, 32);
    check_param(&m, "transformer.h.1.attn.c_attn.bias", "blk.1.attn_qkv.bias", ZN_GGUF_SAME, 96, 0);
    check_param(&m, "transformer.h.1.attn.c_proj.weight", "blk.1.attn_output.weight", ZN_GGUF_TRANSPOSED, 32, 32);
    check_param(&m, "transformer.h.0.ln_2.weight", "blk.0.ffn_norm.weight", ZN_GGUF_SAME, 32, 0);
    check_param(&m, "transformer.h.0.mlp.c_fc.weight", "blk.0.ffn_up.weight", ZN_GGUF_TRANSPOSED, 72, 32);
    check_param(&m, "transformer.h.0.mlp.c_proj.weight", "blk.0.ffn_down.weight", ZN_GGUF_TRANSPOSED, 32, 72);
    fini(&m);
}

static void what_llama_cpp_does_not_compute_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *name;
    } refused[] = {
        {GPT2(",\"activation_function\":\"gelu\""), "activation_function 'gelu'"},
        {GPT2(",\"scale_attn_weights\":false"), "scale_attn_weights"},
        {GPT2(",\"scale_attn_by_inverse_layer_idx\":true"), "scale_attn_by_inverse_layer_idx"},
        {LLAMA("qwen2", ",\"head_dim\":24"), "qwen2 whose heads"},
        {LLAMA("qwen3", ",\"attention_bias\":true"), "qwen3 with attention_bias"},
        {LLAMA("qwen3", ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
               "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32}"), "rope_type 'llama3'"},
    };
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct made m;
        FAILS(make(refused[i].config, &m), ZN_ERR_UNSUPPORTED, refused[i].name, "llama.cpp has no such model");
        assert_null(m.gguf);
        fini(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_is_described_and_paired),
        cmocka_unit_test(a_tied_head_is_left_out),
        cmocka_unit_test(rows_that_are_no_blocks_fall_back_to_f16),
        cmocka_unit_test(rope_scaling_is_a_key_or_a_tensor),
        cmocka_unit_test(mistral_is_a_llama_with_a_window),
        cmocka_unit_test(qwen_is_not_paired),
        cmocka_unit_test(gpt2_is_transposed),
        cmocka_unit_test(what_llama_cpp_does_not_compute_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
