/* The budgets that a plan tries. None changes a bit of the results. */
#include "plan/prefetch.h"

static const size_t ENOUGH = 64 * 1024 * 1024; /* for small units, many of which then run ahead */

size_t zn_plan_largest_unit(const zn_engine_plan *plan)
{
    return plan->largest_gather;
}

/* The largest unit is often the head or the embedding: with twice its size its own gather begins some blocks early. */
size_t zn_prefetch_most(size_t largest_unit)
{
    if (largest_unit == 0)
        return 0;
    return largest_unit > ENOUGH / 2 ? 2 * largest_unit : ENOUGH;
}

size_t zn_prefetch_less(size_t budget, size_t least)
{
    return budget / 2 < least ? 0 : budget / 2;
}

size_t zn_prefetch_least(size_t largest_unit)
{
    return largest_unit / 4;
}

void zn_prefetch_set(struct zn_engine_options *options, size_t budget)
{
    options->prefetch_bytes = options->reuse_bytes = budget;
}
