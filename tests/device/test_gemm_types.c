/* Products with 16-bit parameters: the bits of the fp32 product of the same values. */
#include "device/halves.h"
#include "device/kernel_test.h"

enum { GAP = 3 }; /* columns between the rows of every matrix that no product may touch */

struct product {
    int64_t m, n, k;
    bool transpose_a, transpose_b, adds;
    float *a, *b, *bias, *before;
    uint16_t *b_16, *bias_16;
};

/* b and bias are what the type can hold, in fp32 and in the type. */
static struct product product_init(const int64_t size[3], int form, zn_dtype type)
{
    struct product p = {.m = size[0],
                        .n = size[1],
                        .k = size[2],
                        .transpose_a = form & 1,
                        .transpose_b = form & 2,
                        .adds = form & 4};
    int64_t n_a = (p.m + GAP) * (p.k + GAP), n_b = (p.k + GAP) * (p.n + GAP);
    p.a = new_normal(n_a, 1);
    p.b = new_normal(n_b, 2);
    p.bias = new_normal(p.n, 3);
    p.before = new_normal(p.m * (p.n + GAP), 4);
    p.b[0] = 1e-7f; /* subnormal in fp16 */
    p.b_16 = round_to(p.b, n_b, type);
    p.bias_16 = round_to(p.bias, p.n, type);
    return p;
}

static void product_fini(struct product *p)
{
    free(p->a);
    free(p->b);
    free(p->bias);
    free(p->before);
    free(p->b_16);
    free(p->bias_16);
}

static size_t c_bytes(const struct product *p)
{
    return (size_t)(p->m * (p->n + GAP)) * sizeof(float);
}

static struct zn_gemm_args fp32_args(const struct product *p, const float *c, bool has_bias)
{
    return (struct zn_gemm_args){
        .a = ADDRESS(p->a),
        .b = ADDRESS(p->b),
        .c = ADDRESS(c),
        .bias = has_bias ? ADDRESS(p->bias) : 0,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a_stride = (p->transpose_a ? p->m : p->k) + GAP,
        .b_stride = (p->transpose_b ? p->k : p->n) + GAP,
        .c_stride = p->n + GAP,
        .transpose_a = p->transpose_a,
        .transpose_b = p->transpose_b,
        .adds = p->adds,
    };
}

static void check(const int64_t size[3], int form, zn_dtype type)
{
    struct product p = product_init(size, form, type);
    float *want = new_bytes(c_bytes(&p)), *c = new_bytes(c_bytes(&p));
    memcpy(want, p.before, c_bytes(&p));
    memcpy(c, p.before, c_bytes(&p));
    bool has_bias = form & 8;
    struct zn_gemm_args args = fp32_args(&p, want, has_bias);
    assert_int_equal(run_on("plain", 1, ZN_KERNEL_gemm, &args), ZN_OK);
    args.b = ADDRESS(p.b_16);
    args.b_type = type;
    args.bias = has_bias ? ADDRESS(p.bias_16) : 0;
    args.bias_type = type;
    args.c = ADDRESS(c);
    run_everywhere(ZN_KERNEL_gemm, &args, &(struct output){c, c_bytes(&p)}, 1);
    assert_memory_equal(c, want, c_bytes(&p));
    free(want);
    free(c);
    product_fini(&p);
}

static void has_the_bits_of_fp32(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 300, 530},  {5, 7, 0}, {7, 3, 2},
                                       {65, 33, 48}, {97, 113, 40},  {1, 9, 0}, {30, 20, 530}};
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int form = 0; form < 16; form++) {
            check(sizes[s], form, ZN_BF16);
            check(sizes[s], form, ZN_F16);
        }
}

static void has_the_bits_of_fp32_over_several_chunks(void **state)
{
    (void)state;
    const int64_t size[3] = {67, 133, 2 * ZN_GEMM_K + 50};
    check(size, 0, ZN_BF16);
    check(size, 2, ZN_F16);
    check(size, 8 + 4 + 2, ZN_BF16);
    check(size, 8 + 4, ZN_F16);
}

static void takes_each_operand_in_its_own_type(void **state)
{
    (void)state;
    struct product p = product_init((const int64_t[]){40, 600, 50}, 2, ZN_BF16);
    float *want = new_bytes(c_bytes(&p)), *c = new_bytes(c_bytes(&p));
    struct zn_gemm_args args = fp32_args(&p, want, true);
    assert_int_equal(run_on("plain", 1, ZN_KERNEL_gemm, &args), ZN_OK);
    args.c = ADDRESS(c);
    args.bias = ADDRESS(p.bias_16);
    args.bias_type = ZN_BF16;
    run_everywhere(ZN_KERNEL_gemm, &args, &(struct output){c, c_bytes(&p)}, 1);
    assert_memory_equal(c, want, c_bytes(&p));
    args.b = ADDRESS(p.b_16);
    args.b_type = ZN_BF16;
    args.bias = ADDRESS(p.bias);
    args.bias_type = ZN_F32;
    run_everywhere(ZN_KERNEL_gemm, &args, &(struct output){c, c_bytes(&p)}, 1);
    assert_memory_equal(c, want, c_bytes(&p));
    free(want);
    free(c);
    product_fini(&p);
}

static void refuses_other_types(void **state)
{
    (void)state;
    struct zn_gemm_args b = {.b_type = ZN_I32}, bias = {.bias_type = ZN_F64};
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_gemm, &b), ZN_ERR_UNSUPPORTED);
    assert_int_equal(run_on(NULL, 1, ZN_KERNEL_gemm, &bias), ZN_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bits_of_fp32),
        cmocka_unit_test(has_the_bits_of_fp32_over_several_chunks),
        cmocka_unit_test(takes_each_operand_in_its_own_type),
        cmocka_unit_test(refuses_other_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
