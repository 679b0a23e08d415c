/* Finds out which mpirun it is and calls it so that ranks may share cores, are not bound (Zinc
 * binds itself) and may run as root (containers). */
#include "cli/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXTRA_WORDS = 16 };

static bool is_open_mpi(const char *mpirun)
{
    char command[1024], text[512] = "";
    snprintf(command, sizeof command, "'%s' --version 2>&1", mpirun);
    FILE *out = strchr(mpirun, '\'') ? NULL : popen(command, "re");
    if (!out)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, out);
    text[n] = '\0';
    pclose(out);
    return strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "PRRTE");
}

/* Copies the words of the command line but `-n N`, `-n=N` and the same of --mpirun. */
static int copy_words(int argc, char **argv, char **words)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        static const char *const dropped[] = {"-n", "--mpirun"};
        bool drop = false;
        for (size_t k = 0; k < 2 && !drop; k++) {
            size_t length = strlen(dropped[k]);
            if (strcmp(argv[i], dropped[k]) == 0) {
                i++;
                drop = true;
            } else if (strncmp(argv[i], dropped[k], length) == 0 && argv[i][length] == '=') {
                drop = true;
            }
        }
        if (!drop)
            words[n++] = argv[i];
    }
    return n;
}

zn_status zn_launch(int64_t n_ranks, const char *mpirun, int argc, char **argv)
{
    char self[4096], count[32];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return zn_fail(ZN_ERR_IO, "-n: cannot tell the program's own path: %s", strerror(errno));
    self[length] = '\0';
    snprintf(count, sizeof count, "%lld", (long long)n_ranks);
    if (!mpirun)
        mpirun = "mpirun";
    char **words = calloc((size_t)argc + EXTRA_WORDS, sizeof *words);
    if (!words)
        return zn_fail(ZN_ERR_MEMORY, "no memory to start mpirun");
    int n = 0;
    words[n++] = (char *)mpirun;
    words[n++] = "-n";
    words[n++] = count;
    if (is_open_mpi(mpirun)) {
        static const char *const open_mpi[] = {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"};
        for (size_t i = 0; i < sizeof open_mpi / sizeof open_mpi[0]; i++)
            words[n++] = (char *)open_mpi[i];
    }
    words[n++] = self;
    words[n++] = "train";
    copy_words(argc, argv, words + n);
    /* mpirun gives its ranks a terminal of their own whatever this one is. */
    if (isatty(STDOUT_FILENO))
        setenv("ZINC_TERMINAL", "1", 1);
    else
        unsetenv("ZINC_TERMINAL");
    fflush(stdout);
    execvp(mpirun, words);
    zn_status status = zn_fail(ZN_ERR_IO, "-n: cannot start %s: %s (install an MPI, or name it with --mpirun)",
                               mpirun, strerror(errno));
    free(words);
    return status;
}
