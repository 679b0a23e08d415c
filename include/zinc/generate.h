/* Text from a hub model in one call. */
#ifndef ZINC_GENERATE_H
#define ZINC_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinc/context.h"
#include "zinc/options.h"
#include "zinc/settings.h"
#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happens on the way; all on the calling thread, any may be NULL. */
struct zn_generate_listener {
    void *self;
    /* The text as it comes: whole characters of UTF-8 that no stop string takes back, valid during the call. */
    void (*text)(void *self, const char *bytes, size_t n_bytes);
    void (*progress)(void *self, const char *what, int64_t done, int64_t total); /* before the first token */
    void (*note)(void *self, const char *text);                                  /* warnings */
    /* It has failed; told on every rank. `speaks` on one of each node: the text is the same on all. */
    void (*failed)(void *self, const char *text, bool speaks);
    /* Asked before each token, rank 0's answer counts: true ends the text here. */
    bool (*is_stopped)(void *self);
};

/* zn_generate_options_init sets the defaults. Settings are given with ZN_SET; strings and lists are borrowed for the call, or as
 * long as a generator lives. */
struct zn_generate_options {
    struct zn_settings settings;
    struct zn_generate_listener listener;
};

struct zn_generate_result {
    char *text; /* of the new tokens, without special ones and before a stop string; UTF-8, NUL-terminated */
    size_t n_bytes;
    int32_t *ids; /* the new tokens; the last is an end-of-text id when the model ended, or has the end of a stop string */
    size_t n_ids;
    int32_t *prompt_ids;
    size_t n_prompt_ids;
    size_t n_kept;   /* of the prompt's tokens, those that were not computed: the text before begins with them too */
    bool is_stopped; /* the listener ended it */
    bool is_shown;   /* by this rank; all have the same text */
};

/* Sets the defaults of all options. */
ZN_API void zn_generate_options_init(struct zn_generate_options *options);

/* Frees what a result holds. */
ZN_API void zn_generate_result_fini(struct zn_generate_result *result);

/* The text of one prompt (--prompt). Computes in fp32, as one rank of the job when mpirun or srun started this process. Parameters
 * that do not fit the limit are partitioned over the ranks or read from NVMe for every token, with the same text. Blocks until
 * the model ends or max_tokens are there. The caller calls zn_generate_result_fini after a success. */
ZN_API zn_status zn_generate(const struct zn_generate_options *options, struct zn_generate_result *result);

/* A model that is loaded once for several texts. */
typedef struct zn_generator zn_generator;

/* For the prompts of --prompt or --prompts or, with --chat and neither, for a conversation (one process alone). Collective;
 * blocks. The caller destroys. */
ZN_API zn_status zn_generator_create(const struct zn_generate_options *options, zn_generator **generator);

/* The same by options of "generate", which are copied, on the ranks of a context, which is borrowed. The listener is copied, and may
 * be NULL. Collective; blocks. The caller destroys. */
ZN_API zn_status zn_generator_open(zn_context *context, const zn_options *options, const struct zn_generate_listener *listener,
                                   zn_generator **generator);

/* Frees a generator. Collective; NULL is legal. */
ZN_API void zn_generator_destroy(zn_generator *generator);

/* How many prompts there are; 0: a conversation. Not collective. */
ZN_API size_t zn_generator_n_prompts(const zn_generator *generator);

/* The text of one of the prompts. Collective; blocks. The caller calls zn_generate_result_fini after a success. */
ZN_API zn_status zn_generator_answer(zn_generator *generator, size_t prompt, struct zn_generate_result *result);

/* The answer to the next message of a conversation; both belong to it from now on. A failure of ZN_ERR_USAGE or ZN_ERR_INPUT
 * leaves the conversation as it was before the message. */
ZN_API zn_status zn_generator_say(zn_generator *generator, const char *message, struct zn_generate_result *result);

/* Begins the conversation anew. `system`, when not NULL, is the system message from now on; "" is none. */
ZN_API zn_status zn_generator_reset(zn_generator *generator, const char *system);

#ifdef __cplusplus
}
#endif
#endif
