/* Whether a launcher started this process, from what it leaves in the environment. */
#include <stdlib.h>

#include "comm/comm.h"

bool zn_comm_is_launched(void)
{
    /* mpirun of Open MPI; of MPICH and its relatives, also with one process; any PMIx launcher. */
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK",
                                        "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    /* A batch script has SLURM_NTASKS too, but only a step that srun started has these. */
    const char *n_tasks = getenv("SLURM_STEP_NUM_TASKS");
    return getenv("SLURM_PROCID") && n_tasks && atoi(n_tasks) > 1;
}
