/* An engine's handle, for the files that implement its functions. */
#ifndef ZN_API_ENGINE_HANDLE_H
#define ZN_API_ENGINE_HANDLE_H

#include "api/handles.h"
#include "train/session.h"

struct zn_engine_handle {
    zn_context *context;
    zn_options *options; /* a copy that the session borrows from */
    zn_session *session;
    char *temporary; /* a folder that goes with the engine, the same on every rank; NULL: none */
};

#endif
