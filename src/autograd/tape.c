/* The tape: running, recording and the bookkeeping of gradients. */
#include "autograd/node.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { CACHE_ALIGNMENT = 64 };

struct zn_tape {
    zn_device *device;
    const struct zn_param_hooks *hooks;
    void *hooks_self;
    zn_dtype param_type;
    bool keeps_fp32; /* between segments */
    bool leaves_out_values;
    zn_bump bump; /* tensors, nodes and gradients of the pass */
    zn_arena arena;
    zn_addr base;
    zn_cache *cache; /* borrowed; NULL when the pass has none */
    const zn_tensor *position_ids;
    struct zn_node *last;
    bool recording;
    bool leaves_adapters; /* out of this pass */
    zn_status status;
    zn_tensor dummy; /* what operators return when there is no memory for a tensor */
    struct zn_node dummy_node;
};

zn_status zn_tape_create(zn_device *device, const struct zn_param_hooks *hooks, void *hooks_self,
                         zn_dtype param_type, zn_tape **tape)
{
    zn_tape *t = calloc(1, sizeof *t);
    if (!t)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a tape");
    t->device = device;
    t->hooks = hooks;
    t->hooks_self = hooks_self;
    t->param_type = param_type;
    t->dummy = (zn_tensor){.ndim = 1, .dims = {1, 1, 1, 1}, .n_elements = 1, .block = -1};
    zn_bump_init(&t->bump);
    *tape = t;
    return ZN_OK;
}

void zn_tape_destroy(zn_tape *t)
{
    if (!t)
        return;
    zn_bump_fini(&t->bump);
    free(t);
}

void zn_tape_start(zn_tape *t, zn_lifetimes *lifetimes, bool recording_lifetimes, zn_addr base)
{
    zn_bump_reset(&t->bump);
    zn_arena_start(&t->arena, lifetimes, recording_lifetimes);
    t->base = base;
    t->cache = NULL;
    t->position_ids = NULL;
    t->last = NULL;
    t->recording = t->leaves_out_values = t->leaves_adapters = false;
    t->status = ZN_OK;
}

void zn_tape_leave_adapters(zn_tape *t)
{
    t->leaves_adapters = true;
}

bool zn_tape_has_adapters(const zn_tape *t)
{
    return !t->leaves_adapters;
}

void zn_tape_use_cache(zn_tape *t, zn_cache *cache)
{
    t->cache = cache;
    cache->n_bytes = 0;
}

void zn_tape_use_position_ids(zn_tape *t, const zn_tensor *position_ids)
{
    t->position_ids = position_ids;
}

void zn_tape_record(zn_tape *t, bool on)
{
    assert(!on || !t->cache);
    t->recording = on;
}

zn_status zn_tape_status(const zn_tape *t)
{
    return t->status;
}

void tape_fail(zn_tape *t, const char *op, const char *what)
{
    if (t->status == ZN_OK)
        t->status = zn_fail(ZN_ERR_INTERNAL, "%s: %s", op, what);
}

static void keep(zn_tape *t, zn_status status)
{
    if (t->status == ZN_OK)
        t->status = status;
}

static void *bump(zn_tape *t, size_t n_bytes)
{
    void *p = zn_bump_alloc(&t->bump, n_bytes);
    if (!p)
        keep(t, zn_fail(ZN_ERR_MEMORY, "no memory for the tape"));
    return p;
}

static zn_tensor *new_tensor(zn_tape *t, zn_dtype type, int ndim, const int64_t *dims)
{
    zn_tensor *x = bump(t, sizeof *x);
    if (!x)
        return &t->dummy;
    x->type = type;
    x->ndim = ndim;
    x->n_elements = 1;
    x->block = -1;
    for (int i = 0; i < ndim; i++) {
        x->dims[i] = dims[i];
        x->n_elements *= dims[i];
    }
    return x;
}

/* A block of the arena; on failure the address is 0. */
static zn_addr take(zn_tape *t, size_t n_bytes, int64_t *block)
{
    size_t offset;
    zn_status status = zn_arena_take(&t->arena, n_bytes, block, &offset);
    if (status != ZN_OK) {
        keep(t, status);
        *block = -1;
        return 0;
    }
    return t->base + offset;
}

