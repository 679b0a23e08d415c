/* state.json: where a run stood when its checkpoint was made, so that it goes on from there. */
#ifndef ZN_CHECKPOINT_STATE_H
#define ZN_CHECKPOINT_STATE_H

#include "base/json.h"
#include "base/text.h"
#include "zero/engine.h"
#include "zero/precision.h"

#define ZN_STATE_NAME "state.json"
enum { ZN_STATE_FORMAT = 2 };

struct zn_run_state {
    int64_t step;    /* finished steps, skipped ones too */
    int64_t updates; /* of the optimizer: its t */
    int64_t n_skipped; /* steps skipped in a row up to this one */
    /* The data: windows in all, windows consumed over all epochs, and what decides their order. */
    int64_t n_windows, consumed, seq_len;
    uint64_t data_hash; /* of every token, what counts, and where examples begin */
    const char *packing; /* of examples, as people type it; stream where there are none */
    bool truncate_rows;
    uint64_t seed;
    bool shuffle;
    double eval_split; /* 0: none of them is held out */
    /* --early-stop: the lowest held-out loss so far. Step -1: none, or nobody asked. */
    struct {
        int64_t step;
        double loss;
        int64_t n_worse; /* evaluations since */
    } best;
    /* fp16: of the dynamic loss scale. */
    double scale;
    int64_t scale_step, last_overflow, patience;
    const char *optimizer, *precision; /* as people type them */
    zn_dtype dtype;                    /* of the model's weights */
    bool masters_in_model; /* the weights are fp32 and are the masters; else there is NAME.master */
    const char *states[ZN_N_STATES]; /* by name, those among the optimizer's files; NULL: not there */
    struct zn_pending pending; /* the update that was delayed */
    /* Of adapters: what they adapt. NULL and 0: all weights were trained. */
    const char *base_name;
    uint64_t base_hash;
    const zn_json *base_config;
};

/* The text of state.json. `configuration` is that of run.json, a JSON object. */
void zn_run_state_print(const struct zn_run_state *state, const char *configuration, zn_text *text);

/* Reads it; strings belong to the root, which the caller destroys after the last use. */
zn_status zn_run_state_parse(zn_json *root, struct zn_run_state *state);

/* Which of the optimizer's files' states has this name, which follows a parameter's and a dot; ZN_N_STATES: none. */
zn_state zn_run_state_find(const struct zn_run_state *state, const char *name);

#endif
