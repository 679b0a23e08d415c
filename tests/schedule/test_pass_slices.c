/* What ranks that hold slices of parameters exchange: trace and placement in, program out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

/* The pieces of 1000 elements on three ranks are of 334; the buffer is used again by the next exchange. */
static void sums_are_reduced_and_gathered_piece_by_piece(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    o.n_slices = 3;
    expect_program("a 1024 | d 1024", "f0 sum1000 all8 f1 b1 sum1000 b0", &o, 1, ZN_SECTION_ONLY,
                   "end of forward of embedding\n"
                   "sum 1000 elements over slices\n"
                   "    0 give 3.914 KiB → exchange of slices\n"
                   "    1 sum slices 3.914 KiB c exchange of slices → own exchange of slices\n"
                   "    2 gather slices 3.914 KiB #1 own exchange of slices → exchange of slices\n"
                   "    3 wait #2\n"
                   "    4 take 3.914 KiB exchange of slices\n"
                   "gather 8 elements over slices\n"
                   "    5 give 32 B → own exchange of slices\n"
                   "    6 gather slices 96 B c own exchange of slices → exchange of slices\n"
                   "    7 wait #6\n"
                   "    8 take 96 B exchange of slices\n"
                   "end of forward of head\n"
                   "end of backward of head\n"
                   "sum 1000 elements over slices\n"
                   "    9 give 3.914 KiB → exchange of slices\n"
                   "    10 sum slices 3.914 KiB c exchange of slices → own exchange of slices\n"
                   "    11 gather slices 3.914 KiB #10 own exchange of slices → exchange of slices\n"
                   "    12 wait #11\n"
                   "    13 take 3.914 KiB exchange of slices\n"
                   "end of backward of embedding\n");
}

static void the_verifier_sees_what_is_taken_too_early(void **state)
{
    (void)state;
    struct zn_engine_options o = written_options();
    struct written_model m;
    zn_engine_plan plan;
    o.n_slices = 2;
    write_model(&m, "a 1024 | d 1024");
    OK(compile_written(&m, "f0 sum1000 f1 b1 b0", &o, 2, &plan));
    OK(zn_program_verify(&plan));
    struct zn_section *s = &plan.program.sections[ZN_SECTION_ONLY];
    int at = 0;
    while (s->instrs[at].op != ZN_OP_WAIT)
        at++;
    s->instrs[at].after = at - 2; /* for the reduction and not for the gather */
    assert_int_equal(zn_program_verify(&plan), ZN_ERR_INTERNAL);
    zn_engine_plan_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_reduced_and_gathered_piece_by_piece),
        cmocka_unit_test(the_verifier_sees_what_is_taken_too_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
