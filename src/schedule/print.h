/* The program of a step as text, one instruction a line. */
#ifndef ZN_SCHEDULE_PRINT_H
#define ZN_SCHEDULE_PRINT_H

#include "base/text.h"
#include "schedule/compile.h"

/* Adds all sections with a legend before them. `params` are those that the plan was made for. */
void zn_program_print(const zn_engine_plan *plan, const struct zn_params *params, zn_text *text);

/* One section. Points without instructions are left out unless all are asked for. */
void zn_section_print(const zn_engine_plan *plan, const struct zn_params *params, zn_section_id id, bool all_points, zn_text *text);

/* "block 3", "embedding", "head"; of a tile also its parameter and number: "block 3 c_fc 2/4". */
enum { ZN_UNIT_NAME = 64 };
const char *zn_unit_name(const zn_units *units, const struct zn_params *params, int unit, char text[ZN_UNIT_NAME]);

#endif
