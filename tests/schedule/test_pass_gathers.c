/* Where operators find parameters, and how these come there: trace and placement in, program out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

static void whole_parameters_are_read_where_they_stay(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 0;
    o.optimizer = NULL;
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "a f0 b c f1 d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in parameters\n"
                   "end of forward of embedding\n"
                   "acquire b in parameters\n"
                   "acquire c in parameters\n"
                   "end of forward of block 0\n"
                   "acquire d in parameters\n"
                   "end of forward of head\n");
}

static void a_unit_is_gathered_at_its_first_use_and_waited_for_once(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.optimizer = NULL;
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "a f0 b c f1 d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 publish to block 0\n"
                   "    1 gather embedding 8 KiB c parameters → gathered units @ 0\n"
                   "    2 wait embedding #1\n"
                   "end of forward of embedding\n"
                   "acquire b in gathered units @ 0\n"
                   "    3 publish to head\n"
                   "    4 gather block 0 8 KiB c parameters → gathered units @ 0\n"
                   "    5 wait block 0 #4\n"
                   "acquire c in gathered units @ 4 KiB\n"
                   "end of forward of block 0\n"
                   "acquire d in gathered units @ 0\n"
                   "    6 publish to head\n"
                   "    7 gather head 8 KiB c parameters → gathered units @ 0\n"
                   "    8 wait head #7\n"
                   "end of forward of head\n");
}

/* The budget has room for one unit besides the one in use. */
static void gathers_run_ahead_as_far_as_the_budget_goes(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.prefetch_bytes = 8192;
    o.optimizer = NULL;
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "a f0 b c f1 d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 8 KiB\n"
                   "    0 publish to block 0\n"
                   "    1 gather embedding 8 KiB c parameters → gathered units @ 8 KiB\n"
                   "    2 gather block 0 8 KiB c parameters → gathered units @ 0\n"
                   "    3 wait embedding #1\n"
                   "end of forward of embedding\n"
                   "acquire b in gathered units @ 0\n"
                   "    4 publish to head\n"
                   "    5 gather head 8 KiB c parameters → gathered units @ 8 KiB\n"
                   "    6 wait block 0 #2\n"
                   "acquire c in gathered units @ 4 KiB\n"
                   "end of forward of block 0\n"
                   "acquire d in gathered units @ 8 KiB\n"
                   "    7 publish to head\n"
                   "    8 wait head #5\n"
                   "end of forward of head\n");
}

static void a_unit_that_is_used_again_soon_stays(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.reuse_bytes = 8192;
    o.optimizer = NULL;
    expect_program("a 1024 | b 1024 | d 1024", "a f0 b f1 a d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 publish to block 0\n"
                   "    1 gather embedding 8 KiB c parameters → gathered units @ 0\n"
                   "    2 wait embedding #1\n"
                   "end of forward of embedding\n"
                   "acquire b in gathered units @ 8 KiB\n"
                   "    3 publish to head\n"
                   "    4 gather block 0 8 KiB c parameters → gathered units @ 8 KiB\n"
                   "    5 wait block 0 #4\n"
                   "end of forward of block 0\n"
                   "acquire a in gathered units @ 0\n"
                   "acquire d in gathered units @ 0\n"
                   "    6 publish to head\n"
                   "    7 gather head 8 KiB c parameters → gathered units @ 0\n"
                   "    8 wait head #7\n"
                   "end of forward of head\n");
}

static void a_unit_that_is_used_again_later_is_gathered_again(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.reuse_bytes = 4096;
    o.optimizer = NULL;
    expect_program("a 1024 | b 1024 | d 1024", "a f0 b f1 a d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 publish to block 0\n"
                   "    1 gather embedding 8 KiB c parameters → gathered units @ 0\n"
                   "    2 wait embedding #1\n"
                   "end of forward of embedding\n"
                   "acquire b in gathered units @ 0\n"
                   "    3 publish to head\n"
                   "    4 gather block 0 8 KiB c parameters → gathered units @ 0\n"
                   "    5 wait block 0 #4\n"
                   "end of forward of block 0\n"
                   "acquire a in gathered units @ 0\n"
                   "    6 gather embedding 8 KiB c parameters → gathered units @ 0\n"
                   "    7 wait embedding #6\n"
                   "acquire d in gathered units @ 0\n"
                   "    8 publish to head\n"
                   "    9 gather head 8 KiB c parameters → gathered units @ 0\n"
                   "    10 wait head #9\n"
                   "end of forward of head\n");
}

