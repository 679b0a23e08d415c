/* What the memory that a candidate leaves is used for: the next unit fetched ahead, logits and activations that are kept instead of
 * computed again, optimizer states that stay in memory instead of on NVMe. More memory never gives a slower step. */
#ifndef ZN_PLAN_SPARE_H
#define ZN_PLAN_SPARE_H

#include "plan/predict.h"

struct zn_spare {
    bool fits;         /* in its leanest form; else nothing else is told */
    size_t need;       /* memory of the device in its leanest form; SIZE_MAX: far too much */
    bool fetches_next; /* there is room for the next unit to come while one is used, or none has to */
    bool is_complete;  /* nothing is computed again */
};

/* Sets what is open in the setup, which is in its leanest form. Blocks for dry runs and, where activations compete with optimizer
 * states for memory, simulated steps. */
zn_status zn_spare_use(struct zn_plan_setup *setup, const struct zn_choices *choices, struct zn_spare *spare);

#endif
