/* Where a run begins: finding a checkpoint, holding it to the run's options, and the output folder's state before
 * the first step. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "checkpoint/folder.h"
#include "settings/compare.h"
#include "train/adapters.h"
#include "train/agreement.h"
#include "train/output.h"
#include "train/saving_private.h"

/* ---- What must be as it was ---- */

static zn_status check_int(const zn_checkpoint *c, const char *flag, int64_t saved, int64_t now)
{
    char was[32], is[32];
    snprintf(was, sizeof was, "%lld", (long long)saved);
    snprintf(is, sizeof is, "%lld", (long long)now);
    return saved == now ? ZN_OK : zn_change_refuse(c->folder, flag, was, is);
}

/* The states that this run's optimizer needs must be there; others are left out. */
static zn_status check_optimizer(const zn_checkpoint *c, const zn_optimizer *optimizer)
{
    if (strcmp(c->state.optimizer, optimizer->name) != 0)
        return zn_change_refuse(c->folder, "--optimizer", zn_shown(c->state.optimizer).text, optimizer->name);
    for (int i = 0; i < 2 * optimizer->n_states; i++) {
        const struct zn_optimizer_state *s = &optimizer->state[i / 2];
        const char *name = i % 2 ? s->scales : s->name;
        if (name && zn_run_state_find(&c->state, name) == ZN_N_STATES)
            return zn_fail(ZN_ERR_USAGE, "--resume: %s has no %s: it was not made by %s, which this run has", c->folder, name,
                           optimizer->title);
    }
    return ZN_OK;
}

static zn_status check_options(const zn_saving *s, const zn_checkpoint *c)
{
    const struct zn_settings *o = s->setup.settings;
    const struct zn_run_state *state = &c->state;
    ZN_TRY(zn_checkpoint_check_config(c, o->model));
    ZN_TRY(zn_run_check_resumed(s->setup.run, c));
    ZN_TRY(check_optimizer(c, s->setup.engine->optimizer));
    if (state->states[ZN_STATE_PENDING] && s->setup.engine->delay_after < 0)
        return zn_fail(ZN_ERR_USAGE, "--resume: %s has an update of --delayed-update pending, which this run does not have",
                       c->folder);
    ZN_TRY(check_int(c, "--seed", (int64_t)state->seed, o->seed));
    ZN_TRY(check_int(c, "--seq-len", state->seq_len, s->setup.engine->seq_len));
    if (state->shuffle != o->shuffle)
        return zn_fail(ZN_ERR_USAGE, "--resume: %s was made with %s data, this run has them %s", c->folder,
                       state->shuffle ? "shuffled" : "unshuffled", o->shuffle ? "shuffled" : "in their order");
    return ZN_OK;
}

/* Weights alone do not tell how to go on: a new run from them is another one, and is to be asked for. */
static zn_status check_finished(const zn_saving *s)
{
    const struct zn_settings *o = s->setup.settings;
    if (zn_saving_is_done(s)) {
        zn_run_note(s->setup.run, "--resume: %s holds the finished model of %lld steps: nothing is left to do", o->output,
                    (long long)o->steps);
        return ZN_OK;
    }
    return zn_fail(ZN_ERR_USAGE, "--resume: %s holds a finished model and no whole checkpoint to go on from; to train it further "
                   "give %s %s and another --output, and --save all to runs that are to go on after their end",
                   o->output, zn_run_has_adapters(s->setup.run) ? "--adapter" : "--model", o->output);
}

/* A change would train on what was held out. */
static zn_status check_split(const zn_checkpoint *c, const struct zn_settings *o)
{
    char was[32] = "none", is[32] = "none";
    if (c->state.eval_split > 0)
        snprintf(was, sizeof was, "%g", c->state.eval_split);
    if (o->eval_split > 0)
        snprintf(is, sizeof is, "%g", o->eval_split);
    return c->state.eval_split == o->eval_split ? ZN_OK : zn_change_refuse(c->folder, "--eval-split", was, is);
}

