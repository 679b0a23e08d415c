/* The time an engine lives in: the machine's, or a virtual one that only simulated work moves. */
#ifndef ZN_BASE_CLOCK_H
#define ZN_BASE_CLOCK_H

#include <stdbool.h>

typedef struct zn_clock {
    bool is_virtual;
    double virtual_now; /* seconds; only of a virtual clock */
} zn_clock;

void zn_clock_init_real(zn_clock *clock);
void zn_clock_init_virtual(zn_clock *clock);

/* Seconds since an arbitrary start. */
double zn_clock_now(const zn_clock *clock);

/* Moves a virtual clock forward to `time`; a real one is left alone (waiting does it). */
void zn_clock_advance(zn_clock *clock, double time);

#endif
