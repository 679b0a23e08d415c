/* Casts between fp32, bf16 and fp16: every 16-bit value, every boundary, a sample of all fp32. */
#include "device/kernel_test.h"

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* A 16-bit format by arithmetic: `mantissa` bits, the least exponent `low`, and the first power of
 * two that is infinite, 2^high. */
struct format {
    zn_dtype type;
    int mantissa, low, high;
};

static const struct format bf16 = {ZN_BF16, 7, -126, 128};
static const struct format fp16 = {ZN_F16, 10, -14, 16};

static float decode(const struct format *f, uint16_t h)
{
    int exponent = (h & 0x7fff) >> f->mantissa, rest = h & ((1 << f->mantissa) - 1);
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    if (exponent == f->high - f->low + 1)
        return of_bits(sign | 0x7f800000 | (rest ? 0x400000 : 0) |
                       (uint32_t)rest << (23 - f->mantissa));
    double value = exponent ? ldexp(rest + (1 << f->mantissa), exponent - 1) : (double)rest;
    return of_bits(sign | bits_of((float)ldexp(value, f->low - f->mantissa)));
}

static uint16_t encode(const struct format *f, float x)
{
    uint32_t sign = (bits_of(x) >> 16) & 0x8000;
    uint32_t infinity = (uint32_t)(f->high - f->low + 1) << f->mantissa;
    if (isnan(x)) {
        uint32_t quiet = 1u << (f->mantissa - 1);
        return (uint16_t)(sign | infinity | quiet | (bits_of(x) & 0x7fffff) >> (23 - f->mantissa));
    }
    if (isinf(x))
        return (uint16_t)(sign | infinity);
    double a = fabs((double)x);
    int exponent = a == 0 ? f->low : ilogb(a);
    exponent = exponent < f->low ? f->low : exponent;
    /* In units of the last place; rint is to nearest even. */
    double units = rint(ldexp(a, f->mantissa - exponent));
    if (ldexp(units, exponent - f->mantissa) >= ldexp(1, f->high))
        return (uint16_t)(sign | infinity);
    /* The units of a normal number begin with its hidden one, which is one step of the exponent. */
    uint32_t steps = (uint32_t)(exponent - f->low) << f->mantissa;
    return (uint16_t)(sign | (steps + (uint32_t)units));
}

static void cast(void *dst, zn_dtype dst_type, const void *src, zn_dtype src_type, int64_t n)
{
    struct zn_cast_args a = {ADDRESS(dst), ADDRESS(src), dst_type, src_type, n};
    struct output out = {dst, (size_t)n * zn_dtype_bytes(dst_type)};
    run_everywhere(ZN_KERNEL_cast, &a, &out, 1);
}

static void check_down(const struct format *f, const float *x, int64_t n)
{
    uint16_t *h = new_bytes((size_t)n * sizeof *h);
    cast(h, f->type, x, ZN_F32, n);
    for (int64_t i = 0; i < n; i++)
        if (h[i] != encode(f, x[i]))
            fail_msg("%s of %08x is %04x, not %04x", zn_dtype_name(f->type), bits_of(x[i]), h[i],
                     encode(f, x[i]));
    free(h);
}

static void check_up(const struct format *f)
{
    enum { ALL = 65536 };
    uint16_t *h = new_bytes(ALL * sizeof *h);
    float *x = new_floats(ALL);
    for (int i = 0; i < ALL; i++)
        h[i] = (uint16_t)i;
    cast(x, ZN_F32, h, f->type, ALL);
    for (int i = 0; i < ALL; i++) {
        bool nan = isnan(x[i]) && f->type == ZN_BF16; /* bf16 is a cut fp32: no bit changes */
        uint32_t want = nan ? (uint32_t)i << 16 : bits_of(decode(f, h[i]));
        if (bits_of(x[i]) != want)
            fail_msg("%s %04x is %08x, not %08x", zn_dtype_name(f->type), h[i], bits_of(x[i]), want);
    }
    free(h);
    free(x);
}

