/* Programs of ranks that differ are told apart, and bytes between ranks are those of the formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/planted.h"

/* ---- Ranks ---- */

static void compile_two(struct zn_engine_options o, zn_engine_plan plans[2])
{
    struct written_model m;
    write_model(&m, model);
    for (int r = 0; r < 2; r++)
        OK(compile_written(&m, trace, &o, 2, &plans[r]));
}

static void programs_of_ranks_that_differ(void **state)
{
    (void)state;
    zn_engine_plan plans[2];
    compile_two(stage_3(), plans);
    OK(zn_program_same_collectives(&plans[0].program, &plans[1].program));
    assert_true(zn_program_digest(&plans[0].program) == zn_program_digest(&plans[1].program));
    drop_with_waits(&plans[1], ONLY, find(&plans[1], ONLY, ZN_OP_REDUCE, 1));
    assert_int_equal(zn_program_same_collectives(&plans[0].program, &plans[1].program), ZN_ERR_INTERNAL);
    assert_string_equal(zn_error_message(), "only micro-batch: collective 9 is reduce 1 on one rank and reduce 0 on another");
    assert_true(zn_program_digest(&plans[0].program) != zn_program_digest(&plans[1].program));
    zn_engine_plan_fini(&plans[0]);
    zn_engine_plan_fini(&plans[1]);
}

/* What only one rank waits for, or zeroes, is its own matter. */
static void programs_that_differ_in_what_is_no_collective(void **state)
{
    (void)state;
    zn_engine_plan plans[2];
    compile_two(stage_3(), plans);
    drop(&plans[1], ONLY, find(&plans[1], ONLY, ZN_OP_WAIT, 3));
    drop(&plans[1], ONLY, find(&plans[1], ONLY, ZN_OP_ZERO, 0));
    OK(zn_program_same_collectives(&plans[0].program, &plans[1].program));
    assert_true(zn_program_digest(&plans[0].program) == zn_program_digest(&plans[1].program));
    zn_engine_plan_fini(&plans[0]);
    zn_engine_plan_fini(&plans[1]);
}

/* ---- Bytes by link ---- */

/* Bytes that a rank sends in a step: the program's gathers and reductions, and the gathers of what updates wrote. */
struct traffic {
    uint64_t gathered, reduced;
};

static void add_section(const zn_engine_plan *plan, zn_section_id id, uint64_t n_times, struct traffic *sum)
{
    const struct zn_section *s = &plan->program.sections[id];
    uint64_t others = (uint64_t)plan->placement.n_ranks - 1;
    for (int k = 0; k < s->n_instrs; k++) {
        const struct zn_instr *i = &s->instrs[k];
        if (i->op == ZN_OP_GATHER || i->op == ZN_OP_GATHER_SUMS)
            sum->gathered += n_times * others * i->from.n_bytes;
        if (i->op == ZN_OP_REDUCE)
            sum->reduced += n_times * others * i->to.n_bytes;
    }
}

static struct traffic traffic_of(const zn_engine_plan *plan, int64_t n_micro_batches)
{
    const struct zn_placement *p = &plan->placement;
    struct traffic sum = {0};
    add_section(plan, ZN_SECTION_ONLY, 1, &sum);
    add_section(plan, ZN_SECTION_FIRST, 1, &sum);
    add_section(plan, ZN_SECTION_MIDDLE, (uint64_t)(n_micro_batches > 2 ? n_micro_batches - 2 : 0), &sum);
    add_section(plan, ZN_SECTION_LAST, 1, &sum);
    add_section(plan, ZN_SECTION_FINISH, 1, &sum);
    for (int u = 0; u < plan->units.n_units && zn_publishes_updates(p) && !p->gathers_parameters; u++)
        sum.gathered += (uint64_t)(p->n_ranks - 1) * (uint64_t)plan->units.units[u].partition * sizeof(float);
    return sum;
}

/* Of an untied model, in padded bytes of all parameters × (N-1)/N. In the vertical schedule forward and backward of the head are
 * one use. */
static void check_traffic(int stage, int64_t accumulate, bool vertical, int n_ranks, uint64_t n_gathers, uint64_t n_reductions)
{
    struct written_model m;
    zn_engine_plan plan;
    struct zn_engine_options o = written_options();
    o.stage = stage;
    o.accumulate = accumulate;
    o.vertical = vertical;
    o.reduce_every = stage >= 2 && !vertical;
    write_model(&m, model);
    const char *once = "a f0 b c f1 d f2 d d( d) b2 b c b( b) c( c) b1 a a( a) b0";
    const char *twice = "a a f0 b c b c f1 d d d( d) d d d( d) b2 b c b( b) c( c) b c b( b) c( c) b1 a a( a) a a( a) b0";
    OK(compile_written(&m, vertical ? twice : once, &o, n_ranks, &plan));
    OK(zn_program_verify(&plan));
    struct traffic sum = traffic_of(&plan, accumulate);
    uint64_t psi = (uint64_t)plan.units.n_elements * 4 * (uint64_t)(n_ranks - 1) / (uint64_t)n_ranks;
    uint64_t head = (uint64_t)plan.units.units[2].n_elements * 4 * (uint64_t)(n_ranks - 1) / (uint64_t)n_ranks;
    assert_int_equal(sum.gathered, n_gathers * psi - (stage == 3 && vertical ? head : 0));
    assert_int_equal(sum.reduced, n_reductions * psi);
    zn_engine_plan_fini(&plan);
}

/* 2Ψ at stages 0 to 2 and 3Ψ at stage 3; with A micro-batches (A+1)Ψ at stage 2 and 3AΨ at stage 3, 3Ψ at most where vertical. */
static void bytes_between_ranks_are_those_of_the_formulas(void **state)
{
    (void)state;
    for (int n_ranks = 1; n_ranks <= 4; n_ranks++) {
        for (int stage = 0; stage <= 2; stage++)
            check_traffic(stage, 1, false, n_ranks, 1, 1);
        check_traffic(3, 1, false, n_ranks, 2, 1);
        check_traffic(0, 3, false, n_ranks, 1, 1);
        check_traffic(1, 3, false, n_ranks, 1, 1);
        check_traffic(2, 3, false, n_ranks, 1, 3);
        check_traffic(3, 3, false, n_ranks, 6, 3);
        check_traffic(2, 3, true, n_ranks, 1, 1);
        check_traffic(3, 3, true, n_ranks, 2, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_of_ranks_that_differ),
        cmocka_unit_test(programs_that_differ_in_what_is_no_collective),
        cmocka_unit_test(bytes_between_ranks_are_those_of_the_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
