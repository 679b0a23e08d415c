/* Normal values, keys and bounded integers on top of the mixing function. */
#include "base/rng.h"

#include <math.h>

#include "base/elementary.h"

uint64_t zn_random_below(uint64_t key, uint64_t counter, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)zn_random_bits(key, counter) * n) >> 64);
}

/* AS 241, the tails included. */
double zn_random_normal(uint64_t key, uint64_t counter)
{
    double p = zn_random_uniform(key, counter), q = p - 0.5;
    if (fabs(q) <= ZN_NORMAL_MIDDLE)
        return zn_normal_middle(q);
    double r = sqrt(-zn_log_f64(q < 0 ? p : 1.0 - p)), a, b;
    if (r <= 5.0) {
        r -= 1.6;
        a = (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r +
                  0.24178072517745061177) * r + 1.27045825245236838258) * r +
                3.64784832476320460504) * r + 5.7694972214606914055) * r +
              4.6303378461565452959) * r + 1.42343711074968357734);
        b = (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r +
                  0.0151986665636164571966) * r + 0.14810397642748007459) * r +
                0.68976733498510000455) * r + 1.6763848301838038494) * r +
              2.05319162663775882187) * r + 1.0);
    } else {
        r -= 5.0;
        a = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r +
                  0.0012426609473880784386) * r + 0.026532189526576123093) * r +
                0.29656057182850489123) * r + 1.7848265399172913358) * r +
              5.4637849111641143699) * r + 6.6579046435011037772);
        b = (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r +
                  1.8463183175100546818e-5) * r + 7.868691311456132591e-4) * r +
                0.0148753612908506148525) * r + 0.13692988092273580531) * r +
              0.59983220655588793769) * r + 1.0);
    }
    return q < 0 ? -a / b : a / b;
}

uint64_t zn_random_key(uint64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return zn_random_bits(seed, hash);
}
