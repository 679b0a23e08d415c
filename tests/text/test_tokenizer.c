/* Every component of tokenizer.json against the ids and texts that the `tokenizers` library gave for
 * tests/data/tokenizer (tests/parity/make_tokenizer_fixtures.py), and what goes beyond a component:
 * threads, long words, invalid UTF-8, the folder's other files. */
#include "files.h"

#include <time.h>

#include "base/json.h"
#include "text/tokenizer.h"

static zn_json *cases;
static char *model_text[2];

static int open_cases(void **state)
{
    size_t n;
    static const char *const names[] = {"bytes", "chars"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        snprintf(path, sizeof path, ZN_TEST_DATA "/tokenizer/%s.json", names[i]);
        if (zn_file_read(path, 1 << 20, &model_text[i], &n) != ZN_OK)
            return -1;
    }
    if (zn_json_load_file(ZN_TEST_DATA "/tokenizer/cases.json", 1 << 22, &cases) != ZN_OK)
        return -1;
    return make_test_folder(state);
}

static int close_cases(void **state)
{
    zn_json_destroy(cases);
    free(model_text[0]);
    free(model_text[1]);
    return remove_test_folder(state);
}

/* `parts` ends where the model's vocabulary is to follow. */
static char *whole_json(const char *parts, const char *model)
{
    const char *rest = model_text[strcmp(model, "chars") == 0];
    char *json = malloc(strlen(parts) + strlen(rest) + 2);
    assert_non_null(json);
    sprintf(json, "%s%s}", parts, rest);
    return json;
}

static zn_tokenizer *load(const char *parts, const char *model)
{
    zn_tokenizer *t = NULL;
    char *json = whole_json(parts, model);
    OK(zn_tokenizer_load(json, strlen(json), "tokenizer.json", &t));
    free(json);
    return t;
}

static void check_ids(const zn_tokenizer *t, const char *text, bool special, zn_json *expected, const char *what)
{
    struct zn_ids ids = {0};
    OK(zn_tokenizer_encode(t, text, strlen(text), special, &ids));
    bool equal = ids.n == zn_json_n_items(expected);
    for (size_t i = 0; equal && i < ids.n; i++) {
        int64_t id;
        OK(zn_json_item_int(expected, i, 0, INT32_MAX, &id));
        equal = ids.id[i] == id;
    }
    if (!equal) {
        fprintf(stderr, "%s\n'%s':", what, text);
        for (size_t i = 0; i < ids.n; i++)
            fprintf(stderr, " %d", ids.id[i]);
        fail_msg("the ids are not those of the library");
    }
    zn_ids_fini(&ids);
}

static void check_decoded(const zn_tokenizer *t, zn_json *expected, bool skip, const char *text, const char *what)
{
    struct zn_ids ids = {0};
    char *decoded;
    size_t n;
    for (size_t i = 0; i < zn_json_n_items(expected); i++) {
        int64_t id;
        OK(zn_json_item_int(expected, i, 0, INT32_MAX, &id));
        OK(zn_ids_add(&ids, (int32_t)id));
    }
    OK(zn_tokenizer_decode(t, ids.id, ids.n, skip, &decoded, &n));
    assert_int_equal(n, strlen(decoded));
    if (strcmp(decoded, text) != 0)
        fail_msg("%s\ndecoded to '%s', not '%s'", what, decoded, text);
    free(decoded);
    zn_ids_fini(&ids);
}

static void check_case(const zn_tokenizer *t, zn_json *item, bool decodes, const char *what)
{
    zn_json *texts, *ids, *special;
    const char *text, *decoded, *skipped;
    int64_t i;
    OK(zn_json_get_array(cases, "texts", &texts));
    OK(zn_json_get_int(item, "text", 0, INT32_MAX, &i));
    OK(zn_json_item_string(texts, (size_t)i, &text));
    OK(zn_json_get_array(item, "ids", &ids));
    check_ids(t, text, false, ids, what);
    if (!decodes)
        return;
    OK(zn_json_get_array_or_null(item, "special", &special));
    check_ids(t, text, true, special ? special : ids, what);
    OK(zn_json_get_string_or(item, "decoded", text, &decoded));
    OK(zn_json_get_string_or(item, "skipped", decoded, &skipped));
    check_decoded(t, ids, false, decoded, what);
    check_decoded(t, ids, true, skipped, what);
}

