/* Typed JSON getters and their messages. */
#include "files.h"

#include "base/json.h"

static zn_json *load(const char *text)
{
    zn_json *json = NULL;
    OK(zn_json_load_buffer(text, strlen(text), "test.json", &json));
    return json;
}

static void reads_each_type(void **state)
{
    (void)state;
    zn_json *j = load("{\"i\":-3,\"n\":1.5,\"t\":true,\"f\":false,\"s\":\"a\\u00e9\",\"o\":{\"k\":1},"
                      "\"a\":[1,2.5,\"x\",[7],{\"y\":8}]}");
    int64_t i;
    double n;
    bool t, f;
    const char *s;
    zn_json *o, *a, *inner;
    OK(zn_json_get_int(j, "i", -5, 5, &i));
    assert_int_equal(i, -3);
    OK(zn_json_get_number(j, "n", &n));
    assert_true(n == 1.5);
    OK(zn_json_get_number(j, "i", &n));
    assert_true(n == -3.0);
    OK(zn_json_get_bool(j, "t", &t));
    OK(zn_json_get_bool(j, "f", &f));
    assert_true(t && !f);
    OK(zn_json_get_string(j, "s", &s));
    assert_string_equal(s, "a\xc3\xa9");
    OK(zn_json_get_object(j, "o", &o));
    OK(zn_json_get_int(o, "k", 0, 1, &i));
    assert_int_equal(i, 1);
    OK(zn_json_get_array(j, "a", &a));
    assert_int_equal(zn_json_n_items(a), 5);
    OK(zn_json_item_int(a, 0, 0, 9, &i));
    OK(zn_json_item_number(a, 1, &n));
    OK(zn_json_item_string(a, 2, &s));
    assert_true(i == 1 && n == 2.5 && strcmp(s, "x") == 0);
    OK(zn_json_item_array(a, 3, &inner));
    OK(zn_json_item_int(inner, 0, 0, 9, &i));
    assert_int_equal(i, 7);
    OK(zn_json_item_object(a, 4, &inner));
    OK(zn_json_get_int(inner, "y", 0, 9, &i));
    assert_int_equal(i, 8);
    assert_int_equal(zn_json_item_type(a, 4), ZN_JSON_OBJECT);
    assert_int_equal(zn_json_type_at(j, "n"), ZN_JSON_NUMBER);
    assert_int_equal(zn_json_type_of(j), ZN_JSON_OBJECT);
    zn_json_destroy(j);
}

static void integers_may_be_written_as_reals(void **state)
{
    (void)state;
    zn_json *j = load("{\"a\":1e5,\"b\":10000.0,\"c\":2.5,\"d\":1e300,"
                      "\"e\":9223372036854775808.0,\"f\":-9223372036854775808}");
    int64_t i = 0;
    OK(zn_json_get_int(j, "a", 0, INT64_MAX, &i));
    assert_int_equal(i, 100000);
    OK(zn_json_get_int(j, "b", 0, INT64_MAX, &i));
    assert_int_equal(i, 10000);
    FAILS(zn_json_get_int(j, "c", 0, 10, &i), ZN_ERR_INPUT, "test.json: 'c'", "found 2.5");
    FAILS(zn_json_get_int(j, "d", 0, INT64_MAX, &i), ZN_ERR_INPUT, "'d'", "found 1");
    FAILS(zn_json_get_int(j, "e", INT64_MIN, INT64_MAX, &i), ZN_ERR_INPUT, "'e'", "an integer");
    OK(zn_json_get_int(j, "f", INT64_MIN, 0, &i));
    assert_true(i == INT64_MIN);
    zn_json_destroy(j);
}

