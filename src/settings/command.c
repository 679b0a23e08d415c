/* The options of a command, from the table, and where their values come from. */
#include <assert.h>
#include <string.h>

#include "settings/settings.h"

static const char *const sections[] = {ZN_SECTION_MODEL,     ZN_SECTION_TEXT,   ZN_SECTION_DATA,    ZN_SECTION_BATCH,
                                       ZN_SECTION_OPTIMIZER, ZN_SECTION_PRECISION, ZN_SECTION_MEMORY, ZN_SECTION_MACHINE,
                                       ZN_SECTION_CHECKPOINTS, ZN_SECTION_OUTPUT};

size_t zn_settings_options(unsigned command, size_t offset, const struct zn_option *own, size_t n_own,
                           struct zn_option options[ZN_MAX_OPTIONS])
{
    size_t n = 0;
    for (size_t k = 0; k < sizeof sections / sizeof sections[0]; k++) {
        for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
            struct zn_option option = zn_settings_option(i, command);
            if (!(zn_settings_table[i].commands & command) || strcmp(option.section, sections[k]) != 0)
                continue;
            assert(n < ZN_MAX_OPTIONS);
            option.offset += offset;
            options[n++] = option;
        }
        for (size_t i = 0; i < n_own; i++) {
            if (strcmp(own[i].section, sections[k]) != 0)
                continue;
            assert(n < ZN_MAX_OPTIONS);
            options[n++] = own[i];
        }
    }
    return n;
}

void zn_settings_take(struct zn_settings *settings, const struct zn_options *given, unsigned command)
{
    static const zn_origin origins[] = {
        [ZN_NOT_GIVEN] = ZN_ORIGIN_NONE, [ZN_GIVEN_IN_FILE] = ZN_ORIGIN_FILE, [ZN_GIVEN_ON_LINE] = ZN_ORIGIN_LINE};
    struct zn_settings initial;
    zn_settings_init(&initial, command);
    settings->origin = initial.origin;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        for (size_t k = 0; k < given->command->n_options; k++)
            if (given->given[k] != ZN_NOT_GIVEN && strcmp(given->command->options[k].name, zn_settings_table[i].name) == 0)
                ((unsigned char *)&settings->origin)[i] = (unsigned char)origins[given->given[k]];
    }
}