static void check_group(const char *wanted, bool decodes)
{
    zn_json *variants, *variant, *list, *item;
    const char *group, *model, *parts;
    size_t n = 0;
    OK(zn_json_get_array(cases, "variants", &variants));
    for (size_t i = 0; i < zn_json_n_items(variants); i++) {
        OK(zn_json_item_object(variants, i, &variant));
        OK(zn_json_get_string(variant, "group", &group));
        if (strcmp(group, wanted) != 0)
            continue;
        OK(zn_json_get_string(variant, "json", &parts));
        OK(zn_json_get_string(variant, "model", &model));
        OK(zn_json_get_array(variant, "cases", &list));
        zn_tokenizer *t = load(parts, model);
        for (size_t k = 0; k < zn_json_n_items(list); k++, n++) {
            OK(zn_json_item_object(list, k, &item));
            check_case(t, item, decodes, parts);
        }
        zn_tokenizer_close(t);
    }
    assert_true(n > 20);
}

#define GROUP(name, decodes)                                                                       \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_group(#name, decodes);                                                               \
    }
GROUP(byte_level, true)
GROUP(behaviors, false)
GROUP(patterns, false)
GROUP(pre_tokenizers, false)
GROUP(metaspace, true)
GROUP(normalizers, true)
GROUP(added_tokens, true)
GROUP(unknown_characters, true)
GROUP(long_words, true)
GROUP(decoders, true)
GROUP(post_processors, true)

/* ---- Beyond components ---- */

#define GPT2 "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{"
#define PLAIN "{\"model\":{\"byte_fallback\":true,"
#define DIGITS                                                                                     \
    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\",\"split\":true}]},\"model\":{\"unk_token\":\"<unk>\","

static void same_ids(const struct zn_ids *a, const struct zn_ids *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->id, b->id, a->n * sizeof a->id[0]);
}

/* A text that is long enough to be shared: words, long runs, unknown characters. */
static char *long_text(size_t n)
{
    static const char *const words[] = {"hello", " world", " the-final", "--", "\n", " 1234", "aaaaaaaaaaaaaaaaaaaa",
                                        " \xe2\x98\x83", " \xc3\xa9t\xc3\xa9", "  ", "b"};
    char *text = malloc(n + 64);
    size_t at = 0;
    uint32_t random = 1;
    assert_non_null(text);
    while (at < n) {
        random = random * 1664525 + 1013904223;
        const char *word = words[(random >> 16) % COUNT(words)];
        memcpy(text + at, word, strlen(word));
        at += strlen(word);
    }
    text[at] = '\0';
    return text;
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const char *const parts[] = {(GPT2), (PLAIN), (DIGITS)};
    char *text = long_text(1500000);
    for (size_t i = 0; i < COUNT(parts); i++) {
        zn_tokenizer *t = load(parts[i], i == 0 ? "bytes" : "chars");
        struct zn_ids one = {0}, more = {0}, head = {0};
        OK(zn_tokenizer_encode(t, text, strlen(text), false, &one));
        for (int n = 2; n <= 4; n++) {
            zn_tokenizer_set_threads(t, n);
            more.n = 0;
            OK(zn_tokenizer_encode(t, text, strlen(text), false, &more));
            same_ids(&one, &more);
        }
        /* And the begin has the ids that it has when it is short. */
        OK(zn_tokenizer_encode(t, text, 20000, false, &head));
        assert_memory_equal(head.id, one.id, (head.n - 10) * sizeof one.id[0]);
        zn_ids_fini(&one);
        zn_ids_fini(&more);
        zn_ids_fini(&head);
        zn_tokenizer_close(t);
    }
    free(text);
}

