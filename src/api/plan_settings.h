/* The settings of a plan as JSON. */
#ifndef ZN_API_PLAN_SETTINGS_H
#define ZN_API_PLAN_SETTINGS_H

#include "base/text.h"
#include "api/planning.h"

/* Adds the object of model, cluster, ranks and the engine's flags. */
void plan_add_settings(zn_text *text, const struct plan *plan);

#endif
