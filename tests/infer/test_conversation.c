/* A conversation keeps what it has computed, may be stopped, and is left as it was by a message that does not fit. With random
 * weights: a folder of the demo's shape with the tokenizer of the chat tests. */
#include "files.h"

#include "zinc/generate.h"
#include "zinc/train.h"

static char model[256];

static void copy(const char *name)
{
    char path[512], *data;
    size_t n;
    snprintf(path, sizeof path, "%s/chat/bytes/%s", ZN_TEST_DATA, name);
    OK(zn_file_read(path, 1 << 20, &data, &n));
    char made[64];
    snprintf(made, sizeof made, "made/%.40s", name);
    make_file(made, data, n);
    free(data);
}

static int make_model(void **state)
{
    struct zn_train_options options;
    const char *data[1];
    if (make_test_folder(state) != 0)
        return -1;
    OK(zn_folder_create(in_folder("made")));
    copy("tokenizer.json");
    copy("tokenizer_config.json");
    make_text("made/config.json",
              "{\"model_type\":\"llama\",\"vocab_size\":380,\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,"
              "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":256,\"rms_norm_eps\":1e-5,"
              "\"tie_word_embeddings\":true,\"eos_token_id\":2}");
    make_text("text.txt", "One two three four five six seven eight.");
    snprintf(model, sizeof model, "%s", in_folder("model"));
    zn_train_options_init(&options);
    data[0] = in_folder("text.txt");
    ZN_SET(options, model, in_folder("made"));
    ZN_SET_WORDS(options, data, data, 1);
    ZN_SET(options, from_scratch, true);
    ZN_SET(options, steps, 0);
    ZN_SET(options, seq_len, 8);
    ZN_SET(options, output, model);
    OK(zn_train(&options));
    return 0;
}

/* Stops after so many tokens. */
struct stopper {
    int left;
};

static bool is_stopped(void *self)
{
    struct stopper *s = self;
    return s->left-- <= 0;
}

static void open_talk(struct zn_generate_options *options, zn_generator **generator)
{
    zn_generate_options_init(options);
    ZN_SET(*options, model, model);
    ZN_SET(*options, chat, true);
    OK(zn_generator_create(options, generator));
    assert_int_equal(zn_generator_n_prompts(*generator), 0);
}

static void what_was_computed_is_kept(void **state)
{
    (void)state;
    struct zn_generate_options options;
    struct stopper stopper = {.left = 3};
    struct zn_generate_result first, second, again;
    zn_generator *g;
    zn_generate_options_init(&options);
    options.listener.self = &stopper;
    options.listener.is_stopped = is_stopped;
    ZN_SET(options, model, model);
    ZN_SET(options, chat, true);
    OK(zn_generator_create(&options, &g));
    OK(zn_generator_say(g, "Hello", &first));
    assert_true(first.is_stopped);
    assert_int_equal(first.n_ids, 3);
    assert_int_equal(first.n_kept, 0);
    stopper.left = 3;
    OK(zn_generator_say(g, "And?", &second));
    size_t alike = 0; /* the last token of the first prompt may have become one with the answer */
    while (alike < first.n_prompt_ids && second.prompt_ids[alike] == first.prompt_ids[alike])
        alike++;
    for (size_t i = 0; alike == first.n_prompt_ids + i && i < first.n_ids && second.prompt_ids[alike] == first.ids[i]; i++)
        alike++;
    assert_true(alike >= first.n_prompt_ids - 1);
    assert_int_equal(second.n_kept, alike);
    OK(zn_generator_reset(g, NULL));
    stopper.left = 3;
    OK(zn_generator_say(g, "Hello", &again));
    assert_int_equal(again.n_kept, first.n_prompt_ids - 1); /* the logits of the last token are computed again */
    assert_int_equal(again.n_ids, first.n_ids);
    assert_memory_equal(again.ids, first.ids, first.n_ids * sizeof(int32_t));
    zn_generate_result_fini(&first);
    zn_generate_result_fini(&second);
    zn_generate_result_fini(&again);
    zn_generator_destroy(g);
}

static void a_message_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    char longer[600];
    struct zn_generate_options options;
    struct zn_generate_result result, alone;
    zn_generator *g;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    open_talk(&options, &g);
    FAILS(zn_generator_say(g, longer, &result), ZN_ERR_USAGE, "it holds 256", "/reset");
    OK(zn_generator_say(g, "Hello", &result));
    zn_generator_destroy(g);
    open_talk(&options, &g);
    OK(zn_generator_say(g, "Hello", &alone));
    assert_int_equal(result.n_ids, alone.n_ids);
    assert_memory_equal(result.ids, alone.ids, alone.n_ids * sizeof(int32_t));
    assert_true(result.n_ids + result.n_prompt_ids <= 256);
    zn_generate_result_fini(&result);
    zn_generate_result_fini(&alone);
    zn_generator_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_computed_is_kept),
        cmocka_unit_test(a_message_that_does_not_fit_changes_nothing),
    };
    return cmocka_run_group_tests(tests, make_model, remove_test_folder);
}