static void the_first_use_of_backward_is_a_gather_of_its_own(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 3;
    expect_program("a 1024 | d 2048", "a f0 d f1 d d( d) b1 a( a) b0", &o, 2, ZN_SECTION_ONLY,
                   "acquire a in gathered units @ 0\n"
                   "    0 publish to head\n"
                   "    1 gather embedding 8 KiB c u parameters → gathered units @ 0\n"
                   "    2 wait embedding #1\n"
                   "end of forward of embedding\n"
                   "acquire d in gathered units @ 0\n"
                   "    3 publish to head\n"
                   "    4 gather head 8 KiB c u parameters → gathered units @ 0\n"
                   "    5 wait head #4\n"
                   "end of forward of head\n"
                   "acquire d in gathered units @ 0\n"
                   "    6 gather head 8 KiB c u parameters → gathered units @ 0\n"
                   "    7 wait head #6\n"
                   "open d in gradient slots @ 0\n"
                   "close d\n"
                   "    8 reduce head 8 KiB c gradient slots @ 0 → gradients\n"
                   "end of backward of head\n"
                   "open a in gradient slots @ 8 KiB\n"
                   "close a\n"
                   "    9 zero embedding 4 KiB → gradient slots @ 12 KiB\n"
                   "    10 reduce embedding 8 KiB c gradient slots @ 8 KiB → gradients\n"
                   "    11 wait head #8\n"
                   "end of backward of embedding\n"
                   "end of the pass\n"
                   "    12 wait embedding #10\n");
}

static void small_units_stay_gathered(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.persist_bytes = 8192;
    o.optimizer = NULL;
    expect_program("a 1024 | b 1024 c 2048 | d 1024", "a f0 b c f1 d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in persistent units\n"
                   "    0 publish to block 0\n"
                   "end of forward of embedding\n"
                   "acquire b in gathered units @ 0\n"
                   "    1 publish to head\n"
                   "    2 gather block 0 16 KiB c parameters → gathered units @ 0\n"
                   "    3 wait block 0 #2\n"
                   "acquire c in gathered units @ 4 KiB\n"
                   "end of forward of block 0\n"
                   "acquire d in persistent units\n"
                   "    4 publish to head\n"
                   "end of forward of head\n");
}

static void a_tile_is_a_unit(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.tile_bytes = 4096;
    o.optimizer = NULL;
    expect_program("a 1024 | b 3000x2 | d 1024", "a f0 b:0 b:1 b:2 f1 d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 publish to block 0 b 1/3\n"
                   "    1 gather embedding 8 KiB c parameters → gathered units @ 0\n"
                   "    2 wait embedding #1\n"
                   "end of forward of embedding\n"
                   "acquire b rows 0 to 1023 in gathered units @ 0\n"
                   "    3 publish to block 0 b 2/3\n"
                   "    4 gather block 0 b 1/3 8 KiB c parameters → gathered units @ 0\n"
                   "    5 wait block 0 b 1/3 #4\n"
                   "acquire b rows 1024 to 2047 in gathered units @ 0\n"
                   "    6 publish to block 0 b 3/3\n"
                   "    7 gather block 0 b 2/3 8 KiB c parameters → gathered units @ 0\n"
                   "    8 wait block 0 b 2/3 #7\n"
                   "acquire b rows 2048 to 2999 in gathered units @ 0\n"
                   "    9 publish to head\n"
                   "    10 gather block 0 b 3/3 8 KiB c parameters → gathered units @ 0\n"
                   "    11 wait block 0 b 3/3 #10\n"
                   "end of forward of block 0\n"
                   "acquire d in gathered units @ 0\n"
                   "    12 publish to head\n"
                   "    13 gather head 8 KiB c parameters → gathered units @ 0\n"
                   "    14 wait head #13\n"
                   "end of forward of head\n");
}

static void one_rank_reads_straight_into_the_place_of_the_unit(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.offload.parameters = ZN_TIER_NVME;
    o.optimizer = NULL;
    expect_program("a 1024 | d 2048", "a f0 d f1", &o, 1, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 read embedding 4 KiB c parameters (nvme) → gathered units @ 0\n"
                   "    1 wait embedding #0\n"
                   "end of forward of embedding\n"
                   "acquire d in gathered units @ 0\n"
                   "    2 read head 8 KiB c parameters (nvme) → gathered units @ 0\n"
                   "    3 wait head #2\n"
                   "end of forward of head\n");
}

static void own_partitions_are_read_ahead_of_their_gathers(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.offload.parameters = ZN_TIER_NVME;
    o.prefetch_bytes = 8192;
    o.optimizer = NULL;
    expect_program("a 1024 | b 1024 c 1024 | d 2048", "a f0 b c f1 d f2", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 8 KiB\n"
                   "    0 publish to block 0\n"
                   "    1 read embedding 4 KiB c parameters (nvme) → fetched partitions @ 8 KiB\n"
                   "    2 read block 0 4 KiB c parameters (nvme) → fetched partitions @ 4 KiB\n"
                   "    3 read head 4 KiB c parameters (nvme) → fetched partitions @ 0\n"
                   "    4 gather embedding 8 KiB c #1 fetched partitions @ 8 KiB → gathered units @ 8 KiB\n"
                   "    5 gather block 0 8 KiB c #2 fetched partitions @ 4 KiB → gathered units @ 0\n"
                   "    6 wait embedding #4\n"
                   "end of forward of embedding\n"
                   "acquire b in gathered units @ 0\n"
                   "    7 publish to head\n"
                   "    8 gather head 8 KiB c #3 fetched partitions @ 0 → gathered units @ 8 KiB\n"
                   "    9 wait block 0 #5\n"
                   "acquire c in gathered units @ 4 KiB\n"
                   "end of forward of block 0\n"
                   "acquire d in gathered units @ 8 KiB\n"
                   "    10 publish to head\n"
                   "    11 wait head #8\n"
                   "end of forward of head\n");
}

