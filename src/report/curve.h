/* A curve of any length in a fixed amount of memory: values in their order, gathered in bins. While
 * there is room each bin holds one value; when there is none, bins are joined in pairs and hold twice
 * as many. What a bin says of its values (least, greatest, mean) is exact. */
#ifndef ZN_REPORT_CURVE_H
#define ZN_REPORT_CURVE_H

#include <stddef.h>
#include <stdint.h>

enum { ZN_CURVE_BINS = 800 };

struct zn_curve_bin {
    double from, to; /* the places of its values, gaps included */
    double least, greatest, sum;
    int64_t n;         /* values; 0: nothing but gaps */
    int64_t n_entries; /* values and gaps */
};

struct zn_curve_point {
    double at, value;
};

typedef struct zn_curve {
    struct zn_curve_bin bin[ZN_CURVE_BINS];
    size_t n_bins;
    int64_t width;                                       /* entries of a full bin */
    int64_t n;                                           /* values */
    struct zn_curve_point first, last, least, greatest; /* when n > 0 */
} zn_curve;

void zn_curve_init(zn_curve *curve);

/* So that sums and scales stay finite, a value above 1e100 is a gap, as is one that is not a number; one
 * below 1e-100 counts as 0. */
void zn_curve_add(zn_curve *curve, double at, double value);

/* Joins bins until there are at most `most`: more would not be told apart where they are drawn. */
void zn_curve_thin(zn_curve *curve, size_t most);

/* Every value times a factor above 0. */
void zn_curve_scale(zn_curve *curve, double factor);

#endif
