/* Rotary frequencies: plain, linear and Llama 3's three bands. */
#include "base/elementary.h"
#include "models/llama.h"

/* Llama 3: wavelengths beyond the original context are stretched by `factor`, short ones are
 * left, and those between are blended. */
static double scaled_frequency(const struct rope_config *rope, double frequency)
{
    if (rope->kind == ROPE_PLAIN)
        return frequency;
    if (rope->kind == ROPE_LINEAR)
        return frequency / rope->factor;
    double wavelength = 2 * 3.14159265358979323846 / frequency;
    if (wavelength < rope->original_positions / rope->high_freq_factor)
        return frequency;
    if (wavelength > rope->original_positions / rope->low_freq_factor)
        return frequency / rope->factor;
    double smooth = (rope->original_positions / wavelength - rope->low_freq_factor) /
                    (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * frequency / rope->factor + smooth * frequency;
}

/* 1 / theta^(2i/head_dim), rounded as the hub's code does. */
static float plain_frequency(const struct rope_config *rope, int64_t i, int64_t head_dim)
{
    return (float)(1.0 / zn_pow_f64(rope->theta, (double)(2 * i) / (double)head_dim));
}

void rope_factors(const struct rope_config *rope, int64_t head_dim, float *factors)
{
    for (int64_t i = 0; i < head_dim / 2; i++) {
        double frequency = plain_frequency(rope, i, head_dim);
        factors[i] = (float)(frequency / scaled_frequency(rope, frequency));
    }
}

void rope_tables(const struct rope_config *rope, int64_t positions, int64_t head_dim, float *cosines,
                 float *sines)
{
    int64_t half = head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        float frequency = (float)scaled_frequency(rope, plain_frequency(rope, i, head_dim));
        for (int64_t p = 0; p < positions; p++) {
            float angle = (float)p * frequency;
            cosines[p * half + i] = (float)zn_cos_f64((double)angle);
            sines[p * half + i] = (float)zn_sin_f64((double)angle);
        }
    }
}