zn_status zn_saving_check_data(zn_saving *s)
{
    const struct zn_settings *o = s->setup.settings;
    if (s->finished != ZN_OUTPUT_NO_MODEL)
        return check_finished(s);
    if (s->checkpoint && o->steps < s->first_step)
        return zn_fail(ZN_ERR_USAGE, "--steps %lld: is the total, and %s has %lld behind it", (long long)o->steps,
                       s->checkpoint->folder, (long long)s->first_step);
    if (!s->checkpoint)
        return ZN_OK;
    const struct zn_run_state *state = &s->checkpoint->state;
    const char *packing = *s->setup.packing;
    if (strcmp(state->packing, packing) != 0)
        return zn_change_refuse(s->checkpoint->folder, "--packing", zn_shown(state->packing).text, packing);
    if (state->truncate_rows != o->truncate_rows && strcmp(packing, "stream") != 0)
        return zn_fail(ZN_ERR_USAGE, "--resume: %s was made %s --truncate-rows, this run is %s", s->checkpoint->folder,
                       state->truncate_rows ? "with" : "without", o->truncate_rows ? "with it" : "without it");
    ZN_TRY(check_split(s->checkpoint, o));
    if (state->n_windows == s->setup.order->n_windows && state->data_hash == s->setup.data->hash)
        return ZN_OK;
    if (state->n_windows == s->setup.order->n_windows)
        return zn_fail(ZN_ERR_USAGE, "--resume: the data are as many as those of %s, but not the same; to train its "
                       "weights on other data give --model %s", s->checkpoint->folder, s->checkpoint->folder);
    return zn_fail(ZN_ERR_USAGE, "--resume: the data have %lld windows, those of %s had %lld: they are not the same; to "
                   "train its weights on other data give --model %s",
                   (long long)s->setup.order->n_windows, s->checkpoint->folder, (long long)state->n_windows,
                   s->checkpoint->folder);
}

/* ---- Finding ---- */

static void note(void *self, const char *text)
{
    zn_run_note(self, "%s", text);
}

/* Going back to an older checkpoint must leave no newer one that a later --resume would take instead. */
static zn_status check_later(const zn_saving *s)
{
    int64_t *steps;
    size_t n_steps;
    zn_status status = ZN_OK;
    ZN_TRY(zn_checkpoints_list(s->folder, &steps, &n_steps));
    for (size_t i = 0; i < n_steps && steps[i] > s->first_step && status == ZN_OK; i++) {
        char name[ZN_CHECKPOINT_NAME], *path;
        zn_checkpoint *later = NULL;
        status = zn_path_join(s->folder, zn_checkpoint_name(steps[i], name), &path);
        if (status == ZN_OK && zn_checkpoint_open(path, &later) == ZN_OK)
            status = zn_fail(ZN_ERR_USAGE, "--output %s: holds a later checkpoint, %s, than the one to go on from; "
                             "remove it or give another folder", s->setup.settings->output, name);
        zn_checkpoint_close(later);
        free(path);
    }
    free(steps);
    return status;
}

/* Rank 0 looks, all know. */
static zn_status find_finished(zn_saving *s)
{
    zn_comm *comm = s->setup.run->comm;
    int64_t mine = ZN_OUTPUT_NO_MODEL, *all = calloc((size_t)zn_comm_n_ranks(comm), sizeof *all);
    zn_status status = all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory to look for a finished model");
    if (status == ZN_OK && zn_comm_rank(comm) == 0)
        status = zn_output_finished(s->setup.settings->output, &mine);
    status = zn_comm_agree(comm, status);
    if (status == ZN_OK)
        status = zn_comm_exchange(comm, &mine, sizeof mine, all);
    if (status == ZN_OK)
        s->finished = all[0];
    free(all);
    return status;
}

/* To begin anew beside checkpoints that are broken, or cannot be read just now, would lose them: the person says so. */
static zn_status check_none_there(const zn_saving *s)
{
    int64_t *steps = NULL;
    size_t n_steps = 0;
    zn_status status = ZN_OK;
    if (zn_comm_rank(s->setup.run->comm) == 0)
        status = zn_checkpoints_list(s->folder, &steps, &n_steps);
    free(steps);
    if (status == ZN_OK && n_steps > 0)
        status = zn_fail(ZN_ERR_INPUT, "--resume: none of the %zu checkpoints in %s is whole; to begin anew give --overwrite, or "
                         "another --output", n_steps, s->setup.settings->output);
    return zn_comm_agree(s->setup.run->comm, status);
}

/* NULL: at the beginning. */
static void begin_at(zn_saving *s, zn_checkpoint *checkpoint)
{
    s->checkpoint = checkpoint;
    s->first_step = checkpoint ? checkpoint->state.step : 0;
    s->first_window = checkpoint ? checkpoint->state.consumed : 0;
}

