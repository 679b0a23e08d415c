/* What the handle of options holds: the values of a command by its table, and which were set. */
#ifndef ZN_API_OPTIONS_H
#define ZN_API_OPTIONS_H

#include "api/plan_flags.h"
#include "settings/settings.h"
#include "zinc/options.h"

struct zn_options_handle {
    unsigned which; /* ZN_FOR_…; 0: of planning, which has no settings */
    struct zn_settings settings;
    struct plan_flags plan;
    void *target; /* the one of the two that has the values */
    struct zn_option rows[ZN_MAX_OPTIONS];
    struct zn_command command;
    struct zn_options given; /* what was set, and texts that live as long as the handle */
    char *file;              /* that was loaded last; NULL: none */
};

/* A copy that the caller destroys. */
zn_status options_copy(const zn_options *from, zn_options **copy);

/* The value of a setting as zn_options_get gives it. */
zn_status options_value_text(const struct zn_settings *settings, const char *name, char **text);

#endif
