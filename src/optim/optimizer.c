/* What follows from a descriptor, and what of it is supported. */
#include "optim/optimizer.h"

#include <string.h>

size_t zn_optimizer_bytes(const zn_optimizer *o)
{
    size_t n_bytes = 0;
    for (int i = 0; i < o->n_states; i++)
        n_bytes += zn_dtype_bytes(o->state[i].type);
    return n_bytes;
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

zn_status zn_optimizer_check(const zn_optimizer *o)
{
    if (!o)
        return zn_fail(ZN_ERR_INTERNAL, "an engine is to train without an optimizer");
    if (o->granularity != ZN_BY_ELEMENT)
        return zn_fail(ZN_ERR_UNSUPPORTED, "optimizer %s: updates by matrix are not supported", o->title);
    if (o->n_states < 0 || o->n_states > ZN_MAX_OPTIMIZER_STATES)
        return zn_fail(ZN_ERR_UNSUPPORTED, "optimizer %s: has %d states, at most %d are supported", o->title, o->n_states,
                       ZN_MAX_OPTIMIZER_STATES);
    for (int i = 0; i < o->n_states; i++) {
        ZN_TRY(check_name(o, i));
        if (o->state[i].type != ZN_F32 || o->state[i].block != 0)
            return zn_fail(ZN_ERR_UNSUPPORTED, "optimizer %s: its state %s is not plain fp32, which alone is supported", o->title,
                           o->state[i].name);
    }
    return ZN_OK;
}
