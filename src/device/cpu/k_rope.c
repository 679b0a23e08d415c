/* Rotary position embedding in halves (Su et al., "RoFormer", section 3.2, with the pairing of the
 * hub's models). */
#include "device/cpu/cpu.h"
#include "device/cpu/ranges.h"

/* One head: pairs (x[i], x[i+d]) turned by the angles of `cosine` and `sine`. y may be x. */
static void turn(float *y, const float *x, const float *cosine, const float *sine, float direction,
                 int64_t d)
{
#pragma omp simd
    for (int64_t i = 0; i < d; i++) {
        float a = x[i], b = x[i + d], s = sine[i] * direction;
        y[i] = a * cosine[i] - b * s;
        y[i + d] = b * cosine[i] + a * s;
    }
}

zn_status ZN_K(rope)(const struct zn_cpu *cpu, const void *args)
{
    const struct zn_rope_args *a = args;
    int64_t d = a->head_dim / 2;
    float direction = a->inverse ? -1.0f : 1.0f;
    const int32_t *position_ids = zn_pointer(a->position_ids);
#pragma omp parallel for schedule(static) num_threads(cpu->n_threads)                              \
    if (a->rows * a->heads * a->head_dim >= ZN_SERIAL_BELOW)
    for (int64_t row = 0; row < a->rows; row++) {
        int64_t position = position_ids ? position_ids[row] : row % a->period;
        const float *cosine = zn_floats(a->cos) + position * d;
        const float *sine = zn_floats(a->sin) + position * d;
        const float *x = zn_floats(a->x) + row * a->x_stride;
        float *y = zn_floats(a->y) + row * a->y_stride;
        for (int64_t h = 0; h < a->heads; h++)
            turn(y + h * a->head_dim, x + h * a->head_dim, cosine, sine, direction, d);
    }
    return ZN_OK;
}
