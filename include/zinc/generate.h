/* Text from a hub model in one call. */
#ifndef ZINC_GENERATE_H
#define ZINC_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinc/settings.h"
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
    /* It has failed; told on every rank. `speaks` on one of each node: the text is the same on all. */
    void (*failed)(void *self, const char *text, bool speaks);
};

/* zn_generate_options_init sets the defaults. Settings are given with ZN_SET; strings and lists are borrowed for the call. */
struct zn_generate_options {
    struct zn_settings settings;
    struct zn_generate_listener listener;
};

struct zn_generate_result {
    char *text; /* of the new tokens, without special ones; UTF-8, NUL-terminated */
    size_t n_bytes;
    int32_t *ids; /* the new tokens; the last is an end-of-text id when the model ended */
    size_t n_ids;
    int32_t *prompt_ids;
    size_t n_prompt_ids;
    bool is_shown; /* by this rank; all have the same text */
};

ZN_API void zn_generate_options_init(struct zn_generate_options *options);

/* Computes in fp32, as one rank of the job when mpirun or srun started this process. Parameters that do not fit the limit are
 * partitioned over the ranks or read from NVMe for every token, with the same text. Blocks until the model ends or max_tokens are there. The caller calls
 * zn_generate_result_fini after a success. */
ZN_API zn_status zn_generate(const struct zn_generate_options *options,
                             struct zn_generate_result *result);
ZN_API void zn_generate_result_fini(struct zn_generate_result *result);

#ifdef __cplusplus
}
#endif
#endif