zn_tensor *tape_tensor(zn_tape *t, zn_dtype type, int ndim, const int64_t *dims)
{
    zn_tensor *x = new_tensor(t, type, ndim, dims);
    if (t->status == ZN_OK)
        x->address = take(t, (size_t)x->n_elements * zn_dtype_bytes(type), &x->block);
    return x;
}

zn_tensor *tape_same(zn_tape *t, const zn_tensor *x)
{
    zn_tensor *y = new_tensor(t, x->type, x->ndim, x->dims);
    y->address = x->address;
    y->block = x->block;
    return y;
}

zn_tensor *zn_tape_external(zn_tape *t, zn_dtype type, int ndim, const int64_t *dims,
                            zn_addr address)
{
    zn_tensor *x = new_tensor(t, type, ndim, dims);
    x->address = address;
    return x;
}

void zn_tape_keep_fp32(zn_tape *t)
{
    t->keeps_fp32 = true;
}

void zn_tape_leave_out_values(zn_tape *t, bool on)
{
    t->leaves_out_values = on;
}

bool tape_leaves_out_values(const zn_tape *t)
{
    return t->leaves_out_values;
}

void zn_tape_round(zn_tape *t, zn_tensor *x)
{
    if (t->param_type == ZN_F32 || t->keeps_fp32 || t->status != ZN_OK)
        return;
    keep(t, zn_run_round(t->device, &(struct zn_round_args){.x = tape_use(t, x),
                                                            .type = t->param_type,
                                                            .n_elements = x->n_elements}));
    zn_arena_next_point(&t->arena);
}

void zn_tape_want_gradient(zn_tape *t, zn_tensor *x)
{
    (void)t;
    x->wants_gradient = true;
}

void zn_tape_pass_gradient(zn_tape *t, zn_tensor *to, const zn_tensor *from)
{
    (void)t;
    to->gradient = from->gradient;
}

void zn_tape_save(zn_tape *t, int64_t index, const zn_tensor *x)
{
    if (t->status == ZN_OK)
        keep(t, t->hooks->save(t->hooks_self, index, tape_use(t, x), x->n_elements));
    zn_arena_next_point(&t->arena);
}

void zn_tape_prefetch(zn_tape *t, int64_t index, const zn_tensor *like)
{
    if (t->status == ZN_OK)
        keep(t, t->hooks->prefetch(t->hooks_self, index, like->n_elements));
}

zn_tensor *zn_tape_load(zn_tape *t, int64_t index, const zn_tensor *like)
{
    zn_tensor *x = tape_tensor(t, ZN_F32, like->ndim, like->dims);
    x->wants_gradient = like->wants_gradient;
    if (t->status == ZN_OK)
        keep(t, t->hooks->load(t->hooks_self, index, x->address, x->n_elements));
    zn_arena_next_point(&t->arena);
    return x;
}

struct zn_node *zn_tape_mark(const zn_tape *t)
{
    return t->last;
}

struct zn_node *tape_node(zn_tape *t, const struct op *op)
{
    struct zn_node *n = bump(t, sizeof *n);
    if (!n) {
        n = &t->dummy_node;
        memset(n, 0, sizeof *n);
    }
    n->op = op;
    n->position_ids = t->position_ids;
    return n;
}

static bool is_trained(const zn_tape *t, const zn_param *param)
{
    return param && (!t->hooks->is_trained || t->hooks->is_trained(t->hooks_self, param));
}

static bool any_input_wants_gradient(const zn_tape *t, const struct zn_node *n)
{
    if (is_trained(t, n->param[0]) || is_trained(t, n->param[1]))
        return true;
    for (int i = 0; i < NODE_INPUTS; i++) {
        if (n->in[i] && n->in[i]->wants_gradient)
            return true;
    }
    return false;
}

/* One operator, forward or backward, is one point of the arena. */
static zn_status run_point(zn_tape *t, struct zn_node *n,
                           zn_status (*run)(zn_tape *, struct zn_node *))
{
    zn_status status = run(t, n);
    zn_arena_next_point(&t->arena);
    return status;
}

