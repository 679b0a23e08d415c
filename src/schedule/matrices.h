/* Matrices that an optimizer updates as a whole (ZN_BY_MATRIX). They are worked on in groups: the matrices of one unit, or the one
 * matrix whose tiles are a row of units. Ranks gather the directions of a group, each transforms some of its matrices, and each gets
 * its own part back. */
#ifndef ZN_SCHEDULE_MATRICES_H
#define ZN_SCHEDULE_MATRICES_H

#include "schedule/placement.h"

/* The unit after the last of the group that begins with this one. */
int zn_matrices_end(const zn_units *units, int first_unit);

/* Where the unit's elements begin in the group's buffer of whole units. Tiles follow each other without their padding, so that the
 * rows of a matrix do. */
int64_t zn_matrices_place(const zn_units *units, int unit);

/* Rows of the whole matrix of which the part is the first, or the only one. */
int64_t zn_matrix_rows(const zn_units *units, const struct zn_part *first);

/* Bytes of the buffers that the largest group needs. */
struct zn_matrices_sizes {
    size_t directions; /* of own elements */
    size_t gathered;   /* of all ranks; 0 where every rank has all of them as its own */
    size_t work;       /* for one matrix */
};
struct zn_matrices_sizes zn_matrices_measure(const struct zn_placement *p, const zn_units *units);

#endif
