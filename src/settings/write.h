/* Values as text: as a person types them, as run.json has them, and all of them as a configuration file. */
#ifndef ZN_SETTINGS_WRITE_H
#define ZN_SETTINGS_WRITE_H

#include <stdio.h>

#include "base/text.h"
#include "settings/settings.h"

/* A field of any kind. */
union zn_setting_field {
    bool is_set;
    int64_t whole;
    double number;
    size_t n_bytes;
    const char *text;
    struct zn_words words;
};

/* Adds a value as on the command line; the words of a list with spaces between them. Nothing for a flag. */
void zn_setting_add_text(zn_text *text, const struct zn_setting *setting, const void *value);

/* Adds the value of row i as JSON, as run.json has it. */
void zn_settings_add_json(zn_text *text, const struct zn_settings *settings, size_t i);

/* Adds all that run.json has: ",\n  \"key\": value" each. After each key `after`, which may be NULL, adds what comes behind. */
void zn_settings_add_record(zn_text *text, const struct zn_settings *settings,
                            void (*after)(const void *self, zn_text *text, const char *key), const void *self);

/* Writes all settings of a command as a configuration file in YAML, by the sections of help, each with where its value comes from:
 * the default, `file` (NULL: none) or the command line. What the run decides is a comment. */
zn_status zn_settings_print(FILE *out, const struct zn_settings *settings, const struct zn_command *command, const char *file);

/* The key of a setting in run.json. */
const char *zn_setting_key(const struct zn_setting *setting);

#endif
