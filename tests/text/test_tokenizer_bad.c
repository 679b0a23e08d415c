/* Malformed, hostile and unsupported tokenizer files: one line that names the file, the place and what
 * is wrong there. */
#include "files.h"

#include "text/tokenizer.h"

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"
#define FLAGS "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"special\":false"

#define BAD(json, first, second)                                                                   \
    do {                                                                                           \
        zn_tokenizer *t_ = NULL;                                                                   \
        const char *json_ = json;                                                                  \
        FAILS(zn_tokenizer_load(json_, strlen(json_), "tokenizer.json", &t_), ZN_ERR_INPUT, first, second); \
        assert_non_null(strstr(zn_error_message(), "tokenizer.json"));                             \
        assert_null(t_);                                                                           \
    } while (0)

static void not_json_and_not_a_tokenizer(void **state)
{
    (void)state;
    BAD("", "not valid JSON", "");
    BAD("{\"model\":", "not valid JSON", "line 1");
    BAD("[]", "expected an object", "array");
    BAD("{}", "'model'", "missing");
    BAD("{\"model\":7}", "'model'", "expected an object");
    BAD("{\"version\":\"2.0\"," MODEL "}", "version 2.0", "not known");
    BAD("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xff\":0},\"merges\":[]}}", "not valid JSON", "0xff");
}

static void other_models(void **state)
{
    (void)state;
    static const char *const types[] = {"Unigram", "WordPiece", "WordLevel"};
    for (size_t i = 0; i < COUNT(types); i++) {
        char json[128];
        snprintf(json, sizeof json, "{\"model\":{\"type\":\"%s\",\"vocab\":{}}}", types[i]);
        BAD(json, types[i], "not supported");
    }
    BAD("{\"model\":{\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}", "'model'", "dropout");
    BAD("{\"model\":{\"continuing_subword_prefix\":\"##\",\"vocab\":{},\"merges\":[]}}", "continuing_subword_prefix", "##");
    BAD("{\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[]}}", "end_of_word_suffix", "</w>");
}

static void vocabularies(void **state)
{
    (void)state;
    BAD("{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "model.vocab.a", "found -1");
    BAD("{\"model\":{\"vocab\":{\"a\":2147483647},\"merges\":[]}}", "model.vocab.a", "2147483647");
    BAD("{\"model\":{\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}", "model.vocab.a", "found 1");
    BAD("{\"model\":{\"vocab\":{\"a\":1.5},\"merges\":[]}}", "model.vocab.a", "1.5");
    BAD("{\"model\":{\"vocab\":{\"a\":\"1\"},\"merges\":[]}}", "model.vocab.a", "expected an integer");
    BAD("{\"model\":{\"vocab\":{\"a\":3,\"b\":3},\"merges\":[]}}", "model.vocab", "two tokens have the id 3");
    BAD("{\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}", "not valid JSON", "duplicate");
    BAD("{\"model\":{\"vocab\":[],\"merges\":[]}}", "model.vocab", "expected an object");
    BAD("{\"model\":{\"vocab\":{}}}", "model.merges", "missing");
}

/* An id far beyond the others is legal and costs nothing. */
static void a_large_id_is_an_id(void **state)
{
    (void)state;
    const char *json = "{\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"vocab\":{\"a\":2147483646,\"b\":5},\"merges\":[]}}";
    zn_tokenizer *t;
    struct zn_ids ids = {0};
    char *text;
    size_t n;
    OK(zn_tokenizer_load(json, strlen(json), "tokenizer.json", &t));
    OK(zn_tokenizer_encode(t, "ba", 2, false, &ids));
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.id[1], 2147483646);
    assert_int_equal(zn_tokenizer_n_ids(t), 2147483647);
    OK(zn_tokenizer_decode(t, ids.id, 2, false, &text, &n));
    assert_string_equal(text, "ba");
    free(text);
    zn_ids_fini(&ids);
    zn_tokenizer_close(t);
}

