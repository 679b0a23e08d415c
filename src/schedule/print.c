/* Names for units, points and spans, and the lines made of them. */
#include "schedule/print.h"

#include <stdio.h>
#include <string.h>

static const char legend[] =
    "A step as the engine runs it. A line at the margin is a point of the pass: an operator asks for the values of a\n"
    "parameter (acquire) or for the place of its gradient (open, close), an activation checkpoint leaves or comes back,\n"
    "a segment ends. The numbered instructions below it run when the pass comes to it; points without any are left out.\n"
    "Columns: number, operation, unit, bytes, what it starts after, and from where to where (@ offset in a buffer that\n"
    "units share in turn).\n"
    "  c   what the device was given so far has ended     u   the unit's update has ended\n"
    "  #n  instruction n of the section has ended         +   it adds to what is there\n"
    "read, write, copy, gather, reduce, offload and update run beside the computing; wait holds up the device until\n"
    "one of them has ended, await the engine. Instructions on updates are about those of the step before, which may go\n"
    "on beside this one; ranks publish to each other what each has updated. Own is the rank's piece of a unit.\n"
    "Ranks that hold slices of parameters give activations, sum and gather them, and take what came of it.\n";

/* ---- Units ---- */

static void segment_name(const struct zn_params *params, int segment, char text[ZN_UNIT_NAME])
{
    if (segment == 0)
        snprintf(text, ZN_UNIT_NAME, "embedding");
    else if (segment == params->n_segments - 1)
        snprintf(text, ZN_UNIT_NAME, "head");
    else
        snprintf(text, ZN_UNIT_NAME, "block %d", segment - 1);
}

/* "h.3.mlp.c_fc.weight" is "c_fc". */
static void short_name(const char *name, char text[ZN_UNIT_NAME])
{
    const char *end = strrchr(name, '.'), *begin = end ? end : name;
    while (begin > name && begin[-1] != '.')
        begin--;
    int n = end && end > begin ? (int)(end - begin) : (int)strlen(begin);
    snprintf(text, ZN_UNIT_NAME, "%.*s", n, begin);
}

/* Which of the units that its segment keeps whole, from 0 on. */
static int among_segment(const zn_units *units, const struct zn_params *params, int unit)
{
    int n = 0, segment = params->params[units->parts[units->units[unit].first_part].param].segment;
    for (int u = unit - 1; u >= 0; u--) {
        const zn_param *p = &params->params[units->parts[units->units[u].first_part].param];
        if (p->segment != segment)
            break;
        n += units->tile_rows[p->index] >= p->dims[0];
    }
    return n;
}

const char *zn_unit_name(const zn_units *units, const struct zn_params *params, int unit, char text[ZN_UNIT_NAME])
{
    const struct zn_part *part = &units->parts[units->units[unit].first_part];
    const zn_param *p = &params->params[part->param];
    int64_t rows = units->tile_rows[p->index];
    char segment[ZN_UNIT_NAME], name[ZN_UNIT_NAME];
    bool is_block = p->segment > 0 && p->segment < params->n_segments - 1;
    segment_name(params, p->segment, segment);
    if (rows < p->dims[0]) {
        short_name(p->name, name);
        snprintf(text, ZN_UNIT_NAME, "%.16s%s%.24s %d/%d", is_block ? segment : "", is_block ? " " : "", name,
                 (int)(part->first_row / rows) + 1, (int)((p->dims[0] + rows - 1) / rows));
    } else if (among_segment(units, params, unit) > 0) {
        snprintf(text, ZN_UNIT_NAME, "%.16s #%d", segment, among_segment(units, params, unit) + 1);
    } else {
        snprintf(text, ZN_UNIT_NAME, "%s", segment);
    }
    return text;
}

/* ---- Spans ---- */

/* Four digits: "12.25 MiB". */
enum { SIZE_TEXT = 24 };
static const char *size_text(uint64_t n_bytes, char text[SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)n_bytes;
    int unit = 0;
    for (; size >= 1023.5 && unit < 4; unit++)
        size /= 1024;
    snprintf(text, SIZE_TEXT, "%.4g %s", size, units[unit]);
    return text;
}

/* In these a place is a unit's, or a checkpoint's, for a time. */
static bool is_shared_in_turn(int buffer)
{
    return buffer == ZN_BUFFER_GATHERED || buffer == ZN_BUFFER_FETCHED || buffer == ZN_BUFFER_LANDED || buffer == ZN_BUFFER_SLOTS ||
           buffer == ZN_BUFFER_ADD || buffer == ZN_BUFFER_CHECKPOINT_COPIES || buffer == ZN_BUFFER_CHECKPOINT_STAGING ||
           buffer == ZN_BUFFER_CHECKPOINT_PIECES;
}

static void add_span(zn_text *t, const zn_engine_plan *plan, const struct zn_span *span)
{
    char offset[SIZE_TEXT];
    const struct zn_buffer *buffer = &plan->buffers[span->buffer];
    zn_text_add(t, "%s%s%s", span->is_own ? "own " : "", buffer->name, buffer->tier == ZN_TIER_NVME ? " (nvme)" : "");
    if (is_shared_in_turn(span->buffer))
        zn_text_add(t, " @ %s", span->offset ? size_text(span->offset, offset) : "0");
}

