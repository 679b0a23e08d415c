/* Configuration files: what each kind of option takes, who wins, and what is said about the rest. JSON here; what YAML has
 * besides is in test_yaml.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "settings/file.h"

struct values {
    bool quiet, loud, shuffle, again;
    int64_t steps, level, delay;
    double lr;
    size_t limit;
    const char *model, *scale, *stage, *resume;
    struct zn_words data, freeze;
};

#define FIELD(name) .offset = offsetof(struct values, name)

static const struct zn_option table[] = {
    {.name = "--quiet", .kind = ZN_OPTION_FLAG, FIELD(quiet)},
    {.name = "--loud", .kind = ZN_OPTION_FLAG, FIELD(loud)},
    {.name = "--steps", .kind = ZN_OPTION_INT, FIELD(steps), .value = "N", .initial = "7", .range = "[0, inf)"},
    {.name = "--lr", .kind = ZN_OPTION_DOUBLE, FIELD(lr), .value = "X", .range = "(0, 1]"},
    {.name = "--memory-limit", .kind = ZN_OPTION_SIZE, FIELD(limit), .value = "SIZE"},
    {.name = "--model", .kind = ZN_OPTION_STRING, FIELD(model), .value = "DIR", .required = true},
    {.name = "--scale", .kind = ZN_OPTION_NUMERIC, FIELD(scale), .value = "X", .initial = "dynamic", .choices = "dynamic",
     .range = "(0, inf)"},
    {.name = "--stage", .kind = ZN_OPTION_CHOICE, FIELD(stage), .value = "N", .choices = "0 1 two", .not_yet = "3"},
    {.name = "--resume", .kind = ZN_OPTION_OPTIONAL, FIELD(resume), .value = "DIR"},
    {.name = "--delay", .kind = ZN_OPTION_OPTIONAL_INT, FIELD(delay), .value = "N", .bare = "40", .range = "[0, inf)"},
    {.name = "--level", .kind = ZN_OPTION_LEVEL, FIELD(level), .value = "N", .choices = "0 1 2"},
    {.name = "--again", .kind = ZN_OPTION_SWITCH, FIELD(again), .value = "on|off", .choices = "on off"},
    {.name = "--no-shuffle", .kind = ZN_OPTION_FLAG, FIELD(shuffle), .negates = true},
    {.name = "--data", .kind = ZN_OPTION_LIST, FIELD(data), .value = "PATH"},
    {.name = "--freeze", .kind = ZN_OPTION_LIST, FIELD(freeze), .value = "PATTERN"},
    {.name = "-n", .kind = ZN_OPTION_INT, FIELD(steps), .value = "N", .not_in_file = true},
    {.name = "--later", .kind = ZN_OPTION_FLAG, .not_built = true},
};

/* What the command's file holds: the object of its flags. */
static const char *file_text;

static zn_status fill(struct zn_options *options, void *target)
{
    char text[1024]; /* nothing of it may be used when it is gone */
    int n = snprintf(text, sizeof text, "{\"zinc\": %s}", file_text);
    return zn_settings_load_text(options, target, "f.json", text, (size_t)n);
}

static const struct zn_command command = {
    .name = "zinc try",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
    .fill = fill,
};

enum { MAX_ARGS = 16 };

static zn_status parse(const char *json, const char *line, struct values *v, struct zn_options *o)
{
    static char text[256], name[] = "try";
    char *argv[MAX_ARGS] = {name};
    int argc = 1;
    file_text = json;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    memset(v, 0, sizeof *v);
    return zn_options_parse(&command, argc, argv, v, o);
}

static void accept(const char *json, const char *line, struct values *v, struct zn_options *o)
{
    if (parse(json, line, v, o) != ZN_OK)
        fail_msg("%s was refused: %s", json, zn_error_message());
}

static void refuse(const char *json, const char *message)
{
    struct values v;
    struct zn_options o;
    assert_int_equal(parse(json, "--model m", &v, &o), ZN_ERR_USAGE);
    assert_string_equal(zn_error_message(), message);
    zn_options_fini(&o, &v);
}

