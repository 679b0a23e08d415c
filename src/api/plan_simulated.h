/* The simulated step of a plan. */
#ifndef ZN_API_PLAN_SIMULATED_H
#define ZN_API_PLAN_SIMULATED_H

#include "base/text.h"
#include "api/planning.h"

void plan_simulated_text(const struct plan *plan, FILE *out);

/* Adds the member "simulated". */
void plan_simulated_json(zn_text *text, const struct plan *plan);

/* Runs the simulation again and writes the time line of its last step. */
zn_status plan_write_trace(struct plan *plan, const char *path);

#endif
