/* SentencePiece's BPE in llama.cpp's words: types, scores and prefixes, and merges that scores cannot say. */
#include "text/gguf_folder.h"

#define BLANK "\xe2\x96\x81"
#define PREPENDED                                                                                                        \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" BLANK "\"},"                            \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" BLANK "\"}]}"
#define METASPACE(scheme, split)                                                                                         \
    "{\"type\":\"Metaspace\",\"replacement\":\"" BLANK "\",\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"

/* <unk>, 256 bytes, then the tokens: from id 257 on. */
static char *make_pieces(const char *const *tokens, int n, const char *merges, int first_byte)
{
    char *text = malloc(16384);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0");
    for (int b = first_byte; b < 256; b++)
        at += (size_t)sprintf(text + at, ",\"<0x%02X>\":%d", (unsigned)b, b + 1);
    for (int i = 0; i < n; i++)
        at += (size_t)sprintf(text + at, ",\"%s\":%d", tokens[i], 257 + i);
    sprintf(text + at, "},\"merges\":[%s]}", merges);
    return text;
}

static const char *const PIECES[] = {"a", "b", "c", "ab", "abc", "bc"};
enum { N_PIECES = 6, N_ALL = 257 + 6 };
/* Every way to make abc, side by side. */
#define WHOLE "[\"a\",\"b\"],[\"ab\",\"c\"],[\"a\",\"bc\"],[\"b\",\"c\"]"

static void make_sentencepiece(const char *normalizer, const char *pre_tokenizer, const char *merges)
{
    char *model = make_pieces(PIECES, N_PIECES, merges, 0);
    make_config("{}");
    make_json(normalizer, pre_tokenizer, "null", ADDED(0, "<unk>", "true", "false"), model);
    free(model);
}

static void sentencepiece_has_types_and_scores(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    int32_t types[N_ALL] = {2};
    float scores[N_ALL] = {0};
    for (int i = 1; i < 257; i++)
        types[i] = 6;
    for (int i = 257; i < N_ALL; i++)
        types[i] = 1;
    scores[257] = scores[258] = scores[259] = -4; /* a, b, c: behind the merges */
    scores[260] = 0;                              /* ab: the first */
    scores[261] = -1;                             /* abc: the earlier of two */
    scores[262] = -3;
    make_sentencepiece(PREPENDED, "null", WHOLE);
    OK(describe(N_ALL, NULL, "{}", &m));
    has_string(&m, "tokenizer.ggml.model", "llama");
    has_numbers(&m, "tokenizer.ggml.token_type", ZN_GGUF_INT32, types, N_ALL);
    has_numbers(&m, "tokenizer.ggml.scores", ZN_GGUF_FLOAT32, scores, N_ALL);
    has_bool(&m, "tokenizer.ggml.add_space_prefix", true);
    has_u32(&m, "tokenizer.ggml.unknown_token_id", 0);
    has_no(&m, "tokenizer.ggml.merges");
    assert_string_equal(notes, "");
    zn_gguf_metadata_fini(&m);
    FAILS(describe(N_ALL, "gpt-2", "{}", &m), ZN_ERR_USAGE, "--pre gpt-2", "SentencePiece");
    zn_gguf_metadata_fini(&m);
}

static void metaspace_is_told_where_it_differs(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    make_sentencepiece("null", METASPACE("first", "false"), WHOLE);
    OK(describe(N_ALL, NULL, "{}", &m));
    has_bool(&m, "tokenizer.ggml.add_space_prefix", true);
    assert_non_null(strstr(notes, "Metaspace"));
    zn_gguf_metadata_fini(&m);
    make_sentencepiece("null", METASPACE("never", "false"), WHOLE);
    OK(describe(N_ALL, NULL, "{}", &m));
    has_bool(&m, "tokenizer.ggml.add_space_prefix", false);
    assert_string_equal(notes, "");
    zn_gguf_metadata_fini(&m);
    make_sentencepiece("null", METASPACE("first", "true"), WHOLE);
    FAILS(describe(N_ALL, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "pre_tokenizer", "SentencePiece");
    zn_gguf_metadata_fini(&m);
}

static void merges_that_scores_cannot_say_are_refused(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    /* a + bc is missing. */
    make_sentencepiece(PREPENDED, "null", "[\"a\",\"b\"],[\"ab\",\"c\"],[\"b\",\"c\"]");
    FAILS(describe(N_ALL, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "not all pairs merge to 'abc'", "llama.cpp");
    zn_gguf_metadata_fini(&m);
    /* bc stands between the two ways to make abc. */
    make_sentencepiece(PREPENDED, "null", "[\"a\",\"b\"],[\"ab\",\"c\"],[\"b\",\"c\"],[\"a\",\"bc\"]");
    FAILS(describe(N_ALL, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "others stand between those of 'abc'", "llama.cpp");
    zn_gguf_metadata_fini(&m);
}

static void sentencepiece_needs_its_bytes_and_spaces(void **state)
{
    (void)state;
    zn_gguf_metadata m;
    char *model = make_pieces(PIECES, N_PIECES, WHOLE, 1);
    make_config("{}");
    make_json(PREPENDED, "null", "null", "", model);
    FAILS(describe(N_ALL, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "<0x00>", "missing");
    zn_gguf_metadata_fini(&m);
    free(model);
    make_sentencepiece("null", "null", WHOLE);
    FAILS(describe(N_ALL, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "U+2581", "llama.cpp");
    zn_gguf_metadata_fini(&m);
    make_sentencepiece("{\"type\":\"NFKC\"}", "null", WHOLE);
    FAILS(describe(N_ALL, NULL, "{}", &m), ZN_ERR_UNSUPPORTED, "normalizer", "SentencePiece");
    zn_gguf_metadata_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_has_types_and_scores),
        cmocka_unit_test(metaspace_is_told_where_it_differs),
        cmocka_unit_test(merges_that_scores_cannot_say_are_refused),
        cmocka_unit_test(sentencepiece_needs_its_bytes_and_spaces),
    };
    return cmocka_run_group_tests(tests, make_hub, remove_test_folder);
}
