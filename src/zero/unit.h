/* Units: the quantum of partition, gather, reduction, update and checkpoint.
 *
 * The parameters of one segment lie in one flat buffer, each 64-byte aligned, the whole padded so
 * that it divides evenly among the ranks in aligned partitions. The layout is the same for
 * every stage and every offload choice. */
#ifndef ZN_ZERO_UNIT_H
#define ZN_ZERO_UNIT_H

#include "autograd/module.h"

enum {
    ZN_PARAM_ALIGNMENT = 16,      /* elements */
    ZN_PARTITION_ALIGNMENT = 1024 /* elements: 4096 bytes of fp32 */
};

struct zn_unit {
    int64_t first;      /* element of the unit's start among all units */
    int64_t n_elements; /* padded */
};

typedef struct zn_units {
    struct zn_unit *units;
    int n_units;
    int *unit_of;        /* by parameter index */
    int64_t *place_of;   /* by parameter index: its first element among all units */
    int64_t n_elements;  /* of all units, padding included */
} zn_units;

/* Lays out the module's parameters. The caller calls fini. */
zn_status zn_units_init(zn_units *units, const zn_module *module, int n_ranks);
void zn_units_fini(zn_units *units);

#endif
