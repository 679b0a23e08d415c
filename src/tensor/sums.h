/* The grid of sums over elements: chunks of a constant size, so that a sum depends neither on ranks nor on tiles. */
#ifndef ZN_TENSOR_SUMS_H
#define ZN_TENSOR_SUMS_H

enum { ZN_SUM_ELEMENTS = 1024 };

#endif
