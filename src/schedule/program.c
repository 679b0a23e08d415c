/* Sections and their instructions. */
#include "schedule/program.h"

#include <stdlib.h>

const char *zn_section_name(zn_section_id id)
{
    static const char *const names[ZN_N_SECTIONS] = {"only micro-batch", "first micro-batch", "middle micro-batch",
                                                     "last micro-batch", "finish",            "evaluate",          "reference"};
    return names[id];
}

const struct zn_pass_trace *zn_section_trace(const zn_trace *trace, zn_section_id id)
{
    return id == ZN_SECTION_EVALUATE ? &trace->evaluate : id == ZN_SECTION_REFERENCE ? &trace->reference : &trace->train;
}

const char *zn_op_name(zn_op op)
{
    static const char *const names[ZN_N_OPS] = {
        "read",         "write",        "copy out",     "copy in",   "gather",        "gather sums",    "reduce",
        "sum slices",   "gather slices", "gather pieces", "offload", "update",    "wait",          "await",          "await offload",
        "zero",         "add",          "squares",      "pack",      "unpack",        "give",           "take",
        "issue updates", "advance update", "return updated", "wait updated", "wait updates",
        "end updates",  "publish",      "publish to",   "await published"};
    return names[op];
}

void zn_program_fini(zn_program *program)
{
    for (int s = 0; s < ZN_N_SECTIONS; s++) {
        free(program->sections[s].instrs);
        free(program->sections[s].first);
        free(program->sections[s].address);
    }
    *program = (zn_program){0};
}

zn_status zn_writer_start(struct zn_writer *w, zn_program *program, zn_section_id id, int n_points)
{
    struct zn_section *section = &program->sections[id];
    free(section->instrs);
    free(section->first);
    free(section->address);
    *section = (struct zn_section){.n_points = n_points};
    section->first = calloc((size_t)n_points + 2, sizeof *section->first);
    section->address = calloc((size_t)n_points + 1, sizeof *section->address);
    if (!section->first || !section->address)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the program of a step");
    for (int p = 0; p <= n_points; p++)
        section->address[p] = ZN_NO_SPAN;
    *w = (struct zn_writer){.program = program, .section = section};
    return ZN_OK;
}

void zn_writer_next_point(struct zn_writer *w)
{
    w->section->first[++w->point] = w->section->n_instrs;
}

void zn_writer_bind(struct zn_writer *w, struct zn_span span)
{
    w->section->address[w->point] = span;
}

int zn_emit(struct zn_writer *w, struct zn_instr instr)
{
    struct zn_section *s = w->section;
    if (w->status != ZN_OK)
        return -1;
    if (s->n_instrs == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 128;
        struct zn_instr *grown = realloc(s->instrs, (size_t)capacity * sizeof *grown);
        if (!grown) {
            w->status = zn_fail(ZN_ERR_MEMORY, "no memory for the program of a step");
            return -1;
        }
        s->instrs = grown;
        s->capacity = capacity;
    }
    instr.event = instr.op < ZN_N_ASYNC_OPS ? w->program->n_events++ : -1;
    s->instrs[s->n_instrs] = instr;
    return s->n_instrs++;
}

void zn_emit_wait(struct zn_writer *w, int after)
{
    if (after >= 0)
        zn_emit(w, (struct zn_instr){.op = ZN_OP_WAIT, .unit = w->section->instrs[after].unit, .after = after,
                                     .from = ZN_NO_SPAN, .to = ZN_NO_SPAN});
}

void zn_emit_unit(struct zn_writer *w, zn_op op, int unit)
{
    zn_emit(w, (struct zn_instr){.op = (uint8_t)op, .unit = unit, .after = -1, .from = ZN_NO_SPAN, .to = ZN_NO_SPAN});
}
