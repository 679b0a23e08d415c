/* The pipeline from inside, for pipeline.c, optimizer_pass.c and cursor.c. */
#ifndef ZN_ZERO_PIPELINE_H
#define ZN_ZERO_PIPELINE_H

#include "zero/engine_private.h"

/* Asks for a transfer between the slot and the swap, after what was computed in the slot. */
zn_status transfer(zn_engine *e, struct slot *slot, int kind, uint64_t offset, zn_addr address, size_t n_bytes);

/* Blocks until nothing is under way in the slot. */
zn_status slot_wait(zn_engine *e, struct slot *slot);

/* What is read into the slot next comes after all that is under way in it. */
zn_status slot_empty(zn_engine *e, struct slot *slot, zn_device *device);

/* Ask for what (HAS_…) the slot does not have of the chunk; for its gradient; for its way back. */
zn_status read_chunk(zn_engine *e, int chunk, struct slot *slot, int what);
zn_status read_grad(zn_engine *e, int chunk, struct slot *slot, const struct update *update);
zn_status write_chunk(zn_engine *e, int chunk, struct slot *slot, int what, bool delayed);

/* Lists the visits of an optimizer pass (visits.c). */
zn_status list_visits(zn_engine *e);

#endif
