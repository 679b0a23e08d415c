/* Faults on purpose, for tests of the whole program. */
#ifndef ZN_STORAGE_FAULT_H
#define ZN_STORAGE_FAULT_H

#include "storage/storage.h"

/* Reads ZINC_STORAGE_FAULT="REQUEST:NAME", NAME an errno or SHORT. `found` is false when it is not set. */
zn_status fault_from_environment(struct zn_storage_fault *fault, bool *found);

#endif
