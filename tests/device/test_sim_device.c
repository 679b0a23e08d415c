/* The device without memory: virtual time by cost, addresses that name nothing. */
#include "base/size.h"
#include "device/kernel_test.h"

static const struct zn_sim_rates rates = {.flops = 1e12, .memory_bytes = 1e11, .launch = 1e-6};

struct machine {
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device;
};

static int setup(void **state)
{
    static struct machine m;
    zn_ledger_init(&m.ledger);
    zn_clock_init_virtual(&m.clock);
    assert_int_equal(zn_device_create_sim(&m.ledger, &m.clock, &rates, &m.device), ZN_OK);
    *state = &m;
    return 0;
}

static int teardown(void **state)
{
    struct machine *m = *state;
    zn_device_destroy(m->device);
    return 0;
}

static zn_addr allocate(struct machine *m, size_t n_bytes)
{
    zn_addr address = 0;
    assert_int_equal(
        zn_device_alloc(m->device, ZN_TIER_DEVICE, ZN_KIND_PARAMETERS, n_bytes, &address), ZN_OK);
    return address;
}

static void addresses_are_distinct_and_never_used_again(void **state)
{
    struct machine *m = *state;
    zn_addr end = UINT64_C(1) << 40;
    for (size_t i = 0; i < 100; i++) {
        size_t n = i * i * 1000;
        zn_addr address = allocate(m, n);
        assert_true(address >= end && address % 4096 == 0);
        end = address + n + (n == 0);
        zn_device_free(m->device, ZN_TIER_DEVICE, ZN_KIND_PARAMETERS, address, n);
    }
    assert_int_equal(zn_ledger_tier(&m->ledger, ZN_TIER_DEVICE), 0);
}

static void memory_has_no_end_but_is_charged(void **state)
{
    struct machine *m = *state;
    size_t n = (size_t)4 << 40; /* a trillion fp32 parameters */
    zn_addr a = allocate(m, n), b = allocate(m, n);
    assert_true(b - a >= n);
    assert_int_equal(zn_ledger_tier(&m->ledger, ZN_TIER_DEVICE), 2 * n);
    zn_addr none = 5;
    assert_int_equal(zn_device_alloc(m->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, SIZE_MAX, &none),
                     ZN_ERR_MEMORY);
    assert_int_equal(none, 5);
}

static void time_adds_up(void **state)
{
    struct machine *m = *state;
    zn_addr x = allocate(m, 1 << 30);
    struct zn_gemm_args gemm = {.a = x, .b = x, .c = x, .m = 1000, .n = 2000, .k = 3000};
    struct zn_add_args add = {x, x, x, 1000000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(zn_run_gemm(m->device, &gemm), ZN_OK);
        assert_int_equal(zn_run_add(m->device, &add), ZN_OK);
    }
    assert_true(zn_clock_now(&m->clock) == 0); /* queued, not waited for */
    assert_int_equal(m->device->ops->synchronize(m->device), ZN_OK);
    double want = 3 * (1e-6 + 2.0 * 1000 * 2000 * 3000 / 1e12) + 3 * (1e-6 + 12e6 / 1e11);
    assert_near(zn_clock_now(&m->clock), want, 1e-12, "time", 0);
}

static void a_read_waits_and_gives_zeros(void **state)
{
    struct machine *m = *state;
    zn_addr x = allocate(m, 1 << 20);
    float values[3] = {1, 2, 3};
    struct zn_zero_args zero = {x, 100000};
    assert_int_equal(zn_run_zero(m->device, &zero), ZN_OK);
    assert_int_equal(zn_device_write(m->device, x, values, sizeof values), ZN_OK);
    assert_int_equal(zn_device_read(m->device, values, x, sizeof values), ZN_OK);
    assert_true(values[0] == 0 && values[1] == 0 && values[2] == 0);
    assert_near(zn_clock_now(&m->clock), 1e-6 + 1e5 / 1e11, 1e-15, "time", 0);
}

