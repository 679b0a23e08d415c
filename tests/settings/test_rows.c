/* Every row of the table: its values come over from the command line, JSON, YAML and what --print-config writes. Loops over the
 * table: a new row is tested as it is. */
#include "settings/rows.h"

static struct {
    const char *path;
    zn_text text;
} file; /* what the command reads; no path: none */

static zn_status fill(struct zn_options *options, void *target)
{
    return file.path ? zn_settings_load_text(options, target, file.path, file.text.data, file.text.n_bytes) : ZN_OK;
}

/* A command line with value `which` of row i (-1: nothing of it) and what the command requires besides. */
static int make_line(char *argv[32], unsigned which_command, size_t i, int which)
{
    static char command[] = "try", equal[128], plain[] = "x";
    int argc = 0;
    argv[argc++] = command;
    for (size_t k = 0; k < ZN_N_SETTINGS; k++) {
        const struct zn_setting *s = &zn_settings_table[k];
        const char *words[MAX_WORDS];
        bool is_optional = s->kind == ZN_OPTION_OPTIONAL || s->kind == ZN_OPTION_OPTIONAL_INT;
        int n = k == i && which >= 0 ? words_of(s, which, words) : -1;
        if (n < 0 && (k == i || !s->required || !(s->commands & which_command)))
            continue;
        argv[argc++] = (char *)(uintptr_t)s->name;
        if (n < 0)
            argv[argc++] = plain;
        if (n > 0 && is_optional) {
            snprintf(equal, sizeof equal, "%.40s=%.40s", s->name, words[0]);
            argv[argc - 1] = equal;
            continue;
        }
        for (int w = 0; w < n; w++)
            argv[argc++] = (char *)(uintptr_t)words[w];
    }
    return argc;
}

/* The settings that a line and the file give; the caller calls zn_options_fini. */
static void read_settings(unsigned command, size_t i, int which, struct zn_settings *settings, struct zn_options *given)
{
    static struct zn_option options[ZN_MAX_OPTIONS];
    static struct zn_command made;
    char *argv[32];
    int argc = make_line(argv, command, i, which);
    made = (struct zn_command){.name = "zinc try", .options = options, .fill = fill};
    made.n_options = zn_settings_options(command, 0, NULL, 0, options);
    memset(settings, 0, sizeof *settings);
    if (zn_options_parse(&made, argc, argv, settings, given) != ZN_OK)
        fail_msg("%s, value %d: %s", zn_settings_table[i].name, which, zn_error_message());
    zn_settings_take(settings, given, command);
}

static char *text_of(const struct zn_settings *settings, size_t i)
{
    zn_text text;
    zn_text_init(&text);
    zn_setting_add_text(&text, &zn_settings_table[i], zn_settings_value(settings, i));
    return text.data ? text.data : strdup("");
}

/* Row i has value `which` from this origin, and nothing else but what is required was given. */
static void check_settings(const struct zn_settings *settings, unsigned command, size_t i, int which, zn_origin origin)
{
    struct zn_settings want;
    zn_settings_init(&want, command);
    set_row(&want, i, which);
    char *a = text_of(settings, i), *b = text_of(&want, i);
    const bool *is = zn_settings_value(settings, i), *should = zn_settings_value(&want, i);
    if (strcmp(a, b) != 0 || (zn_settings_table[i].kind == ZN_OPTION_FLAG && *is != *should))
        fail_msg("%s: '%s', not '%s'", zn_settings_table[i].name, a, b);
    free(a);
    free(b);
    for (size_t k = 0; k < ZN_N_SETTINGS; k++) {
        const struct zn_setting *s = &zn_settings_table[k];
        zn_origin expected = k == i ? origin
                             : s->required && (s->commands & command) ? ZN_ORIGIN_LINE
                                                                      : zn_settings_origin(&want, k);
        if (zn_settings_origin(settings, k) != expected)
            fail_msg("%s, with %s given: origin %d, not %d", s->name, zn_settings_table[i].name,
                     zn_settings_origin(settings, k), expected);
    }
    OK(zn_settings_check(settings, command));
}

