/* exp, log, pow, sin and cos in double, from operations that IEEE 754 rounds exactly (+, -, ×, ÷, fma) and from bits: the
 * same arguments give the same bits with every compiler, C library and processor. Whatever reaches weights, losses, tokens or files
 * uses these, never the functions of libm, whose last bits differ from one version to the next.
 *
 * Each is within 0.8 ulp of the true value. Not-a-number stays not-a-number. */
#ifndef ZN_BASE_ELEMENTARY_H
#define ZN_BASE_ELEMENTARY_H

/* 0 below -745.2, infinity above 709.8. */
double zn_exp_f64(double x);

/* -infinity at 0, not-a-number below. */
double zn_log_f64(double x);

/* x^y for x >= 0 and finite y; not-a-number for x < 0. x^0 is 1. */
double zn_pow_f64(double x, double y);

/* |x| <= 2^27, which is more positions than any table has; not-a-number beyond. */
double zn_sin_f64(double x);
double zn_cos_f64(double x);

#endif
