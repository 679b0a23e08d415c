/* What follows from a descriptor, and what of it is supported. */
#include "optim/optimizer.h"

#include <string.h>

#include "tensor/sums.h"

size_t zn_optimizer_bytes(const zn_optimizer *o, bool by_matrix, int64_t n_elements)
{
    size_t n_bytes = 0, n = (size_t)n_elements;
    for (int i = 0; i < o->n_states; i++) {
        size_t block = (size_t)o->state[i].block;
        if (!zn_optimizer_keeps(&o->state[i], by_matrix))
            continue;
        n_bytes += n * zn_dtype_bytes(o->state[i].type) + (block ? n / block * sizeof(float) : 0);
    }
    return n_bytes;
}

bool zn_optimizer_is_lossy(const zn_optimizer *o)
{
    bool is_lossy = false;
    for (int i = 0; i < o->n_states; i++)
        is_lossy = is_lossy || o->state[i].type != ZN_F32;
    return is_lossy;
}

/* Tensors of a checkpoint are told apart by these names, and the engine's own have two of them. */
static zn_status check_name(const zn_optimizer *o, int i)
{
    const char *name = o->state[i].name;
    bool is_taken = !name || *name == '\0' || strchr(name, '.') || strcmp(name, "master") == 0 || strcmp(name, "pending") == 0;
    for (int k = 0; k < i && !is_taken; k++)
        is_taken = strcmp(name, o->state[k].name) == 0;
    return is_taken ? zn_fail(ZN_ERR_UNSUPPORTED, "optimizer %s: its state %d cannot have the name '%s'", o->title, i,
                              name ? name : "")
                    : ZN_OK;
}

/* Blocks never span two partitions, chunks or tiles, since all of those begin at multiples of ZN_SUM_ELEMENTS. */
static zn_status check_type(const zn_optimizer *o, int i)
{
    const struct zn_optimizer_state *s = &o->state[i];
    size_t length = strlen(s->name);
    if (s->type == ZN_U8 && s->block > 0 && ZN_SUM_ELEMENTS % s->block == 0 && s->scales &&
        strncmp(s->scales, s->name, length) == 0 && strcmp(s->scales + length, ZN_SCALES_SUFFIX) == 0)
        return ZN_OK;
    if ((s->type == ZN_F32 || s->type == ZN_BF16) && s->block == 0 && !s->scales)
        return ZN_OK;
    return zn_fail(ZN_ERR_UNSUPPORTED, "optimizer %s: its state %s is neither fp32, nor bf16, nor 8-bit codes in blocks that divide %d",
                   o->title, s->name, ZN_SUM_ELEMENTS);
}

zn_status zn_optimizer_check(const zn_optimizer *o)
{
    if (!o)
        return zn_fail(ZN_ERR_INTERNAL, "an engine is to train without an optimizer");
    if (o->granularity == ZN_BY_MATRIX && !(o->prepare && o->work_bytes && o->transform && o->apply))
        return zn_fail(ZN_ERR_UNSUPPORTED, "optimizer %s: does not have all that updates by matrix need", o->title);
    if (o->n_states < 0 || o->n_states > ZN_MAX_OPTIMIZER_STATES)
        return zn_fail(ZN_ERR_UNSUPPORTED, "optimizer %s: has %d states, at most %d are supported", o->title, o->n_states,
                       ZN_MAX_OPTIMIZER_STATES);
    for (int i = 0; i < o->n_states; i++) {
        ZN_TRY(check_name(o, i));
        ZN_TRY(check_type(o, i));
    }
    return ZN_OK;
}
