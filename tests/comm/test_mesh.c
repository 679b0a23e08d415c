/* Coordinates of ranks and the members of their groups, against the words of their definitions. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/mesh.h"

static const struct zn_mesh meshes[] = {{1, 1, 1}, {4, 1, 1}, {1, 3, 1}, {1, 1, 5}, {2, 1, 2}, {2, 1, 3},
                                        {2, 2, 1}, {1, 2, 3}, {2, 2, 2}, {3, 2, 4}, {5, 3, 2}};
enum { N_MESHES = sizeof meshes / sizeof *meshes };

static int ranks_of(const struct zn_mesh *mesh)
{
    return mesh->data * mesh->sequence * mesh->tensor;
}

static void a_rank_has_the_coordinates_it_is_made_of(void **state)
{
    (void)state;
    for (int i = 0; i < N_MESHES; i++) {
        const struct zn_mesh *mesh = &meshes[i];
        int rank = 0;
        for (int d = 0; d < mesh->data; d++)
            for (int s = 0; s < mesh->sequence; s++)
                for (int t = 0; t < mesh->tensor; t++, rank++) {
                    struct zn_coordinates at = zn_mesh_coordinates(mesh, rank);
                    assert_true(at.data == d && at.sequence == s && at.tensor == t);
                    assert_int_equal(zn_mesh_rank(mesh, at), rank);
                }
        assert_int_equal(rank, ranks_of(mesh));
    }
}

static bool are_in_one_group(const struct zn_mesh *mesh, zn_axis axis, int rank, int other)
{
    struct zn_coordinates a = zn_mesh_coordinates(mesh, rank), b = zn_mesh_coordinates(mesh, other);
    bool d = a.data == b.data, s = a.sequence == b.sequence, t = a.tensor == b.tensor;
    switch (axis) {
    case ZN_DATA:
        return s && t;
    case ZN_SEQUENCE:
        return d && t;
    case ZN_TENSOR:
        return d && s;
    case ZN_REPLICA:
        return t;
    default:
        return true;
    }
}

static void check_members(const struct zn_mesh *mesh, zn_axis axis, int rank)
{
    struct zn_members m = zn_mesh_members(mesh, axis, rank);
    int n = 0;
    for (int other = 0; other < ranks_of(mesh); other++) {
        if (!are_in_one_group(mesh, axis, rank, other))
            continue;
        assert_int_equal(m.first + n * m.stride, other);
        if (other == rank)
            assert_int_equal(m.index, n);
        n++;
    }
    assert_int_equal(m.n_ranks, n);
}

static void members_are_those_with_the_other_coordinates_in_common(void **state)
{
    (void)state;
    for (int i = 0; i < N_MESHES; i++)
        for (int rank = 0; rank < ranks_of(&meshes[i]); rank++)
            for (zn_axis axis = ZN_WORLD; axis < ZN_NODE; axis++)
                check_members(&meshes[i], axis, rank);
}

static void tensor_ranks_are_consecutive(void **state)
{
    (void)state;
    struct zn_members m = zn_mesh_members(&(struct zn_mesh){3, 2, 4}, ZN_TENSOR, 14);
    assert_true(m.first == 12 && m.stride == 1 && m.n_ranks == 4 && m.index == 2);
    m = zn_mesh_members(&(struct zn_mesh){3, 2, 4}, ZN_REPLICA, 14);
    assert_true(m.first == 2 && m.stride == 4 && m.n_ranks == 6 && m.index == 3);
}

static void meshes_that_are_not_the_job_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < N_MESHES; i++) {
        int n = ranks_of(&meshes[i]);
        assert_int_equal(zn_mesh_check(&meshes[i], n), ZN_OK);
        assert_int_equal(zn_mesh_check(&meshes[i], n + 1), ZN_ERR_USAGE);
        assert_int_equal(zn_mesh_check(&meshes[i], 2 * n), ZN_ERR_USAGE);
    }
    assert_int_equal(zn_mesh_check(&(struct zn_mesh){2, 1, 2}, 6), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "2 × 1 × 2"));
    assert_int_equal(zn_mesh_check(&(struct zn_mesh){0, 1, 1}, 0), ZN_ERR_USAGE);
    assert_int_equal(zn_mesh_check(&(struct zn_mesh){-2, -2, 1}, 4), ZN_ERR_USAGE);
    assert_int_equal(zn_mesh_check(&(struct zn_mesh){2, 1, 2}, 5), ZN_ERR_USAGE);
    assert_int_equal(zn_mesh_check(&(struct zn_mesh){INT_MAX, INT_MAX, INT_MAX}, 1), ZN_ERR_USAGE);
    assert_int_equal(zn_mesh_check(&(struct zn_mesh){1 << 16, 1 << 16, 1}, 1 << 16), ZN_ERR_USAGE);
}

static void axes_have_names(void **state)
{
    (void)state;
    assert_string_equal(zn_axis_name(ZN_WORLD), "world");
    assert_string_equal(zn_axis_name(ZN_REPLICA), "replica");
    assert_string_equal(zn_axis_name(ZN_NODE), "node");
    assert_string_equal(zn_axis_name(ZN_N_AXES), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_has_the_coordinates_it_is_made_of),
        cmocka_unit_test(members_are_those_with_the_other_coordinates_in_common),
        cmocka_unit_test(tensor_ranks_are_consecutive),
        cmocka_unit_test(meshes_that_are_not_the_job_are_refused),
        cmocka_unit_test(axes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
