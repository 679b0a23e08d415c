/* The program as text: names that a reader knows, lines that are not too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "schedule/written.h"

enum { COLUMNS = 120 };

static void units_have_the_names_of_their_segments(void **state)
{
    (void)state;
    struct written_model m;
    zn_units units;
    char text[ZN_UNIT_NAME];
    static const char *const names[] = {"embedding", "block 0", "block 0 c_fc 1/2", "block 0 c_fc 2/2", "head", "lm_head 1/3"};
    write_model(&m, "wpe 1024 | ln 1024 h.0.mlp.c_fc.weight 2048x2 | ln_f 1024 lm_head.weight 3000x2");
    OK(zn_units_init(&units, &m.list, &(struct zn_units_options){.type = ZN_F32, .n_ranks = 1, .tile_bytes = 8192}));
    assert_int_equal(units.n_units, 8);
    for (int u = 0; u < 6; u++)
        assert_string_equal(zn_unit_name(&units, &m.list, u, text), names[u]);
    zn_units_fini(&units);
}

/* Columns of a line of UTF-8. */
static int n_columns(const char *line, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    return columns;
}

static void every_section_is_printed_in_narrow_lines(void **state)
{
    (void)state;
    struct written_model m;
    zn_engine_plan plan;
    zn_text text;
    struct zn_engine_options o = written_options();
    o.stage = 3;
    o.accumulate = 2;
    o.is_discrete = true;
    o.offload = (struct zn_offload){ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME, ZN_TIER_NVME};
    write_model(&m, "a 1024 | model.layers.11.post_attention_layernorm.weight 1024 | d 1024");
    OK(compile_written(&m,
                       "a f0 model.layers.11.post_attention_layernorm.weight save1 f1 d f2 prefetch1 d( d) b2 load1 "
                       "model.layers.11.post_attention_layernorm.weight( model.layers.11.post_attention_layernorm.weight) b1 "
                       "a( a) b0",
                       &o, 2, &plan));
    zn_text_init(&text);
    zn_program_print(&plan, &m.list, &text);
    OK(zn_text_status(&text));
    for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
        if (n_columns(line, strcspn(line, "\n")) > COLUMNS)
            fail_msg("%d columns: %.*s", n_columns(line, strcspn(line, "\n")), (int)strcspn(line, "\n"), line);
    for (int id = 0; id < ZN_N_SECTIONS; id++) {
        char head[64];
        const struct zn_section *s = &plan.program.sections[id];
        snprintf(head, sizeof head, "== %s: %d points, %d instructions\n", zn_section_name((zn_section_id)id), s->n_points,
                 s->n_instrs);
        assert_true(!strstr(text.data, head) == !s->first);
    }
    zn_text_fini(&text);
    zn_engine_plan_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_have_the_names_of_their_segments),
        cmocka_unit_test(every_section_is_printed_in_narrow_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
