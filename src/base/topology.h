/* Where the ranks of one machine run: its cores and NUMA domains, and which of them a rank takes.
 *
 * Only what the process may use is seen: the processors of its affinity mask, which never reaches beyond those of its
 * cgroup. A mask that taskset or srun has narrowed is shared among the ranks that have it, and never left. */
#ifndef ZN_BASE_TOPOLOGY_H
#define ZN_BASE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* ---- The choice ---- */

/* A core, in the machine's order: those of one domain follow one another. */
struct zn_core {
    int domain;       /* of NUMA, counted from 0 without a gap */
    int n_processors; /* hardware threads of it that may be used */
};

struct zn_core_range {
    int first, n;
};

/* The cores of rank `rank` of the n_ranks that share all these cores, with n_threads each; n_cores is at least 1.
 *
 * As long as ranks do not outnumber domains, each gets whole domains, as many as its threads need; else a part of one
 * domain. Where that leaves a rank fewer cores than its threads and an even share, cores are cut evenly, across domains.
 * Ranges of different ranks never overlap, unless the threads of all ranks are more than the processors: then every
 * rank gets all of them. So does a rank alone, since jobs that do not know of one another would take the same part. */
struct zn_core_range zn_core_share(const struct zn_core *cores, int n_cores, int rank, int n_ranks, int n_threads);

/* ---- The machine ---- */

typedef struct zn_topology zn_topology;

/* What this thread may run on. The caller destroys. Blocks for the time of some small reads. */
zn_status zn_topology_read(zn_topology **topology);

/* A machine in hwloc's words ("numa:2 core:4 pu:2") within a mask ("0-3,8"; NULL: all of it), for tests. */
zn_status zn_topology_read_synthetic(const char *description, const char *mask, zn_topology **topology);
void zn_topology_destroy(zn_topology *topology); /* NULL is legal; what is bound stays so */

int zn_topology_n_cores(const zn_topology *topology);
int zn_topology_n_domains(const zn_topology *topology);

/* Ranks of one machine that have the same mask have the same value. */
uint64_t zn_topology_mask_hash(const zn_topology *topology);

enum { ZN_PLACE_TEXT = 256 };

/* A rank's part of the machine. */
struct zn_place {
    struct zn_core_range cores;
    int n_processors;
    int domain;    /* the only one it has memory in; -1: several */
    bool is_all;   /* nothing is left out, so there is nothing to bind */
    char processors[ZN_PLACE_TEXT]; /* "0-3,8-11", as the kernel counts them */
};
void zn_topology_place(const zn_topology *topology, int rank, int n_ranks, int n_threads, struct zn_place *place);

/* Why nothing is to be bound: ZINC_BIND=off, or OpenMP was told to bind its threads itself. NULL: it is to be. */
const char *zn_bind_is_off(void);

/* Binds all threads of this process to the place's processors, and what this thread and those it starts touch first to
 * the place's domain: preferred, since a domain may hold less than a run needs. Containers may forbid
 * it. In a place of several domains a page lies where it was touched, which is in one of them. */
zn_status zn_topology_bind(const zn_topology *topology, const struct zn_place *place);

/* Back to the mask that was read, and memory as the system has it. */
void zn_topology_unbind(const zn_topology *topology);

#endif
