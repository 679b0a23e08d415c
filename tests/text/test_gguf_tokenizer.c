/* Byte-level BPE in llama.cpp's words: tokens and their types, merges, special ids, the pre-tokenizer by its pattern, and what is
 * refused. */
#include "text/gguf_folder.h"

#define QWEN "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+" \
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3 "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}" \
    "\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define TEKKEN "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "+" LOWER \
    "*|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define BYTE_LEVEL(prefix, regex) "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix ",\"use_regex\":" regex "}"
#define SPLIT(pattern)                                                                                                     \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":" \
    "\"Isolated\",\"invert\":false}," BYTE_LEVEL("false", "false") "]}"

#define SMALL "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3},\"merges\":[[\"a\",\"b\"]]}"
#define PLAIN BYTE_LEVEL("false", "true")

static void byte_level_has_tokens_types_and_merges(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    static const char *const tokens[] = {"a", "b", "ab", "\xc4\xa0", "<s>", "<|x|>", "a b", "[PAD7]"};
    static const int32_t types[] = {1, 1, 1, 1, 3, 3, 4, 5};
    static const char *const merges[] = {"a b"};
    make_json("null", PLAIN, "null", ADDED(4, "<s>", "true", "false") "," ADDED(5, "<|x|>", "false", "false") ","
              ADDED(6, "a\xe2\x96\x81" "b", "false", "false"), SMALL);
    make_config("{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"<|x|>\"},\"pad_token\":\"b\",\"chat_template\":\"{{ x }}\"}");
    OK(describe(8, NULL, "{}", &m));
    has_string(&m, "tokenizer.ggml.model", "gpt2");
    has_string(&m, "tokenizer.ggml.pre", "gpt-2");
    has_strings(&m, "tokenizer.ggml.tokens", tokens, 8);
    has_numbers(&m, "tokenizer.ggml.token_type", ZN_GGUF_INT32, types, 8);
    has_strings(&m, "tokenizer.ggml.merges", merges, 1);
    has_u32(&m, "tokenizer.ggml.bos_token_id", 4);
    has_u32(&m, "tokenizer.ggml.eos_token_id", 5);
    has_u32(&m, "tokenizer.ggml.padding_token_id", 1);
    has_no(&m, "tokenizer.ggml.unknown_token_id");
    has_no(&m, "tokenizer.ggml.scores");
    has_bool(&m, "tokenizer.ggml.add_bos_token", false);
    has_bool(&m, "tokenizer.ggml.add_eos_token", false);
    has_string(&m, "tokenizer.chat_template", "{{ x }}");
    assert_string_equal(notes, "");
    zn_gguf_metadata_fini(&m);
}

static void merges_in_the_older_form_are_the_same(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    static const char *const merges[] = {"a b"};
    make_config("{}");
    make_json("null", PLAIN, "null", "", "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":"
              "[\"#version: 0.2\",\"a b\"]}");
    OK(describe(3, NULL, "{}", &m));
    has_strings(&m, "tokenizer.ggml.merges", merges, 1);
    has_no(&m, "tokenizer.chat_template");
    zn_gguf_metadata_fini(&m);
}

static void ids_that_the_tokenizer_does_not_name_are_the_configs(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    make_config("{}");
    make_json("null", PLAIN, "null", "", SMALL);
    OK(describe(4, NULL, "{\"bos_token_id\":1,\"eos_token_id\":[2,3],\"pad_token_id\":-1}", &m));
    has_u32(&m, "tokenizer.ggml.bos_token_id", 1);
    has_u32(&m, "tokenizer.ggml.eos_token_id", 2);
    has_no(&m, "tokenizer.ggml.padding_token_id");
    zn_gguf_metadata_fini(&m);
    OK(describe(4, NULL, "{\"eos_token_id\":4}", &m)); /* beyond the vocabulary */
    has_no(&m, "tokenizer.ggml.eos_token_id");
    zn_gguf_metadata_fini(&m);
}

#define TEMPLATE(single) "{\"type\":\"TemplateProcessing\",\"single\":[" single "],\"pair\":[],\"special_tokens\":{\"a\":" \
    "{\"id\":\"a\",\"ids\":[0],\"tokens\":[\"a\"]},\"b\":{\"id\":\"b\",\"ids\":[1],\"tokens\":[\"b\"]}}}"
#define SPECIAL(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEXT "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"

