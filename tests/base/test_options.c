/* The command line: what INTERFACE's conventions promise for every subcommand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"

struct values {
    bool quiet, again, shuffle;
    int64_t steps, seed, stage, delay;
    double lr, beta;
    size_t limit;
    const char *model, *prompt, *precision, *resume, *scale;
    struct zn_words data;
};

#define FIELD(name) .offset = offsetof(struct values, name)

static const struct zn_option table[] = {
    {.name = "--quiet", .kind = ZN_OPTION_FLAG, FIELD(quiet), .help = "Say less."},
    {.name = "--steps", .kind = ZN_OPTION_INT, FIELD(steps), .value = "N", .help = "Steps.", .initial = "7", .range = "[0, inf)"},
    {.name = "--seed", .kind = ZN_OPTION_INT, FIELD(seed), .value = "N", .help = "Seed."},
    {.name = "--lr",
     .kind = ZN_OPTION_DOUBLE,
     FIELD(lr),
     .value = "RATE",
     .help = "Rate.",
     .otherwise = "2e-5, 3e-4 from scratch",
     .range = "(0, inf)"},
    {.name = "--beta1",
     .kind = ZN_OPTION_DOUBLE,
     FIELD(beta),
     .value = "B",
     .help = "Decay.",
     .initial = "0.9",
     .range = "[0, 1)"},
    {.name = "--memory-limit",
     .kind = ZN_OPTION_SIZE,
     FIELD(limit),
     .value = "SIZE",
     .help = "Memory.",
     .range = "[1, inf)"},
    {.name = "--model",
     .kind = ZN_OPTION_STRING,
     FIELD(model),
     .value = "DIR",
     .help = "Folder.",
     .required = true},
    {.name = "--prompt",
     .kind = ZN_OPTION_STRING,
     FIELD(prompt),
     .value = "TEXT",
     .help = "Prompt.",
     .may_be_empty = true},
    {.name = "--precision",
     .kind = ZN_OPTION_CHOICE,
     FIELD(precision),
     .value = "TYPE",
     .help = "Precision.",
     .initial = "fp32",
     .choices = "fp32",
     .not_yet = "bf16 fp16"},
    {.name = "--resume",
     .kind = ZN_OPTION_OPTIONAL,
     FIELD(resume),
     .value = "DIR",
     .help = "Go on."},
    {.name = "--data", .kind = ZN_OPTION_LIST, FIELD(data), .value = "PATH", .help = "Text."},
    {.name = "--again", .kind = ZN_OPTION_SWITCH, FIELD(again), .value = "on|off", .choices = "on off", .help = "Again."},
    {.name = "--stage", .kind = ZN_OPTION_LEVEL, FIELD(stage), .value = "N", .choices = "0 1 2", .not_yet = "3", .help = "Stage."},
    {.name = "--scale", .kind = ZN_OPTION_NUMERIC, FIELD(scale), .value = "dynamic|X", .initial = "dynamic", .choices = "dynamic",
     .range = "[1, 1e38]", .help = "Scale."},
    {.name = "--delay", .kind = ZN_OPTION_OPTIONAL_INT, FIELD(delay), .value = "N", .bare = "40", .range = "[0, inf)",
     .help = "Late."},
    {.name = "--no-shuffle", .kind = ZN_OPTION_FLAG, FIELD(shuffle), .negates = true, .help = "In order."},
    {.name = "--config", .kind = ZN_OPTION_STRING, .value = "FILE", .not_built = true},
};

static const struct zn_command command = {
    .name = "zinc try",
    .summary = "a table for tests",
    .usage = "--model DIR [flags]",
    .example = "zinc try --model x",
    .options = table,
    .n_options = sizeof table / sizeof table[0],
};

enum { MAX_ARGS = 16 };

/* Parses a command line that is written with single spaces; "_" stands for an empty word. */
static zn_status parse(const struct zn_command *c, const char *line, struct values *v,
                       struct zn_options *o)
{
    static char text[512];
    static char name[] = "try", empty[] = "";
    char *argv[MAX_ARGS] = {name};
    int argc = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "_") == 0 ? empty : word;
    memset(v, 0, sizeof *v);
    return zn_options_parse(c, argc, argv, v, o);
}

