/* The tape: operators run at once, in order, on one device; while it records, their backward
 * can be run in the reverse order. Failures stick: after one, operators do nothing and return a
 * tensor of the right shape, and the caller asks zn_tape_status once.
 *
 * Tensors are blocks of the tape's arena. They need no release: the recording on the sim device
 * learned when each is used last (memory/lifetimes.h). */
#ifndef ZN_AUTOGRAD_TAPE_H
#define ZN_AUTOGRAD_TAPE_H

#include <stdbool.h>

#include "autograd/cache.h"
#include "autograd/param.h"
#include "memory/arena.h"

/* The caller destroys. hooks and self are borrowed. param_type (fp32, bf16 or fp16) is the working
 * precision: the type of every parameter the hooks give; gradients and activations are fp32. */
zn_status zn_tape_create(zn_device *device, const struct zn_param_hooks *hooks, void *hooks_self,
                         zn_dtype param_type, zn_tape **tape);
void zn_tape_destroy(zn_tape *tape);

/* Starts a pass: forgets all tensors. `base` is where the arena begins on the device; while
 * recording lifetimes it is only a number. */
void zn_tape_start(zn_tape *tape, zn_lifetimes *lifetimes, bool recording_lifetimes, zn_addr base);

/* Makes the pass one that extends a sequence (autograd/cache.h), until the next start. Nothing of
 * it can be recorded for backward. */
void zn_tape_use_cache(zn_tape *tape, zn_cache *cache);

/* The position of each token within its example, (B,T) int32, for operators run from now on; NULL: each row of the
 * batch is one sequence. */
void zn_tape_use_position_ids(zn_tape *tape, const zn_tensor *position_ids);

/* The pass leaves adapters out, until the next start: the model is the one that they adapt. */
void zn_tape_leave_adapters(zn_tape *tape);
bool zn_tape_has_adapters(const zn_tape *tape);

/* Whether operators run from now on are kept for backward. */
void zn_tape_record(zn_tape *tape, bool on);

zn_status zn_tape_status(const zn_tape *tape);

/* A tensor over memory that is not the arena's (token ids, targets). */
zn_tensor *zn_tape_external(zn_tape *tape, zn_dtype type, int ndim, const int64_t *dims,
                            zn_addr address);

/* From now on what lies between segments stays fp32, whatever the type of the parameters: for passes that only compute
 * values. */
void zn_tape_keep_fp32(zn_tape *tape);

/* Rounds `x` in place to the working precision; nothing in fp32. Its gradient passes unchanged. */
void zn_tape_round(zn_tape *tape, zn_tensor *x);

/* While on, nobody needs the values that operators make: those that other ranks take part in leave them out. */
void zn_tape_leave_out_values(zn_tape *tape, bool on);

/* Makes `x` a leaf that wants a gradient: the input of a segment that is recomputed. */
void zn_tape_want_gradient(zn_tape *tape, zn_tensor *x);

/* Hands the gradient of `from` to `to` (the same values computed again). */
void zn_tape_pass_gradient(zn_tape *tape, zn_tensor *to, const zn_tensor *from);

/* Hands the values of `x` to the hooks to be kept under an index; later a new tensor with them, which wants a
 * gradient, and before that a hint that it will be wanted. `like` has its shape. */
void zn_tape_save(zn_tape *tape, int64_t index, const zn_tensor *x);
void zn_tape_prefetch(zn_tape *tape, int64_t index, const zn_tensor *like);
zn_tensor *zn_tape_load(zn_tape *tape, int64_t index, const zn_tensor *like);

/* The present end of what is recorded; backward runs from the end to a mark and forgets it. */
struct zn_node;
struct zn_node *zn_tape_mark(const zn_tape *tape);
zn_status zn_tape_backward(zn_tape *tape, struct zn_node *mark);

/* Says that a segment's forward or backward is done. */
void zn_tape_segment_end(zn_tape *tape, int segment, bool backward);

int64_t zn_tensor_dim(const zn_tensor *tensor, int dim);

bool zn_tensor_wants_gradient(const zn_tensor *tensor);

/* For tests: the device address of a tensor, and of its gradient or 0. */
zn_addr zn_tensor_address(const zn_tensor *tensor);
zn_addr zn_tensor_gradient(const zn_tensor *tensor);

#endif
