/* What the files of the CUDA backend share. */
#ifndef ZN_DEVICE_CUDA_PRIVATE_H
#define ZN_DEVICE_CUDA_PRIVATE_H

#include <pthread.h>

#include "device/cuda/api.h"
#include "device/cuda/blas_api.h"
#include "device/cuda/cuda.h"
#include "device/discrete/driver.h"

struct zn_cuda {
    struct zn_cu_api cu;
    zn_cu_device id;
    zn_cu_context context; /* the device's primary one: libraries of CUDA use it, too */
    zn_cu_module module;
    zn_cu_function functions[ZN_N_LAUNCHES];
    struct zn_cuda_info info;
    bool is_fast; /* products are cuBLASLt's, whose functions follow */
    struct zn_lt_api lt;
    pthread_mutex_t lock; /* guards what follows */
    char staging_cause[256];
};

/* Memory of the host that is registered with the driver. */
struct cuda_pin {
    char *memory;
    size_t n_bytes;
    struct cuda_pin *next;
};

struct cuda_blas;

struct cuda_driver {
    zn_driver head;
    zn_cuda *cuda;
    zn_cu_stream fills;   /* zeroes new memory */
    pthread_mutex_t lock; /* guards the list */
    struct cuda_pin *pins;
    struct cuda_blas *blas; /* NULL: products are our own kernel's; used by the queue that launches */
};

enum { CUDA_STAGING_PIECES = 2, CUDA_STAGING_PIECE = ZN_CUDA_STAGING_BYTES / ((ZN_N_LANES + 1) * CUDA_STAGING_PIECES) };

struct zn_driver_queue {
    zn_cu_stream stream;
    char *staging; /* CUDA_STAGING_PIECES of CUDA_STAGING_PIECE bytes; NULL: not needed so far */
    zn_cu_event used[CUDA_STAGING_PIECES]; /* the end of the last copy through a piece */
};

enum { CUDA_LEAST_CAPABILITY = 75 /* what the PTX is made for */ };

/* Starts the driver, and counts its devices: at least one, or it fails. */
zn_status cuda_start(const struct zn_cu_api *cu, int *n);
zn_status cuda_describe(const struct zn_cu_api *cu, int index, zn_cu_device *id, struct zn_cuda_info *info);

/* Names a call of the driver, whose table is `cu`, and fails with it. */
#define CUDA_TRY(call, ...) ZN_TRY(zn_cu_check(cu, cu->call(__VA_ARGS__), #call))

/* The embedded PTX, or what NVRTC makes for the device; `made` is NULL, or the caller frees it. */
zn_status cuda_find_ptx(const zn_cuda *cuda, const char **ptx, char **made);

/* Copies between the host's memory and the device's (copies.c). */
void cuda_pin(struct cuda_driver *driver, void *memory, size_t n_bytes);
void cuda_unpin(struct cuda_driver *driver, void *memory);
zn_status cuda_write(struct cuda_driver *driver, zn_driver_queue *queue, zn_addr dst, const void *src, size_t n_bytes);
zn_status cuda_read(struct cuda_driver *driver, zn_driver_queue *queue, void *dst, zn_addr src, size_t n_bytes);
void cuda_free_staging(struct cuda_driver *driver, zn_driver_queue *queue);

/* Launches a kernel of the source on a stream. */
zn_status cuda_launch(const zn_cuda *cuda, zn_cu_stream stream, const struct zn_launch *launch);

/* Products by cuBLASLt (blas.c). */
zn_status cuda_create_blas(struct cuda_driver *driver, struct cuda_blas **blas);
void cuda_destroy_blas(struct cuda_blas *blas); /* NULL is legal */
zn_status cuda_multiply(struct cuda_blas *blas, zn_cu_stream stream, const struct zn_gemm_args *args);

/* A driver on an open device; zn_device_create_discrete takes it. */
zn_status cuda_create_driver(zn_cuda *cuda, zn_driver **driver);

#endif
