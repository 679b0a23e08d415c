/* The table itself, defaults, what was given, and values that a program sets. */
#include "settings/rows.h"

#include "zinc/generate.h"
#include "zinc/train.h"

static void names_and_keys_are_each_their_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *a = &zn_settings_table[i];
        assert_non_null(a->name);
        assert_non_null(a->help);
        assert_true(a->commands != 0);
        assert_true(strncmp(a->name, "--", 2) == 0);
        for (size_t k = 0; k < i; k++) {
            const struct zn_setting *b = &zn_settings_table[k];
            if (strcmp(a->name, b->name) == 0 || strcmp(zn_setting_key(a), zn_setting_key(b)) == 0 || a->offset == b->offset)
                fail_msg("%s and %s", a->name, b->name);
        }
        if (a->written)
            assert_int_equal(n_words(a->written), n_words(a->choices));
    }
}

/* Members of one object must stand together, or run.json would have it twice. */
static void rows_of_an_object_stand_together(void **state)
{
    (void)state;
    struct zn_settings settings;
    zn_text text;
    zn_settings_init(&settings, ZN_FOR_TRAIN);
    zn_text_init(&text);
    zn_settings_add_record(&text, &settings, NULL, NULL);
    OK(zn_text_status(&text));
    const char *first = strstr(text.data, "\"offload\": {");
    assert_non_null(first);
    assert_null(strstr(first + 1, "\"offload\": {"));
    zn_text_fini(&text);
}

static void every_row_says_what_holds_where_it_is_not_given(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        bool has = s->initial || s->otherwise || s->required || s->kind == ZN_OPTION_FLAG;
        if (!has || (s->initial && s->otherwise))
            fail_msg("%s: one of a default, its words, and being required", s->name);
    }
}

static void not_given_is_known(void **state)
{
    (void)state;
    FOR_EACH_COMMAND(command)
    {
        struct zn_settings settings;
        zn_settings_init(&settings, command);
        for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
            const struct zn_setting *s = &zn_settings_table[i];
            bool has = (s->commands & command) && (s->initial || s->kind == ZN_OPTION_FLAG);
            assert_int_equal(zn_settings_origin(&settings, i), has ? ZN_ORIGIN_DEFAULT : ZN_ORIGIN_NONE);
        }
    }
    /* A value that looks like none is given all the same. */
    struct zn_train_options o;
    zn_train_options_init(&o);
    assert_false(ZN_GIVEN(&o.settings, stage) || ZN_GIVEN(&o.settings, steps) || ZN_GIVEN(&o.settings, resume));
    assert_false(ZN_HAS(&o.settings, min_lr));
    ZN_SET(o, stage, 0);
    ZN_SET(o, steps, 0);
    ZN_SET(o, min_lr, 0);
    ZN_SET(o, tile_limit, 0);
    ZN_SET(o, resume, NULL);
    assert_true(ZN_GIVEN(&o.settings, stage) && ZN_GIVEN(&o.settings, steps) && ZN_GIVEN(&o.settings, min_lr));
    assert_true(ZN_GIVEN(&o.settings, tile_limit) && ZN_GIVEN(&o.settings, resume));
    ZN_UNSET(o, stage);
    assert_false(ZN_GIVEN(&o.settings, stage) || ZN_HAS(&o.settings, stage));
}

static void what_the_run_chooses_does_not_hide_what_was_given(void **state)
{
    (void)state;
    struct zn_train_options o;
    struct zn_settings *s = &o.settings;
    zn_train_options_init(&o);
    ZN_SET(o, schedule, "auto");
    ZN_CHOOSE(s, schedule, "vertical");
    ZN_CHOOSE(s, stage, 2);
    assert_string_equal(s->schedule, "vertical");
    assert_int_equal(s->origin.schedule, ZN_ORIGIN_LINE);
    assert_int_equal(s->origin.stage, ZN_ORIGIN_CHOSEN);
    assert_false(ZN_GIVEN(s, stage));
    assert_true(ZN_HAS(s, stage));
}

static struct zn_train_options complete(void)
{
    static const char *const data[] = {"data"};
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, "model");
    ZN_SET_WORDS(o, data, data, 1);
    OK(zn_settings_check(&o.settings, ZN_FOR_TRAIN));
    return o;
}

