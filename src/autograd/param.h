/* The hooks through which operators reach the values and gradients of parameters. A model knows nothing of where a
 * parameter lives; who implements the hooks (zero/) decides that. */
#ifndef ZN_AUTOGRAD_PARAM_H
#define ZN_AUTOGRAD_PARAM_H

#include "device/device.h"
#include "tensor/param.h"

/* A table the model computes once on the host and every step reads (rotary angles). */
typedef struct zn_constant {
    const char *name;
    int index;
    int64_t n_elements;
    const float *values; /* owned by the module */
} zn_constant;

/* What the ranks of a tensor-parallel group exchange of n floats each, in fp32: every one has the sum, added in rank order, where
 * `to` may be `from`; or those of all, one after the other. */
typedef enum zn_exchange { ZN_SUM_OVER_SLICES, ZN_GATHER_SLICES } zn_exchange;

/* A parameter may come in tiles, runs of its rows (the first of its dimensions). Operators that take
 * two-dimensional parameters go through the tiles and use one at a time: what was acquired before
 * may be gone once another is acquired. */
struct zn_param_hooks {
    /* Rows of each tile but the last; all rows of a parameter that is whole. NULL: all are. */
    int64_t (*tile_rows)(void *self, const zn_param *param);
    /* The type of its values; NULL: the tape's working precision. And whether it is trained; NULL: all are. What leads to no
     * trained parameter has no gradient. */
    zn_dtype (*type)(void *self, const zn_param *param);
    bool (*is_trained)(void *self, const zn_param *param);
    /* The values of the tile that begins at the row. May block (gather). */
    zn_status (*acquire)(void *self, const zn_param *param, int64_t row, zn_addr *address);
    /* Where one use of the tile writes its whole gradient in fp32 (overwriting); 0 when none is
     * wanted. close says that it is written. */
    zn_status (*open_gradient)(void *self, const zn_param *param, int64_t row, zn_addr *address);
    zn_status (*close_gradient)(void *self, const zn_param *param, int64_t row);
    zn_addr (*constant)(void *self, const zn_constant *constant);
    /* A segment's forward or backward is done: what it wrote is whole. May be NULL. */
    zn_status (*segment_end)(void *self, int segment, bool backward);
    /* Activation checkpoints that are kept elsewhere, each n_elements floats already rounded to the working
     * precision, by index: save takes them (they may change when it returns), prefetch says that one is
     * wanted soon, load brings it back. NULL: none are. */
    zn_status (*save)(void *self, int64_t index, zn_addr from, int64_t n_elements);
    zn_status (*prefetch)(void *self, int64_t index, int64_t n_elements);
    zn_status (*load)(void *self, int64_t index, zn_addr to, int64_t n_elements);
    /* Where parameters are sliced. */
    zn_status (*exchange)(void *self, zn_exchange what, zn_addr from, zn_addr to, int64_t n_elements);
};

#endif
