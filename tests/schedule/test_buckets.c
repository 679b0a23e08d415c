/* Buckets: what a segment writes into one unit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/buckets.h"
#include "schedule/written.h"

/* Buckets as a text: unit × gradients, with < where it is the unit's first and > where it is its last. */
static void expect_buckets(const char *model, const char *text, const char *expected)
{
    struct written_model m;
    zn_units units;
    zn_trace trace = {0};
    struct buckets b;
    zn_text t;
    write_model(&m, model);
    OK(zn_units_init(&units, &m.list, &(struct zn_units_options){.type = ZN_F32, .n_ranks = 2}));
    write_pass(&m, &units, &trace, &trace.train, text);
    OK(buckets_of_trace(&units, &trace.train, &b));
    zn_text_init(&t);
    for (int i = 0; i < b.n; i++)
        zn_text_add(&t, "%s%s%dx%d%s", i ? " " : "", b.buckets[i].is_first ? "<" : "", b.buckets[i].unit, b.buckets[i].n_closes,
                    b.buckets[i].is_last ? ">" : "");
    assert_string_equal(t.data, expected);
    for (int u = 0; u < units.n_units; u++) {
        int n = 0;
        for (int i = 0; i < b.n; i++)
            n += b.buckets[i].unit == u;
        assert_int_equal(b.n_of_unit[u], n);
    }
    zn_text_fini(&t);
    buckets_fini(&b);
    zn_trace_fini(&trace);
    zn_units_fini(&units);
}

static void a_segment_writes_one_bucket_of_its_unit(void **state)
{
    (void)state;
    expect_buckets("a 1024 | b 1024 c 1024", "b( b) c( c) b1 a( a) b0", "<1x2> <0x1>");
}

static void gradients_that_are_open_at_once_are_of_one_bucket(void **state)
{
    (void)state;
    expect_buckets("a 1024 | b 1024 c 1024", "b( c( b) c) b( b) b1", "<1x3>");
}

static void another_segment_writes_another_bucket_of_the_unit(void **state)
{
    (void)state;
    expect_buckets("a 1024 | b 1024", "a( a) b( b) b1 a( a) b0", "<0x1 <1x1> 0x1>");
}

static void micro_batches_of_a_segment_are_of_one_bucket(void **state)
{
    (void)state;
    expect_buckets("a 1024 | b 1024", "b( b) b b( b) b1 a( a) a( a) b0", "<1x2> <0x2>");
}

static void a_tile_is_a_bucket(void **state)
{
    (void)state;
    struct written_model m;
    zn_units units;
    zn_trace trace = {0};
    struct buckets b;
    write_model(&m, "a 2048x2");
    OK(zn_units_init(&units, &m.list, &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1, .tile_bytes = 8192}));
    write_pass(&m, &units, &trace, &trace.train, "a:0( a:0) a:1( a:1) b0");
    OK(buckets_of_trace(&units, &trace.train, &b));
    assert_int_equal(b.n, 2);
    assert_true(b.buckets[0].is_first && b.buckets[0].is_last && b.buckets[1].is_first && b.buckets[1].is_last);
    buckets_fini(&b);
    zn_trace_fini(&trace);
    zn_units_fini(&units);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_writes_one_bucket_of_its_unit),
        cmocka_unit_test(gradients_that_are_open_at_once_are_of_one_bucket),
        cmocka_unit_test(another_segment_writes_another_bucket_of_the_unit),
        cmocka_unit_test(micro_batches_of_a_segment_are_of_one_bucket),
        cmocka_unit_test(a_tile_is_a_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