/* Any access to the addresses would end the test. */
static void kernels_touch_no_memory(void **state)
{
    struct machine *m = *state;
    zn_addr x = allocate(m, 1 << 20);
    struct zn_sum_squares_args squares = {x, x, x, 100};
    struct zn_embedding_forward_args embedding = {
        .y = x, .table = x, .positions = x, .ids = x, .rows = 10, .width = 10, .period = 5, .n_ids = 5, .table_type = ZN_F32};
    assert_int_equal(zn_run_sum_squares(m->device, &squares), ZN_OK);
    assert_int_equal(zn_run_embedding_forward(m->device, &embedding), ZN_OK);
    assert_int_equal(m->device->ops->synchronize(m->device), ZN_OK);
}

static void a_real_clock_is_refused(void **state)
{
    struct machine *m = *state;
    zn_clock real;
    zn_device *none = NULL;
    zn_clock_init_real(&real);
    assert_int_equal(zn_device_create_sim(&m->ledger, &real, &rates, &none), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "virtual"));
    assert_null(none);
}

static void rates_must_be_positive(void **state)
{
    struct machine *m = *state;
    struct zn_sim_rates wrong[] = {{.memory_bytes = 1},
                                   {.flops = 1},
                                   {.flops = 1, .memory_bytes = 1, .launch = -1},
                                   {.flops = NAN, .memory_bytes = 1},
                                   {.flops = 1, .memory_bytes = 1, .link_bytes = -1}};
    zn_device *none = NULL;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(zn_device_create_sim(&m->ledger, &m->clock, &wrong[i], &none),
                         ZN_ERR_USAGE);
    assert_null(none);
}

/* A grid of blocks of 256 × 512 on two cores: two of 512 and 256 columns keep one of them waiting for a third of the time;
 * 2 × 4 of them do not, nor do a thousand. */
static void a_processor_is_slowed_by_uneven_parts(void **state)
{
    (void)state;
    struct zn_gemm_args g = {.m = 256, .n = 768, .k = 100};
    double flops = 2.0 * 256 * 768 * 100;
    assert_near(zn_kernel_work(ZN_KERNEL_gemm, &g, 2), flops, 1e-6, "even", 0);
    assert_near(zn_kernel_work(ZN_KERNEL_gemm, &g, 1), flops, 1e-6, "alone", 0);
    g.n = 800; /* 25 strips */
    assert_near(zn_kernel_work(ZN_KERNEL_gemm, &g, 2), 2.0 * 256 * 800 * 100 * 26 / 25, 1e-6, "uneven", 0);
    g.m = 100, g.n = 10; /* four strips of one operand, one of the other */
    assert_near(zn_kernel_work(ZN_KERNEL_gemm, &g, 8), 2 * 2.0 * 100 * 10 * 100, 1e-6, "few", 0);
    g.n = 64; /* two of the other */
    assert_near(zn_kernel_work(ZN_KERNEL_gemm, &g, 8), 2.0 * 100 * 64 * 100, 1e-6, "both", 0);
}

/* Squares of 16 × 16 up to the diagonal: 136 of them for 256 tokens. */
static void a_processor_computes_attention_in_groups_of_queries(void **state)
{
    (void)state;
    const struct zn_attention_forward_args a = {.batch = 1, .seq_len = 256, .heads = 1, .kv_heads = 1, .head_dim = 64};
    assert_near(zn_kernel_work(ZN_KERNEL_attention_forward, &a, 2), 4.0 * 64 * 136 * 16 * 16, 1e-6, "groups", 0);
}

/* Where a kernel was measured, its rate counts; products by the type of B, with B and, where A is transposed, C; all else by
 * flops and bytes. */
