/* Help under headings, and the name that was probably meant. What the help of a flag says is in test_options.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"

static const char *one_name(const void *context, size_t i)
{
    return i == 0 ? context : NULL;
}

static void the_nearest_name_counts_a_swap_as_one_mistake(void **state)
{
    (void)state;
    assert_string_equal(zn_nearest_name("ls", one_name, "sl"), "sl");
    assert_null(zn_nearest_name("ls", one_name, "xy"));
    assert_null(zn_nearest_name("plan", one_name, "doctor"));
}

static void help_has_a_heading_for_each_section(void **state)
{
    (void)state;
    static const struct zn_option rows[] = {
        {.name = "--a", .kind = ZN_OPTION_FLAG, .section = "First", .help = "A."},
        {.name = "--b", .kind = ZN_OPTION_FLAG, .section = "First", .help = "B."},
        {.name = "--c", .kind = ZN_OPTION_FLAG, .section = "Second", .help = "C."},
    };
    const struct zn_command with_sections = {
        .name = "zinc try", .summary = "s", .usage = "u", .example = "e", .options = rows, .n_options = 3};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    zn_options_help(&with_sections, ZN_HELP_TEXT, out);
    fclose(out);
    assert_non_null(strstr(text, "\n\nFirst:\n  --a       A.\n  --b       B.\n\nSecond:\n  --c       C.\n  --help"));
    assert_null(strstr(text, "flags:"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_counts_a_swap_as_one_mistake),
        cmocka_unit_test(help_has_a_heading_for_each_section),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
