/* The library: all of its headers.
 *
 * Handles are opaque. The one that makes a handle destroys it; destroy takes NULL, too. A function that fails returns its status, sets
 * nothing of what it would have returned, and leaves a text on the calling thread (zn_error_message). Collective functions are called by
 * all ranks of a context, in the same order; the others by whoever likes. There is no global state: contexts, engines and whatever
 * else may live several at a time, but that a process can start MPI once. Structs that programs fill begin with their size: set it to sizeof,
 * the rest to zero or to what is wanted. The older ones of the blocking calls (zn_train, zn_eval, zn_generate, zn_report), the listeners and
 * struct zn_ids have none. */
#ifndef ZINC_ZINC_H
#define ZINC_ZINC_H

#include "zinc/checkpoint.h"
#include "zinc/context.h"
#include "zinc/data.h"
#include "zinc/engine.h"
#include "zinc/generate.h"
#include "zinc/merge.h"
#include "zinc/model.h"
#include "zinc/network.h"
#include "zinc/options.h"
#include "zinc/plan.h"
#include "zinc/progress.h"
#include "zinc/report.h"
#include "zinc/status.h"
#include "zinc/tokenizer.h"
#include "zinc/train.h"

#endif
