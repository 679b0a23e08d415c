/* The object around a run: training.h for callers outside of this folder. */
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/export.h"
#include "schedule/print.h"
#include "train/output.h"
#include "train/training.h"
#include "zero/recorder.h"

struct zn_session {
    struct zn_train_options options;
    struct training run;
    bool has_failed; /* in the middle of something: the run is not as it was */
};

zn_status zn_session_create(const struct zn_session_setup *setup, zn_session **session)
{
    zn_session *s = calloc(1, sizeof *s);
    zn_status status = zn_comm_agree(setup->comm, s ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for a run"));
    if (status != ZN_OK) {
        free(s);
        return status;
    }
    s->options = setup->options;
    status = training_begin(&s->run, &(struct training_setup){.options = &s->options,
                                                              .comm = setup->comm,
                                                              .network = setup->network,
                                                              .is_temporary = setup->is_temporary});
    if (status != ZN_OK) {
        training_tell_failure(&s->run, status);
        zn_session_destroy(s);
        return status;
    }
    *session = s;
    return ZN_OK;
}

void zn_session_destroy(zn_session *s)
{
    if (!s)
        return;
    training_fini(&s->run);
    free(s);
}

static zn_status check_usable(const zn_session *s)
{
    if (s->has_failed)
        return zn_fail(ZN_ERR_USAGE, "the engine has failed before: destroy it");
    if (s->run.is_over)
        return zn_fail(ZN_ERR_USAGE, "%s holds the finished model of this run: nothing was loaded", s->run.settings.output);
    return ZN_OK;
}

/* The others are told. */
static zn_status failed(zn_session *s, zn_status status)
{
    s->has_failed = true;
    training_tell_failure(&s->run, status);
    return status;
}

zn_status zn_session_step(zn_session *s, struct zn_step_report *report)
{
    ZN_TRY(check_usable(s));
    if (training_is_done(&s->run))
        return training_step(&s->run, report); /* says so; nothing was begun */
    zn_status status = training_step(&s->run, report);
    return status == ZN_OK ? ZN_OK : failed(s, status);
}

zn_status zn_session_finish(zn_session *s)
{
    ZN_TRY(check_usable(s));
    if (!training_is_done(&s->run))
        return training_end(&s->run); /* the same */
    zn_status status = training_end(&s->run);
    return status == ZN_OK ? ZN_OK : failed(s, status);
}

zn_status zn_session_evaluate(zn_session *s, struct zn_eval_result *result)
{
    struct training *t = &s->run;
    ZN_TRY(check_usable(s));
    if (!t->eval_windows)
        return zn_fail(ZN_ERR_USAGE, "there is nothing to evaluate: eval-data names held-out data before an engine is made");
    zn_status status = zn_run_evaluate(&t->run, &t->engine, t->eval_windows, result);
    if (status == ZN_OK)
        result->is_shown = zn_comm_rank(t->run.comm) == 0;
    return status == ZN_OK || t->run.is_evaluation_alike ? status : failed(s, status);
}

/* ---- Values ---- */

static const zn_param *find_param(const struct training *t, const char *name)
{
    const zn_module *module = t->run.model->module;
    for (int i = 0; i < module->n_params; i++)
        if (strcmp(module->params[i].name, name) == 0)
            return &module->params[i];
    return NULL;
}

static zn_state find_state(const zn_engine *engine, const char *name)
{
    int k = 0;
    for (; k < ZN_N_STATES; k++) {
        const char *known = zn_engine_state_name(engine, (zn_state)k);
        if (known && strcmp(known, name ? name : "master") == 0)
            break;
    }
    return (zn_state)k;
}

static zn_status take(void *self, const zn_param *param, int64_t first, const float *values, int64_t n_values)
{
    (void)param;
    memcpy((float *)self + first, values, (size_t)n_values * sizeof *values);
    return ZN_OK;
}

zn_status zn_session_read(zn_session *s, const char *name, const char *state, float *values, int64_t n_values)
{
    zn_engine *engine = s->run.run.engine;
    ZN_TRY(check_usable(s));
    const zn_param *param = find_param(&s->run, name);
    zn_state which = find_state(engine, state);
    if (!param)
        return zn_fail(ZN_ERR_USAGE, "no parameter of the model is called '%s' (one is '%s')", zn_shown(name).text,
                       s->run.run.model->module->params[0].name);
    if (which == ZN_N_STATES || !zn_engine_has_state(engine, param, which))
        return zn_fail(ZN_ERR_USAGE, "%s has no state '%s'", param->name, zn_shown(state).text);
    int64_t n = zn_state_values(param->n_elements, zn_engine_state_grain(engine, which));
    if (n != n_values)
        return zn_fail(ZN_ERR_USAGE, "%s: has %lld values, not %lld", param->name, (long long)n, (long long)n_values);
    zn_status status = zn_engine_stream_param(engine, param, which, take, values);
    return status == ZN_OK ? ZN_OK : failed(s, status);
}

/* ---- Files ---- */

zn_status zn_session_save(zn_session *s, const char *folder)
{
    ZN_TRY(check_usable(s));
    return zn_saving_save(s->run.saving, folder, s->run.step, s->run.n_skipped);
}

zn_status zn_session_load(zn_session *s, const char *from)
{
    struct training *t = &s->run;
    ZN_TRY(check_usable(s));
    ZN_TRY(zn_saving_go_to(t->saving, from));
    zn_status status = zn_comm_agree(t->run.comm, zn_checkpoint_load(t->run.checkpoint, t->run.engine, t->run.model));
    if (status == ZN_OK)
        status = zn_engine_publish(t->run.engine);
    if (status != ZN_OK)
        return failed(s, status);
    zn_saving_restore(t->saving, &t->n_skipped);
    t->step = zn_saving_first_step(t->saving);
    return ZN_OK;
}

zn_status zn_session_export(zn_session *s, const char *folder)
{
    struct zn_run *run = &s->run.run;
    ZN_TRY(check_usable(s));
    ZN_TRY(zn_comm_agree(run->comm, zn_comm_rank(run->comm) == 0 ? zn_export_check_folder(folder) : ZN_OK));
    zn_status status = zn_output_write_model(folder, run);
    return status == ZN_OK ? ZN_OK : failed(s, status);
}

/* ---- What it is ---- */

bool zn_session_is_done(const zn_session *s)
{
    return training_is_done(&s->run);
}

int64_t zn_session_step_number(const zn_session *s)
{
    return s->run.is_over ? s->run.settings.steps : s->run.step;
}

const struct zn_settings *zn_session_settings(const zn_session *s)
{
    return &s->run.settings;
}

const char *zn_session_architecture(const zn_session *s)
{
    return s->run.run.model->architecture;
}

size_t zn_session_n_parameters(const zn_session *s)
{
    return (size_t)s->run.run.model->module->n_params;
}

struct zn_session_parameter zn_session_parameter(const zn_session *s, size_t i)
{
    const zn_param *p = &s->run.run.model->module->params[i];
    struct zn_session_parameter parameter = {.name = p->name,
                                             .n_dims = p->ndim,
                                             .n_elements = p->n_elements,
                                             .is_trained = !s->run.engine.frozen || !s->run.engine.frozen[i]};
    memcpy(parameter.dims, p->dims, sizeof parameter.dims);
    return parameter;
}

const char *zn_session_state(const zn_session *s, int i)
{
    for (int k = 0; k < ZN_N_STATES; k++) {
        const char *name = zn_engine_state_name(s->run.run.engine, (zn_state)k);
        if (name && i-- == 0)
            return name;
    }
    return NULL;
}

zn_status zn_session_program(const zn_session *s, char **text)
{
    struct zn_params params = zn_module_params(s->run.run.model->module);
    zn_text t;
    zn_text_init(&t);
    zn_program_print(&s->run.run.plan, &params, &t);
    zn_status status = zn_text_status(&t);
    if (status == ZN_OK)
        *text = t.data; /* the caller's now */
    else
        zn_text_fini(&t);
    return status;
}