static void accept_line(const char *line, struct values *v, struct zn_options *o)
{
    zn_status status = parse(&command, line, v, o);
    if (status != ZN_OK)
        fail_msg("'%s' was refused: %s", line, zn_error_message());
}

/* The line is refused as wrong usage with exactly this message. */
static void refuse_line(const char *line, const char *message)
{
    struct values v;
    struct zn_options o;
    assert_int_equal(parse(&command, line, &v, &o), ZN_ERR_USAGE);
    assert_string_equal(zn_error_message(), message);
    zn_options_fini(&o, &v);
}

static void defaults_come_from_the_table(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept_line("--model m", &v, &o);
    assert_int_equal(v.steps, 7);
    assert_true(v.beta == 0.9);
    assert_string_equal(v.precision, "fp32");
    assert_false(v.quiet);
    assert_null(v.resume);
    assert_int_equal(v.data.n, 0);
    zn_options_fini(&o, &v);
}

static void values_follow_or_are_attached(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "--model m --steps 12 --lr 1e-3 --memory-limit 4GiB --seed -3 --quiet",
        "--model=m --steps=12 --lr=1e-3 --memory-limit=4GiB --seed=-3 --quiet",
    };
    for (int i = 0; i < 2; i++) {
        struct values v;
        struct zn_options o;
        accept_line(lines[i], &v, &o);
        assert_string_equal(v.model, "m");
        assert_int_equal(v.steps, 12);
        assert_int_equal(v.seed, -3);
        assert_true(v.lr == 1e-3);
        assert_int_equal(v.limit, (size_t)4 << 30);
        assert_true(v.quiet);
        zn_options_fini(&o, &v);
    }
}

static void an_attached_value_may_hold_equal_signs_and_dashes(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept_line("--model=a=b --prompt=--x", &v, &o);
    assert_string_equal(v.model, "a=b");
    assert_string_equal(v.prompt, "--x");
    zn_options_fini(&o, &v);
}

