/* Where gradients are written and when they are summed over ranks: trace and placement in, program out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

static void one_rank_has_the_sum_where_it_is_written(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.reduce_every = false;
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "d( d) b2 b( b) c( c) b1 a( a) b0", &o, 1, ZN_SECTION_ONLY,
                   "open d in gradients\n"
                   "close d\n"
                   "end of backward of head\n"
                   "open b in gradients\n"
                   "close b\n"
                   "open c in gradients\n"
                   "close c\n"
                   "end of backward of block 0\n"
                   "open a in gradients\n"
                   "close a\n"
                   "end of backward of embedding\n");
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "d( d) b2 b( b) c( c) b1 a( a) b0", &o, 1, ZN_SECTION_FINISH,
                   "    0 squares embedding 4 KiB own gradients → sums of squares\n"
                   "    1 squares block 0 8 KiB own gradients → sums of squares\n"
                   "    2 squares head 8 KiB own gradients → sums of squares\n");
}

static void one_rank_rounds_its_gradients_to_16_bits(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.reduce_every = false;
    o.type = ZN_BF16;
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_ONLY,
                   "open d in gradients\n"
                   "close d\n"
                   "    0 reduce head 8 KiB c gradients → own gradients\n"
                   "    1 wait head #0\n"
                   "end of backward of head\n"
                   "open a in gradients\n"
                   "close a\n"
                   "    2 reduce embedding 8 KiB c gradients → own gradients\n"
                   "    3 wait embedding #2\n"
                   "end of backward of embedding\n");
}

/* Each has until the next unit is complete. */
static void whole_gradients_are_reduced_in_place_while_backward_goes_on(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.reduce_every = false;
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "d( d) b2 b( b) c( c) b1 a( a) b0", &o, 2, ZN_SECTION_ONLY,
                   "open d in gradients\n"
                   "close d\n"
                   "    0 reduce head 8 KiB c gradients → own gradients\n"
                   "end of backward of head\n"
                   "open b in gradients\n"
                   "close b\n"
                   "open c in gradients\n"
                   "close c\n"
                   "    1 reduce block 0 8 KiB c gradients → own gradients\n"
                   "    2 wait head #0\n"
                   "end of backward of block 0\n"
                   "open a in gradients\n"
                   "close a\n"
                   "    3 reduce embedding 8 KiB c gradients → own gradients\n"
                   "    4 wait block 0 #1\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    5 wait embedding #3\n");
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "d( d) b2 b( b) c( c) b1 a( a) b0", &o, 2, ZN_SECTION_FINISH,
                   "    0 squares embedding 4 KiB own gradients → sums of squares\n"
                   "    1 squares block 0 4 KiB own gradients → sums of squares\n"
                   "    2 squares head 4 KiB own gradients → sums of squares\n");
}

static void at_stage_0_every_rank_gathers_the_sums(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 0;
    o.reduce_every = false;
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 2, ZN_SECTION_FINISH,
                   "    0 gather sums embedding 8 KiB c own gradients → gradients\n"
                   "    1 gather sums head 8 KiB c own gradients → gradients\n"
                   "    2 wait embedding #0\n"
                   "    3 wait head #1\n"
                   "    4 squares embedding 4 KiB own gradients → sums of squares\n"
                   "    5 squares head 4 KiB own gradients → sums of squares\n");
}

static void partitions_are_reduced_from_slots_that_are_used_again(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 2;
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "d( d) b2 b( b) c( c) b1 a( a) b0", &o, 2, ZN_SECTION_ONLY,
                   "open d in gradient slots @ 0\n"
                   "close d\n"
                   "    0 reduce head 8 KiB c gradient slots @ 0 → gradients\n"
                   "end of backward of head\n"
                   "open b in gradient slots @ 8 KiB\n"
                   "close b\n"
                   "open c in gradient slots @ 12 KiB\n"
                   "close c\n"
                   "    1 reduce block 0 8 KiB c gradient slots @ 8 KiB → gradients\n"
                   "    2 wait head #0\n"
                   "end of backward of block 0\n"
                   "open a in gradient slots @ 0\n"
                   "close a\n"
                   "    3 zero embedding 4 KiB → gradient slots @ 4 KiB\n"
                   "    4 reduce embedding 8 KiB c gradient slots @ 0 → gradients\n"
                   "    5 wait block 0 #1\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    6 wait embedding #4\n");
}

