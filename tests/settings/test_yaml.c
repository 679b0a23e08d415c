/* YAML: what a scalar is, what is refused by name, and where. */
#include "files.h"

#include "settings/config.h"

static struct config config;

static void read_yaml(const char *text)
{
    config_fini(&config);
    if (config_read_yaml("f.yaml", text, strlen(text), &config) != ZN_OK)
        fail_msg("%s was refused: %s", text, zn_error_message());
}

static void refuse(const char *text, const char *message)
{
    struct config c;
    zn_status status = config_read_yaml("f.yaml", text, strlen(text), &c);
    config_fini(&c);
    assert_int_equal(status, ZN_ERR_INPUT);
    if (strcmp(zn_error_message(), message) != 0)
        fail_msg("%s: '%s', not '%s'", text, zn_error_message(), message);
}

/* The value of `a: TEXT`. */
static const struct config_entry *value_of(const char *text)
{
    char line[256];
    snprintf(line, sizeof line, "a: %s\n", text);
    read_yaml(line);
    assert_int_equal(config.n_entries, 1);
    return &config.entries[0];
}

static void is(const char *text, config_type type)
{
    if (value_of(text)->type != type)
        fail_msg("'%s' is %d, not %d", text, config.entries[0].type, type);
}

static void scalars_are_those_of_the_core_schema(void **state)
{
    (void)state;
    static const char *const numbers[] = {"0", "-1", "+5", "012", "1e-3", "1E5", ".5", "5.", "-0.25e+2"};
    static const char *const texts[] = {"on", "off", "yes", "no", "4GiB", "1_000", "0x10", "1e", ".", "-x", ".inf", "nan", "'1'",
                                        "\"true\"", "'null'", "\"\"", "1.2.3", "1 2"};
    for (size_t i = 0; i < COUNT(numbers); i++)
        is(numbers[i], CONFIG_NUMBER);
    for (size_t i = 0; i < COUNT(texts); i++)
        is(texts[i], CONFIG_TEXT);
    is("true", CONFIG_BOOL);
    is("False", CONFIG_BOOL);
    assert_false(config.entries[0].is_true);
    is("", CONFIG_NOTHING);
    is("~", CONFIG_NOTHING);
    is("NULL", CONFIG_NOTHING);
}

static void whole_numbers_are_told_from_others(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digits; /* NULL: not whole */
    } cases[] = {{"1e3", "1000"}, {"+5", "5"}, {"100.0", "100"}, {"-2", "-2"}, {"012", "12"},
                 {"9223372036854775807", "9223372036854775807"}, {"9223372036854775808", NULL}, {"1.5", NULL}, {"1e30", NULL}, {"0.1", NULL}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct config_entry *e = value_of(cases[i].text);
        assert_int_equal(e->is_whole, cases[i].digits != NULL);
        assert_string_equal(e->texts.word[0], cases[i].digits ? cases[i].digits : cases[i].text);
    }
}

static void lists_mappings_and_comments(void **state)
{
    (void)state;
    read_yaml("%YAML 1.2\n---\n# a comment\nstage: 3   # of ZeRO\nfreeze: ['*.bias', \"a: b\"]\n"
              "data:\n  - x y\n  - |\n    two\n    lines\noutput: >-\n  one\n  line\n...\n");
    assert_int_equal(config.n_entries, 4);
    assert_string_equal(config.section, "");
    assert_string_equal(config.entries[0].key, "stage");
    assert_int_equal(config.entries[0].line, 4);
    assert_int_equal(config.entries[0].column, 8);
    assert_int_equal(config.entries[1].type, CONFIG_LIST);
    assert_string_equal(config.entries[1].texts.word[1], "a: b");
    assert_string_equal(config.entries[2].texts.word[0], "x y");
    assert_string_equal(config.entries[2].texts.word[1], "two\nlines\n");
    assert_string_equal(config.entries[3].texts.word[0], "one line");
    read_yaml("{\"zinc\": {\"stage\": 3, \"freeze\": []}}"); /* JSON is YAML */
    assert_int_equal(config.n_entries, 2);
    assert_int_equal(config.entries[1].texts.n, 0);
    read_yaml("zinc:\n  lr: 1e-3\n");
    assert_string_equal(config.entries[0].key, "lr");
    read_yaml("freeze: [a, 3]\n"); /* the setting refuses it */
    assert_int_equal(config.entries[0].type, CONFIG_OTHER);
}

