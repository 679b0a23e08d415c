/* The mesh of a job's ranks, data × sequence × tensor, and the groups of ranks along its axes. Pure arithmetic.
 *
 * rank = (d · sequence + s) · tensor + t: tensor ranks are consecutive, so they share a node first. */
#ifndef ZN_COMM_MESH_H
#define ZN_COMM_MESH_H

#include "base/status.h"

/* X(name, text). The groups that every rank is in, one of each. */
#define ZN_AXES(X)                                                                                                   \
    X(WORLD, "world")       /* all ranks */                                                                          \
    X(DATA, "data")         /* the ranks that differ in d alone */                                                   \
    X(SEQUENCE, "sequence") /* in s alone */                                                                         \
    X(TENSOR, "tensor")     /* in t alone */                                                                         \
    X(REPLICA, "replica")   /* in d and s: they hold the same slices of parameters, and ZeRO's partitions span them */ \
    X(NODE, "node")         /* the ranks of one node, which the mesh does not decide */

typedef enum zn_axis {
#define ZN_AXIS_ENUM(name, text) ZN_##name,
    ZN_AXES(ZN_AXIS_ENUM)
#undef ZN_AXIS_ENUM
    ZN_N_AXES
} zn_axis;

const char *zn_axis_name(zn_axis axis);

struct zn_mesh {
    int data, sequence, tensor; /* ranks along each axis */
};

/* That each axis has a rank and all together have n_ranks. */
zn_status zn_mesh_check(const struct zn_mesh *mesh, int n_ranks);

struct zn_coordinates {
    int data, sequence, tensor; /* each below the mesh's */
};

struct zn_coordinates zn_mesh_coordinates(const struct zn_mesh *mesh, int rank);
int zn_mesh_rank(const struct zn_mesh *mesh, struct zn_coordinates at);

/* The ranks of a group, ascending: first, first + stride, … */
struct zn_members {
    int first, stride, n_ranks;
    int index; /* the place of the rank that was asked for: its rank within the group */
};

/* The group along the axis that the rank is in; not of ZN_NODE. */
struct zn_members zn_mesh_members(const struct zn_mesh *mesh, zn_axis axis, int rank);

#endif
