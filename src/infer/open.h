/* Generators for callers outside of this folder, who see none of the engine's types. */
#ifndef ZN_INFER_OPEN_H
#define ZN_INFER_OPEN_H

#include "comm/comm.h"
#include "zinc/generate.h"

/* As zn_generator_create, on the caller's ranks. Collective; blocks. */
zn_status zn_generator_create_as_rank(const struct zn_generate_options *options, zn_comm *comm, zn_generator **generator);

/* Gives over what the settings borrow from: `release` gets it when the generator is destroyed. */
void zn_generator_keep(zn_generator *generator, void *kept, void (*release)(void *kept));

#endif
