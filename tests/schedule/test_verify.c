/* Instructions that cannot be, and what is missing of a step: planted in programs, each is found with its place and its cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/planted.h"

/* ---- Instructions and spans ---- */

static void plant_long_span(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_GATHER, 2)->to.offset += 4096;
}

static void a_span_past_its_buffer(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_long_span,
                 "instruction 7 (gather): a span from 4096 to 20480 lies past the end of gathered units, which has 16384 bytes");
}

static void plant_half_gather(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_GATHER, 0)->from.n_bytes /= 2;
}

static void a_size_that_does_not_fit_the_unit(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_half_gather, "instruction 1 (gather): 2048 bytes do not become 8192");
}

static void plant_forward_after(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_WAIT, 0)->after = find(plan, ONLY, ZN_OP_GATHER, 1);
}

static void an_after_that_points_forward(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_forward_after,
                 "instruction 2 (wait): it comes after instruction 4, which is not before it");
}

static void plant_endless(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_WAIT, 1)->after = find(plan, ONLY, ZN_OP_WAIT, 0);
}

static void a_wait_for_what_has_no_end(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_endless, "instruction 5 (wait): it comes after instruction 2, which has no end");
}

static void plant_shared_event(zn_engine_plan *plan)
{
    get(plan, ONLY, ZN_OP_GATHER, 1)->event = get(plan, ONLY, ZN_OP_GATHER, 0)->event;
}

static void an_event_of_two_instructions(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_shared_event, "instruction 4 (gather): event 0 is another instruction's already");
}

/* Storage takes one condition of a write. */
static void plant_conditions(zn_engine_plan *plan)
{
    struct zn_instr *write = get(plan, LAST, ZN_OP_WRITE, 1);
    write->after = find(plan, LAST, ZN_OP_REDUCE, 0);
}

static void more_conditions_than_are_passed_on(void **state)
{
    (void)state;
    expect_fault(all_on_nvme(), 2, with_checkpoints, plant_conditions, "(write): it cannot have 2 conditions");
}

static void plant_unawaited(zn_engine_plan *plan)
{
    struct zn_section *s = &plan->program.sections[ONLY];
    assert_int_equal(s->instrs[s->n_instrs - 1].op, ZN_OP_WAIT);
    drop(plan, ONLY, s->n_instrs - 1);
}

static void an_instruction_that_nobody_waits_for(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_unawaited, "only micro-batch: nobody waits for instruction 18 (reduce)");
}

static void plant_unissued(zn_engine_plan *plan)
{
    struct zn_section *s = &plan->program.sections[ZN_SECTION_FIRST];
    for (int i = 0; i < s->n_instrs; i++)
        if (s->instrs[i].op == ZN_OP_ISSUE_UPDATES)
            drop(plan, ZN_SECTION_FIRST, i);
}

static void an_update_that_is_waited_for_before_it_is_issued(void **state)
{
    (void)state;
    expect_fault(all_on_nvme(), 2, with_checkpoints, plant_unissued,
                 "(read): the update of unit 0, for which it waits, is not issued");
}

/* ---- Counts ---- */

static void plant_missing_reduction(zn_engine_plan *plan)
{
    drop_with_waits(plan, ONLY, find(plan, ONLY, ZN_OP_REDUCE, 2));
}

static void a_reduction_that_is_missing(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.stage = 1;
    o.reduce_every = false;
    expect_fault(o, 2, trace, plant_missing_reduction, "only micro-batch: unit 0 is reduced 0 times, not 1");
}

static void plant_missing_update(zn_engine_plan *plan)
{
    drop_with_waits(plan, ONLY, find(plan, ONLY, ZN_OP_UPDATE, 0));
}

static void an_update_that_is_missing(void **state)
{
    (void)state;
    expect_fault(in_backward(), 1, trace, plant_missing_update, "finish: unit 2 is not updated");
}

static void plant_unpublished(zn_engine_plan *plan)
{
    drop(plan, ONLY, find(plan, ONLY, ZN_OP_PUBLISH, 0));
}

static void an_update_that_the_others_do_not_get(void **state)
{
    (void)state;
    expect_fault(in_backward(), 2, trace, plant_unpublished, "finish: the updated unit 2 is not sent to the other ranks");
}

static void plant_missing_squares(zn_engine_plan *plan)
{
    drop(plan, FINISH, find(plan, FINISH, ZN_OP_SQUARES, 1));
}

static void squares_that_are_missing(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_missing_squares, "finish: the squares of unit 1 are taken 0 times");
}

static void plant_more_memory(zn_engine_plan *plan)
{
    plan->buffers[ZN_BUFFER_SLOTS].n_bytes += 4096;
}

static void memory_that_nothing_uses(void **state)
{
    (void)state;
    expect_fault(stage_3(), 2, trace, plant_more_memory, "gradient slots has 28672 bytes, of which 24576 are used");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_past_its_buffer),
        cmocka_unit_test(a_size_that_does_not_fit_the_unit),
        cmocka_unit_test(an_after_that_points_forward),
        cmocka_unit_test(a_wait_for_what_has_no_end),
        cmocka_unit_test(an_event_of_two_instructions),
        cmocka_unit_test(more_conditions_than_are_passed_on),
        cmocka_unit_test(an_instruction_that_nobody_waits_for),
        cmocka_unit_test(an_update_that_is_waited_for_before_it_is_issued),
        cmocka_unit_test(a_reduction_that_is_missing),
        cmocka_unit_test(an_update_that_is_missing),
        cmocka_unit_test(an_update_that_the_others_do_not_get),
        cmocka_unit_test(squares_that_are_missing),
        cmocka_unit_test(memory_that_nothing_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
