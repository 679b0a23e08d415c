/* Activation checkpoints that leave the device and come back: trace and placement in, program out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

static void in_the_memory_of_the_device_they_are_packed_and_unpacked(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.activations = ZN_TIER_HOST;
    expect_program("a 1024 | b 1024 | d 1024", "save1 f1 f2 prefetch1 b2 load1 b1 b0", &o, 1, ZN_SECTION_ONLY,
                   "save checkpoint 1\n"
                   "    0 pack 4 KiB → activation checkpoints\n"
                   "end of forward of block 0\n"
                   "end of forward of head\n"
                   "prefetch checkpoint 1\n"
                   "end of backward of head\n"
                   "load checkpoint 1\n"
                   "    1 unpack 4 KiB activation checkpoints\n"
                   "end of backward of block 0\n"
                   "end of backward of embedding\n");
}

/* The third waits for the first; the first read waits for the last write. */
static void to_nvme_they_go_through_two_buffers_each_way(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.activations = ZN_TIER_NVME;
    expect_program("a 1024 | b 1024 | c 1024 | e 1024 | d 1024",
                   "save1 f1 save2 f2 save3 f3 prefetch3 b4 load3 prefetch2 b3 load2 prefetch1 b2 load1 b1 b0", &o, 1,
                   ZN_SECTION_ONLY,
                   "save checkpoint 1\n"
                   "    0 pack 4 KiB → checkpoint staging @ 0\n"
                   "    1 write 4 KiB c checkpoint staging @ 0 → activation checkpoints (nvme)\n"
                   "end of forward of block 0\n"
                   "save checkpoint 2\n"
                   "    2 pack 4 KiB → checkpoint staging @ 4 KiB\n"
                   "    3 write 4 KiB c checkpoint staging @ 4 KiB → activation checkpoints (nvme)\n"
                   "end of forward of block 1\n"
                   "save checkpoint 3\n"
                   "    4 wait #1\n"
                   "    5 pack 4 KiB → checkpoint staging @ 0\n"
                   "    6 write 4 KiB c checkpoint staging @ 0 → activation checkpoints (nvme)\n"
                   "end of forward of block 2\n"
                   "prefetch checkpoint 3\n"
                   "    7 wait #6\n"
                   "    8 wait #3\n"
                   "    9 read 4 KiB c activation checkpoints (nvme) → checkpoint staging @ 8 KiB\n"
                   "end of backward of head\n"
                   "load checkpoint 3\n"
                   "    10 wait #9\n"
                   "    11 unpack 4 KiB checkpoint staging @ 8 KiB\n"
                   "prefetch checkpoint 2\n"
                   "    12 read 4 KiB c activation checkpoints (nvme) → checkpoint staging @ 8 KiB\n"
                   "end of backward of block 2\n"
                   "load checkpoint 2\n"
                   "    13 wait #12\n"
                   "    14 unpack 4 KiB checkpoint staging @ 8 KiB\n"
                   "prefetch checkpoint 1\n"
                   "    15 read 4 KiB c activation checkpoints (nvme) → checkpoint staging @ 8 KiB\n"
                   "end of backward of block 1\n"
                   "load checkpoint 1\n"
                   "    16 wait #15\n"
                   "    17 unpack 4 KiB checkpoint staging @ 8 KiB\n"
                   "end of backward of block 0\n"
                   "end of backward of embedding\n");
}

/* Two ranks keep half of 4 KiB each, padded; the whole is gathered when it is wanted soon. */
static void parts_are_gathered_one_segment_ahead(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.n_slices = 2;
    o.partitions_activations = true;
    expect_program("a 1024 | b 1024 | d 1024", "save1 f1 f2 prefetch1 b2 load1 b1 b0", &o, 1, ZN_SECTION_ONLY,
                   "save checkpoint 1\n"
                   "    0 pack 4 KiB → activation checkpoints\n"
                   "end of forward of block 0\n"
                   "end of forward of head\n"
                   "prefetch checkpoint 1\n"
                   "    1 gather pieces 8 KiB c activation checkpoints → gathered checkpoints @ 0\n"
                   "end of backward of head\n"
                   "load checkpoint 1\n"
                   "    2 wait #1\n"
                   "    3 unpack 8 KiB gathered checkpoints @ 0\n"
                   "end of backward of block 0\n"
                   "end of backward of embedding\n");
    o.offload.activations = ZN_TIER_NVME;
    expect_program("a 1024 | b 1024 | d 1024", "save1 f1 f2 prefetch1 b2 load1 b1 b0", &o, 1, ZN_SECTION_ONLY,
                   "save checkpoint 1\n"
                   "    0 pack 4 KiB → checkpoint staging @ 0\n"
                   "    1 write 4 KiB c checkpoint staging @ 0 → activation checkpoints (nvme)\n"
                   "end of forward of block 0\n"
                   "end of forward of head\n"
                   "prefetch checkpoint 1\n"
                   "    2 wait #1\n"
                   "    3 read 4 KiB c activation checkpoints (nvme) → checkpoint staging @ 8 KiB\n"
                   "    4 gather pieces 8 KiB #3 checkpoint staging @ 8 KiB → gathered checkpoints @ 0\n"
                   "end of backward of head\n"
                   "load checkpoint 1\n"
                   "    5 wait #4\n"
                   "    6 unpack 8 KiB gathered checkpoints @ 0\n"
                   "end of backward of block 0\n"
                   "end of backward of embedding\n");
}

