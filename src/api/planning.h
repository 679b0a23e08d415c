/* Planning from inside: what the options say, what it becomes, and how it is shown. */
#ifndef ZN_API_PLANNING_H
#define ZN_API_PLANNING_H

#include <stdio.h>

#include "api/plan_flags.h"
#include "plan/advice.h"
#include "plan/planner.h"

/* A planned run. */
struct plan {
    const struct plan_flags *flags;
    void (*note)(const char *text); /* what is said on the way; may be NULL */
    struct zn_cluster cluster;
    struct zn_plan_setup setup;
    struct zn_choices choices;
    zn_model *model;
    zn_dtype base_type; /* with adapters: of what is frozen, where it is not quantised */
    bool *is_base; /* with adapters, by parameter index: it is none of theirs */
    bool *is_quantised; /* NULL: none is */
    bool has_shape; /* the model is no folder's */
    struct zn_shape shape;
    struct zn_prediction prediction;
    struct zn_advice advice;
};

/* Plans: reads cluster and model, searches what is open, predicts, advises. The flags are borrowed as long as the plan lives. The caller
 * calls fini whatever happened. Blocks. */
zn_status plan_make(struct plan *plan, const struct plan_flags *flags, const struct zn_options *given, void (*note)(const char *text));
void plan_fini(struct plan *plan);

/* Its first part: sets what will be planned. With --largest there is no model yet. */
zn_status plan_prepare(struct plan *plan, const struct zn_options *given);

/* Of --lora-rank, once the model and its type are known: the adapters. */
zn_status plan_add_adapters(void *plan, zn_model *model, struct zn_engine_options *engine);

void plan_show_text(const struct plan *plan, FILE *out);
void plan_count_text(double count, char text[32]); /* "4.276 K" */
zn_status plan_show_json(const struct plan *plan, FILE *out);

/* The program of a step, verified. */
zn_status plan_show_program(const struct plan *plan, FILE *out);

/* The chosen settings as a configuration file with the names of flags. */
zn_status plan_write_config(const struct plan *plan, const char *path);

#endif
