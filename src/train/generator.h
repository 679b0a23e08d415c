/* A model that extends one sequence, token by token, with the keys and values of the tokens before
 * kept (autograd/cache.h). Sized before it starts: one pass on the sim device tells what the arena
 * and the cache need. */
#ifndef ZN_TRAIN_GENERATOR_H
#define ZN_TRAIN_GENERATOR_H

#include "train/resident.h"

typedef struct zn_generator zn_generator;

enum { ZN_GENERATOR_ROWS = 256 }; /* tokens of one pass at most */

/* Lifetimes and sizes, by the same code that will run. */
typedef struct zn_generator_plan {
    zn_lifetimes *pass;
    int64_t rows, capacity;
    size_t arena_bytes, cache_bytes;
    size_t n_bytes; /* of everything: parameters, cache, activations, buffers */
} zn_generator_plan;

/* For a sequence of at most `capacity` tokens, of which at most `rows` come at once, with parameters
 * kept in `type`. The caller calls fini. */
zn_status zn_generator_plan_init(zn_generator_plan *plan, const zn_module *module,
                                 zn_dtype type, int64_t rows, int64_t capacity);
void zn_generator_plan_fini(zn_generator_plan *plan);

/* Allocates by the plan; the parameters are then loaded into zn_generator_weights. The caller
 * destroys; device, module and plan are borrowed. */
zn_status zn_generator_create(zn_device *device, const zn_module *module, zn_dtype type,
                              const zn_generator_plan *plan, zn_generator **generator);
void zn_generator_destroy(zn_generator *generator); /* NULL is legal */

zn_resident *zn_generator_weights(zn_generator *generator);

/* Adds n tokens (n >= 1) to the sequence. `logits` (V floats on the host), when not NULL, are those
 * of the last one. Blocks. `n` may exceed the plan's rows: it is then taken in several passes. */
zn_status zn_generator_extend(zn_generator *generator, const int32_t *ids, int64_t n, float *logits);

/* Tokens of the sequence so far, and back to that many or fewer. */
int64_t zn_generator_length(const zn_generator *generator);
void zn_generator_rewind(zn_generator *generator, int64_t length);

#endif
