/* The same memory on two devices, for kernels whose results must have the same bits. A kernel's addresses are given as places in
 * it. Failures and the first difference stay; what comes after does nothing. */
#ifndef ZN_DEVICE_CHECK_BOTH_H
#define ZN_DEVICE_CHECK_BOTH_H

#include "device/check/check.h"

enum { BOTH_MAX_SCRATCH = 4 };

struct both {
    zn_device *device[2]; /* the processor, and the one that is held to it */
    zn_addr base[2];
    unsigned char *image, *result[2];
    size_t used;
    uint64_t key, counter;
    struct {
        zn_addr place;
        size_t n_bytes;
    } scratch[BOTH_MAX_SCRATCH]; /* what a kernel leaves there is its own */
    int n_scratch;
    zn_status status;
    struct zn_check *check;
};

zn_status both_init(struct both *b, zn_device *processor, zn_device *device, uint64_t seed, struct zn_check *check);
void both_fini(struct both *b); /* also after a failed init */

/* From `low` to `high`, both possible. */
int64_t both_draw(struct both *b, int64_t low, int64_t high);

/* Forgets all places. */
void both_begin(struct both *b);

/* Places for bytes as they come, n values of about `size`, any bits, n parameters in a type, n integers, and positions of examples
 * one after another in sequences of seq_len. */
zn_addr both_bytes(struct both *b, int64_t n_bytes);
zn_addr both_floats(struct both *b, int64_t n, float size);
zn_addr both_bits(struct both *b, int64_t n_bytes);
zn_addr both_params(struct both *b, int64_t n, zn_dtype type);
zn_addr both_ids(struct both *b, int64_t n, int64_t low, int64_t high);
zn_addr both_examples(struct both *b, int64_t rows, int64_t seq_len);
zn_addr both_scratch(struct both *b, int64_t n_bytes);
float *both_values(struct both *b, zn_addr place);

/* Writes the image to one of the devices, runs a kernel and takes the memory after it. */
void both_run(struct both *b, int which, zn_kernel kernel, const void *args, size_t n_bytes);

/* The same in steps: the arguments with the device's addresses; and the memory after what was run. */
void both_move(const struct both *b, int which, zn_kernel kernel, const void *args, size_t n_bytes, void *moved);
void both_take(struct both *b, int which);

/* Holds both results to each other. */
void both_compare(struct both *b, zn_kernel kernel, const char *what);

#define BOTH(b, name, args, what)                                                                                                 \
    do {                                                                                                                          \
        const struct zn_##name##_args args_ = args;                                                                               \
        for (int which_ = 0; which_ < 2; which_++)                                                                                \
            both_run(b, which_, ZN_KERNEL_##name, &args_, sizeof args_);                                                          \
        both_compare(b, ZN_KERNEL_##name, what);                                                                                  \
    } while (0)

#endif