static void later_micro_batches_add_to_what_is_there(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.reduce_every = false;
    o.accumulate = 2;
    expect_program("a 1024 | d 2048", "d( d) b1 a( a) b0", &o, 2, ZN_SECTION_FIRST,
                   "open d in gradients\n"
                   "close d\n"
                   "end of backward of head\n"
                   "open a in gradients\n"
                   "close a\n"
                   "end of backward of embedding\n");
    expect_program("a 1024 | d 2048", "d( d) b1 a( a) b0", &o, 2, ZN_SECTION_MIDDLE,
                   "open d in gradients to add @ 0\n"
                   "close d\n"
                   "    0 add head 8 KiB gradients to add @ 0 → gradients\n"
                   "end of backward of head\n"
                   "open a in gradients to add @ 0\n"
                   "close a\n"
                   "    1 add embedding 4 KiB gradients to add @ 0 → gradients\n"
                   "end of backward of embedding\n");
    expect_program("a 1024 | d 2048", "d( d) b1 a( a) b0", &o, 2, ZN_SECTION_LAST,
                   "open d in gradients to add @ 0\n"
                   "close d\n"
                   "    0 add head 8 KiB gradients to add @ 0 → gradients\n"
                   "    1 reduce head 8 KiB c gradients → own gradients\n"
                   "end of backward of head\n"
                   "open a in gradients to add @ 0\n"
                   "close a\n"
                   "    2 add embedding 4 KiB gradients to add @ 0 → gradients\n"
                   "    3 reduce embedding 8 KiB c gradients → own gradients\n"
                   "    4 wait head #1\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    5 wait embedding #3\n");
}

static void several_gradients_of_an_operator_are_added_side_by_side(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.reduce_every = false;
    o.accumulate = 2;
    expect_program("a 1024 b 1024", "a( b( a) b) b0", &o, 1, ZN_SECTION_LAST,
                   "open a in gradients to add @ 0\n"
                   "open b in gradients to add @ 4 KiB\n"
                   "close a\n"
                   "    0 add embedding 4 KiB gradients to add @ 0 → gradients\n"
                   "close b\n"
                   "    1 add embedding 4 KiB gradients to add @ 4 KiB → gradients\n"
                   "end of backward of embedding\n");
}

static void the_second_use_of_a_unit_adds_to_its_sum(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 2;
    expect_program("a 2048 | d 2048", "a( a) d( d) b1 a( a) b0", &o, 2, ZN_SECTION_ONLY,
                   "open a in gradient slots @ 0\n"
                   "close a\n"
                   "    0 reduce embedding 8 KiB c gradient slots @ 0 → gradients\n"
                   "open d in gradient slots @ 8 KiB\n"
                   "close d\n"
                   "    1 reduce head 8 KiB c gradient slots @ 8 KiB → gradients\n"
                   "    2 wait embedding #0\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 0\n"
                   "close a\n"
                   "    3 reduce embedding 8 KiB c + gradient slots @ 0 → gradients\n"
                   "    4 wait head #1\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    5 wait embedding #3\n");
}

static void the_second_use_in_place_has_a_slot(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.reduce_every = false;
    expect_program("a 2048 | d 2048", "a( a) d( d) b1 a( a) b0", &o, 2, ZN_SECTION_ONLY,
                   "open a in gradients\n"
                   "close a\n"
                   "    0 reduce embedding 8 KiB c gradients → own gradients\n"
                   "open d in gradients\n"
                   "close d\n"
                   "    1 reduce head 8 KiB c gradients → own gradients\n"
                   "    2 wait embedding #0\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 0\n"
                   "close a\n"
                   "    3 reduce embedding 8 KiB c + gradient slots @ 0 → own gradients\n"
                   "    4 wait head #1\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    5 wait embedding #3\n");
}