static void what_would_mean_more_than_it_shows_is_refused_by_name(void **state)
{
    (void)state;
    refuse("a: &x 1\nb: 2\n", "f.yaml: line 1, column 4: an anchor (&name): not in this build");
    refuse("a: 1\nb: *x\n", "f.yaml: line 2, column 4: an alias (*name): not in this build");
    refuse("a: 1\n<<: *x\n", "f.yaml: line 2, column 5: an alias (*name): not in this build");
    refuse("a: !!str 1\n", "f.yaml: line 1, column 4: a tag (!name): not in this build");
    refuse("a: !mine [1]\n", "f.yaml: line 1, column 4: a tag (!name): not in this build");
    refuse("!!map {a: 1}\n", "f.yaml: line 1, column 1: a tag (!name): not in this build");
    refuse("%TAG ! tag:x,2000:\n---\na: 1\n", "f.yaml: line 1, column 1: a %TAG directive: not in this build");
    refuse("a: 1\n---\nb: 2\n", "f.yaml: line 2, column 1: a second document: not in this build");
    refuse("a: 1\nb: 2\na: 3\n", "f.yaml: line 3, column 1: a: is given twice");
    refuse("a: 1\n\"a\": 1\n", "f.yaml: line 2, column 1: a: is given twice");
    refuse("a: \"x\\0y\"\n", "f.yaml: line 1, column 4: a text that holds a NUL");
}

static void what_is_no_mapping_of_values_is_refused(void **state)
{
    (void)state;
    refuse("", "f.yaml: line 1, column 1: expected a mapping of flags to their values");
    refuse("# nothing\n", "f.yaml: line 2, column 1: expected a mapping of flags to their values");
    refuse("{}\n", "f.yaml: line 1, column 2: expected a mapping of flags to their values");
    refuse("- a\n", "f.yaml: line 1, column 1: expected a mapping of flags to their values");
    refuse("text\n", "f.yaml: line 1, column 1: expected a mapping of flags to their values");
    refuse("a: {b: 1}\n", "f.yaml: line 1, column 4: a mapping, where a flag has a value or a list of texts");
    refuse("a: [[b]]\n", "f.yaml: line 1, column 5: a list holds texts, nothing deeper");
    refuse("a: [{b: c}]\n", "f.yaml: line 1, column 5: a list holds texts, nothing deeper");
    refuse("? [a]\n: 1\n", "f.yaml: line 1, column 3: a key is the name of a flag");
    refuse("zinc: 3\n", "f.yaml: line 1, column 7: 'zinc' is a mapping of flags to their values");
    refuse("zinc: {a: 1}\nb: 2\n", "f.yaml: line 2, column 1: a key beside 'zinc', which holds all flags");
}

static void what_is_no_yaml_is_refused_with_its_place(void **state)
{
    (void)state;
    refuse("a: 1\n b: 2\n", "f.yaml: line 2, column 3: not valid YAML: mapping values are not allowed in this context");
    refuse("a: [1\n", "f.yaml: line 2, column 1: not valid YAML: while parsing a flow sequence: did not find expected ',' or ']'");
    refuse("a: \"x\n", "f.yaml: line 2, column 1: not valid YAML: while scanning a quoted scalar: found unexpected end of stream");
    struct config c;
    FAILS(config_read_yaml("f.yaml", "a: \xff\n", 5, &c), ZN_ERR_INPUT, "f.yaml: line 1, ", "not valid YAML: ");
    config_fini(&c);
}

/* A file cannot make the reader go deep, or compare every key with every other for long. */
static void size_and_depth_cost_little(void **state)
{
    (void)state;
    enum { N = 200000 };
    char *text = malloc(8 * N);
    assert_non_null(text);
    memcpy(text, "a: ", 3);
    memset(text + 3, '[', N);
    struct config c;
    FAILS(config_read_yaml("f.yaml", text, 3 + N, &c), ZN_ERR_INPUT, "line 1, column 5: a list holds texts", "");
    config_fini(&c);
    size_t n = 0;
    for (int i = 0; i < N / 2; i++)
        n += (size_t)sprintf(text + n, "k%d: 1\n", i);
    FAILS(config_read_yaml("f.yaml", text, n, &c), ZN_ERR_INPUT, "line 1025, column 1: more keys than there are flags", "");
    config_fini(&c);
    free(text);
}

static int end(void **state)
{
    (void)state;
    config_fini(&config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_those_of_the_core_schema),
        cmocka_unit_test(whole_numbers_are_told_from_others),
        cmocka_unit_test(lists_mappings_and_comments),
        cmocka_unit_test(what_would_mean_more_than_it_shows_is_refused_by_name),
        cmocka_unit_test(what_is_no_mapping_of_values_is_refused),
        cmocka_unit_test(what_is_no_yaml_is_refused_with_its_place),
        cmocka_unit_test(size_and_depth_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
