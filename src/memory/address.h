/* An address in a device's own memory. Only the device's backend may turn it into a pointer. */
#ifndef ZN_MEMORY_ADDRESS_H
#define ZN_MEMORY_ADDRESS_H

#include <stdint.h>

typedef uint64_t zn_addr; /* 0 is "none" */

#endif