static void every_kind_takes_its_values(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept("{\"quiet\": true, \"loud\": false, \"steps\": 1e3, \"lr\": 0.1, \"memory-limit\": \"2MiB\", \"model\": \"m\","
           " \"scale\": 512, \"stage\": 1, \"resume\": \"d\", \"delay\": 3, \"data\": [\"a\", \"b\"], \"freeze\": \"x\","
           " \"level\": 2, \"again\": \"on\", \"no-shuffle\": true}",
           "", &v, &o);
    assert_true(v.quiet);
    assert_false(v.loud);
    assert_int_equal(v.steps, 1000);
    assert_true(v.lr == 0.1);
    assert_int_equal(v.limit, 2 << 20);
    assert_string_equal(v.model, "m");
    assert_string_equal(v.scale, "512");
    assert_string_equal(v.stage, "1");
    assert_string_equal(v.resume, "d");
    assert_int_equal(v.delay, 3);
    assert_int_equal(v.level, 2);
    assert_true(v.again);
    assert_false(v.shuffle);
    assert_int_equal(v.data.n, 2);
    assert_string_equal(v.data.word[1], "b");
    assert_int_equal(v.freeze.n, 1);
    assert_string_equal(v.freeze.word[0], "x");
    zn_options_fini(&o, &v);
    accept("{\"memory-limit\": 4096, \"stage\": \"two\", \"scale\": \"dynamic\", \"delay\": true, \"level\": \"1\", "
           "\"again\": \"off\", \"no-shuffle\": false}", "--model m", &v, &o);
    assert_int_equal(v.limit, 4096);
    assert_string_equal(v.stage, "two");
    assert_int_equal(v.delay, 40);
    assert_int_equal(v.level, 1);
    assert_false(v.again);
    assert_true(v.shuffle);
    zn_options_fini(&o, &v);
}

static void numbers_come_over_exactly(void **state)
{
    (void)state;
    static const char *const texts[] = {"0.1", "3e-4", "0.99999999999999989", "1e-300", "0.30000000000000004"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char json[64];
        struct values v;
        struct zn_options o;
        snprintf(json, sizeof json, "{\"lr\": %s}", texts[i]);
        accept(json, "--model m", &v, &o);
        assert_true(v.lr == strtod(texts[i], NULL));
        zn_options_fini(&o, &v);
    }
}

static void what_a_file_sets_counts_as_given(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept("{\"steps\": 7, \"resume\": true, \"delay\": false, \"quiet\": false}", "--model m", &v, &o);
    assert_true(zn_options_given(&o, "--steps"));
    assert_int_equal(o.given[2], ZN_GIVEN_IN_FILE);
    assert_int_equal(o.given[5], ZN_GIVEN_ON_LINE); /* the model */
    assert_true(zn_options_given(&o, "--resume"));
    assert_null(v.resume);
    assert_false(zn_options_given(&o, "--delay"));
    assert_false(zn_options_given(&o, "--quiet"));
    assert_false(zn_options_given(&o, "--lr"));
    zn_options_fini(&o, &v);
}

static void the_command_line_stands(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept("{\"model\": \"file\", \"steps\": 1, \"data\": [\"a\", \"b\"], \"freeze\": [\"f\"], \"quiet\": false}",
           "--model typed --steps 2 --data c --quiet", &v, &o);
    assert_string_equal(v.model, "typed");
    assert_int_equal(v.steps, 2);
    assert_int_equal(v.data.n, 1);
    assert_string_equal(v.data.word[0], "c");
    assert_int_equal(v.freeze.n, 1);
    assert_true(v.quiet);
    zn_options_fini(&o, &v);
    /* A wrong value is wrong all the same. */
    assert_int_equal(parse("{\"steps\": -1}", "--model m --steps 2", &v, &o), ZN_ERR_USAGE);
    assert_int_equal(v.steps, 2);
    zn_options_fini(&o, &v);
}

static void required_options_may_come_from_the_file(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept("{\"model\": \"m\"}", "", &v, &o);
    zn_options_fini(&o, &v);
    assert_int_equal(parse("{}", "", &v, &o), ZN_ERR_USAGE);
    zn_options_fini(&o, &v);
}

