/* Adam with moments in bf16 and in 8 bits: the operations that are promised, to the bit, and the maps and codes of bitsandbytes
 * (tests/data/quantize, made by tests/parity/make_quantize.py). */
#include "device/kernel_test.h"

#include "device/cpu/dynamic_map.h"
#include "formats/safetensors.h"
#include "tensor/half.h"

static const int64_t sizes[] = {0, 1, 255, 256, 257, 511, 1025, 32769, 100003};

struct moments {
    int64_t n;
    float *param, *grad, *m, *v; /* m and v: in fp32, what the codes stand for */
    uint16_t *copy;
};

static struct moments moments_init(int64_t n)
{
    struct moments t = {.n = n, .param = new_normal(n, 1), .grad = new_normal(n, 2), .m = new_normal(n, 3), .v = new_normal(n, 4),
                        .copy = new_bytes((size_t)n * sizeof(uint16_t))};
    for (int64_t i = 0; i < n; i++)
        t.v[i] *= t.v[i] * 1e-3f;
    return t;
}

static void moments_fini(struct moments *t)
{
    free(t->param);
    free(t->grad);
    free(t->m);
    free(t->v);
    free(t->copy);
}

static struct zn_adam_args args_of(const struct moments *t)
{
    return (struct zn_adam_args){.param = ADDRESS(t->param), .grad = ADDRESS(t->grad), .copy = ADDRESS(t->copy), .copy_type = ZN_BF16,
                                 .n_elements = t->n, .grad_scale = 0.37f, .one_minus_beta1 = 0.1f, .beta2 = 0.999f,
                                 .one_minus_beta2 = 0.001f, .eps = 1e-8f, .step_size = 1.3e-3f, .root_correction = 0.71f,
                                 .keep = 0.9999f};
}

/* The same in fp32 on the plain kernel, which other tests hold to its contract. */
static void run_plain(const struct moments *t)
{
    struct zn_adam_args a = args_of(t);
    a.exp_avg = ADDRESS(t->m);
    a.exp_avg_sq = ADDRESS(t->v);
    assert_int_equal(run_on("plain", 1, ZN_KERNEL_adam, &a), ZN_OK);
}

static void check_bf16(int64_t n)
{
    struct moments t = moments_init(n), want = moments_init(n);
    size_t halves = (size_t)n * sizeof(uint16_t);
    uint16_t *m = new_bytes(halves), *v = new_bytes(halves);
    for (int64_t i = 0; i < n; i++) {
        m[i] = zn_float_to_bf16(t.m[i]);
        v[i] = zn_float_to_bf16(t.v[i]);
        want.m[i] = zn_bf16_to_float(m[i]);
        want.v[i] = zn_bf16_to_float(v[i]);
    }
    struct zn_adam_args a = args_of(&t);
    a.exp_avg = ADDRESS(m);
    a.exp_avg_sq = ADDRESS(v);
    a.state_type = ZN_BF16;
    struct output out[] = {{t.param, 2 * halves}, {m, halves}, {v, halves}, {t.copy, halves}};
    run_everywhere(ZN_KERNEL_adam, &a, out, 4);
    run_plain(&want);
    assert_memory_equal(t.param, want.param, 2 * halves);
    assert_memory_equal(t.copy, want.copy, halves);
    for (int64_t i = 0; i < n; i++)
        assert_true(m[i] == zn_float_to_bf16(want.m[i]) && v[i] == zn_float_to_bf16(want.v[i]));
    free(m);
    free(v);
    moments_fini(&t);
    moments_fini(&want);
}

static void moments_in_bf16_are_rounded_to_nearest(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++)
        check_bf16(sizes[s]);
}

/* One value after the other: the code whose neighbours' middles enclose it. */
static uint8_t code_of(const float *map, float x)
{
    int code = 0;
    while (code < ZN_MAP_CODES - 1 && (map[code] + map[code + 1]) / 2 < x)
        code++;
    return (uint8_t)code;
}

static void check_block(const float *map, const float *values, int64_t n, const uint8_t *codes, float scale)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(values[i]));
    assert_true(scale == most);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(codes[i], code_of(map, most > 0 ? values[i] / most : 0));
}

