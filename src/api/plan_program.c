/* `zinc plan --program`: the step of the plan, one instruction a line. */
#include <stdio.h>

#include "api/planning.h"
#include "plan/dry_run.h"
#include "schedule/print.h"
#include "schedule/verify.h"
#include "zero/recorder.h"

zn_status plan_show_program(const struct plan *p, FILE *out)
{
    struct zn_params params = zn_module_params(p->setup.model->module);
    zn_engine_plan plan;
    zn_text text;
    struct zn_engine_options engine = p->setup.engine;
    engine.is_discrete = !p->setup.cluster->device.is_host;
    ZN_TRY(zn_dry_run(p->setup.model->module, &engine, p->setup.n_ranks, &plan));
    zn_text_init(&text);
    zn_status status = zn_program_verify(&plan);
    if (status == ZN_OK)
        zn_program_print(&plan, &params, &text);
    if (status == ZN_OK)
        status = zn_text_status(&text);
    if (status == ZN_OK)
        fputs(text.data, out);
    zn_text_fini(&text);
    zn_engine_plan_fini(&plan);
    return status;
}
