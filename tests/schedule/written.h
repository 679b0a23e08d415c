/* Models and traces written as short texts, and the programs that are compiled from them.
 *
 * A model is segments with their parameters: "a 1024x2 | b 1024 c 1024x4 | d 1024". A trace is points: `a` acquires, `a(` opens
 * and `a)` closes a gradient, `a:2` is its tile 2 (from 0 on), save0 prefetch0 load0 are those of checkpoint 0, sum8 and all8 sum or
 * gather 8 elements over slices, and f1 and b1 end segment 1's forward and backward. */
#ifndef ZN_TESTS_SCHEDULE_WRITTEN_H
#define ZN_TESTS_SCHEDULE_WRITTEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/registry.h"
#include "schedule/compile.h"
#include "schedule/print.h"
#include "schedule/verify.h"

#define OK(call) assert_int_equal(call, ZN_OK)

enum { MAX_PARAMS = 32, CHECKPOINT_ELEMENTS = 1024 };

struct written_model {
    zn_param params[MAX_PARAMS];
    struct zn_params list;
};

static inline void write_model(struct written_model *m, const char *text)
{
    char copy[512], *rest = copy;
    int segment = 0;
    *m = (struct written_model){.list = {.params = m->params, .n_segments = 1}};
    assert_true(snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        if (strcmp(word, "|") == 0) {
            segment++;
            continue;
        }
        zn_param *p = &m->params[m->list.n_params];
        *p = (zn_param){.index = m->list.n_params++, .segment = segment, .ndim = 1};
        snprintf(p->name, sizeof p->name, "%s", word);
        char *dims = strtok_r(rest, " ", &rest), *second = strchr(dims, 'x');
        p->dims[0] = p->n_elements = atoll(dims);
        if (second) {
            p->ndim = 2;
            p->dims[1] = atoll(second + 1);
            p->n_elements *= p->dims[1];
        }
    }
    m->list.n_segments = segment + 1;
}

static inline const zn_param *written_param(const struct written_model *m, const char *word, size_t n)
{
    for (int i = 0; i < m->list.n_params; i++)
        if (strlen(m->params[i].name) == n && strncmp(m->params[i].name, word, n) == 0)
            return &m->params[i];
    return NULL;
}

static inline void write_point(const struct written_model *m, const zn_units *units, zn_trace *trace, struct zn_pass_trace *pass,
                               const char *word)
{
    static const struct {
        const char *word;
        zn_point_kind kind;
    } kinds[] = {{"save", ZN_POINT_SAVE},       {"prefetch", ZN_POINT_PREFETCH}, {"load", ZN_POINT_LOAD},
                 {"sum", ZN_POINT_SUM_SLICES}, {"all", ZN_POINT_GATHER_SLICES},
                 {"f", ZN_POINT_FORWARD_END}, {"b", ZN_POINT_BACKWARD_END}};
    size_t n = strcspn(word, ":()");
    const zn_param *param = written_param(m, word, n);
    if (param) {
        int tile = word[n] == ':' ? atoi(word + n + 1) : 0;
        char last = word[strlen(word) - 1];
        OK(zn_pass_trace_add(pass, last == '(' ? ZN_POINT_OPEN : last == ')' ? ZN_POINT_CLOSE : ZN_POINT_ACQUIRE,
                             units->first_part[param->index] + tile));
        return;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t length = strlen(kinds[k].word);
        if (strncmp(word, kinds[k].word, length) != 0)
            continue;
        int index = atoi(word + length);
        OK(zn_pass_trace_add(pass, kinds[k].kind, index));
        if (kinds[k].kind == ZN_POINT_SAVE) {
            trace->checkpoint_elements = CHECKPOINT_ELEMENTS;
            trace->n_checkpoints = index >= trace->n_checkpoints ? index + 1 : trace->n_checkpoints;
        }
        return;
    }
    fail_msg("'%s' is no point", word);
}

static inline void write_pass(const struct written_model *m, const zn_units *units, zn_trace *trace, struct zn_pass_trace *pass,
                              const char *text)
{
    char *copy = strdup(text), *rest = copy;
    OK(zn_lifetimes_create(&pass->lifetimes));
    OK(zn_lifetimes_pack(pass->lifetimes));
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        write_point(m, units, trace, pass, word);
    free(copy);
}

static inline struct zn_engine_options written_options(void)
{
    return (struct zn_engine_options){.trains = true,
                                      .micro_batch = 1,
                                      .seq_len = 8,
                                      .accumulate = 1,
                                      .recompute = true,
                                      .reduce_every = true,
                                      .optimizer = &zn_optimizer_adamw,
                                      .delay_after = -1};
}

/* The plan of a training pass, or of an evaluation where the engine does not train. */
static inline zn_status compile_written(const struct written_model *m, const char *text, const struct zn_engine_options *o,
                                        int n_ranks, zn_engine_plan *plan)
{
    zn_units units;
    zn_trace trace = {.n_segments = m->list.n_segments, .vocabulary = 16, .n_slices = o->n_slices};
    OK(zn_compile_units(&m->list, o, n_ranks, &units));
    write_pass(m, &units, &trace, o->trains ? &trace.train : &trace.evaluate, text);
    zn_units_fini(&units);
    return zn_compile(&m->list, o, n_ranks, &trace, plan);
}

/* Words are compared, not the room between them: a line is a line of the printer, with all points. */
static inline char *squeezed(const char *text)
{
    char *made = malloc(strlen(text) + 1), *to = made;
    for (const char *c = text; *c; c++) {
        bool is_blank = *c == ' ', at_start = to == made || to[-1] == '\n';
        if (*c == '\n' && to > made && to[-1] == ' ')
            to--;
        if (!is_blank || (!at_start && to[-1] != ' '))
            *to++ = *c;
    }
    *to = '\0';
    return made;
}

static inline void expect_section(const struct written_model *m, const zn_engine_plan *plan, zn_section_id id, const char *expected)
{
    zn_text text;
    zn_text_init(&text);
    zn_text_add(&text, "%s", "");
    zn_section_print(plan, &m->list, id, true, &text);
    char *has = squeezed(text.data), *wants = squeezed(expected);
    assert_string_equal(has, wants);
    free(has);
    free(wants);
    zn_text_fini(&text);
}

/* Compiles, verifies and compares one section. */
static inline void expect_program(const char *model, const char *trace, const struct zn_engine_options *o, int n_ranks,
                                  zn_section_id id, const char *expected)
{
    struct written_model m;
    zn_engine_plan plan;
    write_model(&m, model);
    OK(compile_written(&m, trace, o, n_ranks, &plan));
    if (zn_program_verify(&plan) != ZN_OK)
        fail_msg("%s", zn_error_message());
    expect_section(&m, &plan, id, expected);
    zn_engine_plan_fini(&plan);
}

#endif
