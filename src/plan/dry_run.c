/* Records a trace and compiles it. */
#include "plan/dry_run.h"

#include "zero/recorder.h"

static bool has_gradients(const zn_trace *trace)
{
    for (int i = 0; i < trace->train.n_points; i++)
        if (trace->train.points[i].kind == ZN_POINT_OPEN)
            return true;
    return false;
}

zn_status zn_dry_run(const zn_module *module, const struct zn_engine_options *options, int n_ranks, zn_engine_plan *plan)
{
    struct zn_params params = zn_module_params(module);
    zn_units units;
    zn_trace trace;
    ZN_TRY(zn_compile_units(&params, options, n_ranks, &units));
    zn_status status = zn_record(module, options, &units, &trace);
    zn_units_fini(&units);
    if (status == ZN_OK && options->trains && !has_gradients(&trace)) {
        zn_trace_fini(&trace);
        return zn_fail(ZN_ERR_USAGE, "--freeze: no parameter that is left has a gradient; there is nothing to train");
    }
    return status == ZN_OK ? zn_compile(&params, options, n_ranks, &trace, plan) : status;
}
