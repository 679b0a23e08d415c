/* The ranks that engines run on. */
#include <stdlib.h>

#include "api/handles.h"

static zn_status join(zn_context *c, zn_ranks ranks)
{
    bool is_launched = zn_comm_is_launched();
    if (ranks == ZN_RANKS_MPI && !is_launched)
        return zn_fail(ZN_ERR_USAGE, "no ranks of MPI: neither mpirun nor srun has started this process");
    zn_clock_init_real(&c->clock);
    return is_launched && ranks != ZN_RANKS_SELF ? zn_comm_create_mpi(&c->clock, &c->comm) : zn_comm_create_self(&c->clock, &c->comm);
}

static zn_status check(const struct zn_context_options *o)
{
    if (o->size != sizeof *o)
        return zn_fail(ZN_ERR_USAGE, "a context: size of its options is %zu, not %zu: set it to sizeof", o->size, sizeof *o);
    if (o->ranks < ZN_RANKS_LAUNCHED || o->ranks > ZN_RANKS_MPI || o->threads < 0)
        return zn_fail(ZN_ERR_USAGE, "a context: its ranks are none of zn_ranks, or its threads are below 0");
    return ZN_OK;
}

zn_status zn_context_create(const struct zn_context_options *options, zn_context **context)
{
    const struct zn_context_options defaults = {.size = sizeof defaults};
    const struct zn_context_options *o = options ? options : &defaults;
    ZN_TRY(check(o));
    zn_context *c = calloc(1, sizeof *c);
    if (!c)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a context");
    c->memory_limit = o->memory_limit;
    c->threads = o->threads;
    zn_status status = join(c, o->ranks);
    if (status != ZN_OK) {
        free(c);
        return status;
    }
    *context = c;
    return ZN_OK;
}

void zn_context_destroy(zn_context *context)
{
    if (!context)
        return;
    zn_comm_destroy(context->comm);
    free(context);
}

int zn_context_is_launched(void)
{
    return zn_comm_is_launched();
}

int zn_context_rank(const zn_context *context)
{
    return zn_comm_rank(context->comm);
}

int zn_context_n_ranks(const zn_context *context)
{
    return zn_comm_n_ranks(context->comm);
}
