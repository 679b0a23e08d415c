/* Coordinates of ranks, and groups as strides. */
#include "comm/mesh.h"

#include <assert.h>

const char *zn_axis_name(zn_axis axis)
{
    static const char *const names[] = {
#define ZN_AXIS_TEXT(name, text) text,
        ZN_AXES(ZN_AXIS_TEXT)
#undef ZN_AXIS_TEXT
    };
    return (unsigned)axis < ZN_N_AXES ? names[axis] : "?";
}

zn_status zn_mesh_check(const struct zn_mesh *mesh, int n_ranks)
{
    if (mesh->data < 1 || mesh->sequence < 1 || mesh->tensor < 1)
        return zn_fail(ZN_ERR_USAGE, "a mesh of %d × %d × %d ranks (data × sequence × tensor): each must be 1 or more",
                       mesh->data, mesh->sequence, mesh->tensor);
    /* Divided, not multiplied: the product may be larger than any type. */
    if (n_ranks % mesh->tensor != 0 || n_ranks / mesh->tensor % mesh->sequence != 0 ||
        n_ranks / mesh->tensor / mesh->sequence != mesh->data)
        return zn_fail(ZN_ERR_USAGE, "a mesh of %d × %d × %d ranks (data × sequence × tensor), but there are %d", mesh->data,
                       mesh->sequence, mesh->tensor, n_ranks);
    return ZN_OK;
}

struct zn_coordinates zn_mesh_coordinates(const struct zn_mesh *mesh, int rank)
{
    return (struct zn_coordinates){.data = rank / mesh->tensor / mesh->sequence,
                                   .sequence = rank / mesh->tensor % mesh->sequence,
                                   .tensor = rank % mesh->tensor};
}

int zn_mesh_rank(const struct zn_mesh *mesh, struct zn_coordinates at)
{
    return (at.data * mesh->sequence + at.sequence) * mesh->tensor + at.tensor;
}

struct zn_members zn_mesh_members(const struct zn_mesh *mesh, zn_axis axis, int rank)
{
    assert(axis < ZN_NODE);
    struct zn_coordinates at = zn_mesh_coordinates(mesh, rank);
    struct zn_members m = {.stride = 1};
    switch (axis) {
    case ZN_WORLD:
        m.n_ranks = mesh->data * mesh->sequence * mesh->tensor;
        m.index = rank;
        break;
    case ZN_DATA:
        m.n_ranks = mesh->data;
        m.index = at.data;
        m.stride = mesh->sequence * mesh->tensor;
        break;
    case ZN_SEQUENCE:
        m.n_ranks = mesh->sequence;
        m.index = at.sequence;
        m.stride = mesh->tensor;
        break;
    case ZN_TENSOR:
        m.n_ranks = mesh->tensor;
        m.index = at.tensor;
        break;
    case ZN_REPLICA:
        m.n_ranks = mesh->data * mesh->sequence;
        m.index = rank / mesh->tensor;
        m.stride = mesh->tensor;
        break;
    default:
        break;
    }
    m.first = rank - m.index * m.stride;
    return m;
}
