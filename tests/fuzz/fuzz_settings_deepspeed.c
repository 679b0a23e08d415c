/* A configuration file in JSON of any bytes, DeepSpeed's or ours: it is refused in one line that names the file, or every value that
 * it gave is one that its setting may have, and what is said about it is one line each. */
#include <stdlib.h>
#include <string.h>

#include "settings/file.h"
#include "settings/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static bool is_one_line(const char *text)
{
    return strstr(text, "f.json: ") && !strpbrk(text, "\n\r\x1b");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct zn_option options[ZN_MAX_OPTIONS];
    static char model[] = "--model=m", paths[] = "--data=d", name[] = "train";
    char *argv[] = {name, model, paths};
    struct zn_command command = {.name = "zinc train", .options = options};
    struct zn_settings settings = {0};
    struct zn_options given;
    command.n_options = zn_settings_options(ZN_FOR_TRAIN, 0, NULL, 0, options);
    check(zn_options_parse(&command, 3, argv, &settings, &given) == ZN_OK);
    zn_status status = zn_settings_load_text(&given, &settings, "f.json", (const char *)data, size);
    if (status == ZN_OK) {
        zn_settings_take(&settings, &given, ZN_FOR_TRAIN);
        check(zn_settings_check(&settings, ZN_FOR_TRAIN) == ZN_OK);
        for (size_t i = 0; i < given.notes.n; i++)
            check(is_one_line(given.notes.word[i]));
    } else {
        check(status == ZN_ERR_USAGE && is_one_line(zn_error_message()));
    }
    zn_options_fini(&given, &settings);
    return 0;
}
