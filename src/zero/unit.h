/* Units: the quantum of partition, gather, reduction, update and checkpoint.
 *
 * The parameters of one segment lie in one flat buffer, each 64-byte aligned, the whole padded so
 * that it divides among the ranks in equal, aligned partitions: rank r owns the r-th. The layout is
 * the same for every stage and every offload choice; a stage only says which slices a rank keeps. */
#ifndef ZN_ZERO_UNIT_H
#define ZN_ZERO_UNIT_H

#include "autograd/module.h"

enum {
    ZN_PARAM_ALIGNMENT = 16,      /* elements */
    ZN_PARTITION_ALIGNMENT = 4096 /* bytes */
};

struct zn_unit {
    int64_t first;      /* element of the unit's start among all units */
    int64_t n_elements; /* padded */
    int64_t partition;  /* elements a rank owns: n_elements / n_ranks */
    int first_param, n_params;
};

typedef struct zn_units {
    struct zn_unit *units;
    int n_units, n_ranks;
    int *unit_of;       /* by parameter index */
    int64_t *place_of;  /* by parameter index: its first element among all units */
    int64_t n_elements; /* of all units, padding included */
} zn_units;

/* Lays out the module's parameters, stored in `type`. The caller calls fini. */
zn_status zn_units_init(zn_units *units, const zn_module *module, zn_dtype type, int n_ranks);
void zn_units_fini(zn_units *units);

/* A range of elements of a parameter; n may be 0. */
struct zn_range {
    int64_t first, n;
};

/* The part of a parameter that lies in the rank's partition. */
struct zn_range zn_units_owned(const zn_units *units, const zn_param *param, int rank);

/* Where an element of the own partition lies among all own partitions, which follow each other
 * in the order of units: the parameter's element `first` must be owned. */
int64_t zn_units_owned_place(const zn_units *units, const zn_param *param, int64_t first, int rank);

#endif
