/* The program starts itself: the ranks know by the environment what they are for. */
#include "cli/doctor_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch.h"
#include "comm/comm.h"
#include "zinc/context.h"

#define VARIABLE "ZINC_DOCTOR_RANK"
enum { N_RANKS = 2 };

bool doctor_is_rank(void)
{
    return getenv(VARIABLE) && zn_context_is_launched();
}

zn_status doctor_run_as_rank(void)
{
    zn_clock clock;
    zn_comm *comm;
    int32_t all[N_RANKS] = {-1, -1};
    zn_clock_init_real(&clock);
    ZN_TRY(zn_comm_create_mpi(&clock, &comm));
    int32_t mine = zn_comm_rank(comm);
    zn_status status = zn_comm_n_ranks(comm) == N_RANKS
                           ? zn_comm_exchange(comm, &mine, sizeof mine, all)
                           : zn_fail(ZN_ERR_UNSUPPORTED, "mpirun started %d jobs of one rank, not one of %d: it is of another MPI than "
                                     "zinc was built with", N_RANKS, N_RANKS);
    if (status == ZN_OK && (all[0] != 0 || all[1] != 1))
        status = zn_fail(ZN_ERR_INTERNAL, "ranks %d and %d answered, not 0 and 1", all[0], all[1]);
    zn_comm_destroy(comm);
    return status;
}

/* The child: becomes mpirun with the ranks, all that they say in the pipe. */
static void start(int out)
{
    static char word[] = "doctor", *argv[] = {word, NULL};
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setenv(VARIABLE, "1", 1);
    zn_launch(N_RANKS, NULL, 1, argv);
    fprintf(stderr, "%s\n", zn_error_message());
    fflush(stderr);
    _exit(1);
}

/* The first line of what was said, which is the cause; the rest is read so that nobody waits. */
static void read_said(int from, char *text, size_t size)
{
    size_t n = 0;
    char byte;
    bool is_first = true;
    while (read(from, &byte, 1) == 1) {
        if (byte == '\n')
            is_first = is_first && n == 0;
        else if (is_first && n + 1 < size)
            text[n++] = byte;
    }
    text[n] = '\0';
}

bool doctor_try_ranks(char *text, size_t size)
{
    int ends[2], code = -1;
    if (zn_context_is_launched()) {
        snprintf(text, size, "not tried: mpirun or srun has started this process");
        return false;
    }
    if (pipe(ends) != 0) {
        snprintf(text, size, "not tried: no pipe");
        return false;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        start(ends[1]);
    close(ends[1]);
    read_said(ends[0], text, size);
    close(ends[0]);
    if (child > 0)
        waitpid(child, &code, 0);
    bool works = child > 0 && WIFEXITED(code) && WEXITSTATUS(code) == 0;
    if (works || !text[0])
        snprintf(text, size, "%s", works ? "works: two ranks were started" : "does not work: mpirun failed without a word");
    return works;
}
