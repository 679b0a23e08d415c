/* What engines hold: values, states, files and settings. */
#include <string.h>

#include "api/engine_handle.h"

size_t zn_engine_n_parameters(const zn_engine *engine)
{
    return zn_session_n_parameters(engine->session);
}

zn_status zn_engine_parameter(const zn_engine *engine, size_t i, struct zn_parameter_info *info)
{
    ZN_TRY(parameter_check(info, i, zn_session_n_parameters(engine->session)));
    const struct zn_session_parameter p = zn_session_parameter(engine->session, i);
    *info = (struct zn_parameter_info){
        .size = sizeof *info, .name = p.name, .n_dims = p.n_dims, .n_elements = p.n_elements, .is_trained = p.is_trained};
    memcpy(info->dims, p.dims, sizeof info->dims);
    return ZN_OK;
}

const char *zn_engine_state(const zn_engine *engine, int i)
{
    return zn_session_state(engine->session, i);
}

zn_status zn_engine_read(zn_engine *engine, const char *parameter, const char *state, float *values, int64_t n_values)
{
    return zn_session_read(engine->session, parameter, state, values, n_values);
}

zn_status zn_engine_save(zn_engine *engine, const char *folder)
{
    return zn_session_save(engine->session, folder);
}

zn_status zn_engine_load(zn_engine *engine, const char *folder)
{
    return zn_session_load(engine->session, folder);
}

zn_status zn_engine_export(zn_engine *engine, const char *folder)
{
    return zn_session_export(engine->session, folder);
}

zn_status zn_engine_get(const zn_engine *engine, const char *name, char **text)
{
    return options_value_text(zn_session_settings(engine->session), name, text);
}

zn_status zn_engine_program(const zn_engine *engine, char **text)
{
    return zn_session_program(engine->session, text);
}
