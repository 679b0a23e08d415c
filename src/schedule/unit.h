/* Units: the quantum of partition, gather, reduction, update, offload and checkpoint.
 *
 * The parameters of one segment lie in one flat buffer, the whole padded so that it divides among
 * the ranks in equal, aligned partitions: rank r owns the r-th. A parameter above the tile limit is
 * split into tiles, runs of its rows, each a unit of its own (ZeRO-Infinity's memory-centric
 * tiling). What a unit holds of a parameter is a part: the whole of it, or a tile.
 *
 * The parameters of a unit are alike: all are trained, or all are frozen, all have one type, and all are updated by matrix or by
 * element. A frozen unit has no gradient, no master and no optimizer states. So that these are without gaps, trained units come
 * first among all elements, then frozen ones, then quantised ones (tensor/quantum.h), which are frozen too.
 *
 * Parts start, and partitions end, at multiples of ZN_PART_ALIGNMENT elements, so that the chunks in
 * which sums over elements are taken are the same whatever the ranks and the tiles. The layout is the
 * same for every stage and every offload choice; a stage only says which slices a rank keeps. */
#ifndef ZN_SCHEDULE_UNIT_H
#define ZN_SCHEDULE_UNIT_H

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/param.h"
#include "tensor/sums.h"

enum {
    ZN_PART_ALIGNMENT = ZN_SUM_ELEMENTS, /* elements */
    ZN_PARTITION_ALIGNMENT = 4096,       /* bytes */
    ZN_TILE_ROWS = 1024                  /* tiles are multiples: whole panels of the grid of products */
};

struct zn_part {
    int param, unit;
    int64_t first_row, n_rows; /* of the parameter */
    int64_t first, n_elements; /* of the parameter */
    int64_t place;             /* of its first element among all units */
};

struct zn_unit {
    int64_t first;      /* element of the unit's start among all units, trained ones first */
    int64_t n_elements; /* padded */
    int64_t partition;  /* elements a rank owns: n_elements / n_ranks */
    int first_part, n_parts;
    bool is_trained;
    bool by_matrix;        /* it has hidden matrices, which an optimizer by matrix updates */
    int64_t first_of_kind; /* as `first`, among trained units that are updated in the same way */
    zn_dtype type;   /* of its values */
    bool joins_next; /* operators may read it together with the next one: the units of a segment that are not tiles */
};

typedef struct zn_units {
    struct zn_unit *units;
    int n_units, n_ranks;
    struct zn_part *parts; /* in the order of units; those of one parameter follow each other */
    int n_parts;
    int *first_part;    /* by parameter index */
    int64_t *tile_rows; /* by parameter index: of all its tiles but the last */
    int64_t n_elements; /* of all units, padding included */
    int64_t n_trained;  /* of trained ones */
    int64_t n_plain;    /* of those that are not quantised */
} zn_units;

/* The parameters of a model. */
struct zn_params {
    const zn_param *params;
    int n_params, n_segments;
};

struct zn_units_options {
    zn_dtype type; /* of trained parameters */
    int n_ranks;
    size_t tile_bytes;    /* parameters above this many bytes are split; 0: none are */
    zn_dtype frozen_type; /* of those that are not trained */
    const bool *frozen;   /* by parameter index; NULL: none is */
    bool freezes_all;
    bool by_matrix; /* hidden matrices are updated by matrix: they are in units of their own */
    zn_dtype quantised_type; /* of frozen parameters that are quantised */
    const bool *quantised;   /* by parameter index; NULL: none is */
};

/* Units that are alike follow each other among all elements in this order. */
typedef enum zn_unit_class { ZN_UNIT_TRAINED, ZN_UNIT_FROZEN, ZN_UNIT_QUANTISED, ZN_N_UNIT_CLASSES } zn_unit_class;

static inline zn_unit_class zn_unit_class_of(const struct zn_unit *unit)
{
    return unit->is_trained ? ZN_UNIT_TRAINED : zn_dtype_is_quantised(unit->type) ? ZN_UNIT_QUANTISED : ZN_UNIT_FROZEN;
}

/* Bytes of the values of a whole unit. */
static inline size_t zn_unit_bytes(const struct zn_unit *unit)
{
    return zn_dtype_size(unit->type, unit->n_elements);
}

/* The first of the units that are read together with this one: itself, or one before; at most ZN_MAX_JOINED are. */
enum { ZN_MAX_JOINED = ZN_N_UNIT_CLASSES + 1 /* trained ones by matrix and by element */ };

static inline int zn_units_joined(const zn_units *units, int unit)
{
    while (unit > 0 && units->units[unit - 1].joins_next)
        unit--;
    return unit;
}

/* Lays out the parameters. The caller calls fini. */
zn_status zn_units_init(zn_units *units, const struct zn_params *params, const struct zn_units_options *options);
void zn_units_fini(zn_units *units);

/* The first element of a class of units among all elements. */
int64_t zn_units_class_first(const zn_units *units, zn_unit_class class);

/* The part of a parameter that has the row, or the element. */
const struct zn_part *zn_units_row(const zn_units *units, const zn_param *param, int64_t row);
const struct zn_part *zn_units_element(const zn_units *units, const zn_param *param, int64_t element);

/* A range of elements; n may be 0. */
struct zn_range {
    int64_t first, n;
};

/* What of the part lies in the rank's partition, counted from the part's first element. */
struct zn_range zn_units_owned(const zn_units *units, const struct zn_part *part, int rank);

/* Where an element of the own partition lies among all own partitions, which follow each other
 * in the order of units: the part's element `first` must be owned. */
int64_t zn_units_owned_place(const zn_units *units, const struct zn_part *part, int64_t first, int rank);

#endif
