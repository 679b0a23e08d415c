/* Values that are smoothed for people to look at: a mean that forgets, and a time left that does not jump. */
#ifndef ZN_SHOW_SMOOTH_H
#define ZN_SHOW_SMOOTH_H

#include <stdint.h>

/* The mean of all values while there are few, of about the last `memory` of them later. All zero: no value yet. */
struct zn_smooth {
    double value, weight;
};
void zn_smooth_add(struct zn_smooth *smooth, double value, double memory);

/* When a run will end, as seconds of its clock. */
struct zn_forecast {
    struct zn_smooth between; /* seconds from step to step, what lies between them included */
    double last;              /* when the last step ended; 0: none has */
    double end;               /* as it is shown: drawn towards each new estimate */
};
void zn_forecast_step(struct zn_forecast *forecast, double now, double seconds, int64_t n_left);

/* Negative: nobody knows yet. Falls with the time, and stands where a step takes longer than those before. */
double zn_forecast_left(const struct zn_forecast *forecast, double now);

/* A curve of few points over all values so far: when they are full, neighbours are joined. */
enum { ZN_TREND_POINTS = 256 };
struct zn_trend {
    double point[ZN_TREND_POINTS];
    int n;
    int64_t each, n_in_last; /* values of a point; of the last one so far */
    double sum;              /* of the last one */
};
void zn_trend_add(struct zn_trend *trend, double value);

/* The curve in exactly min(n, width) points. */
int zn_trend_points(const struct zn_trend *trend, int width, double *points);

#endif
