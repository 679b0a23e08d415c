/* How fast matrix products are on this machine. The time of a product C = A · B is that of its flops and of B, which is read,
 * widened and packed once however few rows A has. Where the sums go over tokens, C is a gradient as large as the weights: it
 * comes from memory and goes there, too, however few tokens there are. Other operands are activations and in caches. */
#ifndef ZN_PLAN_THIS_PRODUCTS_H
#define ZN_PLAN_THIS_PRODUCTS_H

#include "device/device.h"

struct products {
    double flops[3];   /* a second, by the type of B */
    double weights[3]; /* elements of B a second, by their type */
    double sums[2];    /* elements of C a second, of sums over tokens: written, added to */
};

/* Memory for it, from the device, for so many threads. */
size_t products_bytes(int n_threads);

/* A product of many rows in that memory. */
struct zn_gemm_args products_example(int n_threads, zn_addr memory);

/* Blocks for a second or so; what is in the memory is lost. */
zn_status products_measure(zn_device *device, int n_threads, zn_addr memory, struct products *products);

#endif
