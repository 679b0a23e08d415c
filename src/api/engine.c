/* Engines as handles: sessions of train/, with what programs have in memory put where a run looks for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine_handle.h"
#include "base/files.h"
#include "checkpoint/folder.h"
#include "models/describe.h"

/* ---- The temporary folder ---- */

enum { PATH_BYTES = 1024 };
_Static_assert((int)PATH_BYTES <= (int)ZN_EXCHANGE_BYTES, "a path goes into one exchange");

static zn_status make_temporary(char *path)
{
    const char *where = getenv("TMPDIR");
    int n = snprintf(path, PATH_BYTES, "%s/zinc-XXXXXX", where && where[0] ? where : "/tmp");
    if (n >= PATH_BYTES)
        return zn_fail(ZN_ERR_IO, "TMPDIR is too long");
    return mkdtemp(path) ? ZN_OK : zn_fail(ZN_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
}

/* Rank 0 makes it, all know its name. Ranks on other machines need a file system that they share. */
static zn_status share_temporary(zn_engine *e)
{
    zn_comm *comm = e->context->comm;
    int n_ranks = zn_comm_n_ranks(comm);
    char mine[PATH_BYTES] = "", (*all)[PATH_BYTES] = calloc((size_t)n_ranks, sizeof *all);
    zn_status status = all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks);
    if (status == ZN_OK && zn_comm_rank(comm) == 0)
        status = make_temporary(mine);
    status = zn_comm_agree(comm, status);
    if (status == ZN_OK)
        status = zn_comm_exchange(comm, mine, sizeof mine, all);
    if (status == ZN_OK)
        e->temporary = strdup(all[0]);
    free(all);
    if (status == ZN_OK && !e->temporary)
        status = zn_fail(ZN_ERR_MEMORY, "no memory for a path");
    if (status == ZN_OK && !zn_folder_exists(e->temporary))
        status = zn_fail(ZN_ERR_IO, "%s: rank 0 made it, and rank %d does not see it: set TMPDIR to a folder that all ranks share",
                         e->temporary, zn_comm_rank(comm));
    return zn_comm_agree(comm, status);
}

static zn_status set_folder(const zn_engine *e, const char *option, const char *name)
{
    char *path;
    ZN_TRY(zn_path_join(e->temporary, name, &path));
    zn_status status = zn_options_set(e->options, option, path);
    free(path);
    return status;
}

/* ---- Set-up ---- */

static bool is_given(const zn_options *o, const char *flag)
{
    return zn_options_given(&o->given, flag);
}

static zn_status check_setup(const struct zn_engine_setup *s)
{
    if (s->size != sizeof *s)
        return zn_fail(ZN_ERR_USAGE, "an engine: size of its setup is %zu, not %zu: set it to sizeof", s->size, sizeof *s);
    if (!s->context || !s->options)
        return zn_fail(ZN_ERR_USAGE, "an engine needs a context and options");
    return s->options->which == ZN_FOR_TRAIN ? ZN_OK : zn_fail(ZN_ERR_USAGE, "an engine takes the options of train");
}