static void lists_end_at_the_next_flag_and_may_be_repeated(void **state)
{
    (void)state;
    static const char *const expected[] = {"a", "b", "c", "d"};
    struct values v;
    struct zn_options o;
    accept_line("--data a b --model m --data=c d", &v, &o);
    assert_int_equal(v.data.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(v.data.word[i], expected[i]);
    zn_options_fini(&o, &v);
    refuse_line("--model m --data --quiet", "--data needs at least one value");
}

static void optional_values_need_the_equal_sign(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept_line("--model m --resume", &v, &o);
    assert_true(zn_options_given(&o, "--resume"));
    assert_null(v.resume);
    zn_options_fini(&o, &v);
    accept_line("--model m --resume=x", &v, &o);
    assert_string_equal(v.resume, "x");
    zn_options_fini(&o, &v);
    refuse_line("--model m --resume x", "'x' belongs to no flag: a value of --resume follows an equal sign: --resume=x");
}

static void switches_levels_and_numbers_with_words(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept_line("--model m", &v, &o);
    assert_string_equal(v.scale, "dynamic");
    assert_true(v.shuffle);
    zn_options_fini(&o, &v);
    accept_line("--model m --again on --stage 2 --scale 512 --delay --no-shuffle", &v, &o);
    assert_true(v.again);
    assert_int_equal(v.stage, 2);
    assert_string_equal(v.scale, "512");
    assert_int_equal(v.delay, 40);
    assert_false(v.shuffle);
    zn_options_fini(&o, &v);
    accept_line("--model m --again off --stage 0 --delay=0", &v, &o);
    assert_false(v.again);
    assert_true(zn_options_given(&o, "--stage") && zn_options_given(&o, "--again") && zn_options_given(&o, "--delay"));
    assert_int_equal(v.delay, 0);
    zn_options_fini(&o, &v);
    refuse_line("--model m --again maybe", "--again: 'maybe' is not one of: on off");
    refuse_line("--model m --stage 4", "--stage: '4' is not one of: 0 1 2");
    refuse_line("--model m --stage 01", "--stage: '01' is not one of: 0 1 2");
    refuse_line("--model m --stage 3", "`--stage 3`: not in this build");
    refuse_line("--model m --scale 0.5", "--scale: '0.5' is neither dynamic nor a number in [1, 1e38]");
    refuse_line("--model m --scale 2x", "--scale: '2x' is neither dynamic nor a number in [1, 1e38]");
    refuse_line("--model m --delay=", "--delay: the value is empty");
    refuse_line("--model m --delay=x", "--delay: 'x' is not a whole number");
}

static void what_was_given_is_recorded(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept_line("--model m --steps 7", &v, &o);
    assert_true(zn_options_given(&o, "--steps"));
    assert_true(zn_options_given(&o, "--model"));
    assert_false(zn_options_given(&o, "--beta1"));
    zn_options_fini(&o, &v);
}

static void unknown_flags_name_the_nearest(void **state)
{
    (void)state;
    refuse_line("--modle m",
                "unknown flag --modle, did you mean --model; `zinc try --help` lists them");
    refuse_line("--memory_limit=4",
                "unknown flag --memory_limit, did you mean --memory-limit; `zinc try --help` "
                "lists them");
    refuse_line("--zzzzzzz", "unknown flag --zzzzzzz; `zinc try --help` lists them");
    refuse_line("--step 3", "unknown flag --step, did you mean --steps; `zinc try --help` lists "
                            "them");
}

static void flags_are_never_abbreviated(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    assert_int_equal(parse(&command, "--mod m", &v, &o), ZN_ERR_USAGE);
    zn_options_fini(&o, &v);
}

static void numbers_outside_their_range_are_refused_by_name(void **state)
{
    (void)state;
    refuse_line("--model m --steps -1", "--steps: -1 is not in [0, inf): it must be at least 0");
    refuse_line("--model m --lr 0", "--lr: 0 is not in (0, inf): it must be above 0");
    refuse_line("--model m --beta1 1", "--beta1: 1 is not in [0, 1): it must be at least 0 and below 1");
    refuse_line("--model m --memory-limit 0", "--memory-limit: 0 is not in [1, inf): it must be at least 1");
}

static void what_is_no_number_is_refused_by_name(void **state)
{
    (void)state;
    refuse_line("--model m --steps 1.5", "--steps: '1.5' is not a whole number");
    refuse_line("--model m --steps 99999999999999999999",
                "--steps: '99999999999999999999' is not a whole number");
    refuse_line("--model m --steps=", "--steps: '' is not a whole number");
    refuse_line("--model m --lr nan", "--lr: 'nan' is not a finite number");
    refuse_line("--model m --lr inf", "--lr: 'inf' is not a finite number");
    refuse_line("--model m --lr 1e999", "--lr: '1e999' is not a finite number");
    refuse_line("--model m --lr 1e-3x", "--lr: '1e-3x' is not a finite number");
}

static void a_flag_is_given_once(void **state)
{
    (void)state;
    refuse_line("--model m --steps 1 --steps 1", "--steps is given twice");
    refuse_line("--model m --quiet --quiet", "--quiet is given twice");
}

static void values_that_are_missing_or_too_many_are_refused(void **state)
{
    (void)state;
    refuse_line("--model", "--model needs a value (DIR)");
    refuse_line("--model --quiet", "--model needs a value (DIR)");
    refuse_line("--model m --quiet=yes", "--quiet takes no value");
    refuse_line("--model=", "--model: the value is empty");
    refuse_line("--model m x", "'x' belongs to no flag (a value with spaces is put in quotes); `zinc try --help` lists them");
    refuse_line("--quiet", "--model DIR is required; `zinc try --help` shows an example");
}

static void empty_values_pass_only_where_they_mean_something(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept_line("--model m --prompt _", &v, &o);
    assert_string_equal(v.prompt, "");
    zn_options_fini(&o, &v);
}

static void what_is_not_built_is_refused_by_name(void **state)
{
    (void)state;
    refuse_line("--model m --config x", "`--config`: not in this build");
    refuse_line("--model m --precision bf16", "`--precision bf16`: not in this build");
    refuse_line("--model m --precision int8", "--precision: 'int8' is not one of: fp32");
    refuse_line("--model m --precision fp", "--precision: 'fp' is not one of: fp32");
}

static void words_without_a_flag_are_kept_where_the_command_takes_them(void **state)
{
    (void)state;
    struct zn_command with_words = command;
    with_words.takes_words = true;
    struct values v;
    struct zn_options o;
    assert_int_equal(parse(&with_words, "in --model m a -- --quiet", &v, &o), ZN_OK);
    assert_int_equal(o.words.n, 3);
    assert_string_equal(o.words.word[0], "in");
    assert_string_equal(o.words.word[2], "--quiet");
    assert_false(v.quiet);
    zn_options_fini(&o, &v);
}

static void help_comes_before_mistakes(void **state)
{
    (void)state;
    struct values v;
    struct zn_options o;
    accept_line("--nonsense --help", &v, &o);
    assert_true(o.help);
    zn_options_fini(&o, &v);
}

static void help_is_aligned_and_lists_what_is_refused(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    zn_options_help(&command, ZN_HELP_TEXT, out);
    fclose(out);
    assert_non_null(strstr(text, "usage: zinc try --model DIR [flags]\nexample: zinc try"));
    assert_non_null(strstr(text, "  --steps N            Steps. (default: 7)\n"));
    assert_non_null(strstr(text, "  --model DIR          Folder. (required)\n"));
    assert_non_null(strstr(text, "  --data PATH…         Text.\n"));
    assert_non_null(strstr(text, "  --resume[=DIR]       Go on.\n"));
    assert_non_null(strstr(text, "  --delay[=N]          Late.\n"));
    assert_non_null(strstr(text, "  --again on|off       Again. — one of: on off\n"));
    assert_non_null(strstr(text, "  --scale dynamic|X    Scale. (default: dynamic)\n"));
    assert_non_null(strstr(text, "\n\nflags:\n  --quiet"));
    assert_non_null(strstr(text, "refused by name:\n  --precision (bf16 fp16) --stage (3) --config\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_table),
        cmocka_unit_test(values_follow_or_are_attached),
        cmocka_unit_test(an_attached_value_may_hold_equal_signs_and_dashes),
        cmocka_unit_test(lists_end_at_the_next_flag_and_may_be_repeated),
        cmocka_unit_test(optional_values_need_the_equal_sign),
        cmocka_unit_test(switches_levels_and_numbers_with_words),
        cmocka_unit_test(what_was_given_is_recorded),
        cmocka_unit_test(unknown_flags_name_the_nearest),
        cmocka_unit_test(flags_are_never_abbreviated),
        cmocka_unit_test(numbers_outside_their_range_are_refused_by_name),
        cmocka_unit_test(what_is_no_number_is_refused_by_name),
        cmocka_unit_test(a_flag_is_given_once),
        cmocka_unit_test(values_that_are_missing_or_too_many_are_refused),
        cmocka_unit_test(empty_values_pass_only_where_they_mean_something),
        cmocka_unit_test(what_is_not_built_is_refused_by_name),
        cmocka_unit_test(words_without_a_flag_are_kept_where_the_command_takes_them),
        cmocka_unit_test(help_comes_before_mistakes),
        cmocka_unit_test(help_is_aligned_and_lists_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
