/* Curves as inline SVG: axes with round marks, the line, points and marks. Colours and type come from
 * the page's style, so that one drawing serves light, dark and paper. */
#ifndef ZN_REPORT_CHART_H
#define ZN_REPORT_CHART_H

#include <stdbool.h>

#include "base/text.h"
#include "report/curve.h"

struct zn_chart {
    const char *title;      /* for those who do not see it; plain text of ours */
    const zn_curve *line;   /* bins of several values have a band from the least to the greatest */
    const zn_curve *points; /* sparse, drawn on top with a mark for each; NULL: none */
    const zn_curve *const *more; /* further lines, each in a colour of its own (classes c1, c2, …), as the line then has c0 */
    size_t n_more;
    const zn_curve *marks;  /* only the places count: ticks at the foot; NULL: none */
    bool from_zero;         /* the axis begins at 0 */
    bool may_be_log;        /* taken when all is positive and spans two decades */
    int width, height;
};

/* Whether the axis of values will be logarithmic, for the text beside it. */
bool zn_chart_is_log(const struct zn_chart *chart);

/* Adds <svg>…</svg>. Without any value there are only the axes and "no values". */
void zn_chart_add(zn_text *page, const struct zn_chart *chart);

#endif
