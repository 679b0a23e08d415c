/* Which MPI this build has. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"

void zn_comm_mpi_version(char *text, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n;
    if (MPI_Get_library_version(version, &n) != MPI_SUCCESS)
        version[0] = '\0';
    version[strcspn(version, ",\n")] = '\0'; /* what follows is who built it, and when */
    snprintf(text, size, "%s", version[0] ? version : "unknown");
}