static void measured_kernels_take_their_time(void **state)
{
    struct machine *m = *state;
    zn_device *device;
    struct zn_sim_rates measured = {.flops = 1e12, .memory_bytes = 1e11, .n_cores = 1, .gemm = {1e9, 2e9, 4e9},
                                    .weights = {1e7, 2e7, 3e7}, .token_sums = {4e7, 8e7}};
    measured.kernel[ZN_KERNEL_add] = 1e6;
    zn_addr x = allocate(m, 1 << 20);
    struct zn_gemm_args gemm = {.a = x, .b = x, .c = x, .m = 5, .n = 10, .k = 20, .b_type = ZN_BF16}, sums = gemm;
    sums.transpose_a = sums.adds = true;
    assert_int_equal(zn_device_create_sim(&m->ledger, &m->clock, &measured, &device), ZN_OK);
    assert_int_equal(zn_run_gemm(device, &gemm), ZN_OK);
    assert_int_equal(zn_run_gemm(device, &sums), ZN_OK);
    assert_int_equal(zn_run_add(device, &(struct zn_add_args){x, x, x, 1000}), ZN_OK);
    assert_int_equal(zn_run_mul(device, &(struct zn_mul_args){x, x, x, 1000}), ZN_OK);
    assert_int_equal(device->ops->synchronize(device), ZN_OK);
    double products = 2 * (2000 / 2e9 + 200 / 2e7) + 50 / 8e7;
    assert_near(zn_clock_now(&m->clock), products + 12000 / 1e6 + 12000 / 1e11, 1e-12, "time", 0);
    zn_device_destroy(device);
}

/* Each takes some time, even on nothing. */
static void every_kernel_costs(void **state)
{
    struct machine *m = *state;
    void *zeros = new_bytes(512); /* the arguments of any kernel on nothing */
    for (int k = 0; k < ZN_N_KERNELS; k++) {
        double before = zn_clock_now(&m->clock);
        assert_int_equal(m->device->ops->run(m->device, (zn_kernel)k, zeros), ZN_OK);
        assert_int_equal(m->device->ops->synchronize(m->device), ZN_OK);
        assert_true(zn_clock_now(&m->clock) >= before + 0.99e-6);
    }
    free(zeros);
}

static double attention_flops(int64_t seq_len, int64_t window)
{
    struct zn_attention_forward_args a = {
        .batch = 2, .seq_len = seq_len, .heads = 6, .kv_heads = 3, .head_dim = 64, .window = window};
    return zn_kernel_cost(ZN_KERNEL_attention_forward, &a).flops;
}

static void attention_counts_the_pairs_it_sees(void **state)
{
    (void)state;
    static const int64_t windows[] = {0, 1, 7, 99, 100, 101};
    for (size_t w = 0; w < COUNT(windows); w++) {
        double pairs = 0;
        for (int64_t i = 0; i < 100; i++)
            for (int64_t j = 0; j <= i; j++)
                pairs += windows[w] == 0 || i - j < windows[w];
        assert_true(attention_flops(100, windows[w]) == 4.0 * 2 * 6 * 64 * pairs);
    }
    struct zn_attention_backward_args b = {
        .batch = 2, .seq_len = 100, .heads = 6, .kv_heads = 3, .head_dim = 64};
    assert_true(zn_kernel_cost(ZN_KERNEL_attention_backward, &b).flops ==
                2.5 * attention_flops(100, 0));
}