/* tokenizer_config.json of Llama 2 and others has "model_max_length": 1000000000000000019884624838656. */
static void integers_beyond_64_bits_are_reals(void **state)
{
    (void)state;
    zn_json *j = load("{\"s\":\"1000000000000000019884624838656\",\"a\":1000000000000000019884624838656,"
                      "\"b\":[-9223372036854775809,9223372036854775808,9223372036854775807],"
                      "\"c\":{\"d\":12345678901234567890}}");
    zn_json *b, *c;
    double n;
    int64_t i;
    const char *s;
    OK(zn_json_get_string(j, "s", &s));
    assert_string_equal(s, "1000000000000000019884624838656");
    OK(zn_json_get_number(j, "a", &n));
    assert_true(n == 1e30);
    FAILS(zn_json_get_int(j, "a", 0, 100, &i), ZN_ERR_INPUT, "'a'", "an integer from 0 to 100, found 1");
    OK(zn_json_get_array(j, "b", &b));
    OK(zn_json_item_number(b, 0, &n));
    assert_true(n == -0x1p63);
    OK(zn_json_item_number(b, 1, &n));
    assert_true(n == 0x1p63);
    OK(zn_json_item_int(b, 2, 0, INT64_MAX, &i)); /* still exact */
    assert_true(i == INT64_MAX);
    OK(zn_json_get_object(j, "c", &c));
    OK(zn_json_get_number(c, "d", &n));
    assert_true(n == 12345678901234567890.0);
    zn_json_destroy(j);
}

/* The place of an error is the one in the file, whatever numbers stand before it. */
static void places_behind_long_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\n\"\xc3\xa9\": 123456789012345678, \"b\": 123456789012345678, \"c\": tru}",
        "{\n\"\xc3\xa9\": 1234567890123456789012345678, \"b\": 12345678, \"c\": tru}",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        zn_json *j = NULL;
        FAILS(zn_json_load_buffer(texts[i], strlen(texts[i]), "test.json", &j), ZN_ERR_INPUT,
              "test.json: not valid JSON: line 2, column 58: ", "tru");
        assert_null(j);
    }
    zn_json *j = NULL;
    char digits[420];
    memset(digits, '7', 419);
    digits[419] = '\0';
    FAILS(zn_json_load_buffer(digits, 419, "test.json", &j), ZN_ERR_INPUT, "test.json: not valid JSON: line 1", "overflow");
}

static zn_json *load_row(const char *text, int64_t *n_replaced)
{
    zn_json *json = NULL;
    OK(zn_json_load_row(text, strlen(text), "rows.jsonl", 7, &json, n_replaced));
    return json;
}

/* What json.dumps writes that is no JSON. */
static void rows_as_python_writes_them(void **state)
{
    (void)state;
    int64_t n_replaced;
    const char *s;
    zn_json *j = load_row("{\"a\":NaN,\"b\": [Infinity, -Infinity,1e999],\"c\":-12345678901234567890,\"t\":\"NaN -Infinity\"}",
                          &n_replaced);
    assert_int_equal(n_replaced, 0);
    assert_false(zn_json_has(j, "a"));
    OK(zn_json_get_string(j, "t", &s));
    assert_string_equal(s, "NaN -Infinity");
    zn_json_destroy(j);
    j = load_row("{\"t\":\"a\\u0000b\\ud83dc\\uDE00d\\ud83d\\ude00e\\ud83d\\ud83d\\ude00f\\\\u0000\",\"n\":NaN}", &n_replaced);
#define BAD "\xef\xbf\xbd"
    OK(zn_json_get_string(j, "t", &s));
    assert_string_equal(s, "a" BAD "b" BAD "c" BAD "d\xf0\x9f\x98\x80" "e" BAD "\xf0\x9f\x98\x80" "f\\u0000");
    assert_int_equal(n_replaced, 4);
    int64_t i;
    FAILS(zn_json_get_int(j, "t", 0, 1, &i), ZN_ERR_INPUT, "rows.jsonl:7: 't': expected", "");
    zn_json_destroy(j);
    j = NULL;
    FAILS(zn_json_load_row("{\n\"a\":NaN,\"b\":,}", 17, "rows.jsonl", 7, &j, &n_replaced), ZN_ERR_INPUT,
          "rows.jsonl:8: not valid JSON: column 13: ", "");
    FAILS(zn_json_load_row("Nan", 3, "rows.jsonl", 7, &j, &n_replaced), ZN_ERR_INPUT, "rows.jsonl:7: not valid JSON", "");
    FAILS(zn_json_load_row("", 0, "rows.jsonl", 7, &j, &n_replaced), ZN_ERR_INPUT, "rows.jsonl:7: not valid JSON", "");
    FAILS(zn_json_load_row("\"\\", 2, "rows.jsonl", 7, &j, &n_replaced), ZN_ERR_INPUT, "rows.jsonl:7: not valid JSON", "");
    /* A hub's file stays strict. */
    FAILS(zn_json_load_buffer("{\"a\":NaN}", 9, "test.json", &j), ZN_ERR_INPUT, "not valid JSON", "");
}

