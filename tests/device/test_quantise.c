/* Quantised parameters: the definitions of tensor/quantum.h to the bit on every instruction set, and the codes and scales of
 * bitsandbytes (tests/data/quantize/nf4.safetensors, made by tests/parity/make_nf4.py; ZINC_NF4_REFERENCE names a larger file). */
#include "device/kernel_test.h"

#include "device/cpu/dynamic_map.h"
#include "formats/safetensors.h"
#include "tensor/quantum.h"

enum { BLOCK = ZN_QUANTISED_BLOCK, GROUP = ZN_QUANTISED_GROUP };

static const int64_t sizes[] = {0, 1, 63, 64, 65, 1023, 1024, 1025, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP, 100003};
static const zn_dtype types[] = {ZN_INT8, ZN_NF4};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks of different sizes, one of zeros, and one whose scale is below the smallest normal number. */
static float *new_values(int64_t n)
{
    float *x = new_normal(n, 9);
    for (int64_t i = 0; i < n; i++)
        x[i] *= i / BLOCK == 3 ? 0 : i / BLOCK == 5 ? 1e-41f : expf((float)(i / BLOCK % 7) - 4);
    return x;
}

static float scale_of(const float *x, int64_t n, int64_t block)
{
    float most = 0;
    for (int64_t i = block * BLOCK; i < least(n, (block + 1) * BLOCK); i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

static int count_below(const float *map, int n_codes, float x)
{
    int code = 0;
    while (code < n_codes - 1 && (map[code] + map[code + 1]) / 2 < x)
        code++;
    return code;
}

/* What the bytes of an element stand for, by the definition. */
static float want_int8(const float *x, int64_t n, int64_t i)
{
    float scale = scale_of(x, n, i / BLOCK) / 127;
    if (!(scale > 0))
        return 0;
    int code = (int)fmaxf(-127, fminf(127, rintf(x[i] / scale)));
    return (float)code * scale;
}

static float want_nf4(const float *x, int64_t n, int64_t i, float mean)
{
    int64_t block = i / BLOCK, first = i / GROUP * (GROUP / BLOCK), end = least(first + GROUP / BLOCK, (n + BLOCK - 1) / BLOCK);
    float scale = scale_of(x, n, block), most = 0;
    for (int64_t b = first; b < end; b++)
        most = fmaxf(most, fabsf(scale_of(x, n, b) - mean));
    int code = count_below(zn_nf4_map, ZN_NF4_CODES, x[i] * (1 / fmaxf(scale, 1e-38f)));
    float kept = zn_signed_map[count_below(zn_signed_map, ZN_MAP_CODES, (scale - mean) / (most > 0 ? most : 1))] * most;
    return zn_nf4_map[code] * (kept + mean);
}

static void check_widened(zn_dtype type, const unsigned char *quanta, const float *want, int64_t first, int64_t n)
{
    float *got = new_floats(n);
    struct zn_dequantise_args a = {.dst = ADDRESS(got), .src = ADDRESS(quanta), .type = type, .first = first, .n_elements = n};
    run_everywhere(ZN_KERNEL_dequantise, &a, &(struct output){got, (size_t)n * sizeof(float)}, 1);
    assert_memory_equal(got, want + first, (size_t)n * sizeof(float));
    free(got);
}

static void check_values(zn_dtype type, int64_t n)
{
    const float mean = 0.0625f;
    float *x = new_values(n), *want = new_floats(n);
    size_t n_bytes = zn_dtype_size(type, n);
    unsigned char *quanta = new_bytes(n_bytes);
    memset(quanta, 0xff, n_bytes);
    struct zn_quantise_args a = {.dst = ADDRESS(quanta), .src = ADDRESS(x), .type = type, .n_elements = n, .mean = mean};
    run_everywhere(ZN_KERNEL_quantise, &a, &(struct output){quanta, n_bytes}, 1);
    for (int64_t i = 0; i < n; i++)
        want[i] = type == ZN_INT8 ? want_int8(x, n, i) : i % 17 == 0 || n < 3000 ? want_nf4(x, n, i, mean) : NAN;
    if (type == ZN_NF4 && n >= 3000) { /* the definition is slow: one in 17, the others as they are widened alone */
        float *all = new_floats(n);
        struct zn_dequantise_args w = {.dst = ADDRESS(all), .src = ADDRESS(quanta), .type = type, .n_elements = n};
        assert_int_equal(run_on("plain", 1, ZN_KERNEL_dequantise, &w), ZN_OK);
        for (int64_t i = 0; i < n; i++)
            want[i] = i % 17 == 0 ? want[i] : all[i];
        free(all);
    }
    check_widened(type, quanta, want, 0, n);
    if (n > 70) {
        check_widened(type, quanta, want, 1, n - 1);
        check_widened(type, quanta, want, 67, least(n - 67, 1000));
    }
    free(x), free(want), free(quanta);
}

static void values_are_those_of_the_definition(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t t = 0; t < COUNT(types); t++)
            check_values(types[t], sizes[s]);
}

static void a_quantum_can_be_cut_off(void **state)
{
    (void)state;
    int64_t n = 5 * ZN_QUANTUM;
    float *x = new_values(n), *all = new_floats(n), part[BLOCK];
    for (size_t t = 0; t < COUNT(types); t++) {
        unsigned char *quanta = new_bytes(zn_dtype_size(types[t], n));
        struct zn_quantise_args a = {.dst = ADDRESS(quanta), .src = ADDRESS(x), .type = types[t], .n_elements = n, .mean = 0.5f};
        struct zn_dequantise_args w = {.dst = ADDRESS(all), .src = ADDRESS(quanta), .type = types[t], .n_elements = n};
        assert_int_equal(run_on(NULL, 1, ZN_KERNEL_quantise, &a), ZN_OK);
        assert_int_equal(run_on(NULL, 1, ZN_KERNEL_dequantise, &w), ZN_OK);
        w = (struct zn_dequantise_args){.dst = ADDRESS(part), .src = ADDRESS(quanta + zn_dtype_size(types[t], 3 * ZN_QUANTUM)),
                                        .type = types[t], .first = 10, .n_elements = BLOCK};
        assert_int_equal(run_on(NULL, 1, ZN_KERNEL_dequantise, &w), ZN_OK);
        assert_memory_equal(part, all + 3 * ZN_QUANTUM + 10, sizeof part);
        free(quanta);
    }
    free(x), free(all);
}

/* ---- bitsandbytes ---- */

static float *read_all(const zn_st_file *file, const char *name, int64_t *n)
{
    const struct zn_st_tensor *t = zn_st_find(file, name);
    assert_non_null(t);
    float *values = new_bytes((size_t)t->n_elements * sizeof *values);
    zn_status status = t->dtype == ZN_ST_U8 ? zn_st_read_codes(file, t, 0, t->n_elements, values)
                                            : zn_st_read_f32(file, t, 0, t->n_elements, values);
    assert_int_equal(status, ZN_OK);
    *n = t->n_elements;
    return values;
}

static void codes_and_scales_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    zn_st_file *file;
    const char *path = getenv("ZINC_NF4_REFERENCE");
    int64_t n, n_codes, n_scales, n_groups, one, n_map;
    assert_int_equal(zn_st_open(path ? path : ZN_TEST_DATA "/quantize/nf4.safetensors", &file), ZN_OK);
    float *map = read_all(file, "map", &n_map), *x = read_all(file, "values", &n), *codes = read_all(file, "codes", &n_codes);
    float *absmax = read_all(file, "absmax", &n_scales), *mean = read_all(file, "mean", &one);
    float *second = read_all(file, "second_codes", &n_scales), *second_absmax = read_all(file, "second_absmax", &n_groups);
    float *widened = read_all(file, "widened", &n_codes), *scales = new_floats(n_scales), *got = new_floats(n);
    struct zn_nf4_quantum *quanta = new_bytes(zn_dtype_size(ZN_NF4, n));
    double sum = 0;
    assert_int_equal(n_map, ZN_NF4_CODES);
    assert_memory_equal(map, zn_nf4_map, sizeof zn_nf4_map);

    struct zn_block_scales_args s = {.dst = ADDRESS(scales), .src = ADDRESS(x), .n_elements = n};
    run_everywhere(ZN_KERNEL_block_scales, &s, &(struct output){scales, (size_t)n_scales * sizeof(float)}, 1);
    assert_memory_equal(scales, absmax, (size_t)n_scales * sizeof(float));
    for (int64_t i = 0; i < n_scales; i++)
        sum += (double)scales[i];
    float own = (float)(sum / (double)n_scales);
    assert_true(own == mean[0] || own == nextafterf(mean[0], INFINITY) || own == nextafterf(mean[0], -INFINITY));

    struct zn_quantise_args q = {.dst = ADDRESS(quanta), .src = ADDRESS(x), .type = ZN_NF4, .n_elements = n, .mean = mean[0]};
    assert_int_equal(run_on(NULL, 2, ZN_KERNEL_quantise, &q), ZN_OK);
    for (int64_t i = 0; i < n / 2; i++)
        assert_int_equal(quanta[i / (ZN_QUANTUM / 2)].codes[i % (ZN_QUANTUM / 2)], (int)codes[i]);
    for (int64_t b = 0; b < n_scales; b++) {
        const struct zn_nf4_quantum *at = &quanta[b / ZN_QUANTUM_BLOCKS];
        assert_int_equal(at->scales[b % ZN_QUANTUM_BLOCKS], (int)second[b]);
        assert_true(at->group_scale == second_absmax[b / 256] && at->mean == mean[0]);
    }
    struct zn_dequantise_args w = {.dst = ADDRESS(got), .src = ADDRESS(quanta), .type = ZN_NF4, .n_elements = n};
    assert_int_equal(run_on(NULL, 2, ZN_KERNEL_dequantise, &w), ZN_OK);
    assert_memory_equal(got, widened, (size_t)n * sizeof(float));
    printf("%lld blocks: codes, scales and second codes are those of bitsandbytes; mean %.9g here, %.9g there\n", (long long)n_scales,
           (double)own, (double)mean[0]);
    zn_st_close(file);
    free(map), free(x), free(codes), free(absmax), free(mean), free(second), free(second_absmax), free(widened), free(scales), free(got);
    free(quanta);
}

static void other_types_are_refused(void **state)
{
    (void)state;
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_quantise, &(struct zn_quantise_args){.type = ZN_BF16}), ZN_ERR_UNSUPPORTED);
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_dequantise, &(struct zn_dequantise_args){.type = ZN_U8}), ZN_ERR_UNSUPPORTED);
    assert_non_null(strstr(zn_error_message(), "uint8 is not a quantised type"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_definition),
        cmocka_unit_test(a_quantum_can_be_cut_off),
        cmocka_unit_test(codes_and_scales_are_those_of_bitsandbytes),
        cmocka_unit_test(other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
