/* The papers' tables as text and as JSON. */
#ifndef ZN_CLI_PLAN_PAPER_H
#define ZN_CLI_PLAN_PAPER_H

#include <stdbool.h>

#include "plan/paper.h"

void plan_show_paper(const struct zn_paper *paper, bool json);

#endif
