/* Programs that are right, and faults that are planted in them. */
#ifndef ZN_TESTS_SCHEDULE_PLANTED_H
#define ZN_TESTS_SCHEDULE_PLANTED_H

#include "schedule/written.h"

static const char *const model = "a 1024 | b 1024 c 1024 | d 3072";
static const char *const trace = "a f0 b c f1 d f2 d( d) d b2 b c b( b) c( c) b1 a( a) b0";
static const char *const with_checkpoints = "a f0 b c save1 f1 d f2 prefetch1 d( d) d b2 load1 b c b( b) c( c) b1 a( a) b0";

static inline struct zn_engine_options stage_3(void)
{
    struct zn_engine_options o = written_options();
    o.stage = 3;
    return o;
}

static inline struct zn_engine_options all_on_nvme(void)
{
    struct zn_engine_options o = stage_3();
    o.accumulate = 2;
    o.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME};
    return o;
}

static inline struct zn_engine_options in_backward(void)
{
    struct zn_engine_options o = written_options();
    o.stage = 2;
    o.in_backward = true;
    return o;
}

static inline struct zn_engine_options discrete(void)
{
    struct zn_engine_options o = written_options();
    o.stage = 2;
    o.is_discrete = true;
    o.offload = (struct zn_offload){.gradients = ZN_TIER_HOST, .optimizer = ZN_TIER_HOST, .activations = ZN_TIER_HOST};
    return o;
}

/* The n-th instruction (from 0 on) of its kind in a section. */
static inline int find(const zn_engine_plan *plan, zn_section_id id, zn_op op, int n)
{
    const struct zn_section *s = &plan->program.sections[id];
    for (int i = 0; i < s->n_instrs; i++)
        if (s->instrs[i].op == op && n-- == 0)
            return i;
    fail_msg("there is no such instruction");
    return -1;
}

static inline struct zn_instr *get(zn_engine_plan *plan, zn_section_id id, zn_op op, int n)
{
    return &plan->program.sections[id].instrs[find(plan, id, op, n)];
}

/* An instruction that does nothing takes its place. */
static inline void drop(zn_engine_plan *plan, zn_section_id id, int index)
{
    plan->program.sections[id].instrs[index] =
        (struct zn_instr){.op = ZN_OP_ADVANCE_UPDATE, .after = -1, .event = -1, .from = ZN_NO_SPAN, .to = ZN_NO_SPAN};
}

/* … and those of who waits for it. */
static inline void drop_with_waits(zn_engine_plan *plan, zn_section_id id, int index)
{
    struct zn_section *s = &plan->program.sections[id];
    for (int i = 0; i < s->n_instrs; i++)
        if (s->instrs[i].after == index)
            drop(plan, id, i);
    drop(plan, id, index);
}

static inline int point_of(const zn_engine_plan *plan, zn_section_id id, zn_point_kind kind, int n)
{
    for (int p = 0; p < plan->program.sections[id].n_points; p++)
        if (plan->trace.train.points[p].kind == (int32_t)kind && n-- == 0)
            return p;
    fail_msg("there is no such point");
    return -1;
}

/* Plants in a program that is right and expects the words of the message. */
static inline void expect_fault(struct zn_engine_options o, int n_ranks, const char *text, void (*plant)(zn_engine_plan *plan),
                         const char *message)
{
    struct written_model m;
    zn_engine_plan plan;
    write_model(&m, model);
    OK(compile_written(&m, text, &o, n_ranks, &plan));
    OK(zn_program_verify(&plan));
    plant(&plan);
    assert_int_equal(zn_program_verify(&plan), ZN_ERR_INTERNAL);
    if (!strstr(zn_error_message(), message))
        fail_msg("'%s' is not in '%s'", message, zn_error_message());
    zn_engine_plan_fini(&plan);
}

static const zn_section_id ONLY = ZN_SECTION_ONLY, LAST = ZN_SECTION_LAST, FINISH = ZN_SECTION_FINISH;

#endif
