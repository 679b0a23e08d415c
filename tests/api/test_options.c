/* Options, models and tokenizers of the public API. */
#include "api/engines.h"

static void check_value(const zn_options *options, const char *name, const char *value)
{
    char *text;
    OK(zn_options_get(options, name, &text));
    if (value)
        assert_string_equal(text, value);
    else
        assert_null(text);
    zn_free(text);
}

static void values_are_set_by_name_and_read_back(void **state)
{
    (void)state;
    zn_options *o;
    OK(zn_options_create("train", &o));
    check_value(o, "beta1", "0.9");
    check_value(o, "lr", NULL); /* the run decides it */
    OK(zn_options_set(o, "lr", "2e-5"));
    OK(zn_options_set(o, "--seq_len", "128"));
    OK(zn_options_set(o, "memory-limit", "4GiB"));
    OK(zn_options_set(o, "from-scratch", NULL));
    OK(zn_options_set(o, "data", "a.txt"));
    OK(zn_options_set(o, "data", "b.jsonl"));
    check_value(o, "lr", "2e-05");
    check_value(o, "seq-len", "128");
    check_value(o, "memory_limit", "4294967296");
    check_value(o, "from-scratch", "true");
    check_value(o, "data", "a.txt\nb.jsonl");
    OK(zn_options_set(o, "from-scratch", "false"));
    check_value(o, "from-scratch", "false");
    OK(zn_options_unset(o, "lr"));
    check_value(o, "lr", NULL);
    zn_options_destroy(o);
}

static void what_is_wrong_is_named_and_changes_nothing(void **state)
{
    (void)state;
    zn_options *o;
    FAILS(zn_options_create("fly", &o), ZN_ERR_USAGE, "fly", "train");
    OK(zn_options_create("train", &o));
    FAILS(zn_options_set(o, "seq-length", "8"), ZN_ERR_USAGE, "seq-length", "seq-len");
    FAILS(zn_options_set(o, "beta1", "1.5"), ZN_ERR_USAGE, "--beta1", "");
    FAILS(zn_options_set(o, "lr", NULL), ZN_ERR_USAGE, "--lr", "value");
    FAILS(zn_options_set(o, "precision", "fp8"), ZN_ERR_USAGE, "--precision", "fp8");
    FAILS(zn_options_set(o, "prompt", "Once"), ZN_ERR_USAGE, "prompt", "zinc train");
    check_value(o, "beta1", "0.9");
    zn_options_destroy(o);
}

static void files_give_what_was_not_set(void **state)
{
    (void)state;
    zn_options *o;
    FILE *f = fopen(in_folder("run.yaml"), "w");
    fputs("lr: 1e-4\nstage: 3\ndata: [one.txt, two.txt]\n", f);
    fclose(f);
    OK(zn_options_create("train", &o));
    OK(zn_options_set(o, "lr", "3e-4"));
    OK(zn_options_load(o, in_folder("run.yaml")));
    check_value(o, "lr", "0.0003");
    check_value(o, "stage", "3");
    check_value(o, "data", "one.txt\ntwo.txt");
    char *text;
    OK(zn_options_print(o, &text));
    assert_non_null(strstr(text, "run.yaml"));
    assert_non_null(strstr(text, "# ---- Data"));
    zn_free(text);
    FAILS(zn_options_load(o, in_folder("none.yaml")), ZN_ERR_USAGE, "none.yaml", "");
    zn_options_destroy(o);
}

static void a_model_tells_what_it_is(void **state)
{
    (void)state;
    zn_model *model;
    struct zn_model_info info = {.size = sizeof info};
    struct zn_parameter_info p = {.size = sizeof p};
    OK(zn_model_open(GPT2, &model));
    OK(zn_model_info(model, &info));
    assert_string_equal(info.architecture, "gpt2");
    assert_int_equal(info.n_elements, 29984);
    int64_t sum = 0;
    for (size_t i = 0; i < info.n_parameters; i++) {
        OK(zn_model_parameter(model, i, &p));
        sum += p.n_elements;
    }
    assert_int_equal(sum, info.n_elements);
    FAILS(zn_model_parameter(model, info.n_parameters, &p), ZN_ERR_USAGE, "parameters", "");
    zn_model_close(model);
    FAILS(zn_model_open(in_folder("nowhere"), &model), ZN_ERR_INPUT, "nowhere", "no such folder");
}

static void the_version_is_a_number_too(void **state)
{
    (void)state;
    int major, minor, patch;
    assert_int_equal(sscanf(zn_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(zn_version_number(), 10000 * major + 100 * minor + patch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_set_by_name_and_read_back),
        cmocka_unit_test(what_is_wrong_is_named_and_changes_nothing),
        cmocka_unit_test(files_give_what_was_not_set),
        cmocka_unit_test(a_model_tells_what_it_is),
        cmocka_unit_test(the_version_is_a_number_too),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