/* A failure in one of the threads is the failure of the call. */
static void failures_in_threads_are_told(void **state)
{
    (void)state;
    zn_tokenizer *t = load("{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"unk_token\":\"gone\",", "chars");
    char *text = long_text(600000);
    struct zn_ids ids = {0};
    OK(zn_ids_add(&ids, 7));
    zn_tokenizer_set_threads(t, 3);
    FAILS(zn_tokenizer_encode(t, text, strlen(text), false, &ids), ZN_ERR_INPUT, "not in the vocabulary", "gone");
    assert_int_equal(ids.n, 1);
    zn_ids_fini(&ids);
    zn_tokenizer_close(t);
    free(text);
}

/* One megabyte without a place to cut is linear, not quadratic: seconds would be hours. */
static void long_words_take_seconds(void **state)
{
    (void)state;
    enum { N = 1000000 };
    zn_tokenizer *t = load(PLAIN, "chars");
    zn_tokenizer *bytes = load(GPT2, "bytes");
    char *word = malloc(N);
    assert_non_null(word);
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < N; i++)
            word[i] = kind == 0 ? 'a' : kind == 1 ? "ab-"[i * i % 3] : ' ';
        struct zn_ids ids = {0};
        clock_t start = clock();
        OK(zn_tokenizer_encode(t, word, N, false, &ids));
        OK(zn_tokenizer_encode(bytes, word, N, false, &ids));
        assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
        zn_ids_fini(&ids);
    }
    free(word);
    zn_tokenizer_close(t);
    zn_tokenizer_close(bytes);
}

static void what_is_not_utf8_becomes_fffd(void **state)
{
    (void)state;
    static const struct {
        const char *bad, *good;
    } pairs[] = {
        {"a\xff""b", "a\xef\xbf\xbd""b"},
        {"\xe2\x98", "\xef\xbf\xbd"},
        {"\xe2\x98z", "\xef\xbf\xbdz"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\x98 ok \x80", "\xef\xbf\xbd ok \xef\xbf\xbd"},
    };
    zn_tokenizer *t = load(GPT2, "bytes");
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct zn_ids bad = {0}, good = {0};
        OK(zn_tokenizer_encode(t, pairs[i].bad, strlen(pairs[i].bad), false, &bad));
        OK(zn_tokenizer_encode(t, pairs[i].good, strlen(pairs[i].good), false, &good));
        same_ids(&good, &bad);
        zn_ids_fini(&bad);
        zn_ids_fini(&good);
    }
    zn_tokenizer_close(t);
}

static void nul_is_a_character(void **state)
{
    (void)state;
    zn_tokenizer *t = load(GPT2, "bytes");
    struct zn_ids ids = {0};
    char *text;
    size_t n;
    OK(zn_tokenizer_encode(t, "a\0b", 3, false, &ids));
    OK(zn_tokenizer_decode(t, ids.id, ids.n, false, &text, &n));
    assert_int_equal(n, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    ids.n = 0;
    OK(zn_tokenizer_encode(t, "", 0, true, &ids));
    assert_int_equal(ids.n, 0);
    OK(zn_tokenizer_decode(t, NULL, 0, false, &text, &n));
    assert_int_equal(n, 0);
    free(text);
    zn_ids_fini(&ids);
    zn_tokenizer_close(t);
}

static void ids_that_are_not_there(void **state)
{
    (void)state;
    zn_tokenizer *t = load(GPT2, "bytes");
    char *text;
    size_t n;
    FAILS(zn_tokenizer_decode(t, (const int32_t[]){1, 99999}, 2, false, &text, &n), ZN_ERR_INPUT, "tokenizer.json", "99999");
    FAILS(zn_tokenizer_decode(t, (const int32_t[]){-1}, 1, false, &text, &n), ZN_ERR_INPUT, "tokenizer.json", "-1");
    assert_int_equal(zn_tokenizer_id(t, "no such token"), -1);
    assert_int_equal(zn_tokenizer_id(t, "!"), 0);
    zn_tokenizer_close(t);
}

/* ---- The folder ---- */

#define TINY                                                                                       \
    "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"       \
    "\"normalized\":false,\"special\":true},{\"id\":4,\"content\":\"<x>\",\"single_word\":false,\"lstrip\":false,"    \
    "\"rstrip\":false,\"normalized\":false,\"special\":false}],"                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}"

