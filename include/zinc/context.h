/* Where engines run: this process alone, or the ranks of a job. */
#ifndef ZINC_CONTEXT_H
#define ZINC_CONTEXT_H

#include <stddef.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_context_handle zn_context;

/* Which ranks there are. */
typedef enum zn_ranks {
    ZN_RANKS_LAUNCHED, /* those of mpirun or srun, where one of them has started this process; else this process alone */
    ZN_RANKS_SELF,     /* this process alone */
    ZN_RANKS_MPI       /* those of mpirun or srun; started otherwise it fails */
} zn_ranks;

struct zn_context_options {
    size_t size; /* sizeof(struct zn_context_options) */
    zn_ranks ranks;
    size_t memory_limit; /* of engines whose options do not say memory-limit; 0: 90% of what is free */
    int threads;         /* of engines whose options do not say threads; 0: physical cores */
};

/* Joins the ranks. A process can start MPI once: one context of ranks serves all its engines. `options` NULL: all of them zero.
 * Collective; blocks until all ranks are there. The caller destroys. */
ZN_API zn_status zn_context_create(const struct zn_context_options *options, zn_context **context);

/* Leaves the ranks, after all engines of the context are destroyed. Collective; blocks; NULL is legal. */
ZN_API void zn_context_destroy(zn_context *context);

/* Whether mpirun or srun has started this process, 0 or 1; MPI is not started by asking. Not collective. */
ZN_API int zn_context_is_launched(void);

/* The rank of this process, from 0. Not collective. */
ZN_API int zn_context_rank(const zn_context *context);

/* How many ranks there are. Not collective. */
ZN_API int zn_context_n_ranks(const zn_context *context);

#ifdef __cplusplus
}
#endif
#endif
