/* Finds out which mpirun it is and starts it so that ranks may share cores, are not bound (Zinc
 * binds itself) and may run as root (containers).
 *
 * mpirun answers SIGTERM and SIGINT by killing its ranks a second later, which is no time to save. It passes SIGUSR1 on to
 * them, so that is what it gets from here. It also gives up when nobody reads its output any more, so all it prints comes
 * here, and is read to the end. */
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/launch_relay.h"
#include "cli/signals.h"

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

static atomic_int mpirun_pid, n_asked;

/* Once: save and leave. Again: just leave. */
static void pass_on(int signal)
{
    (void)signal;
    if (atomic_load(&mpirun_pid) > 0)
        kill(atomic_load(&mpirun_pid), atomic_fetch_add(&n_asked, 1) == 0 ? SIGUSR1 : SIGTERM);
}

/* Nobody reads what the job prints: it saves and leaves. */
static void stop_unread(void)
{
    fprintf(stderr, "zinc train: nobody reads the output any more: the job is told to save and stop\n");
    pass_on(SIGPIPE);
}

/* The child: out of the terminal's reach, so that Ctrl-C comes to us alone, and gone when we are. */
static void become(char **words, const sigset_t *mask, int told, int output, int errors)
{
    dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(words[0], words);
    int cause = errno;
    if (write(told, &cause, sizeof cause) < 0) /* it has nobody to tell then */
        _exit(126);
    _exit(127);
}

/* The cause was told by the rank that has it, unless it was killed. */
static void tell_end(const char *command, int code)
{
    if (code > 128 && atomic_load(&n_asked) > 0)
        fprintf(stderr, "zinc %s: stopped as asked; steps since the last checkpoint are not saved\n", command);
    else if (code > 128)
        fprintf(stderr, "zinc %s: the job ended: signal %d (%s)\n", command, code - 128, strsignal(code - 128));
    else if (code != 0)
        fprintf(stderr, "zinc %s: the job ended with code %d\n", command, code);
}

static void close_pipes(int pipes[][2], int n_pipes)
{
    for (int i = 0; i < n_pipes; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

/* Runs mpirun and ends this process with its code; returns only when it could not be started. */
static zn_status run(const char *command, char **words)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigset_t blocked, mask;
    int pipes[3][2], cause = 0, *told = pipes[0], *output = pipes[1], *errors = pipes[2];
    for (int i = 0; i < 3; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) == 0)
            continue;
        cause = errno;
        close_pipes(pipes, i);
        return zn_fail(ZN_ERR_IO, "-n: cannot start %s: %s", words[0], strerror(cause));
    }
    sigemptyset(&action.sa_mask);
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&blocked, signals[i]);
    sigprocmask(SIG_BLOCK, &blocked, &mask); /* until there is someone to pass them on to */
    pid_t pid = fork();
    if (pid == 0)
        become(words, &mask, told[1], output[1], errors[1]);
    cause = pid < 0 ? errno : 0;
    for (int i = 0; i < 3; i++)
        close(pipes[i][1]);
    ssize_t n_told = pid > 0 ? read(told[0], &cause, sizeof cause) : 0;
    if (n_told < 0)
        cause = errno;
    if (pid > 0 && n_told == 0) {
        atomic_store(&mpirun_pid, pid);
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            if (signals[i] != SIGHUP || !zn_cli_is_ignored(SIGHUP)) /* nohup */
                sigaction(signals[i], &action, NULL);
        signal(SIGPIPE, SIG_IGN); /* who writes is told */
        sigprocmask(SIG_SETMASK, &mask, NULL);
        int code = zn_launch_relay(pid, output[0], errors[0], getenv(ZN_CLI_LIVE) != NULL, stop_unread);
        tell_end(command, code);
        exit(code);
    }
    for (int i = 0; i < 3; i++)
        close(pipes[i][0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return zn_fail(ZN_ERR_IO, "-n: cannot start %s: %s (install an MPI, or name it with --mpirun)", words[0],
                   strerror(cause));
}

/* mpirun looks at the machine through hwloc, whose OpenCL plugin may load LLVM (with PoCL), which takes SIGUSR1 for itself: the
 * ranks would never be told to stop. mpirun needs no OpenCL devices. */
static void leave_out_opencl(void)
{
    const char *given = getenv("HWLOC_COMPONENTS");
    char components[1024] = "-opencl";
    if (given && given[0])
        snprintf(components, sizeof components, "%s,-opencl", given);
    setenv("HWLOC_COMPONENTS", components, 1);
}

/* What ranks cannot see for themselves: mpirun gives them a terminal of their own whatever this one is. */
static zn_status set_environment(int argc, char **argv)
{
    char *line;
    ZN_TRY(zn_cli_command_line(argc, argv, &line));
    setenv(ZN_CLI_COMMAND_LINE, line, 1);
    free(line);
    const char *tty = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) ? ttyname(STDOUT_FILENO) : NULL;
    if (isatty(STDOUT_FILENO))
        setenv("ZINC_TERMINAL", "1", 1);
    else
        unsetenv("ZINC_TERMINAL");
    if (tty)
        setenv(ZN_CLI_LIVE, tty, 1);
    else
        unsetenv(ZN_CLI_LIVE);
    setenv(ZN_CLI_LAUNCHED, "1", 1);
    leave_out_opencl();
    return ZN_OK;
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
    words[n++] = argv[0];
    copy_words(argc, argv, words + n);
    zn_status status = set_environment(argc, argv);
    fflush(stdout);
    if (status == ZN_OK)
        status = run(argv[0], words);
    free(words);
    return status;
}