static void the_second_use_over_micro_batches_has_a_place_of_its_own(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.reduce_every = false;
    o.accumulate = 2;
    expect_program("a 2048 | d 2048", "a( a) d( d) b1 a( a) b0", &o, 2, ZN_SECTION_FIRST,
                   "open a in gradients\n"
                   "close a\n"
                   "open d in gradients\n"
                   "close d\n"
                   "end of backward of head\n"
                   "open a in gradients of second uses\n"
                   "close a\n"
                   "end of backward of embedding\n");
    expect_program("a 2048 | d 2048", "a( a) d( d) b1 a( a) b0", &o, 2, ZN_SECTION_LAST,
                   "open a in gradients to add @ 0\n"
                   "close a\n"
                   "    0 add embedding 8 KiB gradients to add @ 0 → gradients\n"
                   "    1 reduce embedding 8 KiB c gradients → own gradients\n"
                   "open d in gradients to add @ 0\n"
                   "close d\n"
                   "    2 add head 8 KiB gradients to add @ 0 → gradients\n"
                   "    3 reduce head 8 KiB c gradients → own gradients\n"
                   "    4 wait embedding #1\n"
                   "end of backward of head\n"
                   "open a in gradients to add @ 0\n"
                   "close a\n"
                   "    5 add embedding 8 KiB gradients to add @ 0 → gradients of second uses\n"
                   "    6 reduce embedding 8 KiB c + gradients of second uses → own gradients\n"
                   "    7 wait head #3\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    8 wait embedding #6\n");
}

/* A parameter of a unit, and a unit. */
static void what_nobody_writes_is_zero(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 2;
    expect_program("a 1024 b 1024 | c 1024", "a( a) b0", &o, 2, ZN_SECTION_ONLY,
                   "open a in gradient slots @ 0\n"
                   "close a\n"
                   "    0 zero embedding 4 KiB → gradient slots @ 4 KiB\n"
                   "    1 reduce embedding 8 KiB c gradient slots @ 0 → gradients\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    2 wait embedding #1\n");
    expect_program("a 1024 b 1024 | c 1024", "a( a) b0", &o, 2, ZN_SECTION_FINISH,
                   "    0 zero head 4 KiB → gradients\n"
                   "    1 squares embedding 4 KiB gradients → sums of squares\n"
                   "    2 squares head 4 KiB gradients → sums of squares\n");
}

static void a_unit_that_nobody_writes_is_reduced_like_the_others_in_place(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.reduce_every = false;
    expect_program("a 1024 b 1024 | c 1024", "a( a) b0", &o, 2, ZN_SECTION_FINISH,
                   "    0 zero head 4 KiB → gradients\n"
                   "    1 reduce head 8 KiB c gradients → own gradients\n"
                   "    2 wait head #1\n"
                   "    3 squares embedding 4 KiB own gradients → sums of squares\n"
                   "    4 squares head 4 KiB own gradients → sums of squares\n");
}

static void sums_that_are_zeroed_are_gathered_after_the_device(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 0;
    expect_program("a 1024 | c 1024", "a( a) b0", &o, 2, ZN_SECTION_FINISH,
                   "    0 zero head 4 KiB → own gradients\n"
                   "    1 gather sums embedding 8 KiB c own gradients → gradients\n"
                   "    2 gather sums head 8 KiB c own gradients → gradients\n"
                   "    3 wait embedding #1\n"
                   "    4 wait head #2\n"
                   "    5 squares embedding 4 KiB own gradients → sums of squares\n"
                   "    6 squares head 4 KiB own gradients → sums of squares\n");
}

static void a_part_that_is_written_twice_in_a_segment_is_added(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.reduce_every = false;
    expect_program("a 1024 | d 1024", "a( a) a( a) b0", &o, 1, ZN_SECTION_ONLY,
                   "open a in gradients\n"
                   "close a\n"
                   "open a in gradients to add @ 0\n"
                   "close a\n"
                   "    0 add embedding 4 KiB gradients to add @ 0 → gradients\n"
                   "end of backward of embedding\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_has_the_sum_where_it_is_written),
        cmocka_unit_test(one_rank_rounds_its_gradients_to_16_bits),
        cmocka_unit_test(whole_gradients_are_reduced_in_place_while_backward_goes_on),
        cmocka_unit_test(at_stage_0_every_rank_gathers_the_sums),
        cmocka_unit_test(partitions_are_reduced_from_slots_that_are_used_again),
        cmocka_unit_test(later_micro_batches_add_to_what_is_there),
        cmocka_unit_test(several_gradients_of_an_operator_are_added_side_by_side),
        cmocka_unit_test(the_second_use_of_a_unit_adds_to_its_sum),
        cmocka_unit_test(the_second_use_in_place_has_a_slot),
        cmocka_unit_test(the_second_use_over_micro_batches_has_a_place_of_its_own),
        cmocka_unit_test(what_nobody_writes_is_zero),
        cmocka_unit_test(a_unit_that_nobody_writes_is_reduced_like_the_others_in_place),
        cmocka_unit_test(sums_that_are_zeroed_are_gathered_after_the_device),
        cmocka_unit_test(a_part_that_is_written_twice_in_a_segment_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