typedef void row_check(unsigned command, size_t i, int which);

/* Calls it for each value of each row and command that has it. */
static void for_each_value(row_check *check)
{
    int n = 0;
    FOR_EACH_COMMAND(command)
    {
        for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
            const char *words[MAX_WORDS];
            for (int which = 0; which < 2; which++) {
                if (!(zn_settings_table[i].commands & command) || words_of(&zn_settings_table[i], which, words) < 0)
                    continue;
                check(command, i, which);
                n++;
            }
        }
    }
    assert_true(n > 100);
}

static void check_line(unsigned command, size_t i, int which)
{
    struct zn_settings settings;
    struct zn_options given;
    file.path = NULL;
    read_settings(command, i, which, &settings, &given);
    check_settings(&settings, command, i, which, ZN_ORIGIN_LINE);
    zn_options_fini(&given, &settings);
}

/* In the file value `which`, on the line nothing, then the other value, which stands. */
static void check_file(unsigned command, size_t i, int which, const char *path, const char *before, const char *after)
{
    const struct zn_setting *s = &zn_settings_table[i];
    const char *words[MAX_WORDS];
    struct zn_settings settings;
    struct zn_options given;
    file.path = path;
    zn_text_init(&file.text);
    zn_text_add(&file.text, "%s\"%s\": ", before, s->name + strspn(s->name, "-"));
    add_file_value(&file.text, s, which);
    zn_text_add(&file.text, "%s", after);
    read_settings(command, i, -1, &settings, &given);
    check_settings(&settings, command, i, which, ZN_ORIGIN_FILE);
    zn_options_fini(&given, &settings);
    if (words_of(s, 1 - which, words) >= 0) {
        read_settings(command, i, 1 - which, &settings, &given);
        check_settings(&settings, command, i, 1 - which, ZN_ORIGIN_LINE);
        zn_options_fini(&given, &settings);
    }
    zn_text_fini(&file.text);
    file.path = NULL;
}

static void check_json(unsigned command, size_t i, int which)
{
    check_file(command, i, which, "f.json", "{\"zinc\": {", "}}");
}

static void check_yaml(unsigned command, size_t i, int which)
{
    check_file(command, i, which, "f.yaml", "", "\n");
    check_file(command, i, which, "f.yml", "zinc:\n  ", "\n");
}

/* What --print-config writes gives the same settings again. */
static void check_printed(unsigned command, size_t i, int which)
{
    struct zn_settings settings, again;
    struct zn_options given, given_again;
    char *printed = NULL;
    size_t n = 0;
    file.path = NULL;
    read_settings(command, i, which, &settings, &given);
    FILE *out = open_memstream(&printed, &n);
    OK(zn_settings_print(out, &settings, given.command, NULL));
    fclose(out);
    file.path = "printed.yaml";
    file.text = (zn_text){.data = printed, .n_bytes = n};
    read_settings(command, i, -1, &again, &given_again);
    file.path = NULL;
    char *a = text_of(&settings, i), *b = text_of(&again, i);
    assert_string_equal(a, b);
    assert_int_equal(zn_settings_origin(&again, i), ZN_ORIGIN_FILE);
    assert_memory_equal(&again.shuffle, &settings.shuffle, sizeof again.shuffle);
    free(a);
    free(b);
    free(printed);
    zn_options_fini(&given, &settings);
    zn_options_fini(&given_again, &again);
}

static void values_come_from_the_command_line(void **state)
{
    (void)state;
    for_each_value(check_line);
}

static void values_come_from_json(void **state)
{
    (void)state;
    for_each_value(check_json);
}

static void values_come_from_yaml(void **state)
{
    (void)state;
    for_each_value(check_yaml);
}

static void printed_settings_are_a_configuration_file(void **state)
{
    (void)state;
    for_each_value(check_printed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_from_the_command_line),
        cmocka_unit_test(values_come_from_json),
        cmocka_unit_test(values_come_from_yaml),
        cmocka_unit_test(printed_settings_are_a_configuration_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
