/* Updates beside the computing: what waits for them and what asks for them. Trace and placement in, program out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

static void ranks_await_what_the_others_have_updated(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.reduce_every = false;
    expect_program("a 1024 | b 1024 | d 1024", "a f0 b f1 d f2", &o, 2, ZN_SECTION_ONLY,
                   "acquire a in parameters\n"
                   "    0 publish to block 0\n"
                   "    1 await published embedding\n"
                   "end of forward of embedding\n"
                   "acquire b in parameters\n"
                   "    2 publish to head\n"
                   "    3 await published block 0\n"
                   "end of forward of block 0\n"
                   "acquire d in parameters\n"
                   "    4 publish to head\n"
                   "    5 await published head\n"
                   "end of forward of head\n");
}

/* All are waited for before a gradient is written. */
static void an_update_that_waits_for_drives_goes_on_beside_forward(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.optimizer = ZN_TIER_NVME;
    o.reduce_every = false;
    expect_program("a 1024 | b 1024 | d 1024", "a f0 b f1 d f2 d( d) b2", &o, 1, ZN_SECTION_ONLY,
                   "acquire a in parameters\n"
                   "    0 issue updates all\n"
                   "    1 wait updated embedding\n"
                   "end of forward of embedding\n"
                   "acquire b in parameters\n"
                   "    2 issue updates all\n"
                   "    3 wait updated block 0\n"
                   "end of forward of block 0\n"
                   "acquire d in parameters\n"
                   "    4 issue updates all\n"
                   "    5 wait updated head\n"
                   "end of forward of head\n"
                   "open d in gradients\n"
                   "    6 wait updates all\n"
                   "close d\n"
                   "end of backward of head\n");
}

static void several_ranks_send_each_other_units_as_they_are_updated(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.offload.optimizer = ZN_TIER_NVME;
    o.reduce_every = false;
    expect_program("a 1024 | b 1024 | d 1024", "a f0 b f1 d f2", &o, 2, ZN_SECTION_ONLY,
                   "acquire a in parameters\n"
                   "    0 issue updates all\n"
                   "    1 publish to block 0\n"
                   "    2 wait updated embedding\n"
                   "    3 await published embedding\n"
                   "end of forward of embedding\n"
                   "acquire b in parameters\n"
                   "    4 issue updates all\n"
                   "    5 publish to head\n"
                   "    6 wait updated block 0\n"
                   "    7 await published block 0\n"
                   "end of forward of block 0\n"
                   "acquire d in parameters\n"
                   "    8 issue updates all\n"
                   "    9 publish to head\n"
                   "    10 wait updated head\n"
                   "    11 await published head\n"
                   "end of forward of head\n");
}

static void updates_are_issued_some_units_ahead_of_the_device(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.optimizer = ZN_TIER_NVME;
    o.reduce_every = false;
    expect_program("a 1024 | b 1024 | c 1024 | e 1024 | g 1024 | h 1024 | i 1024 | d 1024",
                   "a f0 b f1 d( d) b7", &o, 1, ZN_SECTION_ONLY,
                   "acquire a in parameters\n"
                   "    0 issue updates the first 6\n"
                   "    1 wait updated embedding\n"
                   "end of forward of embedding\n"
                   "acquire b in parameters\n"
                   "    2 issue updates the first 7\n"
                   "    3 wait updated block 0\n"
                   "end of forward of block 0\n"
                   "open d in gradients\n"
                   "    4 wait updates all\n"
                   "close d\n"
                   "end of backward of head\n");
}

static void a_delayed_update_follows_the_device(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.delay_after = 2;
    o.reduce_every = false;
    expect_program("a 1024 | b 1024 | d 1024", "a f0 b f1 d f2 d d( d) b2", &o, 1, ZN_SECTION_ONLY,
                   "acquire a in parameters\n"
                   "    0 issue updates all\n"
                   "    1 advance update embedding\n"
                   "    2 wait updated embedding\n"
                   "end of forward of embedding\n"
                   "acquire b in parameters\n"
                   "    3 issue updates all\n"
                   "    4 advance update block 0\n"
                   "    5 wait updated block 0\n"
                   "end of forward of block 0\n"
                   "acquire d in parameters\n"
                   "    6 issue updates all\n"
                   "    7 advance update head\n"
                   "    8 wait updated head\n"
                   "end of forward of head\n"
                   "acquire d in parameters\n"
                   "open d in gradients\n"
                   "    9 wait updates all\n"
                   "close d\n"
                   "end of backward of head\n");
}

