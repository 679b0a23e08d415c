/* A small model trained on a device and on the processor. */
#ifndef ZN_CLI_DOCTOR_TRAINING_H
#define ZN_CLI_DOCTOR_TRAINING_H

#include "device/check/check.h"
#include "device/open.h"

/* Three steps with the states in each of some placements: losses, norms and weights are the processor's to the bit. Swap is in the
 * current folder. Blocks. */
zn_status doctor_check_training(zn_accelerator *accelerator, struct zn_check *check);

#endif
