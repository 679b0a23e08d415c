/* What tells that a launcher started this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "comm/comm.h"

static int forget(void **state)
{
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK",     "PMIX_RANK",
                                        "MPI_LOCALNRANKS",      "SLURM_PROCID", "SLURM_NTASKS",
                                        "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static void a_plain_process_is_not_launched(void **state)
{
    (void)state;
    assert_false(zn_comm_is_launched());
}

static void mpirun_is_seen(void **state)
{
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv(names[i], "1", 1);
        assert_true(zn_comm_is_launched());
        unsetenv(names[i]);
    }
}

static void a_step_of_srun_is_seen_and_a_batch_script_is_not(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "4", 1);
    assert_false(zn_comm_is_launched());
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_true(zn_comm_is_launched());
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    assert_false(zn_comm_is_launched());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_plain_process_is_not_launched, forget),
        cmocka_unit_test_setup(mpirun_is_seen, forget),
        cmocka_unit_test_setup(a_step_of_srun_is_seen_and_a_batch_script_is_not, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