zn_tensor *tape_run(zn_tape *t, struct zn_node *n, zn_tensor *out)
{
    n->out = out;
    if (t->status != ZN_OK)
        return out;
    out->wants_gradient = any_input_wants_gradient(t, n);
    keep(t, run_point(t, n, n->op->forward));
    if (t->recording && t->status == ZN_OK && out->wants_gradient) {
        n->before = t->last;
        t->last = n;
    }
    return out;
}

zn_status zn_tape_backward(zn_tape *t, struct zn_node *mark)
{
    while (t->last != mark && t->status == ZN_OK) {
        struct zn_node *n = t->last;
        assert(n);
        /* What nobody contributed to has no part in the loss. */
        if (n->out->gradient || n->op->is_loss)
            keep(t, run_point(t, n, n->op->backward));
        n->out->gradient = NULL;
        t->last = n->before;
    }
    return t->status;
}

void zn_tape_segment_end(zn_tape *t, int segment, bool backward)
{
    if (t->status == ZN_OK && t->hooks->segment_end)
        keep(t, t->hooks->segment_end(t->hooks_self, segment, backward));
}

zn_device *tape_device(const zn_tape *t)
{
    return t->device;
}

zn_dtype tape_param_type(const zn_tape *t, const zn_param *param)
{
    return param && t->hooks->type ? t->hooks->type(t->hooks_self, param) : t->param_type;
}

bool tape_is_recording(const zn_tape *t)
{
    return t->recording;
}

zn_addr tape_constant(const zn_tape *t, const zn_constant *constant)
{
    return t->hooks->constant(t->hooks_self, constant);
}

const zn_cache *tape_cache(const zn_tape *t)
{
    return t->cache;
}

int64_t tape_past(const zn_tape *t)
{
    return t->cache ? t->cache->past : 0;
}

void tape_cache_take(zn_tape *t, int64_t width, zn_addr *keys, zn_addr *values)
{
    size_t n_bytes = zn_round_up((size_t)(t->cache->capacity * width) * sizeof(float), CACHE_ALIGNMENT);
    *keys = t->cache->base + t->cache->n_bytes;
    *values = *keys + n_bytes;
    t->cache->n_bytes += 2 * n_bytes;
}

zn_addr tape_position_ids(zn_tape *t, const struct zn_node *n)
{
    return n->position_ids ? tape_use(t, n->position_ids) : 0;
}

zn_addr tape_use(zn_tape *t, const zn_tensor *tensor)
{
    if (tensor->block >= 0)
        zn_arena_touch(&t->arena, tensor->block);
    return tensor->address;
}

zn_status tape_scratch(zn_tape *t, size_t n_bytes, zn_addr *address)
{
    int64_t block;
    *address = take(t, n_bytes, &block);
    return t->status;
}

zn_status tape_param(zn_tape *t, const zn_param *param, zn_addr *address)
{
    *address = 0;
    if (!param)
        return ZN_OK;
    assert(!tape_is_tiled(t, param));
    return t->hooks->acquire(t->hooks_self, param, 0, address);
}

zn_status tape_exchange(zn_tape *t, zn_exchange what, zn_addr from, zn_addr to, int64_t n_elements)
{
    if (!t->hooks->exchange)
        return zn_fail(ZN_ERR_INTERNAL, "parameters are sliced, and there are no ranks that hold the others");
    return t->hooks->exchange(t->hooks_self, what, from, to, n_elements);
}

static int64_t tile_rows(const zn_tape *t, const zn_param *param)
{
    return t->hooks->tile_rows ? t->hooks->tile_rows(t->hooks_self, param) : param->dims[0];
}

bool tape_is_tiled(const zn_tape *t, const zn_param *param)
{
    return tile_rows(t, param) < param->dims[0];
}

static void find_tile(const zn_tape *t, const zn_param *param, int64_t row, struct tile *tile)
{
    int64_t rows = tile_rows(t, param), left = param->dims[0] - row;
    *tile = (struct tile){.row = row, .n_rows = rows < left ? rows : left};
}

