/* A build without MPI: a job of several processes is refused by name. */
#include "comm/comm.h"

zn_status zn_comm_create_mpi(zn_clock *clock, zn_comm **comm)
{
    (void)clock;
    (void)comm;
    return zn_fail(ZN_ERR_UNSUPPORTED, "mpirun: not in this build");
}
