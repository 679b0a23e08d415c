/* Filling of quantised parameters. A parameter passes by piece by piece: once for the mean of its scales (nf4), which is the same
 * whatever ranks there are, and once more where this rank brings it, in whole groups. */
#include <stdlib.h>

#include "tensor/quantum.h"
#include "zero/engine_private.h"

/* A piece in the buffer of wide values: its values, scales and quanta. */
enum {
    PIECE = 8 * ZN_QUANTISED_GROUP,
    SCALES_AT = PIECE * 4,
    N_SCALES = PIECE / ZN_QUANTISED_BLOCK,
    QUANTA_AT = SCALES_AT + N_SCALES * 4,
    PIECE_BYTES = QUANTA_AT + PIECE / ZN_QUANTUM * ZN_INT8_QUANTUM_BYTES
};

_Static_assert(PIECE_BYTES <= ZN_CHUNK_ELEMENTS * 4, "a piece fits into the wide values of a chunk");

static const struct zn_unit *unit_of(const zn_engine *e, const zn_param *p)
{
    return &e->units->units[zn_units_row(e->units, p, 0)->unit];
}

bool zn_engine_is_quantised(const zn_engine *e, const zn_param *p)
{
    return zn_dtype_is_quantised(unit_of(e, p)->type);
}

/* Where values come from: from outside through `values`, or by the declaration. */
struct source {
    const zn_param *param;
    zn_device *device;
    zn_addr wide;
    zn_give_values give; /* NULL: by the declaration */
    void *self;
    float *values;
    uint64_t seed;
};

static zn_status bring(const struct source *s, int64_t first, int64_t n)
{
    if (!s->give)
        return fill_values(s->device, s->param, s->seed, first, n, s->wide);
    ZN_TRY(s->give(s->self, s->param, first, s->values, n));
    return zn_device_write(s->device, s->wide, s->values, (size_t)n * sizeof(float));
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The mean of the scales of all blocks, added in their order. */
static zn_status find_mean(const struct source *s, float *mean)
{
    int64_t n_elements = s->param->n_elements, n_blocks = (n_elements + ZN_QUANTISED_BLOCK - 1) / ZN_QUANTISED_BLOCK;
    float scales[N_SCALES];
    double sum = 0;
    for (int64_t at = 0; at < n_elements; at += PIECE) {
        int64_t n = least(PIECE, n_elements - at), n_scales = (n + ZN_QUANTISED_BLOCK - 1) / ZN_QUANTISED_BLOCK;
        ZN_TRY(bring(s, at, n));
        ZN_TRY(zn_run_block_scales(
            s->device, &(struct zn_block_scales_args){.dst = s->wide + SCALES_AT, .src = s->wide, .n_elements = n}));
        ZN_TRY(zn_device_read(s->device, scales, s->wide + SCALES_AT, (size_t)n_scales * sizeof(float)));
        for (int64_t i = 0; i < n_scales; i++)
            sum += (double)scales[i];
    }
    *mean = (float)(sum / (double)n_blocks);
    return ZN_OK;
}

/* Quanta of elements first … first+n, which lie at `from`, go where they are kept. */
static zn_status put(zn_engine *e, const struct source *s, zn_dtype type, int64_t first, int64_t n, zn_addr from)
{
    while (n > 0) {
        int64_t n_here = n;
        zn_addr to;
        ZN_TRY(working_run(e, s->param, first, &n_here, &to));
        size_t n_bytes = zn_dtype_size(type, n_here);
        ZN_TRY(zn_run_copy(s->device, &(struct zn_copy_args){.dst = to, .src = from, .n_bytes = (int64_t)n_bytes}));
        from += n_bytes;
        first += n_here;
        n -= n_here;
    }
    return ZN_OK;
}

/* A range that this rank brings, by the groups that have some of it. */
static zn_status quantise_range(zn_engine *e, const struct source *s, zn_dtype type, float mean, struct zn_range range)
{
    int64_t end = range.first + range.n, at = range.first / ZN_QUANTISED_GROUP * ZN_QUANTISED_GROUP;
    int64_t last = least(s->param->n_elements, (end + ZN_QUANTISED_GROUP - 1) / ZN_QUANTISED_GROUP * ZN_QUANTISED_GROUP);
    for (; at < end; at += PIECE) {
        int64_t n = least(PIECE, last - at), from = at < range.first ? range.first : at, to = least(end, at + n);
        ZN_TRY(bring(s, at, n));
        ZN_TRY(zn_run_quantise(s->device, &(struct zn_quantise_args){.dst = s->wide + QUANTA_AT,
                                                                     .src = s->wide,
                                                                     .type = type,
                                                                     .n_elements = n,
                                                                     .mean = mean}));
        ZN_TRY(put(e, s, type, from, to - from, s->wide + QUANTA_AT + zn_dtype_size(type, from - at)));
    }
    return ZN_OK;
}

static zn_status quantise(zn_engine *e, struct source *s)
{
    const struct zn_part *part = zn_units_row(e->units, s->param, 0);
    zn_dtype type = unit_of(e, s->param)->type;
    float mean = 0;
    struct zn_range r = zn_engine_owned_range(e, s->param, 0);
    s->device = values_device(e, part->unit);
    s->wide = wide_values(e);
    if (r.n > 0 && type == ZN_NF4)
        ZN_TRY(find_mean(s, &mean));
    for (; r.n > 0; r = zn_engine_owned_range(e, s->param, r.first + r.n))
        ZN_TRY(quantise_range(e, s, type, mean, r));
    return ZN_OK;
}

zn_status zn_engine_quantise_param(zn_engine *e, const zn_param *p, zn_give_values give, void *self)
{
    struct source s = {.param = p, .give = give, .self = self, .values = malloc(PIECE * sizeof(float))};
    zn_status status = s.values ? quantise(e, &s) : zn_fail(ZN_ERR_MEMORY, "no memory to quantise '%s'", p->name);
    free(s.values);
    return status;
}

zn_status quantise_declared(zn_engine *e, const zn_param *p, uint64_t seed)
{
    return quantise(e, &(struct source){.param = p, .seed = seed});
}
