/* What a measurement of several rounds comes to. */
#ifndef ZN_BASE_MEDIAN_H
#define ZN_BASE_MEDIAN_H

/* Of n values, at least one; puts them in order. */
double zn_median(double *values, int n);

#endif