static zn_status find(zn_saving *s)
{
    struct zn_run *run = s->setup.run;
    const struct zn_settings *o = s->setup.settings;
    const char *from = o->resume ? o->resume : o->output;
    zn_checkpoint *found;
    ZN_TRY(zn_checkpoint_find(run->comm, from, note, run, &found));
    if (!found && o->resume)
        return zn_fail(ZN_ERR_INPUT, "--resume=%s: no whole checkpoint there; `zinc checkpoint list DIR` shows those of a run's output "
                       "folder", from);
    if (!found)
        ZN_TRY(find_finished(s));
    if (!found && s->finished != ZN_OUTPUT_NO_MODEL)
        return ZN_OK;
    if (!found) {
        ZN_TRY(check_none_there(s));
        zn_run_note(run, "--resume: %s holds no checkpoint to go on from: starting at the beginning", from);
        return ZN_OK;
    }
    begin_at(s, found);
    s->last_saved = s->first_step;
    zn_status status = check_options(s, found);
    if (status == ZN_OK && o->resume && zn_comm_rank(run->comm) == 0)
        status = check_later(s);
    ZN_TRY(zn_comm_agree(run->comm, status));
    run->checkpoint = found;
    zn_run_note(run, "goes on from %s, after step %lld", found->folder, (long long)found->state.step);
    return ZN_OK;
}

static zn_status check_usage(const struct zn_settings *o)
{
    if (ZN_GIVEN(o, resume) && o->overwrite)
        return zn_fail(ZN_ERR_USAGE, "--resume and --overwrite: give one of them");
    return ZN_OK;
}

static zn_status take_lock(zn_saving *s)
{
    const struct zn_settings *o = s->setup.settings;
    if (s->lock >= 0 || zn_comm_rank(s->setup.run->comm) != 0 || !zn_folder_exists(o->output))
        return ZN_OK;
    bool is_locked;
    ZN_TRY(zn_output_lock(o->output, &s->lock, &is_locked));
    if (!is_locked)
        zn_run_note(s->setup.run, "%s: its file system has no locks: see to it that no other run writes there", o->output);
    return ZN_OK;
}

static zn_status open_folder(zn_saving *s)
{
    const char *file_bytes = getenv("ZINC_TEST_FILE_BYTES"); /* many small files of a small model */
    ZN_TRY(check_usage(s->setup.settings));
    s->file_bytes = file_bytes ? strtoull(file_bytes, NULL, 10) : 0;
    ZN_TRY(zn_path_join(s->setup.settings->output, ZN_CHECKPOINTS, &s->folder));
    return take_lock(s);
}

zn_status zn_saving_open(const struct zn_saving_setup *setup, zn_saving **saving)
{
    zn_saving *s = calloc(1, sizeof *s);
    zn_comm *comm = setup->run->comm;
    zn_status status = ZN_OK;
    if (s) {
        s->setup = *setup;
        s->lock = -1;
        s->finished = ZN_OUTPUT_NO_MODEL;
        status = open_folder(s);
    } else {
        status = zn_fail(ZN_ERR_MEMORY, "no memory for checkpoints");
    }
    status = zn_comm_agree(comm, status);
    if (status == ZN_OK && ZN_GIVEN(setup->settings, resume))
        status = find(s);
    if (status != ZN_OK) {
        zn_saving_destroy(s);
        return status;
    }
    *saving = s;
    return ZN_OK;
}

/* ---- The output folder ---- */

static zn_status remove_all(const char *folder)
{
    int64_t *steps;
    size_t n_steps;
    zn_status status = ZN_OK;
    ZN_TRY(zn_checkpoints_list(folder, &steps, &n_steps));
    for (size_t i = 0; i < n_steps && status == ZN_OK; i++)
        status = zn_checkpoint_remove(folder, steps[i]);
    free(steps);
    return status;
}

static zn_status remove_best(const char *output)
{
    char *folder;
    ZN_TRY(zn_path_join(output, ZN_BEST, &folder));
    zn_status status = zn_tree_remove(folder);
    free(folder);
    return status;
}

static zn_status make_configuration(zn_saving *s)
{
    zn_text text;
    zn_text_init(&text);
    zn_output_add_run(&text, s->setup.run, s->setup.settings, false);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        s->configuration = text.data; /* ours now */
    else
        zn_text_fini(&text);
    return status;
}

/* Refuses what of the configuration must be kept, and says what else is not as it was: allowed, but not unseen. */
static zn_status compare_configurations(const zn_saving *s, zn_json *saved, zn_json *now)
{
    const struct zn_change_listener listener = {s->setup.run, note};
    ZN_TRY(zn_settings_compare(saved, now, s->checkpoint->folder, &listener));
    ZN_TRY(zn_change_tell(saved, now, "ranks", "ranks", &listener));
    return zn_change_tell(saved, now, "isa", "instruction set", &listener);
}

