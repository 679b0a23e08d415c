/* A training run as an object, for callers that take its steps one by one. What it shows of the run are values and texts: whoever
 * includes this sees none of the engine's types. */
#ifndef ZN_TRAIN_SESSION_H
#define ZN_TRAIN_SESSION_H

#include "comm/comm.h"
#include "zinc/network.h"
#include "zinc/train.h"

typedef struct zn_session zn_session;

struct zn_session_setup {
    struct zn_train_options options; /* texts and lists are borrowed as long as the session lives */
    zn_comm *comm;                   /* the same */
    const zn_network *network;       /* the same; NULL: the model is what config.json says */
    bool is_temporary;               /* the output folder goes with the run: no model is written into it */
};

/* Everything up to the first step. Collective; blocks. The caller destroys. */
zn_status zn_session_create(const struct zn_session_setup *setup, zn_session **session);

/* Collective; NULL is legal. */
void zn_session_destroy(zn_session *session);

/* ---- Collective; block. After a failure of one that changes the run, only zn_session_destroy is left ---- */

zn_status zn_session_step(zn_session *session, struct zn_step_report *report); /* as training_step */
zn_status zn_session_finish(zn_session *session);                              /* as training_end */

/* The held-out data with the present weights. */
zn_status zn_session_evaluate(zn_session *session, struct zn_eval_result *result);

/* The values of a parameter's state, all of them, on every rank: `state` by its name, NULL or "master" the values themselves. */
zn_status zn_session_read(zn_session *session, const char *name, const char *state, float *values, int64_t n_values);

/* A checkpoint as folder/step-N; and going on from one, also after other steps. */
zn_status zn_session_save(zn_session *session, const char *folder);
zn_status zn_session_load(zn_session *session, const char *from);

/* The model with its present weights, or its adapters, as a hub folder that is made and holds none yet. */
zn_status zn_session_export(zn_session *session, const char *folder);

/* ---- Not collective ---- */

bool zn_session_is_done(const zn_session *session);
int64_t zn_session_step_number(const zn_session *session); /* steps done */
const struct zn_settings *zn_session_settings(const zn_session *session); /* with what the run decided */
const char *zn_session_architecture(const zn_session *session);
size_t zn_session_n_parameters(const zn_session *session);

/* Parameter i: its name, shape (4 dims at the most) and whether it is trained. */
struct zn_session_parameter {
    const char *name;
    int n_dims;
    int64_t dims[4], n_elements;
    bool is_trained;
};
struct zn_session_parameter zn_session_parameter(const zn_session *session, size_t i);

/* The name of state i of parameters that are trained, from 0; NULL after the last. */
const char *zn_session_state(const zn_session *session, int i);

/* The program of a step as text. The caller frees. */
zn_status zn_session_program(const zn_session *session, char **text);

#endif
