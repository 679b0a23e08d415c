/* The verifier: whether a program can be run on a real machine and does what its plan says. Pure, and linear but for a sort.
 *
 * What is checked of each section:
 * - instructions: units, events used once, `after` points back, at most as many conditions as the executor passes on;
 * - spans: inside their buffers, of sizes that agree with the operation and the unit;
 * - order: of two accesses of the same bytes, one of them a write, the later one starts after the earlier one has ended
 *   (order.h). Operators access bytes, too: what is acquired is read until another unit is acquired or the segment ends, a
 *   gradient is written from its opening to its closing. Updates of the step before write parameters and read gradients until
 *   they are waited for; so do the gathers of what they wrote;
 * - contents: whoever reads a unit, a gradient or an activation checkpoint finds that one's bytes;
 * - ends: what is waited for has an end, and the device has waited for everything when a section ends. The host's part of a
 *   gradient offload, updates and gathers of updated parameters go on beside the next section;
 * - bytes: each unit is reduced as often as the trace writes its gradients, and gathered at most once a use and never in vain;
 * - memory: what the passes measured is what the manifest has, and is used to its end.
 *
 * The sections of a step are verified one after the other as they run, a middle micro-batch twice. */
#ifndef ZN_SCHEDULE_VERIFY_H
#define ZN_SCHEDULE_VERIFY_H

#include "schedule/compile.h"

/* ZN_ERR_INTERNAL with section, point and instruction where something is wrong. */
zn_status zn_program_verify(const zn_engine_plan *plan);

/* Fails at the first collective in which two ranks' programs differ. */
zn_status zn_program_same_collectives(const zn_program *a, const zn_program *b);

/* A number that is the same for programs with the same collectives in the same order. */
uint64_t zn_program_digest(const zn_program *program);

#endif
