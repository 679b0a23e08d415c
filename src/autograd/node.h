/* The tape from inside: tensors, nodes, and what operators are written with. */
#ifndef ZN_AUTOGRAD_NODE_H
#define ZN_AUTOGRAD_NODE_H

#include "autograd/ops.h"
#include "base/bump.h"

/* A gradient is written once and never changed: a further contribution makes a new one. So
 * several tensors may share it. */
struct gradient {
    zn_addr address;
    int64_t block;
};

struct zn_tensor {
    zn_dtype type;
    int ndim;
    int64_t dims[ZN_MAX_DIMS];
    int64_t n_elements;
    zn_addr address;
    int64_t block; /* in the arena; -1 for external memory */
    bool wants_gradient;
    struct gradient *gradient;
};

enum { NODE_INPUTS = 3, NODE_PARAMS = 2, NODE_EXTRAS = 2 };

struct zn_node;

struct op {
    const char *name;
    zn_status (*forward)(zn_tape *t, struct zn_node *n);
    zn_status (*backward)(zn_tape *t, struct zn_node *n);
    bool is_loss; /* where gradients begin */
};

struct zn_node {
    const struct op *op;
    struct zn_node *before; /* the one recorded before it */
    zn_tensor *in[NODE_INPUTS];
    const zn_param *param[NODE_PARAMS];
    zn_tensor *extra[NODE_EXTRAS]; /* saved by forward for backward: row statistics */
    zn_tensor *out;
    const zn_tensor *position_ids; /* of the pass when it ran; NULL: rows count from 0 */
    union { /* by operator */
        struct {
            zn_layout layout;
        } linear;
        struct {
            float eps;
        } norm;
        struct {
            int64_t heads;
            const zn_constant *cos, *sin;
        } rope;
        struct zn_attention attention;
        zn_gelu_form gelu;
        float scale;
        struct zn_head head;
    } as;
};

/* A new node; never NULL (after a failure a dummy that is not run). */
struct zn_node *tape_node(zn_tape *t, const struct op *op);

/* A new tensor in the arena. */
zn_tensor *tape_tensor(zn_tape *t, zn_dtype type, int ndim, const int64_t *dims);

/* The values of x as another tensor, with a gradient of its own. */
zn_tensor *tape_same(zn_tape *t, const zn_tensor *x);

/* Sets the output, runs forward, records. Returns the output. */
zn_tensor *tape_run(zn_tape *t, struct zn_node *n, zn_tensor *out);

/* Sets the sticky failure; an operator given wrong shapes says so here. */
void tape_fail(zn_tape *t, const char *op, const char *what);

zn_device *tape_device(const zn_tape *t);
zn_dtype tape_param_type(const zn_tape *t, const zn_param *param); /* of the values tape_param gives; NULL: any */
bool tape_is_recording(const zn_tape *t);
bool tape_leaves_out_values(const zn_tape *t);
zn_addr tape_constant(const zn_tape *t, const zn_constant *constant);

/* The pass's cache or NULL, the positions before its first, and the next attention operator's room
 * in it: (capacity, width) keys and as many values. */
const zn_cache *tape_cache(const zn_tape *t);
int64_t tape_past(const zn_tape *t);
void tape_cache_take(zn_tape *t, int64_t width, zn_addr *keys, zn_addr *values);

/* Inside forward and backward: the address of what is used now. */
zn_addr tape_use(zn_tape *t, const zn_tensor *tensor);
zn_addr tape_position_ids(zn_tape *t, const struct zn_node *n); /* 0: none */
zn_status tape_scratch(zn_tape *t, size_t n_bytes, zn_addr *address);

/* Values of a parameter that is whole, until another is asked for; NULL gives 0. */
zn_status tape_param(zn_tape *t, const zn_param *param, zn_addr *address);

/* The same tile by tile: for (row = 0; row < rows; row += tile.n_rows), with the tile at `row`. */
struct tile {
    int64_t row, n_rows;
    zn_addr address;
};
zn_status tape_tile(zn_tape *t, const zn_param *param, int64_t row, struct tile *tile);
bool tape_is_tiled(const zn_tape *t, const zn_param *param);

/* A weight for products, in the same way: a tile as it is, or, of one that is quantised, some rows of it in fp32, whole chunks of k
 * (ZN_GEMM_K) but for the last. It begins as {0}. */
struct panel {
    int64_t row, n_rows;
    zn_addr address;
    zn_dtype type;
    struct tile tile;
    zn_addr scratch;
};
zn_status tape_panel(zn_tape *t, const zn_param *param, int64_t row, struct panel *panel);
bool tape_is_whole(const zn_tape *t, const zn_param *param); /* one panel has all of it */

/* The gradient of a tensor as far as it was contributed, or 0. */
zn_addr tape_gradient(zn_tape *t, const zn_tensor *tensor);

/* A place for this operator's whole contribution to a tensor's gradient; 0 when none is wanted.
 * contributed() adds it to what is there. */
zn_status tape_contribution(zn_tape *t, zn_tensor *tensor, struct gradient **fresh);
zn_status tape_contributed(zn_tape *t, zn_tensor *tensor, struct gradient *fresh);

/* The same for kernels that write all their gradients: where none is wanted, `address` is that of a scratch block. */
zn_status tape_contribution_at(zn_tape *t, zn_tensor *tensor, struct gradient **fresh, zn_addr *address);

/* The contribution is the gradient of another tensor, unchanged. */
zn_status tape_contribute_same(zn_tape *t, zn_tensor *tensor, const zn_tensor *like);

/* The same for a parameter, or for its tile at a row; param NULL or frozen gives 0. */
zn_status tape_open_gradient(zn_tape *t, const zn_param *param, zn_addr *address);
zn_status tape_close_gradient(zn_tape *t, const zn_param *param, zn_addr address);
zn_status tape_open_tile_gradient(zn_tape *t, const zn_param *param, int64_t row, struct tile *tile);
zn_status tape_close_tile_gradient(zn_tape *t, const zn_param *param, const struct tile *tile);

/* The gradient of a bias: the column sums of y's. param NULL or frozen: nothing. */
zn_status tape_bias_gradient(zn_tape *t, const zn_param *bias, const zn_tensor *y);

/* Between the ranks that hold slices; and what is done to the gradient of a parameter, or of its tile, that several of them hold. */
zn_status tape_exchange(zn_tape *t, zn_exchange what, zn_addr from, zn_addr to, int64_t n_elements);
zn_status tape_sum_copies(zn_tape *t, const zn_param *param, zn_addr gradient, int64_t n_elements);

/* y(rows, out) = x · weight + bias for any number of rows. y and x have no gaps between their rows. */
struct product {
    zn_addr y, x;
    const zn_param *weight, *bias; /* bias may be NULL */
    int64_t rows;
    zn_layout layout;
};
zn_status tape_product(zn_tape *t, const struct product *p);

/* Rows × columns of a tensor seen as a matrix over its last dimension. */
static inline int64_t tensor_cols(const zn_tensor *x)
{
    return x->dims[x->ndim - 1];
}

static inline int64_t tensor_rows(const zn_tensor *x)
{
    return x->n_elements / tensor_cols(x);
}

static inline zn_addr gradient_address(const struct gradient *g)
{
    return g ? g->address : 0;
}

#endif