static void merges(void **state)
{
    (void)state;
#define MERGES(list) "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\":3},\"merges\":[" list "]}}"
    BAD(MERGES("\"a b\",\"a x\""), "model.merges", "merge 1 needs the token 'x'");
    BAD(MERGES("\"y b\""), "model.merges", "'y'");
    BAD(MERGES("\"b a\""), "model.merges", "'ba'");
    BAD(MERGES("[\"ab\",\"ab\"]"), "model.merges", "'abab'");
    BAD(MERGES("\"ab\""), "merge 0", "two tokens");
    BAD(MERGES("\"a b c\""), "merge 0", "two tokens");
    BAD(MERGES("[\"a\"]"), "model.merges[0]", "expected two tokens, found 1");
    BAD(MERGES("[\"a\",7]"), "model.merges[0][1]", "expected a string");
    BAD(MERGES("7"), "model.merges[0]", "expected a string");
#undef MERGES
    /* A merge that gives one of its own parts is no endless loop. */
    const char *json = "{\"model\":{\"vocab\":{\"a\":0,\"\":1,\"aa\":2},\"merges\":[[\"a\",\"\"],[\"\",\"a\"],[\"a\",\"a\"],[\"aa\",\"\"]]}}";
    zn_tokenizer *t;
    struct zn_ids ids = {0};
    OK(zn_tokenizer_load(json, strlen(json), "tokenizer.json", &t));
    OK(zn_tokenizer_encode(t, "aaaaa", 5, false, &ids));
    assert_int_equal(ids.n, 3);
    zn_ids_fini(&ids);
    zn_tokenizer_close(t);
}

static void components_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *type;
    } unknown[] = {
        {"normalizer", "BertNormalizer"}, {"normalizer", "Precompiled"}, {"normalizer", "StripAccents"},
        {"pre_tokenizer", "BertPreTokenizer"}, {"pre_tokenizer", "UnicodeScripts"}, {"pre_tokenizer", "CharDelimiterSplit"},
        {"post_processor", "RobertaProcessing"}, {"post_processor", "BertProcessing"},
        {"decoder", "WordPiece"}, {"decoder", "CTC"}, {"decoder", "BPEDecoder"},
    };
    for (size_t i = 0; i < COUNT(unknown); i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"%s\":{\"type\":\"%s\"}," MODEL "}", unknown[i].key, unknown[i].type);
        BAD(json, unknown[i].key, unknown[i].type);
        assert_non_null(strstr(zn_error_message(), "not supported"));
    }
    BAD("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Nmt\"}]}," MODEL "}",
        "normalizer.normalizers[1]", "Nmt");
    BAD("{\"truncation\":{\"max_length\":5}," MODEL "}", "truncation", "not supported");
    BAD("{\"padding\":{}," MODEL "}", "padding", "not supported");
    BAD("{\"normalizer\":{}," MODEL "}", "normalizer.type", "missing");
    BAD("{\"normalizer\":{\"type\":\"NFC\\n\"}," MODEL "}", "normalizer", "NFC?");
}

