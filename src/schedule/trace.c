/* Points in order. */
#include "schedule/trace.h"

#include <stdlib.h>

const char *zn_point_name(zn_point_kind kind)
{
    static const char *const names[ZN_N_POINT_KINDS] = {"acquire",  "open", "close",          "save",
                                                        "prefetch", "load", "end of forward", "end of backward",
                                                        "sum",      "gather"};
    return names[kind];
}

static void pass_fini(struct zn_pass_trace *pass)
{
    free(pass->points);
    zn_lifetimes_destroy(pass->lifetimes);
}

void zn_trace_fini(zn_trace *trace)
{
    pass_fini(&trace->train);
    pass_fini(&trace->evaluate);
    pass_fini(&trace->reference);
    free(trace->tables);
    *trace = (zn_trace){0};
}

zn_status zn_pass_trace_add(struct zn_pass_trace *pass, zn_point_kind kind, int index)
{
    if (pass->n_points == pass->capacity) {
        int capacity = pass->capacity ? 2 * pass->capacity : 256;
        struct zn_point *grown = realloc(pass->points, (size_t)capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "no memory for the trace");
        pass->points = grown;
        pass->capacity = capacity;
    }
    pass->points[pass->n_points++] = (struct zn_point){(int32_t)kind, index};
    return ZN_OK;
}

size_t zn_trace_arena_bytes(const zn_trace *trace)
{
    const struct zn_pass_trace *const passes[] = {&trace->train, &trace->evaluate, &trace->reference};
    size_t most = 0;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        size_t n_bytes = passes[i]->lifetimes ? zn_lifetimes_peak(passes[i]->lifetimes) : 0;
        most = n_bytes > most ? n_bytes : most;
    }
    return most;
}