static void range_is_told(void **state)
{
    (void)state;
    zn_json *j = load("{\"n\":7}");
    int64_t i = 42;
    FAILS(zn_json_get_int(j, "n", 8, 9, &i), ZN_ERR_INPUT, "test.json: 'n'", "an integer from 8 to 9, found 7");
    FAILS(zn_json_get_int(j, "n", 8, INT64_MAX, &i), ZN_ERR_INPUT, "'n'", "of at least 8, found 7");
    FAILS(zn_json_get_int(j, "n", INT64_MIN, 6, &i), ZN_ERR_INPUT, "'n'", "of at most 6, found 7");
    assert_int_equal(i, 42); /* outputs only on success */
    zn_json_destroy(j);
}

static void wrong_types_name_place_and_finding(void **state)
{
    (void)state;
    zn_json *j = load("{\"rope\":{\"factor\":\"eight\",\"list\":[1,{\"x\":[]}]},"
                      "\"s\":3,\"b\":0,\"o\":[],\"a\":{},\"z\":null}");
    zn_json *rope, *list, *x, *out;
    double n;
    bool b;
    const char *s;
    int64_t i;
    OK(zn_json_get_object(j, "rope", &rope));
    FAILS(zn_json_get_number(rope, "factor", &n), ZN_ERR_INPUT, "test.json: 'rope.factor'",
          "expected a number, found the string \"eight\"");
    OK(zn_json_get_array(rope, "list", &list));
    OK(zn_json_item_object(list, 1, &x));
    FAILS(zn_json_get_int(x, "x", 0, 1, &i), ZN_ERR_INPUT, "'rope.list[1].x'", "found an array");
    FAILS(zn_json_item_string(list, 0, &s), ZN_ERR_INPUT, "'rope.list[0]'", "found 1");
    FAILS(zn_json_item_int(list, 2, 0, 1, &i), ZN_ERR_INPUT, "'rope.list[2]'", "missing");
    FAILS(zn_json_get_string(j, "s", &s), ZN_ERR_INPUT, "'s'", "expected a string, found 3");
    FAILS(zn_json_get_bool(j, "b", &b), ZN_ERR_INPUT, "'b'", "expected true or false, found 0");
    FAILS(zn_json_get_object(j, "o", &out), ZN_ERR_INPUT, "'o'", "expected an object, found an array");
    FAILS(zn_json_get_array(j, "a", &out), ZN_ERR_INPUT, "'a'", "expected an array, found an object");
    FAILS(zn_json_get_array(j, "z", &out), ZN_ERR_INPUT, "'z'", "missing; expected an array");
    FAILS(zn_json_get_array(j, "none", &out), ZN_ERR_INPUT, "'none'", "missing");
    FAILS(zn_json_get_int(list, "k", 0, 1, &i), ZN_ERR_INPUT, "'rope.list'", "expected an object, found an array");
    FAILS(zn_json_fail(x, "too %s", "odd"), ZN_ERR_INPUT, "test.json: 'rope.list[1]': too odd", "");
    zn_json_destroy(j);
    j = load("[1]");
    FAILS(zn_json_get_int(j, "k", 0, 1, &i), ZN_ERR_INPUT, "test.json: expected an object, found an array", "");
    zn_json_destroy(j);
}

static void absent_and_null_give_the_fallback(void **state)
{
    (void)state;
    zn_json *j = load("{\"z\":null,\"s\":\"x\"}"), *o = j;
    static const char *const keys[] = {"z", "none"};
    for (size_t k = 0; k < COUNT(keys); k++) {
        int64_t i;
        double n;
        bool b;
        const char *s;
        OK(zn_json_get_int_or(j, keys[k], 0, 1, 77, &i)); /* the fallback need not be in the range */
        OK(zn_json_get_number_or(j, keys[k], 0.5, &n));
        OK(zn_json_get_bool_or(j, keys[k], true, &b));
        OK(zn_json_get_string_or(j, keys[k], NULL, &s));
        assert_true(i == 77 && n == 0.5 && b && !s);
        OK(zn_json_get_object_or_null(j, keys[k], &o));
        assert_null(o);
        OK(zn_json_get_array_or_null(j, keys[k], &o));
        assert_null(o);
        assert_false(zn_json_has(j, keys[k]));
    }
    assert_true(zn_json_has(j, "s"));
    int64_t i;
    FAILS(zn_json_get_int_or(j, "s", 0, 1, 0, &i), ZN_ERR_INPUT, "'s'", "found the string");
    zn_json_destroy(j);
}

