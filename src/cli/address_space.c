/* A look at the limit of address space before any library starts.
 *
 * OpenBLAS takes a buffer for each of its threads while it is loaded, before main, and tries for ever where it gets none.
 * Functions in .preinit_array run before those of all libraries. Nothing here may allocate memory. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/commands.h"

extern void openblas_set_num_threads(int n_threads) __attribute__((weak));

/* BUFFER_SIZE of OpenBLAS on processors of 64 bits, and what libraries map beside it. */
static const unsigned long long BUFFER_BYTES = 128ull << 20, OTHER_BYTES = 16ull << 20;

/* Threads that OpenBLAS will prepare for: the first variable of the environment that has a number, or processors. */
static int n_blas_threads(char **envp)
{
    static const char *const names[] = {"OPENBLAS_NUM_THREADS=", "GOTO_NUM_THREADS=", "OMP_NUM_THREADS="};
    cpu_set_t set;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (char **at = envp; at && *at; at++) {
            if (strncmp(*at, names[i], strlen(names[i])) != 0)
                continue;
            int n = atoi(*at + strlen(names[i]));
            if (n > 0)
                return n;
        }
    }
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Bytes that are mapped now; 0 where nobody says. */
static unsigned long long mapped_bytes(void)
{
    char text[64];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return strtoull(text, NULL, 10) * (unsigned long long)sysconf(_SC_PAGESIZE);
}

/* `limit` is that of `ulimit -flag`, `mapped` what counts in it now. */
static void check(char flag, unsigned long long limit, unsigned long long mapped, int n_threads)
{
    unsigned long long need = mapped + (unsigned long long)n_threads * BUFFER_BYTES + OTHER_BYTES;
    char text[512];
    if (limit >= need)
        return;
    int n = snprintf(text, sizeof text,
                     "zinc: `ulimit -%c` is %llu KiB: too little to start, as OpenBLAS takes %llu MiB for each of %d threads; raise "
                     "it to %llu or more, or set OPENBLAS_NUM_THREADS=1\n",
                     flag, limit >> 10, BUFFER_BYTES >> 20, n_threads, (need >> 10) + 1);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) /* then there is nobody to tell */
        _exit(ZN_EXIT_FAILED);
    _exit(ZN_EXIT_FAILED);
}

static void check_address_space(int argc, char **argv, char **envp)
{
    struct rlimit space, data;
    (void)argc;
    (void)argv;
    if (!openblas_set_num_threads)
        return;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        check('v', space.rlim_cur, mapped_bytes(), n_blas_threads(envp));
    if (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY)
        check('d', data.rlim_cur, 0, n_blas_threads(envp));
}

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(int, char **, char **) =
    check_address_space;
