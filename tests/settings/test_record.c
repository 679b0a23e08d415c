/* Every row of the table in run.json, and what becomes of a change between a run and its continuation. Loops over the table: a
 * new row is tested as it is. */
#include "settings/rows.h"

#include "base/json.h"
#include "settings/compare.h"

/* ---- run.json ---- */

enum { NO_VALUE = -1, AS_BEGUN = -2 };

/* Settings of training with value `which` of row i, as run.json's object. */
static zn_json *record_of(size_t i, int which, char **text_kept)
{
    struct zn_settings settings;
    zn_json *root;
    zn_text text;
    zn_settings_init(&settings, ZN_FOR_TRAIN);
    if (which >= 0)
        set_row(&settings, i, which);
    else if (which == NO_VALUE)
        ((unsigned char *)&settings.origin)[i] = ZN_ORIGIN_NONE;
    zn_text_init(&text);
    zn_text_add(&text, "{\"first\": 1");
    zn_settings_add_record(&text, &settings, NULL, NULL);
    zn_text_add(&text, "\n}\n");
    OK(zn_text_status(&text));
    OK(zn_json_load_buffer(text.data, text.n_bytes, "run.json", &root));
    *text_kept = text.data;
    return root;
}

static bool is_recorded(const struct zn_setting *s)
{
    return (s->commands & ZN_FOR_TRAIN) && !s->is_unrecorded;
}

/* The value as JSON, by the row alone. */
static void add_expected(zn_text *text, const struct zn_setting *s, int which)
{
    const char *words[MAX_WORDS] = {NULL};
    int k = 0;
    words_of(s, which, words);
    if (s->written) {
        while (strcmp(word_at(s->choices, k), words[0]) != 0)
            k++;
        zn_text_add(text, "\"%s\"", word_at(s->written, k));
    } else if (s->kind == ZN_OPTION_FLAG) {
        zn_text_add(text, s->negates ? "false" : "true");
    } else if (s->kind == ZN_OPTION_SWITCH) {
        zn_text_add(text, strcmp(words[0], "on") == 0 ? "true" : "false");
    } else if (s->kind == ZN_OPTION_NUMERIC && which == 1) {
        zn_text_add(text, "%s", words[0]);
    } else {
        add_file_value(text, s, which);
    }
}

static void run_json_has_every_value(void **state)
{
    (void)state;
    int n = 0;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        const char *words[MAX_WORDS], *key = zn_setting_key(s), *dot = strchr(key, '.');
        for (int which = 0; is_recorded(s) && which < 2; which++) {
            char *record;
            zn_text want;
            if (words_of(s, which, words) < 0)
                continue;
            zn_json_destroy(record_of(i, which, &record)); /* it is JSON, each key once */
            zn_text_init(&want);
            zn_text_add(&want, "\"%s\": ", dot ? dot + 1 : key);
            add_expected(&want, s, which);
            if (!strstr(record, want.data))
                fail_msg("no %s in %s", want.data, record);
            zn_text_fini(&want);
            free(record);
            n++;
        }
    }
    assert_true(n > 80);
}

static void what_has_no_value_is_null(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        const char *key = zn_setting_key(s), *dot = strchr(key, '.');
        char *record, want[128];
        if (!is_recorded(s))
            continue;
        zn_json_destroy(record_of(i, NO_VALUE, &record));
        snprintf(want, sizeof want, "\"%s\": %s", dot ? dot + 1 : key,
                 s->kind == ZN_OPTION_LIST ? "[]" : s->absent ? s->absent : "null");
        if (!strstr(record, want))
            fail_msg("no %s in %s", want, record);
        free(record);
    }
}

/* ---- A run that goes on ---- */

static char told[1024];
static int n_told;

static void hear(void *self, const char *text)
{
    (void)self;
    n_told++;
    snprintf(told, sizeof told, "%s", text);
}

/* What becomes of a change of row i from value `a` to `b`. */
static zn_status change(size_t i, int a, int b)
{
    char *texts[2];
    zn_json *saved = record_of(i, a, &texts[0]), *now = record_of(i, b, &texts[1]);
    n_told = 0;
    told[0] = '\0';
    zn_status status = zn_settings_compare(saved, now, "run/checkpoints/step-7", &(struct zn_change_listener){NULL, hear});
    zn_json_destroy(saved);
    zn_json_destroy(now);
    free(texts[0]);
    free(texts[1]);
    return status;
}

