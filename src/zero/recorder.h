/* Records the trace of a model: one pass of each kind on the sim device, whose hooks note what they are asked. No engine exists
 * yet. */
#ifndef ZN_ZERO_RECORDER_H
#define ZN_ZERO_RECORDER_H

#include "autograd/module.h"
#include "schedule/compile.h"

/* Not collective. The caller ends the trace; `units` has the tiles. */
zn_status zn_record(const zn_module *module, const struct zn_engine_options *options, const zn_units *units, zn_trace *trace);

/* The declarations of a module's parameters. */
static inline struct zn_params zn_module_params(const zn_module *module)
{
    return (struct zn_params){module->params, module->n_params, module->n_segments};
}

#endif