static void what_was_not_asked_for_ahead_is_read_when_it_is_wanted(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.activations = ZN_TIER_NVME;
    expect_program("a 1024 | b 1024 | d 1024", "save1 f1 b2 load1 b1 b0", &o, 1, ZN_SECTION_ONLY,
                   "save checkpoint 1\n"
                   "    0 pack 4 KiB → checkpoint staging @ 0\n"
                   "    1 write 4 KiB c checkpoint staging @ 0 → activation checkpoints (nvme)\n"
                   "end of forward of block 0\n"
                   "end of backward of head\n"
                   "load checkpoint 1\n"
                   "    2 wait #1\n"
                   "    3 read 4 KiB c activation checkpoints (nvme) → checkpoint staging @ 8 KiB\n"
                   "    4 wait #3\n"
                   "    5 unpack 4 KiB checkpoint staging @ 8 KiB\n"
                   "end of backward of block 0\n"
                   "end of backward of embedding\n");
}

static void from_a_discrete_device_they_are_copied(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.activations = ZN_TIER_HOST;
    o.is_discrete = true;
    expect_program("a 1024 | b 1024 | c 1024 | d 1024",
                   "save1 f1 save2 f2 prefetch2 b3 load2 prefetch1 b2 load1 b1 b0", &o, 1, ZN_SECTION_ONLY,
                   "save checkpoint 1\n"
                   "    0 pack 4 KiB → checkpoints to copy @ 0\n"
                   "    1 copy out 4 KiB c checkpoints to copy @ 0 → activation checkpoints\n"
                   "end of forward of block 0\n"
                   "save checkpoint 2\n"
                   "    2 pack 4 KiB → checkpoints to copy @ 4 KiB\n"
                   "    3 copy out 4 KiB c checkpoints to copy @ 4 KiB → activation checkpoints\n"
                   "end of forward of block 1\n"
                   "prefetch checkpoint 2\n"
                   "    4 wait #1\n"
                   "    5 wait #3\n"
                   "    6 copy in 4 KiB c activation checkpoints → checkpoints to copy @ 8 KiB\n"
                   "end of backward of head\n"
                   "load checkpoint 2\n"
                   "    7 wait #6\n"
                   "    8 unpack 4 KiB checkpoints to copy @ 8 KiB\n"
                   "prefetch checkpoint 1\n"
                   "    9 copy in 4 KiB c activation checkpoints → checkpoints to copy @ 8 KiB\n"
                   "end of backward of block 1\n"
                   "load checkpoint 1\n"
                   "    10 wait #9\n"
                   "    11 unpack 4 KiB checkpoints to copy @ 8 KiB\n"
                   "end of backward of block 0\n"
                   "end of backward of embedding\n");
}

static void from_a_discrete_device_to_nvme_by_way_of_the_host(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.offload.activations = ZN_TIER_NVME;
    o.is_discrete = true;
    expect_program("a 1024 | b 1024 | d 1024", "save1 f1 prefetch1 b2 load1 b1 b0", &o, 1, ZN_SECTION_ONLY,
                   "save checkpoint 1\n"
                   "    0 pack 4 KiB → checkpoints to copy @ 0\n"
                   "    1 copy out 4 KiB c checkpoints to copy @ 0 → checkpoint staging @ 0\n"
                   "    2 write 4 KiB #1 checkpoint staging @ 0 → activation checkpoints (nvme)\n"
                   "end of forward of block 0\n"
                   "prefetch checkpoint 1\n"
                   "    3 wait #2\n"
                   "    4 read 4 KiB c activation checkpoints (nvme) → checkpoint staging @ 8 KiB\n"
                   "    5 copy in 4 KiB #4 checkpoint staging @ 8 KiB → checkpoints to copy @ 8 KiB\n"
                   "end of backward of head\n"
                   "load checkpoint 1\n"
                   "    6 wait #5\n"
                   "    7 unpack 4 KiB checkpoints to copy @ 8 KiB\n"
                   "end of backward of block 0\n"
                   "end of backward of embedding\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_memory_of_the_device_they_are_packed_and_unpacked),
        cmocka_unit_test(to_nvme_they_go_through_two_buffers_each_way),
        cmocka_unit_test(parts_are_gathered_one_segment_ahead),
        cmocka_unit_test(what_was_not_asked_for_ahead_is_read_when_it_is_wanted),
        cmocka_unit_test(from_a_discrete_device_they_are_copied),
        cmocka_unit_test(from_a_discrete_device_to_nvme_by_way_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
