/* Ranks of commands that only read a model. */
#include "cli/placement.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/launch.h"
#include "comm/comm.h"

zn_status zn_cli_place(const struct placement_flags *place, int argc, char **argv)
{
    if (place->n_ranks == 0)
        return ZN_OK;
    if (zn_comm_is_launched())
        return zn_fail(ZN_ERR_USAGE, "-n: mpirun or srun has started this process already; leave it off");
    return zn_launch(place->n_ranks, place->mpirun, argc, argv);
}

bool zn_cli_has_terminal(int fd)
{
    return isatty(fd) && (!zn_comm_is_launched() || getenv("ZINC_TERMINAL"));
}
