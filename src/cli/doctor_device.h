/* `zinc doctor --device NAME --check`: whether a device computes as the processor does, and how fast it is. */
#ifndef ZN_CLI_DOCTOR_DEVICE_H
#define ZN_CLI_DOCTOR_DEVICE_H

#include <stdbool.h>

#include "base/status.h"

/* Checks, measures into the device's file, and prints one screen or one JSON object. Fails where a check does. Blocks for some
 * seconds. */
zn_status doctor_check_device(const char *name, bool json);

#endif
