/* Splitting a job into groups: what all backends check, and all ranks agree on, before they make them. */
#include <stdlib.h>
#include <string.h>

#include "comm/private.h"

const char *comm_group_name(const zn_comm *comm)
{
    return comm->n_ranks < comm->world->n_ranks ? zn_axis_name(comm->axis) : NULL;
}

static zn_status check_split(const zn_comm *comm, const struct zn_mesh *mesh)
{
    if (comm->axis != ZN_WORLD)
        return zn_fail(ZN_ERR_INTERNAL, "a group of ranks is not split");
    if (comm->n_groups > 0)
        return zn_fail(ZN_ERR_INTERNAL, "a job is split into groups again while %d of them are left", comm->n_groups);
    return zn_mesh_check(mesh, comm->n_ranks);
}

struct wish {
    struct comm_vote vote;
    struct zn_mesh mesh;
};

static zn_status compare_meshes(const struct wish *wishes, int n_ranks)
{
    for (int i = 1; i < n_ranks; i++) {
        const struct zn_mesh *a = &wishes[0].mesh, *b = &wishes[i].mesh;
        if (memcmp(a, b, sizeof *a) != 0)
            return zn_fail(ZN_ERR_INTERNAL, "ranks disagree: rank 0 splits them into %d × %d × %d, rank %d into %d × %d × %d",
                           a->data, a->sequence, a->tensor, i, b->data, b->sequence, b->tensor);
    }
    return ZN_OK;
}

static zn_status agree_on_mesh(zn_comm *comm, zn_status mine, const struct zn_mesh *mesh)
{
    struct wish wish = {.vote = comm_vote(comm, mine), .mesh = *mesh}, *wishes = malloc((size_t)comm->n_ranks * sizeof *wishes);
    if (!wishes) {
        zn_status status = zn_fail(ZN_ERR_MEMORY, "no memory to agree with the other ranks");
        zn_comm_abort(comm, status);
        return status;
    }
    zn_status status = comm->ops->exchange(comm, COMM_SPLIT, &wish, sizeof wish, wishes);
    if (status == ZN_OK) {
        status = comm_count_votes(wishes, sizeof *wishes, comm->n_ranks, comm->job_ranks);
        if (status == ZN_OK)
            status = compare_meshes(wishes, comm->n_ranks);
        if (status != ZN_OK)
            comm_note_agreed(comm);
    }
    free(wishes);
    return status;
}

zn_status zn_comm_split(zn_comm *comm, const struct zn_mesh *mesh, zn_comm *groups[ZN_N_AXES])
{
    zn_comm *made[ZN_N_AXES] = {[ZN_WORLD] = comm};
    ZN_TRY(agree_on_mesh(comm, check_split(comm, mesh), mesh));
    ZN_TRY(comm->ops->split(comm, mesh, made));
    comm->n_groups = ZN_N_AXES - 1;
    memcpy(groups, made, sizeof made);
    return ZN_OK;
}

void zn_comm_destroy_groups(zn_comm *groups[ZN_N_AXES])
{
    for (zn_axis axis = ZN_WORLD; axis < ZN_N_AXES; axis++) {
        if (axis != ZN_WORLD)
            zn_comm_destroy(groups[axis]);
        groups[axis] = NULL;
    }
}