/* What is written beside the log goes to a folder that stays. */
static zn_status check_output(const zn_options *o)
{
    static const char *const flags[] = {"--checkpoint-every", "--save", "--resume"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (is_given(o, flags[i]))
            return zn_fail(ZN_ERR_USAGE, "%s needs --output; zn_engine_save and zn_engine_load take any folder", flags[i]);
    return ZN_OK;
}

static zn_status set_number(zn_options *o, const char *flag, size_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", value);
    return value == 0 || is_given(o, flag) ? ZN_OK : zn_options_set(o, flag, text);
}

static bool needs_model_folder(const struct zn_engine_setup *s)
{
    return s->model && s->model->network && !is_given(s->options, "--model");
}

static bool needs_temporary(const struct zn_engine_setup *s)
{
    return !is_given(s->options, "--output") || needs_model_folder(s) || data_needs_files(s->data) || data_needs_files(s->eval_data);
}

/* A network without a folder gets one with its config.json: what a run writes is a hub folder, too. */
static zn_status write_model_folder(const zn_engine *e, const zn_network *network)
{
    char *folder, *text;
    ZN_TRY(zn_path_join(e->temporary, "model", &folder));
    zn_status status = zn_folder_create(folder);
    char *path = NULL;
    if (status == ZN_OK)
        status = zn_path_join(folder, "config.json", &path);
    if (status == ZN_OK)
        status = zn_network_config(network, &text);
    if (status == ZN_OK) {
        status = zn_file_write(path, text, strlen(text));
        free(text);
    }
    free(path);
    free(folder);
    return status;
}

/* Rank 0: what the run reads as files. */
static zn_status write_files(const zn_engine *e, const struct zn_engine_setup *s)
{
    if (!e->temporary || zn_comm_rank(e->context->comm) != 0)
        return ZN_OK;
    if (needs_model_folder(s))
        ZN_TRY(write_model_folder(e, s->model->network));
    ZN_TRY(data_write(s->data, e->temporary, "data"));
    return data_write(s->eval_data, e->temporary, "eval-data");
}

static zn_status set_model(const zn_engine *e, const struct zn_engine_setup *s)
{
    zn_options *o = e->options;
    if (!s->model)
        return ZN_OK;
    if (!s->model->network)
        return zn_options_set(o, "--model", s->model->folder);
    if (!needs_model_folder(s))
        return ZN_OK;
    ZN_TRY(set_folder(e, "--model", "model"));
    return zn_options_set(o, "--from-scratch", NULL);
}

static zn_status set_options(const zn_engine *e, const struct zn_engine_setup *s)
{
    zn_options *o = e->options;
    ZN_TRY(set_model(e, s));
    if (s->data)
        ZN_TRY(data_set_paths(s->data, e->temporary, "data", "--data", o));
    if (s->eval_data)
        ZN_TRY(data_set_paths(s->eval_data, e->temporary, "eval-data", "--eval-data", o));
    ZN_TRY(set_number(o, "--memory-limit", e->context->memory_limit));
    ZN_TRY(set_number(o, "--threads", (size_t)e->context->threads));
    if (is_given(s->options, "--output"))
        return ZN_OK;
    ZN_TRY(check_output(o));
    ZN_TRY(zn_options_set(o, "--keep", "0"));
    return set_folder(e, "--output", "run");
}

static zn_status start(zn_engine *e, const struct zn_engine_setup *s)
{
    zn_comm *comm = e->context->comm;
    ZN_TRY(zn_comm_agree(comm, options_copy(s->options, &e->options)));
    if (needs_temporary(s))
        ZN_TRY(share_temporary(e));
    ZN_TRY(zn_comm_agree(comm, write_files(e, s)));
    ZN_TRY(zn_comm_agree(comm, set_options(e, s)));
    struct zn_session_setup setup = {.options = {.settings = e->options->settings, .stop = s->stop, .stop_self = s->stop_self},
                                     .comm = comm,
                                     .network = s->model ? s->model->network : NULL,
                                     .is_temporary = !is_given(s->options, "--output")};
    if (s->listener)
        setup.options.listener = *s->listener;
    return zn_session_create(&setup, &e->session);
}

zn_status zn_engine_create(const struct zn_engine_setup *setup, zn_engine **engine)
{
    ZN_TRY(check_setup(setup));
    zn_engine *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    e->context = setup->context;
    zn_status status = start(e, setup);
    if (status != ZN_OK) {
        zn_engine_destroy(e);
        return status;
    }
    *engine = e;
    return ZN_OK;
}

void zn_engine_destroy(zn_engine *e)
{
    if (!e)
        return;
    zn_session_destroy(e->session);
    if (e->temporary && zn_comm_rank(e->context->comm) == 0)
        zn_tree_remove(e->temporary);
    free(e->temporary);
    zn_options_destroy(e->options);
    free(e);
}

/* ---- Steps ---- */

zn_status zn_engine_step(zn_engine *engine, struct zn_step_result *result)
{
    struct zn_step_report r;
    if (result && result->size != sizeof *result)
        return zn_fail(ZN_ERR_USAGE, "zn_step_result: size is %zu, not %zu: set it to sizeof", result->size, sizeof *result);
    ZN_TRY(zn_session_step(engine->session, &r));
    if (result)
        *result = (struct zn_step_result){.size = sizeof *result,
                                          .step = r.step,
                                          .steps = r.steps,
                                          .loss = r.loss,
                                          .grad_norm = r.grad_norm,
                                          .lr = r.lr,
                                          .seconds = r.seconds,
                                          .scale = r.scale,
                                          .tokens = r.tokens,
                                          .targets = r.targets,
                                          .eval_loss = r.eval_loss,
                                          .skipped = r.skipped,
                                          .evaluated = r.evaluated,
                                          .reason = r.skipped ? r.reason : "",
                                          .device_bytes = r.device_bytes,
                                          .host_bytes = r.host_bytes,
                                          .nvme_bytes = r.nvme_bytes};
    return ZN_OK;
}

int zn_engine_is_done(const zn_engine *engine)
{
    return zn_session_is_done(engine->session);
}

zn_status zn_engine_finish(zn_engine *engine)
{
    return zn_session_finish(engine->session);
}

zn_status zn_engine_evaluate(zn_engine *engine, struct zn_evaluation *result)
{
    struct zn_eval_result r = {0};
    if (result->size != sizeof *result)
        return zn_fail(ZN_ERR_USAGE, "zn_evaluation: size is %zu, not %zu: set it to sizeof", result->size, sizeof *result);
    ZN_TRY(zn_session_evaluate(engine->session, &r));
    *result = (struct zn_evaluation){.size = sizeof *result,
                                     .loss = r.loss,
                                     .perplexity = r.perplexity,
                                     .windows = r.windows,
                                     .tokens = r.tokens,
                                     .targets = r.targets};
    return ZN_OK;
}
