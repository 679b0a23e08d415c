/* The settings of a plan as JSON. */
#ifndef ZN_CLI_PLAN_SETTINGS_H
#define ZN_CLI_PLAN_SETTINGS_H

#include "base/text.h"
#include "cli/plan.h"

/* Adds the object of model, cluster, ranks and the engine's flags. */
void plan_add_settings(zn_text *text, const struct plan *plan);

#endif
