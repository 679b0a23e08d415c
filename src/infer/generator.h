/* A model loaded for several texts, from within: see zinc/generate.h.
 *
 * One sequence is in the engine's cache. The next prompt keeps the tokens with which both begin and computes the others. */
#ifndef ZN_INFER_GENERATOR_H
#define ZN_INFER_GENERATOR_H

#include "infer/codec.h"
#include "infer/open.h"
#include "infer/prompts.h"
#include "infer/sampler.h"
#include "infer/stop_strings.h"
#include "text/stop.h"
#include "train/run.h"
#include "zinc/generate.h"

struct zn_generator {
    struct zn_generate_listener listener;
    struct zn_settings settings; /* with the folder of the model */
    zn_clock clock; /* of the communicator */
    zn_comm *comm;
    bool borrows_comm; /* it is the caller's */
    void *kept;        /* what the settings borrow from, where it is given over: released with the generator; NULL: nothing */
    void (*release)(void *kept);
    struct zn_run run;
    struct zn_engine_options engine;
    zn_codec *codec;
    struct zn_stop end;          /* ids that end a text */
    struct zn_stop_strings stop; /* strings that do */
    struct zn_prompts prompts;
    struct zn_id_list *encoded; /* of each prompt */
    struct zn_prompt talk;      /* the conversation so far; n_messages 0: none yet */
    struct zn_prompt system;    /* holds the system message that a conversation was given */
    int64_t capacity;           /* tokens of a sequence */
    float *logits;
    struct zn_candidate *room;
    bool *is_seen;       /* by id: the sequence has it, for the repetition penalty */
    struct drawn *drawn; /* by rank */
    struct zn_ids sequence; /* what the cache holds */
    size_t n_shown;         /* bytes of the text that the listener has */
};

struct zn_id_list {
    int32_t *ids;
    size_t n;
};

/* What a rank has drawn, and whether it is asked to stop. */
struct drawn {
    int32_t id;
    bool is_stopped;
};

/* Not collective: told by the rank that shows the text alone. */
void generator_progress(const zn_generator *generator, const char *what, int64_t done, int64_t total);

/* The text after a prompt that fits, of at most max_tokens. Collective; blocks. */
zn_status generator_write(zn_generator *generator, const struct zn_id_list *prompt, int64_t max_tokens,
                          struct zn_generate_result *result);

#endif
