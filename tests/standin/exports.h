/* The functions that the stand-in exports, declared as the CUDA backend will call them. */
#ifndef ZN_TESTS_STANDIN_EXPORTS_H
#define ZN_TESTS_STANDIN_EXPORTS_H

#include "device/cuda/api.h"

#define EXPORT(name, parameters) __attribute__((visibility("default"))) zn_cu_enum name parameters;
ZN_CU_FUNCTIONS(EXPORT)

#endif