static void wrong_fields(void **state)
{
    (void)state;
#define PRE(json) "{\"pre_tokenizer\":" json "," MODEL "}"
    BAD(PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\",\"invert\":false}"), "pre_tokenizer.pattern", "empty");
    BAD(PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Sideways\",\"invert\":false}"), "pre_tokenizer", "Sideways");
    BAD(PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Isolated\"}"), "pre_tokenizer.invert", "missing");
    BAD(PRE("{\"type\":\"Digits\"}"), "individual_digits", "missing");
    BAD(PRE("{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), "pre_tokenizer", "one character");
    BAD(PRE("{\"type\":\"Metaspace\",\"replacement\":\"a\",\"prepend_scheme\":\"often\"}"), "pre_tokenizer", "often");
    BAD(PRE("{\"type\":\"Metaspace\",\"replacement\":\"a\",\"add_prefix_space\":false}"), "pre_tokenizer", "add_prefix_space");
#undef PRE
    BAD("{\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}," MODEL "}", "decoder.start", "-1");
#define TEMPLATE(single) "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single "],\"special_tokens\":{}}," MODEL "}"
    BAD(TEMPLATE(""), "single", "without the text");
    BAD(TEMPLATE("{\"Sequence\":{\"id\":\"B\"}}"), "single[0]", "once, as A");
    BAD(TEMPLATE("{\"SpecialToken\":{\"id\":\"<s>\"}}"), "special_tokens.<s>", "missing");
#undef TEMPLATE
    BAD("{\"added_tokens\":[{\"id\":-5,\"content\":\"x\",\"normalized\":false," FLAGS "}]," MODEL "}", "added_tokens[0].id", "-5");
    BAD("{\"added_tokens\":[{\"id\":5,\"content\":\"x\"}]," MODEL "}", "added_tokens[0].single_word", "missing");
    BAD("{\"added_tokens\":[7]," MODEL "}", "added_tokens[0]", "expected an object");
    BAD("{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"\"},\"added_tokens\":[{\"id\":5,\"content\":\"x\","
        "\"normalized\":true," FLAGS "}]," MODEL "}", "added_tokens[0]", "nothing is left of 'x'");
    BAD("{\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":5,\"content\":\"X\",\"normalized\":true," FLAGS "},"
        "{\"id\":6,\"content\":\"x\",\"normalized\":true," FLAGS "}]," MODEL "}", "added_tokens", "the same text 'x'");
}

static void sequences_in_sequences(void **state)
{
    (void)state;
    enum { DEPTH = 100 };
    static char json[DEPTH * 64];
    json[0] = '\0';
    strcat(json, "{\"pre_tokenizer\":");
    for (int i = 0; i < DEPTH; i++)
        strcat(json, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    strcat(json, "{\"type\":\"Whitespace\"}");
    for (int i = 0; i < DEPTH; i++)
        strcat(json, "]}");
    strcat(json, "," MODEL "}");
    BAD(json, "pre_tokenizer", "sequences in each other");
    strcpy(json, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}");
    for (int i = 0; i < 40; i++)
        strcat(json, ",{\"type\":\"NFC\"}");
    strcat(json, "]}," MODEL "}");
    BAD(json, "normalizer", "more than 32 components");
}

/* ---- Patterns ---- */

static void with_pattern(char *json, size_t size, const char *pattern)
{
    snprintf(json, size, "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\",\"invert\":false}," MODEL "}",
             pattern);
}

static void patterns_that_do_not_compile(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *cause;
    } bad[] = {
        {"(a", "does not compile"}, {"a)", "a ) without ("}, {"[a", "a class without an end"}, {"*a", "does not compile"},
        {"a{2,1}", "wrong count"}, {"a{99999}", "wrong count"}, {"\\\\", "a backslash at its end"}, {"[\\\\", "a backslash at its end"},
        {"\\\\q", "the escape \\q"}, {"\\\\p", "without a brace"}, {"\\\\p{", "plain name"}, {"\\\\p{Klingon}", "does not compile"},
        {"[a&&b]", "an intersection"}, {"[a[^b]]", "a negated class in a class"}, {"(?<n>a)", "the group (?<"}, {"(?R)", "the group (?R"},
        {"(*FAIL)", "a verb"}, {"a(?i)b", "an option"}, {"\\\\x80", "no character"}, {"\\\\C", "the escape \\C"}, {"\\\\K", "the escape \\K"},
        {"[[:bogus:]]", "[:class:]"}, {"\\\\x{110000}", "character number"}, {"(?<=a*)b", "does not compile"}, {"\\\\Qa\\\\E", "the escape \\Q"}, {"(?i:off)", "'ff' in any case"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char json[512];
        with_pattern(json, sizeof json, bad[i].pattern);
        BAD(json, "pre_tokenizer.pattern", bad[i].cause);
    }
}

static void huge_patterns(void **state)
{
    (void)state;
    static char pattern[30000], json[40000];
    memset(pattern, 'a', sizeof pattern - 1);
    with_pattern(json, sizeof json, pattern);
    BAD(json, "pre_tokenizer.pattern", "more than 20000 bytes");
    memset(pattern, '(', 5000);
    strcpy(pattern + 5000, "a");
    memset(pattern + 5001, ')', 5000);
    pattern[10001] = '\0';
    with_pattern(json, sizeof json, pattern);
    BAD(json, "pre_tokenizer.pattern", "groups in each other");
    with_pattern(json, sizeof json, "(?:(?:(?:a{1000}){1000}){1000}){1000}");
    BAD(json, "pre_tokenizer.pattern", "does not compile");
}

/* The steps of a match are limited: the text is refused, nothing hangs. */
static void patterns_that_explode(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(a+)+c", "(a|a)*c", "(?:a*)*b", "(a*)*\\\\1c"};
    char text[64];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "xc", 2); /* PCRE2 looks first whether there is a c */
    for (size_t i = 0; i < COUNT(patterns); i++) {
        char json[512];
        zn_tokenizer *t;
        struct zn_ids ids = {0};
        with_pattern(json, sizeof json, patterns[i]);
        OK(zn_tokenizer_load(json, strlen(json), "tokenizer.json", &t));
        zn_status status = zn_tokenizer_encode(t, text, sizeof text, false, &ids);
        if (status != ZN_OK) /* some are seen through by PCRE2 */
            check_message("pattern", "match limit");
        if (i == 0)
            assert_int_equal(status, ZN_ERR_INPUT);
        zn_ids_fini(&ids);
        zn_tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_json_and_not_a_tokenizer),
        cmocka_unit_test(other_models),
        cmocka_unit_test(vocabularies),
        cmocka_unit_test(a_large_id_is_an_id),
        cmocka_unit_test(merges),
        cmocka_unit_test(components_by_name),
        cmocka_unit_test(wrong_fields),
        cmocka_unit_test(sequences_in_sequences),
        cmocka_unit_test(patterns_that_do_not_compile),
        cmocka_unit_test(huge_patterns),
        cmocka_unit_test(patterns_that_explode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
