/* A kernel of the stand-in. */
#ifndef ZN_TESTS_STANDIN_FUNCTIONS_H
#define ZN_TESTS_STANDIN_FUNCTIONS_H

#include <stddef.h>

struct CUfunc_st {
    const char *name;
    void (*run)(const void *args); /* an item */
    size_t n_bytes;                /* of the arguments */
    int n_addresses, n_items;
};
extern const struct CUfunc_st standin_functions[];
extern const int standin_n_functions;

#endif
