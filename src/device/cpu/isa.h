/* The instruction sets of this machine. */
#ifndef ZN_DEVICE_CPU_ISA_H
#define ZN_DEVICE_CPU_ISA_H

#include <stdbool.h>

#include "base/status.h"

/* Whether this machine and its system can run the instruction set; false for an unknown name. */
bool zn_cpu_has_isa(const char *isa);

/* The instruction set to use: `wanted`, or where that is NULL or "" environment ZINC_ISA, or the best
 * the machine has. The name set is a constant. One that is unknown or that the machine lacks is an
 * error that names those it has. */
zn_status zn_cpu_isa_choose(const char *wanted, const char **isa);

#endif
