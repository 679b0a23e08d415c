/* Real and virtual time. */
#include "base/clock.h"

#include <time.h>

void zn_clock_init_real(zn_clock *clock)
{
    *clock = (zn_clock){.is_virtual = false};
}

void zn_clock_init_virtual(zn_clock *clock)
{
    *clock = (zn_clock){.is_virtual = true};
}

double zn_clock_now(const zn_clock *clock)
{
    if (clock->is_virtual)
        return clock->virtual_now;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void zn_clock_advance(zn_clock *clock, double time)
{
    if (clock->is_virtual && time > clock->virtual_now)
        clock->virtual_now = time;
}