static void keys_come_in_file_order(void **state)
{
    (void)state;
    zn_json *j = load("{\"z\":1,\"a\":{},\"m\":null,\"b\":2}");
    char order[16] = "";
    for (const char *k = zn_json_first_key(j); k; k = zn_json_next_key(j, k))
        strcat(order, k);
    assert_string_equal(order, "zamb");
    assert_int_equal(zn_json_n_keys(j), 4);
    zn_json_destroy(j);
}

/* A held object stays right when the key it was asked with is gone. */
static void keys_are_not_borrowed(void **state)
{
    (void)state;
    zn_json *j = load("{\"outer\":{\"n\":\"x\"}}"), *o;
    char key[8] = "outer";
    int64_t i;
    OK(zn_json_get_object(j, key, &o));
    memset(key, '#', sizeof key - 1);
    FAILS(zn_json_get_int(o, "n", 0, 1, &i), ZN_ERR_INPUT, "'outer.n'", "");
    zn_json_destroy(j);
}

static void bad_documents_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *cause;
    } bad[] = {
        {"", "line"},
        {"{", "line 1"},
        {"{\"a\":1,}", "line 1"},
        {"{\"a\":1,\n\"a\":2}", "duplicate"},
        {"{\"a\":1} x", "end of file expected"},
        {"{\"a\":1e999}", "real number overflow"},
        {"{\"a\":\"\xff\"}", "byte 0xff"},
        {"{\"a\":\"\\u0000\"}", "\\u0000"},
        {"{\"a\":\"line\nbreak\"}", "unexpected newline"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        zn_json *j = NULL;
        FAILS(zn_json_load_buffer(bad[i].text, strlen(bad[i].text), "bad.json", &j), ZN_ERR_INPUT,
              "bad.json: not valid JSON", bad[i].cause);
        assert_null(j);
    }
    /* As deep as it likes: refused, and the stack lives. */
    char *deep = malloc(1000000);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    zn_json *j = NULL;
    FAILS(zn_json_load_buffer(deep, 1000000, "deep.json", &j), ZN_ERR_INPUT, "deep.json", "depth");
    free(deep);
}

static void keys_from_outside_stay_on_one_line(void **state)
{
    (void)state;
    zn_json *j = load("{\"a\\n\\u001bb\":{\"c\":\"x\\ny\"}}"), *o;
    int64_t i;
    OK(zn_json_get_object(j, "a\n\x1b" "b", &o));
    FAILS(zn_json_get_int(o, "c", 0, 1, &i), ZN_ERR_INPUT, "'a??b.c'", "\"x?y\"");
    zn_json_destroy(j);
}

static void files_have_a_limit(void **state)
{
    (void)state;
    zn_json *j = NULL;
    const char *path = make_text("small.json", "{\"a\":1}");
    OK(zn_json_load_file(path, 7, &j));
    zn_json_destroy(j);
    FAILS(zn_json_load_file(path, 6, &j), ZN_ERR_INPUT, path, "larger than the 6 bytes");
    FAILS(zn_json_load_file(in_folder("none.json"), 6, &j), ZN_ERR_IO, "none.json", "No such file");
    FAILS(zn_json_load_file(test_folder, 6, &j), ZN_ERR_IO, test_folder, "directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_each_type),
        cmocka_unit_test(integers_may_be_written_as_reals),
        cmocka_unit_test(integers_beyond_64_bits_are_reals),
        cmocka_unit_test(places_behind_long_numbers),
        cmocka_unit_test(rows_as_python_writes_them),
        cmocka_unit_test(range_is_told),
        cmocka_unit_test(wrong_types_name_place_and_finding),
        cmocka_unit_test(absent_and_null_give_the_fallback),
        cmocka_unit_test(keys_come_in_file_order),
        cmocka_unit_test(keys_are_not_borrowed),
        cmocka_unit_test(bad_documents_are_refused),
        cmocka_unit_test(keys_from_outside_stay_on_one_line),
        cmocka_unit_test(files_have_a_limit),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
