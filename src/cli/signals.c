/* A flag for each process: set by the handler, read once a step. */
#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "zinc/train.h"

static atomic_int caught;

static void catch(int signal)
{
    int none = 0;
    atomic_compare_exchange_strong(&caught, &none, signal);
}

bool zn_cli_is_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int zn_cli_stop(void *self)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    (void)self;
    if (!atomic_load(&caught)) { /* each time: LLVM, in a driver of OpenCL, takes signals when it first compiles */
        struct sigaction action = {.sa_handler = catch, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            if (signals[i] != SIGHUP || !zn_cli_is_ignored(SIGHUP)) /* nohup */
                sigaction(signals[i], &action, NULL);
        signal(SIGPIPE, SIG_IGN); /* who writes is told */
    }
    int signal = atomic_load(&caught);
    return signal == SIGUSR1 && getenv(ZN_CLI_LAUNCHED) ? ZN_STOP_ASKED : signal;
}

bool zn_cli_is_asked(void)
{
    int signal = atomic_load(&caught);
    return signal != 0 && signal != SIGPIPE;
}

void zn_cli_flush(FILE *out)
{
    if ((fflush(out) != 0 || ferror(out)) && errno == EPIPE)
        catch(SIGPIPE);
}
