/* Accesses that are not ordered, and bytes that are not those one looks for: planted in programs, each is found with its place
 * and its cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/planted.h"

/* ---- Order ---- */

static void plant_late_gather(zn_engine_plan *plan)
{
    int *first = plan->program.sections[ONLY].first;
    int p = point_of(plan, ONLY, ZN_POINT_ACQUIRE, 0);
    first[p + 1] = first[p]; /* its instructions are the next point's */
}

static void a_gather_after_its_use(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_late_gather, "point 0 (acquire 0): gathered units at 0: nothing of unit 0 is there");
}

static void plant_dropped_wait(zn_engine_plan *plan)
{
    drop(plan, ONLY, find(plan, ONLY, ZN_OP_WAIT, 1));
}

static void a_wait_that_is_missing(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_dropped_wait,
                 "only micro-batch: point 2 (acquire 1): gathered units at 0 may still be written by instruction 4 (gather)");
}

static void plant_early_gather(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_GATHER, 1)->flags &= (uint8_t)~ZN_AFTER_COMPUTE;
}

static void a_gather_that_does_not_wait_for_the_device(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_early_gather,
                 "instruction 4 (gather): gathered units at 0 may still be read by the device");
}

static void plant_stale_gather(zn_engine_plan *plan)
{
    get(plan, ZN_SECTION_FIRST, ZN_OP_READ, 0)->flags &= (uint8_t)~ZN_AFTER_UPDATED;
}

static void a_read_before_the_update(void **state)
{
    (void)state;
    expect_fault(all_on_nvme(), 1, with_checkpoints, plant_stale_gather,
                 "(read): parameters at 0 may still be written by the update of unit 0");
}

/* The write of the micro-batch before is waited for by the device alone. */
static void plant_early_read(zn_engine_plan *plan)
{
    struct zn_section *s = &plan->program.sections[LAST];
    for (int i = 0; i < s->n_instrs; i++)
        if (s->instrs[i].op == ZN_OP_READ && s->instrs[i].from.buffer == ZN_BUFFER_GRADIENTS) {
            s->instrs[i].flags = 0;
            return;
        }
}

static void a_read_before_the_write_it_needs(void **state)
{
    (void)state;
    expect_fault(all_on_nvme(), 2, with_checkpoints, plant_early_read,
                 "(read): gradients at 8192 may still be written by instruction");
}

/* The bucket of unit 1 goes where that of unit 2 is being reduced. */
static void plant_overlapping_slots(zn_engine_plan *plan)
{
    struct zn_section *s = &plan->program.sections[ONLY];
    uint64_t other = s->address[point_of(plan, ONLY, ZN_POINT_OPEN, 0)].offset;
    uint64_t own = s->address[point_of(plan, ONLY, ZN_POINT_OPEN, 1)].offset;
    for (int p = point_of(plan, ONLY, ZN_POINT_OPEN, 1); p <= point_of(plan, ONLY, ZN_POINT_OPEN, 2); p++)
        if (s->address[p].buffer == ZN_BUFFER_SLOTS)
            s->address[p].offset += other - own;
}

static void two_slots_that_overlap_while_both_are_used(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 2;
    expect_fault(o, 2, trace, plant_overlapping_slots,
                 "point 13 (open 1): gradient slots at 0 may still be read by instruction 7 (reduce)");
}

static void plant_unordered_write(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_WRITE, 1)->flags = 0;
}

static void a_write_of_what_is_still_computed(void **state)
{
    (void)state;
    struct zn_engine_options o = all_on_nvme();
    o.accumulate = 1;
    expect_fault(o, 2, with_checkpoints, plant_unordered_write,
                 "(write): gradient slots at 0 may still be written by instruction 24 (reduce)");
}

static void plant_dropped_published(zn_engine_plan *plan)
{
    drop(plan, ONLY, find(plan, ONLY, ZN_OP_AWAIT_PUBLISHED, 1));
}

static void values_of_other_ranks_that_have_not_come(void **state)
{
    (void)state;
    expect_fault(in_backward(), 2, trace, plant_dropped_published,
                 "parameters at 8192 may still be written by the gather after the update of unit 1");
}

static void plant_dropped_offload_wait(zn_engine_plan *plan)
{
    for (int u = 0; u < 3; u++)
        drop(plan, FINISH, find(plan, FINISH, ZN_OP_AWAIT_OFFLOAD, 0));
}