static void bytes_are_what_must_move(void **state)
{
    (void)state;
    struct zn_gemm_args gemm = {.m = 3, .n = 5, .k = 7};
    struct zn_kernel_cost cost = zn_kernel_cost(ZN_KERNEL_gemm, &gemm);
    assert_true(cost.flops == 210 && cost.n_bytes == 4 * (21 + 35 + 15));
    gemm.adds = true;
    gemm.bias = 1;
    assert_true(zn_kernel_cost(ZN_KERNEL_gemm, &gemm).n_bytes == 4 * (21 + 35 + 30 + 5));
    gemm.b_type = ZN_BF16;
    assert_true(zn_kernel_cost(ZN_KERNEL_gemm, &gemm).n_bytes == 4 * (21 + 30 + 5) + 2 * 35);
    gemm.bias_type = ZN_BF16;
    assert_true(zn_kernel_cost(ZN_KERNEL_gemm, &gemm).n_bytes == 4 * (21 + 30) + 2 * (35 + 5));
    struct zn_embedding_forward_args embedding = {
        .rows = 3, .width = 5, .positions = 1, .table_type = ZN_F16};
    assert_true(zn_kernel_cost(ZN_KERNEL_embedding_forward, &embedding).n_bytes ==
                4 * 15 + 2 * 30 + 4 * 3);
    struct zn_layernorm_forward_args norm = {
        .rows = 3, .cols = 5, .bias = 1, .weight_type = ZN_F16, .bias_type = ZN_F16};
    assert_true(zn_kernel_cost(ZN_KERNEL_layernorm_forward, &norm).n_bytes ==
                4 * (30 + 6) + 2 * 10);
    struct zn_adam_args adam = {.n_elements = 10, .copy = 1, .copy_type = ZN_BF16};
    assert_true(zn_kernel_cost(ZN_KERNEL_adam, &adam).n_bytes == 300);
    struct zn_cast_args cast = {.n_elements = 10, .src_type = ZN_F32, .dst_type = ZN_F16};
    assert_true(zn_kernel_cost(ZN_KERNEL_cast, &cast).n_bytes == 60);
    struct zn_copy_args copy = {.n_bytes = 10};
    assert_true(zn_kernel_cost(ZN_KERNEL_copy, &copy).n_bytes == 20);
}

/* Three lanes to the device share the link that way; the way out is another, of two. */
static void lanes_share_the_link_each_way(void **state)
{
    struct machine *m = *state;
    struct zn_sim_rates linked = rates;
    zn_device *device;
    zn_event done[ZN_N_LANES];
    linked.link_bytes = 1e9;
    assert_int_equal(zn_device_create_sim(&m->ledger, &m->clock, &linked, &device), ZN_OK);
    assert_true(zn_device_is_discrete(device) && !zn_device_is_discrete(m->device));
    for (int lane = 0; lane < ZN_N_LANES; lane++) {
        zn_event_init(&done[lane]);
        assert_int_equal(zn_device_copy(device, (zn_lane)lane, &(struct zn_transfer){.n_bytes = 1000000000, .done = &done[lane]}),
                         ZN_OK);
    }
    assert_int_equal(zn_event_wait(&done[ZN_LANE_OUT], &m->clock), ZN_OK);
    assert_true(zn_clock_now(&m->clock) == 1);
    assert_int_equal(zn_event_wait(&done[ZN_LANE_IN], &m->clock), ZN_OK);
    assert_true(zn_clock_now(&m->clock) == 1);
    assert_int_equal(zn_event_wait(&done[ZN_LANE_BACK], &m->clock), ZN_OK);
    assert_true(zn_clock_now(&m->clock) == 2);
    for (int lane = 0; lane < ZN_N_LANES; lane++)
        assert_int_equal(zn_event_wait(&done[lane], &m->clock), ZN_OK);
    assert_true(zn_clock_now(&m->clock) == 3);
    assert_int_equal(device->bytes_out, 2000000000);
    assert_int_equal(device->bytes_in, 3000000000);
    for (int lane = 0; lane < ZN_N_LANES; lane++)
        zn_event_fini(&done[lane]);
    zn_device_destroy(device);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(addresses_are_distinct_and_never_used_again),
        CASE(memory_has_no_end_but_is_charged),
        CASE(time_adds_up),
        CASE(a_read_waits_and_gives_zeros),
        CASE(kernels_touch_no_memory),
        CASE(a_real_clock_is_refused),
        CASE(rates_must_be_positive),
        CASE(a_processor_is_slowed_by_uneven_parts),
        CASE(a_processor_computes_attention_in_groups_of_queries),
        CASE(measured_kernels_take_their_time),
        CASE(every_kernel_costs),
        CASE(attention_counts_the_pairs_it_sees),
        CASE(bytes_are_what_must_move),
        CASE(lanes_share_the_link_each_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