static void wrong_types_are_refused_with_what_is_allowed(void **state)
{
    (void)state;
    refuse("{\"quiet\": 1}", "f.json: zinc.quiet: is true or false");
    refuse("{\"quiet\": \"yes\"}", "f.json: zinc.quiet: is true or false");
    refuse("{\"steps\": 1.5}", "f.json: zinc.steps: is a whole number");
    refuse("{\"steps\": \"3\"}", "f.json: zinc.steps: is a whole number");
    refuse("{\"steps\": true}", "f.json: zinc.steps: is a whole number");
    refuse("{\"steps\": null}", "f.json: zinc.steps: is a whole number");
    refuse("{\"steps\": 1e30}", "f.json: zinc.steps: is a whole number");
    refuse("{\"lr\": \"0.1\"}", "f.json: zinc.lr: is a number");
    refuse("{\"memory-limit\": [1]}", "f.json: zinc.memory-limit: is a number of bytes or a size as \"4GiB\"");
    refuse("{\"model\": 3}", "f.json: zinc.model: is a string");
    refuse("{\"scale\": {}}", "f.json: zinc.scale: is a string or a number");
    refuse("{\"stage\": false}", "f.json: zinc.stage: is one of: 0 1 two");
    refuse("{\"resume\": 3}", "f.json: zinc.resume: is true, false or a string");
    refuse("{\"delay\": []}", "f.json: zinc.delay: is true, false or a number");
    refuse("{\"level\": true}", "f.json: zinc.level: is one of: 0 1 2");
    refuse("{\"again\": true}", "f.json: zinc.again: is one of: on off");
    refuse("{\"no-shuffle\": \"on\"}", "f.json: zinc.no-shuffle: is true or false");
    refuse("{\"data\": [\"a\", 3]}", "f.json: zinc.data: is a string or an array of strings, at least one");
    refuse("{\"data\": []}", "f.json: zinc.data: is a string or an array of strings, at least one");
}

static void wrong_values_are_refused_as_on_the_command_line(void **state)
{
    (void)state;
    refuse("{\"steps\": -1}", "f.json: zinc.steps: -1 is not in [0, inf): it must be at least 0");
    refuse("{\"lr\": 1.1}", "f.json: zinc.lr: 1.1 is not in (0, 1]: it must be above 0 and at most 1");
    refuse("{\"stage\": 7}", "f.json: zinc.stage: '7' is not one of: 0 1 two");
    refuse("{\"stage\": \"a\\nb\"}", "f.json: zinc.stage: 'a?b' is not one of: 0 1 two");
    refuse("{\"stage\": 3}", "f.json: `zinc.stage 3`: not in this build");
    refuse("{\"scale\": -1}", "f.json: zinc.scale: '-1' is neither dynamic nor a number in (0, inf)");
    refuse("{\"delay\": -1}", "f.json: zinc.delay: -1 is not in [0, inf): it must be at least 0");
    refuse("{\"delay\": 1.5}", "f.json: zinc.delay: '1.5' is not a whole number");
    refuse("{\"level\": 3}", "f.json: zinc.level: '3' is not one of: 0 1 2");
    refuse("{\"memory-limit\": \"much\"}",
           "f.json: zinc.memory-limit: 'much' is not a size (examples: 512MiB, 4GiB, 1GB, 1048576)");
    refuse("{\"model\": \"\"}", "f.json: zinc.model: the value is empty");
}

static void keys_that_no_flag_has_are_refused(void **state)
{
    (void)state;
    refuse("{\"step\": 3}", "f.json: zinc.step: unknown, did you mean steps; its keys are the flags of `zinc try --help`");
    refuse("{\"--steps\": 3}",
           "f.json: zinc.--steps: unknown, did you mean steps; its keys are the flags of `zinc try --help`");
    refuse("{\"q\\nq_q_q\": 3}", "f.json: zinc.q?q_q_q: unknown; its keys are the flags of `zinc try --help`");
    refuse("{\"n\": 3}", "f.json: zinc.n: -n belongs to the command line");
    refuse("{\"later\": true}", "f.json: `zinc.later`: not in this build");
    refuse("{\"fp16\": {}}", "f.json: zinc.fp16: is a key of DeepSpeed's, whose files are JSON with all keys as DeepSpeed has them");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_takes_its_values),
        cmocka_unit_test(numbers_come_over_exactly),
        cmocka_unit_test(what_a_file_sets_counts_as_given),
        cmocka_unit_test(the_command_line_stands),
        cmocka_unit_test(required_options_may_come_from_the_file),
        cmocka_unit_test(wrong_types_are_refused_with_what_is_allowed),
        cmocka_unit_test(wrong_values_are_refused_as_on_the_command_line),
        cmocka_unit_test(keys_that_no_flag_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