static void tokens_around_texts_are_bos_and_eos(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    make_config("{\"bos_token\":\"a\"}");
    make_json("null", PLAIN, TEMPLATE(SPECIAL("a") "," TEXT), "", SMALL);
    OK(describe(4, NULL, "{}", &m));
    has_bool(&m, "tokenizer.ggml.add_bos_token", true);
    has_bool(&m, "tokenizer.ggml.add_eos_token", false);
    has_u32(&m, "tokenizer.ggml.bos_token_id", 0);
    zn_gguf_metadata_fini(&m);
    make_json("null", PLAIN, TEMPLATE(TEXT "," SPECIAL("b")), "", SMALL); /* eos_token is not named: it is this one */
    OK(describe(4, NULL, "{\"eos_token_id\":3}", &m));
    has_bool(&m, "tokenizer.ggml.add_eos_token", true);
    has_u32(&m, "tokenizer.ggml.eos_token_id", 1);
    zn_gguf_metadata_fini(&m);
    make_json("null", PLAIN, TEMPLATE(SPECIAL("b") "," TEXT), "", SMALL);
    FAILS(describe(4, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "post_processor", "bos_token");
    zn_gguf_metadata_fini(&m);
    make_json("null", PLAIN, TEMPLATE(TEXT "," SPECIAL("b") "," SPECIAL("b")), "", SMALL);
    FAILS(describe(4, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "post_processor", "eos_token");
    zn_gguf_metadata_fini(&m);
}

static void the_pattern_decides_the_pre_tokenizer(void **state)
{
    (void)state;
    static const struct {
        const char *pre_tokenizer, *ignore_merges, *name;
    } known[] = {
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," PLAIN "]}", "false",
         "smollm"},
        {SPLIT(LLAMA3), "true", "llama-bpe"},
        {SPLIT(LLAMA3), "false", "dbrx"},
        {SPLIT(QWEN), "false", "qwen2"},
        {SPLIT(TEKKEN), "true", "tekken"},
    };
    char model[256];
    zn_gguf_metadata m;
    make_config("{}");
    for (size_t i = 0; i < COUNT(known); i++) {
        snprintf(model, sizeof model, "{\"type\":\"BPE\",\"ignore_merges\":%s,\"vocab\":{\"a\":0},\"merges\":[]}",
                 known[i].ignore_merges);
        make_json("{\"type\":\"NFC\"}", known[i].pre_tokenizer, "null", "", model);
        OK(describe(1, NULL, "{}", &m));
        has_string(&m, "tokenizer.ggml.pre", known[i].name);
        /* Of these llama.cpp's Tekken alone leaves combining marks out. */
        assert_int_equal(strstr(notes, "combining marks") != NULL, strcmp(known[i].name, "tekken") == 0);
        zn_gguf_metadata_fini(&m);
    }
}

static void an_unknown_pre_tokenizer_is_refused_or_named(void **state)
{
    (void)state;
    static const char model[] = "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}";
    zn_gguf_metadata m;
    make_config("{}");
    make_json("null", SPLIT("x+|[^x]+"), "null", "", model);
    FAILS(describe(1, NULL, "{}", &m), ZN_ERR_INPUT, "the pattern x+|[^x]+", "--pre");
    zn_gguf_metadata_fini(&m);
    OK(describe(1, "viking", "{}", &m));
    has_string(&m, "tokenizer.ggml.pre", "viking");
    zn_gguf_metadata_fini(&m);
    make_json("null", "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Punctuation\"}," PLAIN "]}", "null", "", model);
    FAILS(describe(1, NULL, "{}", &m), ZN_ERR_INPUT, "Punctuation", "--pre");
    zn_gguf_metadata_fini(&m);
    make_json("null", BYTE_LEVEL("true", "true"), "null", "", model);
    FAILS(describe(1, NULL, "{}", &m), ZN_ERR_INPUT, "add_prefix_space", "llama.cpp");
    zn_gguf_metadata_fini(&m);
    make_json("{\"type\":\"Lowercase\"}", PLAIN, "null", "", model);
    FAILS(describe(1, NULL, "{}", &m), ZN_ERR_INPUT, "normalizer", "llama.cpp");
    zn_gguf_metadata_fini(&m);
}

static void ids_must_fit_the_vocabulary(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    make_config("{}");
    make_json("null", PLAIN, "null", "", SMALL);
    FAILS(describe(3, NULL, "{}", &m), ZN_ERR_INPUT, "ids up to 3", "vocab_size of config.json is 3");
    zn_gguf_metadata_fini(&m);
    make_json("null", PLAIN, "null", "", "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"[PAD2]\":1},\"merges\":[]}");
    FAILS(describe(3, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "[PAD2]", "");
    zn_gguf_metadata_fini(&m);
    OK(describe(2, NULL, "{}", &m)); /* the id 2 is not there */
    zn_gguf_metadata_fini(&m);
}

static void tokens_that_take_spaces_are_told(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    make_config("{}");
    make_json("null", PLAIN, "null", ADDED(4, "<mask>", "true", "true"), SMALL);
    OK(describe(5, NULL, "{}", &m));
    assert_non_null(strstr(notes, "'<mask>'"));
    zn_gguf_metadata_fini(&m);
}

static void other_tokenizers_are_refused(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    make_config("{}");
    make_json("null", "{\"type\":\"Whitespace\"}", "null", "", "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}");
    FAILS(describe(1, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "neither a byte-level BPE", "SentencePiece");
    zn_gguf_metadata_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_has_tokens_types_and_merges),
        cmocka_unit_test(merges_in_the_older_form_are_the_same),
        cmocka_unit_test(ids_that_the_tokenizer_does_not_name_are_the_configs),
        cmocka_unit_test(tokens_around_texts_are_bos_and_eos),
        cmocka_unit_test(the_pattern_decides_the_pre_tokenizer),
        cmocka_unit_test(an_unknown_pre_tokenizer_is_refused_or_named),
        cmocka_unit_test(ids_must_fit_the_vocabulary),
        cmocka_unit_test(tokens_that_take_spaces_are_told),
        cmocka_unit_test(other_tokenizers_are_refused),
    };
    return cmocka_run_group_tests(tests, make_hub, remove_test_folder);
}
