/* `zinc plan`: which of its ways is taken. */
#include <stdio.h>
#include <stdlib.h>

#include "api/plan_simulated.h"
#include "api/planning.h"
#include "cli/commands.h"
#include "cli/plan_paper.h"

static zn_status show_paper(const struct plan_flags *f)
{
    static struct zn_paper paper;
    ZN_TRY(zn_paper_compute(f->paper, &paper));
    plan_show_paper(&paper, f->json);
    return ZN_OK;
}

static zn_status refuse_unfit(const struct plan *p)
{
    if (p->prediction.fits)
        return ZN_OK;
    return zn_fail(ZN_ERR_MEMORY, "--fit: nothing fits on %d ranks of %s; %s", p->setup.n_ranks, p->cluster.name,
                   p->advice.text);
}

static void show_note(const char *text)
{
    fprintf(stderr, "zinc plan: %s\n", text);
}

static zn_status run(const struct plan_flags *f, const struct zn_options *given)
{
    struct plan p = {0};
    bool fits = zn_options_given(given, "--fit");
    const char *config = f->fit ? f->fit : "zinc-fit.json";
    zn_status status = plan_make(&p, f, given, show_note);
    if (status == ZN_OK && fits)
        status = refuse_unfit(&p);
    if (status == ZN_OK && fits)
        status = plan_write_config(&p, config);
    if (status == ZN_OK && f->trace)
        status = plan_write_trace(&p, f->trace);
    if (status == ZN_OK && f->program)
        status = plan_show_program(&p, stdout);
    else if (status == ZN_OK && f->json)
        status = plan_show_json(&p, stdout);
    else if (status == ZN_OK)
        plan_show_text(&p, stdout);
    if (status == ZN_OK && fits)
        fprintf(f->json ? stderr : stdout, "wrote %s\n", config);
    if (status == ZN_OK && f->trace)
        fprintf(f->json ? stderr : stdout, "wrote %s\n", f->trace);
    if (status == ZN_OK && !p.prediction.fits)
        status = zn_fail(ZN_ERR_MEMORY, "does not fit: too little %s memory; %s", zn_tier_name(p.prediction.short_of),
                         p.advice.text);
    plan_fini(&p);
    return status;
}

int zn_cli_plan(int argc, char **argv)
{
    struct plan_flags f = {0};
    struct zn_options given;
    struct zn_command command = plan_command;
    command.hint = zn_cli_hint;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        char *found = NULL;
        zn_status status = plan_check_flags(&f, &given);
        if (status == ZN_OK && f.model)
            status = zn_cli_find_model(&command, &f.model, &found);
        if (status == ZN_OK)
            status = f.paper ? show_paper(&f) : run(&f, &given);
        if (status == ZN_OK && fflush(stdout) != 0)
            status = zn_fail(ZN_ERR_IO, "cannot write to standard output");
        code = zn_cli_end(&command, status);
        free(found);
    }
    zn_options_fini(&given, &f);
    return code;
}