zn_status tape_tile(zn_tape *t, const zn_param *param, int64_t row, struct tile *tile)
{
    find_tile(t, param, row, tile);
    return t->hooks->acquire(t->hooks_self, param, row, &tile->address);
}

zn_addr tape_gradient(zn_tape *t, const zn_tensor *tensor)
{
    if (!tensor->gradient)
        return 0;
    zn_arena_touch(&t->arena, tensor->gradient->block);
    return tensor->gradient->address;
}

zn_status tape_contribution(zn_tape *t, zn_tensor *tensor, struct gradient **fresh)
{
    *fresh = NULL;
    if (!tensor->wants_gradient)
        return ZN_OK;
    struct gradient *g = bump(t, sizeof *g);
    if (!g)
        return t->status;
    g->address = take(t, (size_t)tensor->n_elements * sizeof(float), &g->block);
    *fresh = g;
    return t->status;
}

zn_status tape_contributed(zn_tape *t, zn_tensor *tensor, struct gradient *fresh)
{
    if (!fresh)
        return ZN_OK;
    if (tensor->gradient) {
        zn_addr old = tape_gradient(t, tensor);
        ZN_TRY(zn_run_add(t->device, &(struct zn_add_args){.y = fresh->address,
                                                           .a = old,
                                                           .b = fresh->address,
                                                           .n_elements = tensor->n_elements}));
    }
    tensor->gradient = fresh;
    return ZN_OK;
}

zn_status tape_contribution_at(zn_tape *t, zn_tensor *tensor, struct gradient **fresh, zn_addr *address)
{
    ZN_TRY(tape_contribution(t, tensor, fresh));
    *address = gradient_address(*fresh);
    return *fresh ? ZN_OK : tape_scratch(t, (size_t)tensor->n_elements * sizeof(float), address);
}

zn_status tape_contribute_same(zn_tape *t, zn_tensor *tensor, const zn_tensor *like)
{
    if (!tensor->wants_gradient || !like->gradient)
        return ZN_OK;
    if (!tensor->gradient) {
        tensor->gradient = like->gradient;
        return ZN_OK;
    }
    struct gradient *fresh;
    ZN_TRY(tape_contribution(t, tensor, &fresh));
    zn_addr a = tape_gradient(t, tensor), b = tape_gradient(t, like);
    ZN_TRY(zn_run_add(t->device,
                      &(struct zn_add_args){
                          .y = fresh->address, .a = a, .b = b, .n_elements = tensor->n_elements}));
    tensor->gradient = fresh;
    return ZN_OK;
}

zn_status tape_open_gradient(zn_tape *t, const zn_param *param, zn_addr *address)
{
    *address = 0;
    assert(!param || !tape_is_tiled(t, param));
    return param ? t->hooks->open_gradient(t->hooks_self, param, 0, address) : ZN_OK;
}

zn_status tape_close_gradient(zn_tape *t, const zn_param *param, zn_addr address)
{
    if (!address)
        return ZN_OK;
    ZN_TRY(tape_sum_copies(t, param, address, param->n_elements));
    return t->hooks->close_gradient(t->hooks_self, param, 0);
}

zn_status tape_open_tile_gradient(zn_tape *t, const zn_param *param, int64_t row, struct tile *tile)
{
    find_tile(t, param, row, tile);
    return t->hooks->open_gradient(t->hooks_self, param, row, &tile->address);
}

zn_status tape_close_tile_gradient(zn_tape *t, const zn_param *param, const struct tile *tile)
{
    if (!tile->address)
        return ZN_OK;
    ZN_TRY(tape_sum_copies(t, param, tile->address, tile->n_rows * (param->n_elements / param->dims[0])));
    return t->hooks->close_gradient(t->hooks_self, param, tile->row);
}

int64_t zn_tensor_dim(const zn_tensor *tensor, int dim)
{
    return tensor->dims[dim];
}

zn_addr zn_tensor_address(const zn_tensor *tensor)
{
    return tensor->address;
}

zn_addr zn_tensor_gradient(const zn_tensor *tensor)
{
    return gradient_address(tensor->gradient);
}

bool zn_tensor_wants_gradient(const zn_tensor *tensor)
{
    return tensor->wants_gradient;
}
