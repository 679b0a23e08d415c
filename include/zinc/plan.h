/* A plan: where every byte and second of a run would go, on this machine or on a described cluster. */
#ifndef ZINC_PLAN_H
#define ZINC_PLAN_H

#include "zinc/options.h"
#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_plan_handle zn_plan;

/* Plans a run by the options of "plan", which are the flags of `zinc plan`: what they leave open is searched. One that does not fit is a
 * plan, too. Not collective; blocks. The options are copied; the caller destroys. */
ZN_API zn_status zn_plan_create(const zn_options *options, zn_plan **plan);

/* Forgets a plan. Not collective; NULL is legal. */
ZN_API void zn_plan_destroy(zn_plan *plan);

/* Whether it fits, 0 or 1. Not collective. */
ZN_API int zn_plan_is_fitting(const zn_plan *plan);

/* The plan as `zinc plan --json` prints it. The caller frees the text with zn_free. Not collective. */
ZN_API zn_status zn_plan_json(const zn_plan *plan, char **text);

/* The plan for a person to read, as `zinc plan` prints it. The caller frees the text with zn_free. Not collective. */
ZN_API zn_status zn_plan_text(const zn_plan *plan, char **text);

/* The program of a step, one instruction a line, verified. The caller frees the text with zn_free. Not collective; blocks. */
ZN_API zn_status zn_plan_program(const zn_plan *plan, char **text);

/* Writes the settings that were chosen as a configuration file for zn_options_load and --config. Not collective; blocks. */
ZN_API zn_status zn_plan_write_config(const zn_plan *plan, const char *path);

#ifdef __cplusplus
}
#endif
#endif