static zn_status check_configuration(const zn_saving *s)
{
    zn_json *now, *saved;
    ZN_TRY(zn_json_load_buffer(s->configuration, strlen(s->configuration), "run.json", &now));
    zn_status status = zn_json_get_object_or_null(s->checkpoint->root, "configuration", &saved);
    if (status == ZN_OK && saved)
        status = compare_configurations(s, saved, now);
    zn_json_destroy(now);
    return status;
}

/* Checkpoints come and go; the model of a run must not be one of its own. */
static zn_status check_model(const zn_saving *s)
{
    char model[PATH_MAX], folder[PATH_MAX];
    const struct zn_settings *o = s->setup.settings;
    if (!realpath(o->model, model) || !realpath(s->folder, folder))
        return ZN_OK;
    size_t n = strlen(folder);
    if (strncmp(model, folder, n) != 0 || model[n] != '/')
        return ZN_OK;
    return zn_fail(ZN_ERR_USAGE, "--model %s: is a checkpoint of --output %s, where they come and go; give another "
                   "--output", o->model, o->output);
}

zn_status zn_saving_go_to(zn_saving *s, const char *from)
{
    struct zn_run *run = s->setup.run;
    zn_checkpoint *found, *before = s->checkpoint;
    ZN_TRY(zn_checkpoint_find(run->comm, from, note, run, &found));
    if (!found)
        return zn_fail(ZN_ERR_INPUT, "%s: no whole checkpoint there", from);
    begin_at(s, found);
    zn_status status = check_options(s, found);
    if (status == ZN_OK)
        status = zn_saving_check_data(s);
    if (status == ZN_OK && s->configuration)
        status = check_configuration(s);
    status = zn_comm_agree(run->comm, status);
    if (status != ZN_OK) {
        begin_at(s, before); /* the run is as it was */
        zn_checkpoint_close(found);
        return status;
    }
    zn_checkpoint_close(before);
    s->last_saved = s->first_step;
    run->checkpoint = found;
    return ZN_OK;
}

zn_status zn_saving_prepare(zn_saving *s)
{
    const struct zn_settings *o = s->setup.settings;
    bool was_locked = s->lock >= 0;
    ZN_TRY(take_lock(s));
    ZN_TRY(check_model(s));
    if (!was_locked) /* another run may have come and gone since the folder was looked at */
        ZN_TRY(zn_output_check(o->output, o->model, o->overwrite || ZN_GIVEN(o, resume)));
    ZN_TRY(zn_checkpoints_clean(o->output));
    if (o->overwrite) {
        ZN_TRY(remove_all(s->folder));
        ZN_TRY(remove_best(o->output));
    }
    if (s->checkpoint && ZN_GIVEN(o, early_stop) && s->checkpoint->state.best.step >= 0)
        ZN_TRY(zn_best_check(o->output, s->checkpoint->state.best.step));
    ZN_TRY(make_configuration(s));
    return s->checkpoint ? check_configuration(s) : ZN_OK;
}

struct zn_room zn_saving_room(const zn_saving *s, const struct zn_swap_paths *swap)
{
    return (struct zn_room){s->setup.settings, s->setup.engine, s->folder, s->first_step, swap};
}

/* ---- The start ---- */

int64_t zn_saving_resumed_step(const zn_saving *s)
{
    return s->checkpoint ? s->first_step : -1;
}

bool zn_saving_is_done(const zn_saving *s)
{
    return s->finished >= 0 && s->finished == s->setup.settings->steps;
}

int64_t zn_saving_first_step(const zn_saving *s)
{
    return s->first_step;
}

int64_t zn_saving_consumed(const zn_saving *s, int64_t step)
{
    const struct zn_engine_options *e = s->setup.engine;
    return s->first_window +
           (step - s->first_step) * e->accumulate * e->micro_batch * s->setup.run->mesh.data;
}

void zn_saving_restore(const zn_saving *s, int64_t *n_skipped)
{
    *n_skipped = 0;
    if (s->setup.stop) /* the first question tells that stopping makes sense from now on */
        s->setup.stop(s->setup.stop_self);
    if (!s->checkpoint)
        return;
    const struct zn_run_state *state = &s->checkpoint->state;
    zn_loss_scale *scale = s->setup.loss_scale;
    *n_skipped = state->n_skipped;
    if (ZN_GIVEN(s->setup.settings, early_stop))
        *s->setup.best = (struct zn_best){state->best.step, state->best.loss, state->best.n_worse};
    if (!scale->options.dynamic || strcmp(state->precision, s->setup.settings->precision) != 0)
        return;
    scale->scale = state->scale;
    scale->step = state->scale_step;
    scale->last_overflow = state->last_overflow;
    scale->patience = state->patience;
}
