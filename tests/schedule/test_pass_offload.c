/* The way of sums to where they stay: trace and placement in, program out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

/* A slot is used again when its write has ended. */
static void sums_are_written_to_nvme_while_backward_goes_on(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.gradients = ZN_TIER_NVME;
    expect_program("a 1024 | b 1024 | d 1024", "d( d) b2 b( b) b1 a( a) b0", &o, 1, ZN_SECTION_ONLY,
                   "open d in gradient slots @ 0\n"
                   "    0 wait updates all\n"
                   "close d\n"
                   "    1 reduce head 4 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "    2 wait head #1\n"
                   "    3 squares head 4 KiB own gradient slots @ 0 → sums of squares\n"
                   "    4 write head 4 KiB c own gradient slots @ 0 → gradients (nvme)\n"
                   "end of backward of head\n"
                   "open b in gradient slots @ 4 KiB\n"
                   "close b\n"
                   "    5 reduce block 0 4 KiB c gradient slots @ 4 KiB → own gradient slots @ 4 KiB\n"
                   "    6 wait block 0 #5\n"
                   "    7 squares block 0 4 KiB own gradient slots @ 4 KiB → sums of squares\n"
                   "    8 write block 0 4 KiB c own gradient slots @ 4 KiB → gradients (nvme)\n"
                   "    9 wait head #4\n"
                   "end of backward of block 0\n"
                   "open a in gradient slots @ 0\n"
                   "close a\n"
                   "    10 reduce embedding 4 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "    11 wait embedding #10\n"
                   "    12 squares embedding 4 KiB own gradient slots @ 0 → sums of squares\n"
                   "    13 write embedding 4 KiB c own gradient slots @ 0 → gradients (nvme)\n"
                   "    14 wait block 0 #8\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    15 wait embedding #13\n");
}

static void over_micro_batches_the_sum_so_far_is_read_and_added_to(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.gradients = ZN_TIER_NVME;
    o.accumulate = 2;
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_FIRST,
                   "open d in gradient slots @ 0\n"
                   "    0 wait updates all\n"
                   "close d\n"
                   "    1 reduce head 4 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "    2 wait head #1\n"
                   "    3 write head 4 KiB c own gradient slots @ 0 → gradients (nvme)\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 8 KiB\n"
                   "close a\n"
                   "    4 reduce embedding 4 KiB c gradient slots @ 8 KiB → own gradient slots @ 8 KiB\n"
                   "    5 wait embedding #4\n"
                   "    6 write embedding 4 KiB c own gradient slots @ 8 KiB → gradients (nvme)\n"
                   "    7 wait head #3\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    8 wait embedding #6\n");
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_LAST,
                   "open d in gradient slots @ 0\n"
                   "    0 wait updates all\n"
                   "    1 read head 4 KiB c gradients (nvme) → gradient slots @ 4 KiB\n"
                   "close d\n"
                   "    2 await head #1\n"
                   "    3 reduce head 4 KiB c + gradient slots @ 0 → gradient slots @ 4 KiB\n"
                   "    4 wait head #3\n"
                   "    5 squares head 4 KiB gradient slots @ 4 KiB → sums of squares\n"
                   "    6 write head 4 KiB c gradient slots @ 4 KiB → gradients (nvme)\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 8 KiB\n"
                   "    7 read embedding 4 KiB c gradients (nvme) → gradient slots @ 12 KiB\n"
                   "close a\n"
                   "    8 await embedding #7\n"
                   "    9 reduce embedding 4 KiB c + gradient slots @ 8 KiB → gradient slots @ 12 KiB\n"
                   "    10 wait embedding #9\n"
                   "    11 squares embedding 4 KiB gradient slots @ 12 KiB → sums of squares\n"
                   "    12 write embedding 4 KiB c gradient slots @ 12 KiB → gradients (nvme)\n"
                   "    13 wait head #6\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    14 wait embedding #12\n");
}

static void sums_leave_a_discrete_device_for_the_host(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.gradients = ZN_TIER_HOST;
    o.offload.optimizer = ZN_TIER_HOST;
    o.is_discrete = true;
    o.type = ZN_BF16;
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_ONLY,
                   "open d in gradient slots @ 0\n"
                   "    0 wait updates all\n"
                   "close d\n"
                   "    1 zero head 4 KiB → gradient slots @ 4 KiB\n"
                   "    2 reduce head 8 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "    3 wait head #2\n"
                   "    4 offload head 8 KiB c own gradient slots @ 0 → gradients, complete\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 8 KiB\n"
                   "close a\n"
                   "    5 zero embedding 4 KiB → gradient slots @ 12 KiB\n"
                   "    6 reduce embedding 8 KiB c gradient slots @ 8 KiB → own gradient slots @ 8 KiB\n"
                   "    7 wait embedding #6\n"
                   "    8 offload embedding 8 KiB c own gradient slots @ 8 KiB → gradients, complete\n"
                   "    9 wait head #4\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    10 wait embedding #8\n");
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_FINISH,
                   "    0 await offload embedding\n"
                   "    1 await offload head\n");
}

