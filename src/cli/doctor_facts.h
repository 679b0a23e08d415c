/* What `zinc doctor` finds out, apart from how it is printed. */
#ifndef ZN_CLI_DOCTOR_FACTS_H
#define ZN_CLI_DOCTOR_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/machine.h"
#include "base/status.h"
#include "base/topology.h"

enum { DOCTOR_N_ISAS = 3, DOCTOR_N_BACKENDS = 3, DOCTOR_MAX_RANKS = 64 };

struct doctor_facts {
    struct zn_machine machine;

    int n_domains;      /* of NUMA */
    const char *unbound; /* why a run would not bind itself; NULL: it would */
    struct {
        int n; /* as many as domains, at least two where there are cores for them */
        struct zn_place place[DOCTOR_MAX_RANKS];
    } ranks;

    struct {
        const char *name;
        bool found;
    } isa[DOCTOR_N_ISAS];
    const char *isa_used; /* the kernels a run would take, ZINC_ISA considered */

    struct {
        const char *name;
        char state[1024]; /* "found" and what, or what would make it work */
    } backend[DOCTOR_N_BACKENDS];

    const char *compiler;
    char mpi[160];        /* implementation and version */
    bool starts_ranks;    /* -n works */
    char ranks_text[512]; /* so, or why not */
};

zn_status doctor_facts_read(struct doctor_facts *facts);

#endif