static zn_tokenizer *open_folder(const char *config, const char *template)
{
    zn_tokenizer *t = NULL;
    make_text("tokenizer.json", TINY);
    remove(in_folder("tokenizer_config.json"));
    remove(in_folder("chat_template.jinja"));
    if (config)
        make_text("tokenizer_config.json", config);
    if (template)
        make_text("chat_template.jinja", template);
    OK(zn_tokenizer_open(test_folder, &t));
    return t;
}

static void special_tokens_of_the_folder(void **state)
{
    (void)state;
    zn_tokenizer *t = open_folder("{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"b\"},\"chat_template\":\"one\"}", NULL);
    assert_int_equal(zn_tokenizer_bos(t), 3);
    assert_int_equal(zn_tokenizer_eos(t), 1);
    assert_int_equal(zn_tokenizer_n_ids(t), 5);
    assert_true(zn_tokenizer_is_special(t, 3));
    assert_false(zn_tokenizer_is_special(t, 4));
    assert_false(zn_tokenizer_is_special(t, 0));
    assert_string_equal(zn_tokenizer_chat_template(t), "one");
    zn_tokenizer_close(t);
    t = open_folder(NULL, NULL);
    assert_int_equal(zn_tokenizer_bos(t), -1);
    assert_int_equal(zn_tokenizer_eos(t), -1);
    assert_null(zn_tokenizer_chat_template(t));
    zn_tokenizer_close(t);
    t = open_folder("{\"eos_token\":null,\"bos_token\":\"gone\",\"chat_template\":[{\"name\":\"tools\",\"template\":\"t\"},"
                    "{\"name\":\"default\",\"template\":\"d\"}]}", NULL);
    assert_int_equal(zn_tokenizer_bos(t), -1);
    assert_string_equal(zn_tokenizer_chat_template(t), "d");
    zn_tokenizer_close(t);
    t = open_folder("{\"chat_template\":\"one\"}", "two\n");
    assert_string_equal(zn_tokenizer_chat_template(t), "two\n");
    zn_tokenizer_close(t);
    make_text("tokenizer_config.json", "{\"eos_token\":5}");
    FAILS(zn_tokenizer_open(test_folder, &t), ZN_ERR_INPUT, "tokenizer_config.json", "eos_token");
    remove(in_folder("tokenizer.json"));
    FAILS(zn_tokenizer_open(test_folder, &t), ZN_ERR_INPUT, "tokenizer.json", "save_pretrained");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level),
        cmocka_unit_test(behaviors),
        cmocka_unit_test(patterns),
        cmocka_unit_test(pre_tokenizers),
        cmocka_unit_test(metaspace),
        cmocka_unit_test(normalizers),
        cmocka_unit_test(added_tokens),
        cmocka_unit_test(unknown_characters),
        cmocka_unit_test(long_words),
        cmocka_unit_test(decoders),
        cmocka_unit_test(post_processors),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(failures_in_threads_are_told),
        cmocka_unit_test(long_words_take_seconds),
        cmocka_unit_test(what_is_not_utf8_becomes_fffd),
        cmocka_unit_test(nul_is_a_character),
        cmocka_unit_test(ids_that_are_not_there),
        cmocka_unit_test(special_tokens_of_the_folder),
    };
    return cmocka_run_group_tests(tests, open_cases, close_cases);
}