static void the_host_adds_what_later_micro_batches_bring(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 2;
    o.offload.gradients = ZN_TIER_HOST;
    o.offload.optimizer = ZN_TIER_HOST;
    o.is_discrete = true;
    o.accumulate = 2;
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 2, ZN_SECTION_FIRST,
                   "open d in gradient slots @ 0\n"
                   "    0 wait updates all\n"
                   "close d\n"
                   "    1 zero head 4 KiB → gradient slots @ 4 KiB\n"
                   "    2 reduce head 8 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 8 KiB\n"
                   "close a\n"
                   "    3 zero embedding 4 KiB → gradient slots @ 12 KiB\n"
                   "    4 reduce embedding 8 KiB c gradient slots @ 8 KiB → own gradient slots @ 8 KiB\n"
                   "    5 wait head #2\n"
                   "    6 offload head 4 KiB c own gradient slots @ 0 → gradients\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    7 wait embedding #4\n"
                   "    8 offload embedding 4 KiB c own gradient slots @ 8 KiB → gradients\n"
                   "    9 wait embedding #8\n"
                   "    10 wait head #6\n");
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 2, ZN_SECTION_LAST,
                   "open d in gradient slots @ 0\n"
                   "    0 wait updates all\n"
                   "close d\n"
                   "    1 zero head 4 KiB → gradient slots @ 4 KiB\n"
                   "    2 reduce head 8 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 8 KiB\n"
                   "close a\n"
                   "    3 zero embedding 4 KiB → gradient slots @ 12 KiB\n"
                   "    4 reduce embedding 8 KiB c gradient slots @ 8 KiB → own gradient slots @ 8 KiB\n"
                   "    5 wait head #2\n"
                   "    6 offload head 4 KiB c + own gradient slots @ 0 → gradients, complete\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    7 wait embedding #4\n"
                   "    8 offload embedding 4 KiB c + own gradient slots @ 8 KiB → gradients, complete\n"
                   "    9 wait embedding #8\n"
                   "    10 wait head #6\n");
}

static void the_host_zeroes_what_nobody_writes_when_it_has_taken_in_all(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.gradients = ZN_TIER_HOST;
    o.offload.optimizer = ZN_TIER_HOST;
    o.is_discrete = true;
    expect_program("a 1024 | d 1024", "a( a) b0", &o, 1, ZN_SECTION_FINISH,
                   "    0 await offload embedding\n"
                   "    1 await offload head\n"
                   "    2 zero head 4 KiB → gradients, on the host\n"
                   "    3 squares head 4 KiB gradients → sums of squares, on the host\n");
}

static void updates_in_backward_follow_the_offload(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.gradients = ZN_TIER_NVME;
    o.offload.optimizer = ZN_TIER_NVME;
    o.is_discrete = true;
    o.in_backward = true;
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_ONLY,
                   "open d in gradient slots @ 0\n"
                   "    0 wait updates all\n"
                   "close d\n"
                   "    1 reduce head 4 KiB c gradient slots @ 0 → own gradient slots @ 0\n"
                   "end of backward of head\n"
                   "    2 wait head #1\n"
                   "    3 offload head 4 KiB c own gradient slots @ 0 → gradients (nvme), complete\n"
                   "open a in gradient slots @ 4 KiB\n"
                   "close a\n"
                   "    4 reduce embedding 4 KiB c gradient slots @ 4 KiB → own gradient slots @ 4 KiB\n"
                   "end of backward of embedding\n"
                   "    5 wait embedding #4\n"
                   "    6 offload embedding 4 KiB c own gradient slots @ 4 KiB → gradients (nvme), complete\n"
                   "    7 wait head #3\n"
                   "end of the pass\n"
                   "    8 wait embedding #6\n");
    expect_program("a 1024 | d 1024", "d( d) b1 a( a) b0", &o, 1, ZN_SECTION_FINISH,
                   "    0 await offload embedding\n"
                   "    1 await offload head\n"
                   "    2 end updates all\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_written_to_nvme_while_backward_goes_on),
        cmocka_unit_test(over_micro_batches_the_sum_so_far_is_read_and_added_to),
        cmocka_unit_test(sums_leave_a_discrete_device_for_the_host),
        cmocka_unit_test(the_host_adds_what_later_micro_batches_bring),
        cmocka_unit_test(the_host_zeroes_what_nobody_writes_when_it_has_taken_in_all),
        cmocka_unit_test(updates_in_backward_follow_the_offload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
