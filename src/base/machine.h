/* What this process may use of the machine: cores and memory, with the limits of its cgroups
 * (version 1 and 2). Linux; read from /proc and /sys. */
#ifndef ZN_BASE_MACHINE_H
#define ZN_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct zn_machine {
    char cpu_model[128];
    int n_logical;    /* processors this process may run on (its affinity mask) */
    int n_physical;   /* distinct cores among them */
    double cpu_quota; /* processors' worth of time the cgroup grants; 0: no limit */
    int n_cores;      /* cores to compute with: n_physical within the quota, at least 1 */
    size_t memory_total;
    size_t memory_cgroup;    /* the tightest limit of its cgroups; 0: none */
    size_t memory_limit;     /* the smaller of the two above */
    size_t memory_process;   /* what this process may still map by its own limits (RLIMIT_AS and RLIMIT_DATA, `ulimit -v`
                              * and `-d`); SIZE_MAX: no limit */
    size_t memory_available; /* what can be taken now without swapping, being killed or refused */
    char huge_pages[16];     /* transparent huge pages: always, madvise, never or unknown */
};

/* `root` is "" for this machine; tests pass a folder that holds its own proc/ and sys/. Blocks for
 * the time of some small reads. */
zn_status zn_machine_read(const char *root, struct zn_machine *machine);

/* Fails where --threads asks for more than this process may run on: more only cost time. Tests of thread counts want them
 * anywhere: ZINC_ALLOW_OVERSUBSCRIPTION=1. */
zn_status zn_machine_check_threads(const struct zn_machine *machine, int64_t n_threads);

#endif
