/* Parameters as a model declares them, and the hooks through which operators reach their
 * values and gradients. A model knows nothing of where a parameter lives; who implements the
 * hooks (zero/) decides that. Declarations are constant once the model is made, so several engines
 * can share one model. */
#ifndef ZN_AUTOGRAD_PARAM_H
#define ZN_AUTOGRAD_PARAM_H

#include <stdint.h>

#include "device/device.h"

enum { ZN_MAX_DIMS = 4, ZN_PARAM_NAME = 128 };

typedef enum zn_init { ZN_INIT_NORMAL, ZN_INIT_ONES, ZN_INIT_ZEROS } zn_init;

typedef struct zn_param {
    char name[ZN_PARAM_NAME]; /* as in the hub's files */
    int index;                /* in the module's list */
    int segment;              /* the first that uses it */
    int ndim;
    int64_t dims[ZN_MAX_DIMS];
    int64_t n_elements;
    zn_init init;
    float stddev; /* of ZN_INIT_NORMAL */
} zn_param;

/* A table the model computes once on the host and every step reads (rotary angles). */
typedef struct zn_constant {
    const char *name;
    int index;
    int64_t n_elements;
    const float *values; /* owned by the module */
} zn_constant;

struct zn_param_hooks {
    /* The parameter's values, in the tape's working precision, until release. May block (gather). */
    zn_status (*acquire)(void *self, const zn_param *param, zn_addr *address);
    void (*release)(void *self, const zn_param *param);
    /* Where one use of the parameter writes its whole gradient in fp32 (overwriting); 0 when none is
     * wanted. close says that it is written. */
    zn_status (*open_gradient)(void *self, const zn_param *param, zn_addr *address);
    zn_status (*close_gradient)(void *self, const zn_param *param);
    zn_addr (*constant)(void *self, const zn_constant *constant);
    /* A segment's forward or backward is done: what it wrote is whole. May be NULL. */
    zn_status (*segment_end)(void *self, int segment, bool backward);
};

#endif
