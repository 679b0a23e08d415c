/* Plans of the public API: what `zinc plan` says, as JSON, text and program. */
#include "api/engines.h"

static zn_options *plan_options(const char *first, ...)
{
    zn_options *o;
    va_list args;
    OK(zn_options_create("plan", &o));
    va_start(args, first);
    for (const char *name = first; name; name = va_arg(args, const char *))
        OK(zn_options_set(o, name, va_arg(args, const char *)));
    va_end(args);
    return o;
}

static void a_plan_tells_bytes_and_seconds(void **state)
{
    (void)state;
    zn_options *o = plan_options("params", "1.5B", "cluster", "dgx2-v100", "ranks", "16", "stage", "2", "micro-batch", "4", NULL);
    zn_plan *plan;
    char *text;
    OK(zn_options_get(o, "vocab", &text));
    assert_string_equal(text, "50257");
    zn_free(text);
    OK(zn_options_get(o, "seq-len", &text));
    assert_null(text);
    OK(zn_plan_create(o, &plan));
    zn_options_destroy(o);
    assert_int_equal(zn_plan_is_fitting(plan), 1);
    OK(zn_plan_json(plan, &text));
    assert_non_null(strstr(text, "\"fits\":true"));
    assert_non_null(strstr(text, "\"ranks\":16"));
    zn_free(text);
    OK(zn_plan_text(plan, &text));
    assert_non_null(strstr(text, "16 ranks"));
    zn_free(text);
    OK(zn_plan_program(plan, &text));
    assert_non_null(strstr(text, "reduce"));
    zn_free(text);
    OK(zn_plan_write_config(plan, in_folder("fit.json")));
    zn_plan_destroy(plan);
    OK(zn_options_create("train", &o));
    OK(zn_options_load(o, in_folder("fit.json")));
    OK(zn_options_get(o, "stage", &text));
    assert_string_equal(text, "2");
    zn_free(text);
    zn_options_destroy(o);
}

static void what_does_not_fit_is_a_plan_too(void **state)
{
    (void)state;
    zn_options *o = plan_options("params", "1T", "cluster", "desktop-24gb", "stage", "0", "offload-optimizer", "none", NULL);
    zn_plan *plan;
    OK(zn_plan_create(o, &plan));
    assert_int_equal(zn_plan_is_fitting(plan), 0);
    zn_plan_destroy(plan);
    zn_options_destroy(o);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    zn_plan *plan = NULL;
    zn_options *o = plan_options("params", "1B", "layers", "4", NULL), *train;
    FAILS(zn_plan_create(o, &plan), ZN_ERR_USAGE, "--params", "--layers");
    FAILS(zn_options_set(o, "param", "1B"), ZN_ERR_USAGE, "param", "params");
    OK(zn_options_create("train", &train));
    FAILS(zn_plan_create(train, &plan), ZN_ERR_USAGE, "options of plan", "");
    OK(zn_options_set(o, "fit", NULL));
    FAILS(zn_plan_create(o, &plan), ZN_ERR_USAGE, "--fit", "zn_plan_write_config");
    assert_null(plan);
    zn_options_destroy(o);
    zn_options_destroy(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_tells_bytes_and_seconds),
        cmocka_unit_test(what_does_not_fit_is_a_plan_too),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