static void a_discrete_device_copies_own_partitions_before_the_gather(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.offload.parameters = ZN_TIER_HOST;
    o.is_discrete = true;
    o.optimizer = NULL;
    expect_program("a 1024 | d 2048", "a f0 d f1", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 publish to head\n"
                   "    1 copy in embedding 4 KiB c parameters → fetched partitions @ 0\n"
                   "    2 gather embedding 8 KiB c #1 fetched partitions @ 0 → gathered units @ 0\n"
                   "    3 wait embedding #2\n"
                   "end of forward of embedding\n"
                   "acquire d in gathered units @ 0\n"
                   "    4 publish to head\n"
                   "    5 copy in head 4 KiB c parameters → fetched partitions @ 0\n"
                   "    6 gather head 8 KiB c #5 fetched partitions @ 0 → gathered units @ 0\n"
                   "    7 wait head #6\n"
                   "end of forward of head\n");
}

static void one_rank_of_a_discrete_device_copies_the_unit(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.offload.parameters = ZN_TIER_HOST;
    o.is_discrete = true;
    o.optimizer = NULL;
    expect_program("a 1024 | d 2048", "a f0 d f1", &o, 1, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 copy in embedding 4 KiB c parameters → gathered units @ 0\n"
                   "    1 wait embedding #0\n"
                   "end of forward of embedding\n"
                   "acquire d in gathered units @ 0\n"
                   "    2 copy in head 8 KiB c parameters → gathered units @ 0\n"
                   "    3 wait head #2\n"
                   "end of forward of head\n");
}

static void from_nvme_to_a_discrete_device_by_way_of_the_host(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.offload.parameters = ZN_TIER_NVME;
    o.is_discrete = true;
    o.optimizer = NULL;
    expect_program("a 1024 | d 2048", "a f0 d f1", &o, 2, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 publish to head\n"
                   "    1 read embedding 4 KiB c parameters (nvme) → partitions to copy @ 0\n"
                   "    2 copy in embedding 4 KiB #1 partitions to copy @ 0 → fetched partitions @ 0\n"
                   "    3 gather embedding 8 KiB c #2 fetched partitions @ 0 → gathered units @ 0\n"
                   "    4 wait embedding #3\n"
                   "end of forward of embedding\n"
                   "acquire d in gathered units @ 0\n"
                   "    5 publish to head\n"
                   "    6 read head 4 KiB c parameters (nvme) → partitions to copy @ 0\n"
                   "    7 copy in head 4 KiB #6 partitions to copy @ 0 → fetched partitions @ 0\n"
                   "    8 gather head 8 KiB c #7 fetched partitions @ 0 → gathered units @ 0\n"
                   "    9 wait head #8\n"
                   "end of forward of head\n");
}

static void one_rank_from_nvme_to_a_discrete_device(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.trains = false;
    o.stage = 3;
    o.offload.parameters = ZN_TIER_NVME;
    o.is_discrete = true;
    o.optimizer = NULL;
    expect_program("a 1024 | d 2048", "a f0 d f1", &o, 1, ZN_SECTION_EVALUATE,
                   "acquire a in gathered units @ 0\n"
                   "    0 read embedding 4 KiB c parameters (nvme) → partitions to copy @ 0\n"
                   "    1 copy in embedding 4 KiB c #0 partitions to copy @ 0 → gathered units @ 0\n"
                   "    2 wait embedding #1\n"
                   "end of forward of embedding\n"
                   "acquire d in gathered units @ 0\n"
                   "    3 read head 8 KiB c parameters (nvme) → partitions to copy @ 0\n"
                   "    4 copy in head 8 KiB c #3 partitions to copy @ 0 → gathered units @ 0\n"
                   "    5 wait head #4\n"
                   "end of forward of head\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_parameters_are_read_where_they_stay),
        cmocka_unit_test(a_unit_is_gathered_at_its_first_use_and_waited_for_once),
        cmocka_unit_test(gathers_run_ahead_as_far_as_the_budget_goes),
        cmocka_unit_test(a_unit_that_is_used_again_soon_stays),
        cmocka_unit_test(a_unit_that_is_used_again_later_is_gathered_again),
        cmocka_unit_test(the_first_use_of_backward_is_a_gather_of_its_own),
        cmocka_unit_test(small_units_stay_gathered),
        cmocka_unit_test(a_tile_is_a_unit),
        cmocka_unit_test(one_rank_reads_straight_into_the_place_of_the_unit),
        cmocka_unit_test(own_partitions_are_read_ahead_of_their_gathers),
        cmocka_unit_test(a_discrete_device_copies_own_partitions_before_the_gather),
        cmocka_unit_test(one_rank_of_a_discrete_device_copies_the_unit),
        cmocka_unit_test(from_nvme_to_a_discrete_device_by_way_of_the_host),
        cmocka_unit_test(one_rank_from_nvme_to_a_discrete_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
