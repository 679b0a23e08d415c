/* A flag for each process: set by the handler, read once a step. */
#include "cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_int caught;

static void catch(int signal)
{
    int none = 0;
    atomic_compare_exchange_strong(&caught, &none, signal);
}

int zn_cli_stop(void *self)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
    bool *installed = self;
    if (!*installed) {
        struct sigaction action = {.sa_handler = catch, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            sigaction(signals[i], &action, NULL);
        *installed = true;
    }
    return atomic_load(&caught);
}
