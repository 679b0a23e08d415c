/* Gradients from inside, for gradients.c, flights.c and leaving.c. */
#ifndef ZN_ZERO_GRADIENTS_H
#define ZN_ZERO_GRADIENTS_H

#include "zero/engine_private.h"

bool gradients_on_nvme(const zn_engine *e);

/* ---- episodes.c ---- */

/* Whether the present episode of the unit is its last in this step. */
bool is_final(const zn_engine *e, const struct unit_state *us);

zn_status start_episode(zn_engine *e, int unit);

/* The place of a part's gradient in the present episode; one beside it for what is to be added. */
zn_addr place_of(const zn_engine *e, const struct zn_part *part);
zn_status open_beside(zn_engine *e, const struct zn_part *part, zn_addr *address);

/* ---- flights.c ---- */

/* Where the sum over ranks ends; its place in the swap. */
zn_addr sum_at(const zn_engine *e, int unit);
uint64_t swap_at(const zn_engine *e, int unit);

zn_status clear_squares(zn_engine *e, int unit);
zn_status start_update(zn_engine *e, int unit, zn_addr gradient);

/* Enters the unit among those under way; brings those that entered their part so many moments ago a part further; ends
 * the unit's way. */
void take_off(zn_engine *e, int unit);
zn_status move_flights(zn_engine *e, int64_t age);
zn_status unit_land(zn_engine *e, int unit);

/* ---- leaving.c ---- */

/* The sum leaves a device apart; the host has stored it. */
zn_status leave_device(zn_engine *e, int unit, zn_addr sum);
zn_status wait_stored(zn_engine *e, int unit);

#endif