/* Each value, the middle to the next, and their neighbours in fp32, of both signs. */
static void check_boundaries(const struct format *f)
{
    enum { ALL = 65536, EACH = 6 };
    float *x = new_floats(ALL * EACH);
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t here = bits_of(decode(f, (uint16_t)i)) & 0x7fffffff, sign = (i & 0x8000) << 16;
        uint32_t next = bits_of(decode(f, (uint16_t)((i + 1) & 0x7fff)));
        double middle = 0.5 * ((double)of_bits(here) + (double)of_bits(next));
        uint32_t half = isfinite(middle) ? bits_of((float)middle) : here;
        for (uint32_t k = 0; k < 3; k++) {
            x[i * EACH + k] = of_bits(sign | ((here + k - 1) & 0x7fffffff));
            x[i * EACH + 3 + k] = of_bits(sign | ((half + k - 1) & 0x7fffffff));
        }
    }
    check_down(f, x, ALL * EACH);
    free(x);
}

static void check_sample(const struct format *f)
{
    enum { N = 2000003, STEP = 2147 }; /* N × STEP covers all 2^32 */
    float *x = new_floats(N);
    for (uint32_t i = 0; i < N; i++)
        x[i] = of_bits(i * STEP);
    check_down(f, x, N);
    free(x);
}

static void every_fp16_to_fp32(void **state)
{
    (void)state;
    check_up(&fp16);
}

static void every_bf16_to_fp32(void **state)
{
    (void)state;
    check_up(&bf16);
}

static void fp32_to_fp16_at_every_boundary(void **state)
{
    (void)state;
    check_boundaries(&fp16);
}

static void fp32_to_bf16_at_every_boundary(void **state)
{
    (void)state;
    check_boundaries(&bf16);
}

static void fp32_to_fp16_sampled(void **state)
{
    (void)state;
    check_sample(&fp16);
}

static void fp32_to_bf16_sampled(void **state)
{
    (void)state;
    check_sample(&bf16);
}

static void named_values(void **state)
{
    (void)state;
    static const float x[] = {65519.996f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.8p-24f, 1.0f, -0.0f};
    static const uint16_t want[] = {0x7bff, 0x7c00, 1, 0, 2, 0x3c00, 0x8000};
    uint16_t h[COUNT(x)];
    cast(h, ZN_F16, x, ZN_F32, COUNT(x));
    assert_memory_equal(h, want, sizeof want);
}

static void between_the_halves_rounds_once(void **state)
{
    (void)state;
    enum { ALL = 65536 };
    uint16_t *h = new_bytes(ALL * sizeof *h), *g = new_bytes(ALL * sizeof *g);
    for (int i = 0; i < ALL; i++)
        h[i] = (uint16_t)i;
    cast(g, ZN_F16, h, ZN_BF16, ALL);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(g[i], encode(&fp16, decode(&bf16, h[i])));
    cast(g, ZN_BF16, h, ZN_F16, ALL);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(g[i], encode(&bf16, decode(&fp16, h[i])));
    free(h);
    free(g);
}

static void every_length_is_the_same_cast(void **state)
{
    (void)state;
    float *x = new_normal(40, 3);
    for (int64_t n = 0; n <= 40; n++) {
        check_down(&fp16, x, n);
        check_down(&bf16, x, n);
    }
    float y[40];
    cast(y, ZN_F32, x, ZN_F32, 40);
    assert_memory_equal(y, x, sizeof y);
    free(x);
}

static void other_types_are_refused(void **state)
{
    (void)state;
    double x[1] = {0};
    float y[1];
    struct zn_cast_args a = {ADDRESS(y), ADDRESS(x), ZN_F32, ZN_F64, 1};
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_cast, &a), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "fp64"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fp16_to_fp32),
        cmocka_unit_test(every_bf16_to_fp32),
        cmocka_unit_test(fp32_to_fp16_at_every_boundary),
        cmocka_unit_test(fp32_to_bf16_at_every_boundary),
        cmocka_unit_test(fp32_to_fp16_sampled),
        cmocka_unit_test(fp32_to_bf16_sampled),
        cmocka_unit_test(named_values),
        cmocka_unit_test(between_the_halves_rounds_once),
        cmocka_unit_test(every_length_is_the_same_cast),
        cmocka_unit_test(other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
