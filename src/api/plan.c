/* Plans as handles. */
#include "zinc/plan.h"

#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "api/planning.h"
#include "formats/hub_cache.h"

struct zn_plan_handle {
    zn_options *options; /* a copy that the plan borrows from */
    char *found;         /* the model's folder where it was given by its name on the hub */
    struct plan plan;
};

static zn_status make(zn_plan *p)
{
    struct plan_flags *f = &p->options->plan;
    if (f->paper || f->trace || zn_options_given(&p->options->given, "--fit"))
        return zn_fail(ZN_ERR_USAGE, "--paper, --trace and --fit are the command's; zn_plan_write_config writes what was chosen");
    ZN_TRY(plan_check_flags(f, &p->options->given));
    if (f->model)
        ZN_TRY(zn_hub_cache_find(f->model, &p->found));
    if (p->found)
        f->model = p->found;
    return plan_make(&p->plan, f, &p->options->given, NULL);
}

zn_status zn_plan_create(const zn_options *options, zn_plan **plan)
{
    if (options->which)
        return zn_fail(ZN_ERR_USAGE, "a plan takes the options of plan");
    zn_plan *p = calloc(1, sizeof *p);
    zn_status status = p ? options_copy(options, &p->options) : zn_fail(ZN_ERR_MEMORY, "no memory for a plan");
    if (status == ZN_OK)
        status = make(p);
    if (status != ZN_OK) {
        zn_plan_destroy(p);
        return status;
    }
    *plan = p;
    return ZN_OK;
}

void zn_plan_destroy(zn_plan *plan)
{
    if (!plan)
        return;
    plan_fini(&plan->plan);
    zn_options_destroy(plan->options);
    free(plan->found);
    free(plan);
}

int zn_plan_is_fitting(const zn_plan *plan)
{
    return plan->plan.prediction.fits;
}

/* What `show` writes, as a text. */
static zn_status as_text(const zn_plan *plan, zn_status (*show)(const struct plan *plan, FILE *out), char **text)
{
    char *data = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&data, &n_bytes);
    zn_status status = out ? show(&plan->plan, out) : zn_fail(ZN_ERR_MEMORY, "no memory for a text");
    if (out && fclose(out) != 0 && status == ZN_OK)
        status = zn_fail(ZN_ERR_MEMORY, "no memory for a text");
    if (status != ZN_OK) {
        free(data);
        return status;
    }
    *text = data;
    return ZN_OK;
}

static zn_status show_text(const struct plan *plan, FILE *out)
{
    plan_show_text(plan, out);
    return ZN_OK;
}

zn_status zn_plan_json(const zn_plan *plan, char **text)
{
    return as_text(plan, plan_show_json, text);
}

zn_status zn_plan_text(const zn_plan *plan, char **text)
{
    return as_text(plan, show_text, text);
}

zn_status zn_plan_program(const zn_plan *plan, char **text)
{
    return as_text(plan, plan_show_program, text);
}

zn_status zn_plan_write_config(const zn_plan *plan, const char *path)
{
    return plan_write_config(&plan->plan, path);
}