/* One rank on a discrete device: a unit's new parameters return after the segment that used the old ones last. */
static void a_delayed_update_returns_while_backward_goes_on(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.delay_after = 2;
    o.is_discrete = true;
    o.offload = (struct zn_offload){.gradients = ZN_TIER_HOST, .optimizer = ZN_TIER_HOST};
    expect_program("a 1024 | b 1024 | d 1024", "a f0 b f1 d f2 d d( d) b2 b b( b) b1", &o, 1, ZN_SECTION_ONLY,
                   "acquire a in parameters\n"
                   "    0 issue updates all\n"
                   "    1 advance update embedding\n"
                   "    2 wait updated embedding\n"
                   "end of forward of embedding\n"
                   "acquire b in parameters\n"
                   "    3 issue updates all\n"
                   "    4 advance update block 0\n"
                   "    5 wait updated block 0\n"
                   "end of forward of block 0\n"
                   "acquire d in parameters\n"
                   "    6 issue updates all\n"
                   "    7 advance update head\n"
                   "    8 wait updated head\n"
                   "end of forward of head\n"
                   "acquire d in parameters\n"
                   "open d in gradient slots @ 0\n"
                   "    9 wait updates all\n"
                   "close d\n"
                   "    10 reduce head 4 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "    11 wait head #10\n"
                   "    12 offload head 4 KiB c own gradient slots @ 0 → gradients, complete\n"
                   "end of backward of head\n"
                   "    13 return updated head\n"
                   "acquire b in parameters\n"
                   "    14 advance update block 0\n"
                   "open b in gradient slots @ 4 KiB\n"
                   "close b\n"
                   "    15 reduce block 0 4 KiB c gradient slots @ 4 KiB → own gradient slots @ 4 KiB\n"
                   "    16 wait block 0 #15\n"
                   "    17 offload block 0 4 KiB c own gradient slots @ 4 KiB → gradients, complete\n"
                   "    18 wait head #12\n"
                   "end of backward of block 0\n"
                   "    19 return updated block 0\n"
                   "    20 return updated embedding\n"
                   "end of the pass\n"
                   "    21 wait block 0 #17\n");
}

static void in_backward_a_unit_is_updated_when_its_segment_has_ended(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.in_backward = true;
    o.reduce_every = false;
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_ONLY,
                   "open d in gradients\n"
                   "    0 wait updates all\n"
                   "close d\n"
                   "end of backward of head\n"
                   "    1 squares head 4 KiB own gradients → sums of squares\n"
                   "    2 update head 4 KiB c own gradients\n"
                   "open a in gradients\n"
                   "close a\n"
                   "end of backward of embedding\n"
                   "    3 squares embedding 4 KiB own gradients → sums of squares\n"
                   "    4 update embedding 4 KiB c own gradients\n"
                   "    5 wait head #2\n"
                   "end of the pass\n"
                   "    6 wait embedding #4\n");
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_FINISH,
                   "    0 end updates all\n");
}

static void in_backward_several_ranks_send_each_other_updated_units(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.in_backward = true;
    o.stage = 2;
    expect_program("a 1024 | d 1024", "a f0 d f1 d( d) b1 a( a) b0", &o, 2, ZN_SECTION_ONLY,
                   "acquire a in parameters\n"
                   "    0 issue updates all\n"
                   "    1 publish to head\n"
                   "    2 wait updated embedding\n"
                   "    3 await published embedding\n"
                   "end of forward of embedding\n"
                   "acquire d in parameters\n"
                   "    4 issue updates all\n"
                   "    5 publish to head\n"
                   "    6 wait updated head\n"
                   "    7 await published head\n"
                   "end of forward of head\n"
                   "open d in gradient slots @ 0\n"
                   "    8 wait updates all\n"
                   "close d\n"
                   "    9 zero head 4 KiB → gradient slots @ 4 KiB\n"
                   "    10 reduce head 8 KiB c gradient slots @ 0 → gradients\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 8 KiB\n"
                   "close a\n"
                   "    11 zero embedding 4 KiB → gradient slots @ 12 KiB\n"
                   "    12 reduce embedding 8 KiB c gradient slots @ 8 KiB → gradients\n"
                   "end of backward of embedding\n"
                   "    13 wait head #10\n"
                   "    14 squares head 4 KiB gradients → sums of squares\n"
                   "    15 update head 4 KiB c gradients\n"
                   "end of the pass\n"
                   "    16 wait embedding #12\n"
                   "    17 squares embedding 4 KiB gradients → sums of squares\n"
                   "    18 update embedding 4 KiB c gradients\n"
                   "    19 wait embedding #18\n"
                   "    20 publish embedding\n"
                   "    21 wait head #15\n"
                   "    22 publish head\n");
    expect_program("a 1024 | d 1024", "a f0 d f1 d( d) b1 a( a) b0", &o, 2, ZN_SECTION_FINISH,
                   "    0 end updates all\n");
}

static void in_backward_a_unit_that_nobody_writes_is_updated_in_the_finish(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.in_backward = true;
    o.stage = 2;
    expect_program("a 1024 | d 1024", "a f0 d f1 a( a) b0", &o, 2, ZN_SECTION_FINISH,
                   "    0 zero head 4 KiB → gradients\n"
                   "    1 squares head 4 KiB gradients → sums of squares\n"
                   "    2 update head 4 KiB c gradients\n"
                   "    3 wait head #2\n"
                   "    4 publish head\n"
                   "    5 end updates all\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_await_what_the_others_have_updated),
        cmocka_unit_test(an_update_that_waits_for_drives_goes_on_beside_forward),
        cmocka_unit_test(several_ranks_send_each_other_units_as_they_are_updated),
        cmocka_unit_test(updates_are_issued_some_units_ahead_of_the_device),
        cmocka_unit_test(a_delayed_update_follows_the_device),
        cmocka_unit_test(a_delayed_update_returns_while_backward_goes_on),
        cmocka_unit_test(in_backward_a_unit_is_updated_when_its_segment_has_ended),
        cmocka_unit_test(in_backward_several_ranks_send_each_other_updated_units),
        cmocka_unit_test(in_backward_a_unit_that_nobody_writes_is_updated_in_the_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