/* Two values that differ; false where the row has only one. */
static bool has_two_values(const struct zn_setting *s, int *a, int *b)
{
    const char *words[MAX_WORDS];
    *a = 0;
    *b = s->kind == ZN_OPTION_FLAG ? AS_BEGUN : 1;
    return s->kind == ZN_OPTION_FLAG || words_of(s, 1, words) >= 0;
}

static void changes_are_refused_said_or_free_as_the_row_says(void **state)
{
    (void)state;
    int n[3] = {0};
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        int a, b;
        if (s->resume != ZN_RESUME_ANY)
            assert_true(is_recorded(s)); /* else nothing would be compared */
        if (!(s->commands & ZN_FOR_TRAIN) || !has_two_values(s, &a, &b))
            continue;
        n[s->resume]++;
        for (int turn = 0; turn < 2; turn++) {
            zn_status status = turn ? change(i, b, a) : change(i, a, b);
            assert_int_equal(status, s->resume == ZN_RESUME_KEPT ? ZN_ERR_USAGE : ZN_OK);
            assert_int_equal(n_told, s->resume == ZN_RESUME_SAID);
            if (s->resume == ZN_RESUME_KEPT)
                check_message("run/checkpoints/step-7 was made with ", s->name);
            if (s->resume == ZN_RESUME_SAID && !strstr(told, s->name))
                fail_msg("%s is not in: %s", s->name, told);
        }
        OK(change(i, a, a));
        assert_int_equal(n_told, 0);
    }
    assert_true(n[ZN_RESUME_ANY] > 20 && n[ZN_RESUME_SAID] > 20 && n[ZN_RESUME_KEPT] > 5);
}

/* A value that one of them was not given is a change to say; of what must be kept, the run decides what it means. */
static void a_value_that_one_lacks_is_said_and_not_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        if (!is_recorded(s) || s->kind == ZN_OPTION_LIST)
            continue;
        OK(change(i, NO_VALUE, 0));
        assert_int_equal(n_told, s->resume == ZN_RESUME_SAID);
        if (n_told && !strstr(told, s->absent ? ": off → " : ": not given → "))
            fail_msg("%s", told);
    }
}

static void the_words_of_a_change_are_those_of_flags(void **state)
{
    (void)state;
    FAILS(change(offsetof(struct zn_origins, shuffle), AS_BEGUN, 0), ZN_ERR_USAGE,
          "was made with --no-shuffle off, this run has on;", "give --model run/checkpoints/step-7");
    FAILS(change(offsetof(struct zn_origins, seed), 0, 1), ZN_ERR_USAGE, "was made with --seed 7, this run has 8;", "");
    OK(change(offsetof(struct zn_origins, lr), 1, 0));
    assert_string_equal(told, "--resume: --lr changed since the checkpoint: 0.30000000000000004 → 0.25");
    OK(change(offsetof(struct zn_origins, delayed_update), 0, NO_VALUE));
    assert_string_equal(told, "--resume: --delayed-update changed since the checkpoint: 7 → off");
    OK(change(offsetof(struct zn_origins, freeze), AS_BEGUN, 1));
    assert_string_equal(told, "--resume: --freeze changed since the checkpoint: none → text=a b *.bias");
}

/* Keys of another version. */
static void a_key_that_one_lacks_is_not_compared(void **state)
{
    (void)state;
    char *text;
    zn_json *all = record_of(0, 0, &text), *none;
    OK(zn_json_load_buffer("{\"later\": 3}", 12, "run.json", &none));
    n_told = 0;
    OK(zn_settings_compare(all, none, "f", &(struct zn_change_listener){NULL, hear}));
    OK(zn_settings_compare(none, all, "f", &(struct zn_change_listener){NULL, hear}));
    assert_int_equal(n_told, 0);
    zn_json_destroy(all);
    zn_json_destroy(none);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_json_has_every_value),
        cmocka_unit_test(what_has_no_value_is_null),
        cmocka_unit_test(changes_are_refused_said_or_free_as_the_row_says),
        cmocka_unit_test(a_value_that_one_lacks_is_said_and_not_refused),
        cmocka_unit_test(the_words_of_a_change_are_those_of_flags),
        cmocka_unit_test(a_key_that_one_lacks_is_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
