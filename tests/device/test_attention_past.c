/* Attention whose queries stand after keys of earlier calls: the rows it gives are those of one
 * call over the whole sequence, to the last bit. */
#include "device/kernel_test.h"

enum { HEADS = 4, KV_HEADS = 2, DIM = 12, TIME = 301 };

struct sequence {
    float *q, *k, *v, *out, *lse;
};

static struct sequence sequence_init(void)
{
    return (struct sequence){
        .q = new_normal(TIME * HEADS * DIM, 1),
        .k = new_normal(TIME * KV_HEADS * DIM, 2),
        .v = new_normal(TIME * KV_HEADS * DIM, 3),
        .out = new_floats(TIME * HEADS * DIM),
        .lse = new_floats(TIME * HEADS),
    };
}

static void sequence_fini(struct sequence *s)
{
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->out);
    free(s->lse);
}

/* Queries past … past+time of the sequence, into out and lse from their beginning. */
static void attend(const struct sequence *s, int64_t past, int64_t seq_len, int64_t window)
{
    struct zn_attention_forward_args a = {
        .out = ADDRESS(s->out),
        .lse = ADDRESS(s->lse),
        .q = ADDRESS(s->q + past * HEADS * DIM),
        .k = ADDRESS(s->k),
        .v = ADDRESS(s->v),
        .batch = 1,
        .seq_len = seq_len,
        .past = past,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .head_dim = DIM,
        .q_stride = HEADS * DIM,
        .k_stride = KV_HEADS * DIM,
        .v_stride = KV_HEADS * DIM,
        .out_stride = HEADS * DIM,
        .window = window,
        .scale = 0.3f,
    };
    assert_int_equal(run_on("", 2, ZN_KERNEL_attention_forward, &a), ZN_OK);
}

static void check(int64_t past, int64_t seq_len, int64_t window)
{
    struct sequence s = sequence_init();
    float *whole = new_floats(TIME * HEADS * DIM), *lse = new_floats(TIME * HEADS);
    attend(&s, 0, TIME, window);
    memcpy(whole, s.out, TIME * HEADS * DIM * sizeof(float));
    memcpy(lse, s.lse, TIME * HEADS * sizeof(float));
    attend(&s, past, seq_len, window);
    assert_memory_equal(s.out, whole + past * HEADS * DIM, (size_t)(seq_len * HEADS * DIM) * sizeof(float));
    for (int64_t h = 0; h < HEADS; h++)
        assert_memory_equal(s.lse + h * seq_len, lse + h * TIME + past, (size_t)seq_len * sizeof(float));
    free(whole);
    free(lse);
    sequence_fini(&s);
}

static void one_query_sees_all_before(void **state)
{
    (void)state;
    static const int64_t pasts[] = {1, 2, 63, 64, 65, 255, 256, 300};
    for (size_t i = 0; i < COUNT(pasts); i++)
        check(pasts[i], 1, 0);
}

static void several_queries_see_each_other_causally(void **state)
{
    (void)state;
    check(1, 300, 0);
    check(64, 64, 0);
    check(100, 130, 0);
    check(290, 11, 0);
}

static void the_window_counts_from_the_place_in_the_sequence(void **state)
{
    (void)state;
    static const int64_t windows[] = {1, 2, 7, 64, 100, 300, 400};
    for (size_t i = 0; i < COUNT(windows); i++) {
        check(3, 1, windows[i]);
        check(200, 1, windows[i]);
        check(150, 151, windows[i]);
    }
}

static void the_cost_of_parts_is_that_of_the_whole(void **state)
{
    (void)state;
    static const int64_t windows[] = {0, 5, 40, 400};
    for (size_t i = 0; i < COUNT(windows); i++) {
        struct zn_attention_forward_args a = {.batch = 1,
                                              .seq_len = TIME,
                                              .heads = HEADS,
                                              .kv_heads = KV_HEADS,
                                              .head_dim = DIM,
                                              .window = windows[i]};
        double whole = zn_kernel_cost(ZN_KERNEL_attention_forward, &a).flops, parts = 0;
        for (a.past = 0; a.past < TIME; a.past += a.seq_len) {
            a.seq_len = a.past < 100 ? 10 : 201;
            parts += zn_kernel_cost(ZN_KERNEL_attention_forward, &a).flops;
        }
        assert_true(a.past == TIME && parts == whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_query_sees_all_before),
        cmocka_unit_test(several_queries_see_each_other_causally),
        cmocka_unit_test(the_window_counts_from_the_place_in_the_sequence),
        cmocka_unit_test(the_cost_of_parts_is_that_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