static void add_spans(zn_text *t, const zn_engine_plan *plan, const struct zn_instr *i)
{
    if (i->from.buffer >= 0)
        add_span(t, plan, &i->from);
    if (i->to.buffer >= 0) {
        zn_text_add(t, "%s", i->from.buffer >= 0 ? " → " : "→ ");
        add_span(t, plan, &i->to);
    }
    if (i->flags & ZN_ON_HOST)
        zn_text_add(t, ", on the host");
    if (i->flags & ZN_FINAL)
        zn_text_add(t, ", complete");
}

/* ---- Lines ---- */

struct printer {
    const zn_engine_plan *plan;
    const struct zn_params *params;
    const struct zn_section *section;
    const struct zn_pass_trace *trace;
    zn_text *text;
};

static void add_point(const struct printer *p, int at)
{
    const struct zn_point *point = &p->trace->points[at];
    const struct zn_span *bound = &p->section->address[at];
    char name[ZN_UNIT_NAME];
    zn_text_add(p->text, "%s ", zn_point_name((zn_point_kind)point->kind));
    switch ((zn_point_kind)point->kind) {
    case ZN_POINT_ACQUIRE:
    case ZN_POINT_OPEN:
    case ZN_POINT_CLOSE: {
        const struct zn_part *part = &p->plan->units.parts[point->index];
        const zn_param *param = &p->params->params[part->param];
        zn_text_add(p->text, "%s", param->name);
        if (part->n_rows < param->dims[0])
            zn_text_add(p->text, " rows %lld to %lld", (long long)part->first_row, (long long)(part->first_row + part->n_rows - 1));
        break;
    }
    case ZN_POINT_FORWARD_END:
    case ZN_POINT_BACKWARD_END:
        segment_name(p->params, point->index, name);
        zn_text_add(p->text, "of %s", name);
        break;
    case ZN_POINT_SUM_SLICES:
    case ZN_POINT_GATHER_SLICES:
        zn_text_add(p->text, "%d elements over slices", point->index);
        break;
    default:
        zn_text_add(p->text, "checkpoint %d", point->index);
    }
    if (bound->buffer >= 0) {
        zn_text_add(p->text, " in ");
        add_span(p->text, p->plan, bound);
    }
    zn_text_add(p->text, "\n");
}

static void unit_column(const struct printer *p, const struct zn_instr *i, char text[ZN_UNIT_NAME])
{
    int n_units = p->plan->units.n_units;
    text[0] = '\0';
    if (i->op == ZN_OP_WAIT_UPDATES || i->op == ZN_OP_END_UPDATES || (i->op == ZN_OP_ISSUE_UPDATES && i->unit >= n_units))
        snprintf(text, ZN_UNIT_NAME, "all");
    else if (i->op == ZN_OP_ISSUE_UPDATES)
        snprintf(text, ZN_UNIT_NAME, "the first %d", i->unit);
    else if (i->unit >= 0)
        zn_unit_name(&p->plan->units, p->params, i->unit < n_units ? i->unit : n_units - 1, text);
}

static void add_instr(const struct printer *p, int index)
{
    const struct zn_instr *i = &p->section->instrs[index];
    char unit[ZN_UNIT_NAME], size[SIZE_TEXT] = "", after[32];
    uint64_t from = i->from.buffer >= 0 ? i->from.n_bytes : 0, to = i->to.buffer >= 0 ? i->to.n_bytes : 0;
    if (from > 0 || to > 0)
        size_text(i->op == ZN_OP_SQUARES || from > to ? from : to, size);
    int n = snprintf(after, sizeof after, "%s%s%s", i->flags & ZN_AFTER_COMPUTE ? "c " : "",
                     i->flags & ZN_AFTER_UPDATED ? "u " : "", i->flags & ZN_ADDS ? "+ " : "");
    if (i->after >= 0)
        snprintf(after + n, sizeof after - (size_t)n, "#%d", i->after);
    unit_column(p, i, unit);
    zn_text_add(p->text, "%4d %-15s %-17s %9s %-7s ", index, zn_op_name((zn_op)i->op), unit, size, after);
    add_spans(p->text, p->plan, i);
    while (p->text->n_bytes > 0 && p->text->data[p->text->n_bytes - 1] == ' ')
        p->text->data[--p->text->n_bytes] = '\0';
    zn_text_add(p->text, "\n");
}

void zn_section_print(const zn_engine_plan *plan, const struct zn_params *params, zn_section_id id, bool all_points, zn_text *text)
{
    const struct zn_section *s = &plan->program.sections[id];
    const struct printer p = {.plan = plan,
                              .params = params,
                              .section = s,
                              .trace = zn_section_trace(&plan->trace, id),
                              .text = text};
    for (int at = 0; at < s->n_points; at++) {
        if (all_points || s->first[at] < s->first[at + 1])
            add_point(&p, at);
        for (int i = s->first[at]; i < s->first[at + 1]; i++)
            add_instr(&p, i);
    }
    if (s->n_points > 0 && s->first[s->n_points] < s->n_instrs)
        zn_text_add(text, "end of the pass\n");
    for (int i = s->first[s->n_points]; i < s->n_instrs; i++)
        add_instr(&p, i);
}

void zn_program_print(const zn_engine_plan *plan, const struct zn_params *params, zn_text *text)
{
    zn_text_add(text, "%s", legend);
    for (int id = 0; id < ZN_N_SECTIONS; id++) {
        const struct zn_section *s = &plan->program.sections[id];
        if (!s->first)
            continue;
        zn_text_add(text, "\n== %s: %d points, %d instructions\n", zn_section_name((zn_section_id)id), s->n_points, s->n_instrs);
        zn_section_print(plan, params, (zn_section_id)id, false, text);
    }
}