static void check_8bit(int64_t n, bool begins_at_zero)
{
    struct moments t = moments_init(n), want = moments_init(n);
    int64_t n_blocks = (n + ZN_STATE_BLOCK - 1) / ZN_STATE_BLOCK;
    uint8_t *m = new_bytes((size_t)n), *v = new_bytes((size_t)n);
    float *m_scales = new_normal(n_blocks, 5), *v_scales = new_normal(n_blocks, 6);
    for (int64_t i = 0; i < n_blocks; i++) {
        m_scales[i] = begins_at_zero ? 0 : fabsf(m_scales[i]);
        v_scales[i] = begins_at_zero ? 0 : fabsf(v_scales[i]) * 1e-3f;
    }
    for (int64_t i = 0; i < n; i++) {
        m[i] = begins_at_zero ? 0 : (uint8_t)(i * 7919 % 256);
        v[i] = begins_at_zero ? 0 : (uint8_t)(i * 104729 % 256);
        want.m[i] = zn_signed_map[m[i]] * m_scales[i / ZN_STATE_BLOCK];
        want.v[i] = zn_unsigned_map[v[i]] * v_scales[i / ZN_STATE_BLOCK];
        if (i >= 512 && i < 768) /* a block whose moments stay zero */
            t.grad[i] = want.grad[i] = want.m[i] = want.v[i] = 0;
    }
    if (n > 512)
        m_scales[2] = v_scales[2] = 0;
    struct zn_adam_8bit_args a = {.adam = args_of(&t), .exp_avg_scales = ADDRESS(m_scales), .exp_avg_sq_scales = ADDRESS(v_scales)};
    a.adam.exp_avg = ADDRESS(m);
    a.adam.exp_avg_sq = ADDRESS(v);
    size_t bytes = (size_t)n * sizeof(float), scales = (size_t)n_blocks * sizeof(float);
    struct output out[] = {{t.param, bytes}, {m, (size_t)n}, {v, (size_t)n}, {m_scales, scales}, {v_scales, scales}, {t.copy, bytes / 2}};
    run_everywhere(ZN_KERNEL_adam_8bit, &a, out, 6);
    run_plain(&want);
    assert_memory_equal(t.param, want.param, bytes);
    assert_memory_equal(t.copy, want.copy, bytes / 2);
    for (int64_t b = 0; b < n_blocks; b++) {
        int64_t at = b * ZN_STATE_BLOCK, length = n - at < ZN_STATE_BLOCK ? n - at : ZN_STATE_BLOCK;
        check_block(zn_signed_map, want.m + at, length, m + at, m_scales[b]);
        check_block(zn_unsigned_map, want.v + at, length, v + at, v_scales[b]);
    }
    free(m);
    free(v);
    free(m_scales);
    free(v_scales);
    moments_fini(&t);
    moments_fini(&want);
}

static void moments_in_8_bits_are_the_nearest_codes(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        check_8bit(sizes[s], false);
        check_8bit(sizes[s], true);
    }
}

/* A tensor of the fixture, whole; the caller frees. */
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

/* With beta1 and beta2 0 the moments are g and g·g: one step from nothing is a quantisation of both. */
static void check_codes(const zn_st_file *file, const char *values_name, const char *codes_name, const char *scales_name, bool is_signed)
{
    int64_t n, n_codes, n_scales;
    float *g = read_all(file, values_name, &n), *codes = read_all(file, codes_name, &n_codes);
    float *scales = read_all(file, scales_name, &n_scales);
    assert_int_equal(n, n_codes);
    assert_int_equal(n_scales, (n + ZN_STATE_BLOCK - 1) / ZN_STATE_BLOCK);
    uint8_t *m = new_bytes((size_t)n), *v = new_bytes((size_t)n);
    float *p = new_normal(n, 1), *m_scales = new_bytes((size_t)n_scales * 4), *v_scales = new_bytes((size_t)n_scales * 4);
    memset(m, 0, (size_t)n);
    memset(v, 0, (size_t)n);
    memset(m_scales, 0, (size_t)n_scales * 4);
    memset(v_scales, 0, (size_t)n_scales * 4);
    struct zn_adam_8bit_args a = {.adam = {.param = ADDRESS(p), .grad = ADDRESS(g), .exp_avg = ADDRESS(m), .exp_avg_sq = ADDRESS(v),
                                           .n_elements = n, .grad_scale = 1, .one_minus_beta1 = 1, .beta2 = 0, .one_minus_beta2 = 1,
                                           .eps = 1, .step_size = 0, .root_correction = 1, .keep = 1},
                                  .exp_avg_scales = ADDRESS(m_scales), .exp_avg_sq_scales = ADDRESS(v_scales)};
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_adam_8bit, &a), ZN_OK);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(is_signed ? m[i] : v[i], (int)codes[i]);
    for (int64_t i = 0; i < n_scales; i++)
        assert_true((is_signed ? m_scales : v_scales)[i] == scales[i]);
    free(g), free(codes), free(scales), free(m), free(v), free(p), free(m_scales), free(v_scales);
}

static void maps_and_codes_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    zn_st_file *file;
    int64_t n;
    assert_int_equal(zn_st_open(ZN_TEST_DATA "/quantize/bitsandbytes.safetensors", &file), ZN_OK);
    const char *const names[] = {"signed_map", "unsigned_map"};
    for (int i = 0; i < 2; i++) {
        float *map = read_all(file, names[i], &n);
        assert_int_equal(n, ZN_MAP_CODES);
        assert_memory_equal(map, i == 0 ? zn_signed_map : zn_unsigned_map, sizeof zn_signed_map);
        free(map);
    }
    check_codes(file, "values", "signed_codes", "signed_absmax", true);
    check_codes(file, "values", "unsigned_codes", "unsigned_absmax", false);
    zn_st_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_in_bf16_are_rounded_to_nearest),
        cmocka_unit_test(moments_in_8_bits_are_the_nearest_codes),
        cmocka_unit_test(maps_and_codes_are_those_of_bitsandbytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
