/* How far gathers and reads run ahead of their use: a budget in bytes, chosen within the memory that is left. */
#ifndef ZN_PLAN_PREFETCH_H
#define ZN_PLAN_PREFETCH_H

#include "zero/engine.h"

/* The largest unit that a pass gathers or reads ahead of its use; 0: there is none. A budget of as much lets the next
 * unit always come while one is used. */
size_t zn_plan_largest_unit(const zn_engine_plan *plan);

/* The most that helps, then less and less; 0: no smaller one is worth a trial. `least` as zn_prefetch_least. */
size_t zn_prefetch_most(size_t largest_unit);
size_t zn_prefetch_less(size_t budget, size_t least);

/* What is below a quarter of the largest unit is not tried. */
size_t zn_prefetch_least(size_t largest_unit);

/* Sets the budget, and that of reuse with it. */
void zn_prefetch_set(struct zn_engine_options *options, size_t budget);

#endif
