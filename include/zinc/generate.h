/* Text from a hub model in one call. */
#ifndef ZINC_GENERATE_H
#define ZINC_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happens on the way; all on the calling thread, any may be NULL. */
struct zn_generate_listener {
    void *self;
    /* The text as it comes: whole characters of UTF-8, valid during the call. */
    void (*text)(void *self, const char *bytes, size_t n_bytes);
    void (*progress)(void *self, const char *what, int64_t done, int64_t total); /* before the first token */
    void (*note)(void *self, const char *text);                                  /* warnings */
};

/* Strings are borrowed for the call. zn_generate_options_init sets the defaults. */
struct zn_generate_options {
    const char *model;  /* hub folder */
    const char *prompt;
    bool chat;          /* the prompt is a user's message, put into the folder's chat template */
    int64_t max_tokens; /* new ones */
    double temperature; /* 0: the most likely token */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
    int threads;         /* 0: physical cores */
    size_t memory_limit; /* 0: 90% of what the machine leaves */
    struct zn_generate_listener listener;
};

struct zn_generate_result {
    char *text; /* of the new tokens, without special ones; UTF-8, NUL-terminated */
    size_t n_bytes;
    int32_t *ids; /* the new tokens; the last is an end-of-text id when the model ended */
    size_t n_ids;
    int32_t *prompt_ids;
    size_t n_prompt_ids;
};

ZN_API void zn_generate_options_init(struct zn_generate_options *options);

/* Computes in fp32. Blocks until the model ends or max_tokens are there. The caller calls
 * zn_generate_result_fini after a success. */
ZN_API zn_status zn_generate(const struct zn_generate_options *options,
                             struct zn_generate_result *result);
ZN_API void zn_generate_result_fini(struct zn_generate_result *result);

#ifdef __cplusplus
}
#endif
#endif