static void an_offload_that_nobody_waits_for(void **state)
{
    (void)state;
    expect_fault(discrete(), 2, with_checkpoints, plant_dropped_offload_wait, "finish: nobody waits for the offload of unit 0");
}

/* ---- Contents ---- */

/* Backward reads where the unit was gathered for forward. */
static void plant_released(zn_engine_plan *plan)
{
    struct zn_section *s = &plan->program.sections[ONLY];
    s->address[point_of(plan, ONLY, ZN_POINT_ACQUIRE, 5)].offset = s->address[point_of(plan, ONLY, ZN_POINT_ACQUIRE, 1)].offset;
}

static void a_buffer_that_is_read_after_its_release(void **state)
{
    (void)state;
    struct zn_engine_options o = stage_3();
    o.prefetch_bytes = 16384; /* gathers of two units at once */
    expect_fault(o, 2, trace, plant_released, "point 11 (acquire 1): gathered units at 16384 has unit 2, not 1");
}

static void plant_wrong_unit(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_GATHER, 1)->from = get(plan, ONLY, ZN_OP_GATHER, 0)->from;
}

static void a_gather_of_the_wrong_unit(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_wrong_unit, "instruction 4 (gather): parameters at 0 has unit 0, not 1");
}

static void plant_wrong_checkpoint(zn_engine_plan *plan)
{
    struct zn_section *s = &plan->program.sections[ONLY];
    for (int i = 0; i < s->n_instrs; i++)
        if (s->instrs[i].op == ZN_OP_COPY_IN)
            s->instrs[i].from.offset -= s->instrs[i].from.n_bytes;
}

static void an_activation_checkpoint_that_is_another(void **state)
{
    (void)state;
    expect_fault(discrete(), 2, with_checkpoints, plant_wrong_checkpoint,
                 "point 8 (prefetch 1): instruction 15 (copy in): activation checkpoints at 0: nothing of checkpoint 1 is there");
}

static void plant_unzeroed_padding(zn_engine_plan *plan)
{
    drop(plan, ONLY, find(plan, ONLY, ZN_OP_ZERO, 0));
}

static void padding_that_is_not_zeroed(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_unzeroed_padding, "(reduce): gradient slots at 0: nothing of unit 2 is there");
}

static void plant_lost_sum(zn_engine_plan *plan)
{
    drop_with_waits(plan, LAST, find(plan, LAST, ZN_OP_WRITE, 1));
}

static void a_sum_that_goes_nowhere(void **state)
{
    (void)state;
    expect_fault(all_on_nvme(), 2, with_checkpoints, plant_lost_sum, "nobody has read what is there of unit");
}

static void plant_other_part(zn_engine_plan *plan)
{
    struct zn_section *s = &plan->program.sections[ONLY];
    s->address[point_of(plan, ONLY, ZN_POINT_ACQUIRE, 2)] = s->address[point_of(plan, ONLY, ZN_POINT_ACQUIRE, 1)];
}

static void a_part_that_is_bound_to_another(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    expect_fault(o, 1, trace, plant_other_part, "point 3 (acquire 2): parameters at 4096 has another place of unit 1");
}

/* New parameters that come while the old ones are still to be read. */
static void plant_early_return(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_RETURN_UPDATED, 0)->unit = 1; /* which the segment before the last uses after it */
}

static void a_return_before_the_last_use(void **state)
{
    (void)state;
    struct zn_engine_options o = discrete();
    o.delay_after = 0;
    expect_fault(o, 1, with_checkpoints, plant_early_return, "return of new parameters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gather_after_its_use),
        cmocka_unit_test(a_wait_that_is_missing),
        cmocka_unit_test(a_gather_that_does_not_wait_for_the_device),
        cmocka_unit_test(a_read_before_the_update),
        cmocka_unit_test(a_read_before_the_write_it_needs),
        cmocka_unit_test(two_slots_that_overlap_while_both_are_used),
        cmocka_unit_test(a_write_of_what_is_still_computed),
        cmocka_unit_test(values_of_other_ranks_that_have_not_come),
        cmocka_unit_test(an_offload_that_nobody_waits_for),
        cmocka_unit_test(a_buffer_that_is_read_after_its_release),
        cmocka_unit_test(a_gather_of_the_wrong_unit),
        cmocka_unit_test(an_activation_checkpoint_that_is_another),
        cmocka_unit_test(padding_that_is_not_zeroed),
        cmocka_unit_test(a_sum_that_goes_nowhere),
        cmocka_unit_test(a_part_that_is_bound_to_another),
        cmocka_unit_test(a_return_before_the_last_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