static void values_of_a_program_are_held_to_their_rows(void **state)
{
    (void)state;
    struct zn_train_options o = complete();
#define REFUSES(field, value, text)                                                                                           \
    do {                                                                                                                      \
        o = complete();                                                                                                       \
        ZN_SET(o, field, value);                                                                                              \
        FAILS(zn_settings_check(&o.settings, ZN_FOR_TRAIN), ZN_ERR_USAGE, text, "");                                          \
        FAILS(zn_train(&o), ZN_ERR_USAGE, text, "");                                                                          \
    } while (0)
    REFUSES(micro_batch, 0, "--micro-batch: 0 is not in [1, 1048576]");
    REFUSES(lr, -0.5, "--lr: -0.5 is not in (0, inf)");
    REFUSES(beta1, 0.0 / 0.0, "nan' is not a finite number");
    REFUSES(stage, 4, "--stage: '4' is not one of: 0 1 2 3");
    REFUSES(schedule, "diagonal", "--schedule: 'diagonal' is not one of: horizontal vertical auto");
    REFUSES(device, "sim", "`--device sim`: not in this build");
    REFUSES(math, "fast", "`--math fast`: not in this build");
    REFUSES(math, "tf32", "`--math tf32`: not in this build");
    REFUSES(math, "bf16", "`--math bf16`: not in this build");
    REFUSES(loss_scale, "static", "--loss-scale: 'static' is neither dynamic nor a number in [1e-30, 1e38]");
    REFUSES(output, NULL, "--output: the value is empty");
    REFUSES(prompt, "Hi", "--prompt: not a setting of this command");
    REFUSES(delayed_update, -1, "--delayed-update: -1 is not in [0, inf)");
    o = complete();
    ZN_SET(o, optimizer, "registered elsewhere"); /* optimizers may come from outside */
    OK(zn_settings_check(&o.settings, ZN_FOR_TRAIN));
}

static void a_field_that_was_changed_without_its_mark_is_refused(void **state)
{
    (void)state;
    struct zn_train_options o = complete();
    o.settings.stage = 3;
    FAILS(zn_settings_check(&o.settings, ZN_FOR_TRAIN), ZN_ERR_USAGE, "--stage: the field stage was changed without ZN_SET", "");
    o = complete();
    o.settings.micro_batch = 2;
    FAILS(zn_settings_check(&o.settings, ZN_FOR_TRAIN), ZN_ERR_USAGE, "--micro-batch: ", "without ZN_SET");
    o = (struct zn_train_options){0};
    FAILS(zn_settings_check(&o.settings, ZN_FOR_TRAIN), ZN_ERR_USAGE, "--model DIR is required", "");
    ZN_SET(o, model, "m");
    FAILS(zn_settings_check(&o.settings, ZN_FOR_TRAIN), ZN_ERR_USAGE, "options begin with their init function", "");
    zn_train_options_init(&o);
    FAILS(zn_settings_check(&o.settings, ZN_FOR_TRAIN), ZN_ERR_USAGE, "--model DIR is required", "");
}

static void other_calls_check_theirs(void **state)
{
    (void)state;
    struct zn_eval_options e;
    struct zn_eval_result loss;
    struct zn_generate_options g;
    struct zn_generate_result text;
    zn_eval_options_init(&e);
    ZN_SET(e, model, "m");
    ZN_SET_WORDS(e, data, &e.settings.model, 1);
    ZN_SET(e, steps, 3);
    FAILS(zn_eval(&e, &loss), ZN_ERR_USAGE, "--steps: not a setting of this command", "");
    zn_generate_options_init(&g);
    ZN_SET(g, model, "m");
    ZN_SET(g, prompt, "Hi");
    ZN_SET(g, top_p, 1.5);
    FAILS(zn_generate(&g, &text), ZN_ERR_USAGE, "--top-p: 1.5 is not in (0, 1]", "");
}

static const char *help_of(unsigned command, const char *name)
{
    static struct zn_option options[ZN_MAX_OPTIONS];
    size_t n = zn_settings_options(command, 0, NULL, 0, options);
    for (size_t i = 0; i < n; i++)
        if (strcmp(options[i].name, name) == 0)
            return options[i].help;
    return "";
}

static void commands_have_their_own_words_for_a_row(void **state)
{
    (void)state;
    assert_string_equal(help_of(ZN_FOR_TRAIN, "--seed"), "Of the data order and random weights.");
    assert_string_equal(help_of(ZN_FOR_GENERATE, "--seed"), "The same seed draws the same text.");
    assert_string_equal(help_of(ZN_FOR_EVAL, "--seed"), "");
}

/* A section that is in no list of headings would lose its rows. */
static void no_option_is_left_out(void **state)
{
    (void)state;
    static struct zn_option options[ZN_MAX_OPTIONS];
    FOR_EACH_COMMAND(command)
    {
        size_t n = 0;
        for (size_t i = 0; i < ZN_N_SETTINGS; i++)
            n += (zn_settings_table[i].commands & command) != 0;
        assert_int_equal(zn_settings_options(command, 0, NULL, 0, options), n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_keys_are_each_their_own),
        cmocka_unit_test(rows_of_an_object_stand_together),
        cmocka_unit_test(every_row_says_what_holds_where_it_is_not_given),
        cmocka_unit_test(not_given_is_known),
        cmocka_unit_test(what_the_run_chooses_does_not_hide_what_was_given),
        cmocka_unit_test(values_of_a_program_are_held_to_their_rows),
        cmocka_unit_test(a_field_that_was_changed_without_its_mark_is_refused),
        cmocka_unit_test(other_calls_check_theirs),
        cmocka_unit_test(commands_have_their_own_words_for_a_row),
        cmocka_unit_test(no_option_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
