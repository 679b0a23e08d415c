/* When a run saves, in the foreground or behind it, and how it stops. */
#include "train/saving.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "checkpoint/folder.h"
#include "train/adapters.h"
#include "train/saving_private.h"

/* What each rank brings after a step. */
struct news {
    int32_t signal;  /* it was told to stop */
    int32_t settled; /* its part of the save in the background is done */
};

static const char *cause_name(int signal)
{
    switch (signal) {
    case SIGTERM:
        return "by SIGTERM";
    case SIGINT:
        return "by SIGINT";
    case SIGUSR1:
        return "by SIGUSR1";
    case SIGHUP:
        return "by SIGHUP";
    case SIGPIPE:
        return "by SIGPIPE (nobody reads its output any more)";
    case ZN_STOP_ASKED:
        return "as asked";
    }
    return "by a signal";
}

/* ---- One save ---- */

static struct zn_run_state state_at(const zn_saving *s, int64_t step, int64_t n_skipped)
{
    const struct zn_saving_setup *setup = &s->setup;
    return (struct zn_run_state){.step = step,
                                 .updates = zn_engine_updates(setup->run->engine),
                                 .pending = zn_engine_pending(setup->run->engine),
                                 .n_skipped = n_skipped,
                                 .n_windows = setup->order->n_windows,
                                 .consumed = zn_saving_consumed(s, step),
                                 .seq_len = setup->engine->seq_len,
                                 .data_hash = setup->data->hash,
                                 .packing = *setup->packing,
                                 .truncate_rows = setup->settings->truncate_rows,
                                 .seed = (uint64_t)setup->settings->seed,
                                 .shuffle = setup->settings->shuffle,
                                 .eval_split = setup->settings->eval_split,
                                 .best = {setup->best->step, setup->best->loss, setup->best->n_worse},
                                 .scale = setup->loss_scale->scale,
                                 .scale_step = setup->loss_scale->step,
                                 .last_overflow = setup->loss_scale->last_overflow,
                                 .patience = setup->loss_scale->patience,
                                 .optimizer = setup->settings->optimizer,
                                 .precision = setup->settings->precision};
}

static zn_status begin(zn_saving *s, const char *folder, int64_t step, int64_t n_skipped)
{
    struct zn_run *run = s->setup.run;
    const struct zn_save_options options = {.engine = run->engine,
                                            .comm = run->comm,
                                            .model = run->model,
                                            .style = &run->style,
                                            .hub = run->hub,
                                            .adapter = zn_run_has_adapters(run) ? &run->record : NULL,
                                            .folder = folder,
                                            .configuration = s->configuration,
                                            .file_bytes = s->file_bytes,
                                            .state = state_at(s, step, n_skipped)};
    s->begun = zn_clock_now(&run->clock);
    s->step = step;
    zn_progress_begin(run->listener.progress, "saving a checkpoint", "values",
                      zn_model_n_elements(run->model) * (1 + s->setup.engine->optimizer->n_states));
    return zn_save_begin(&options, &s->save);
}

/* The new one is whole; older ones go. That they cannot be removed is no reason to end a run. */
static void tell_and_prune(const zn_saving *s)
{
    struct zn_run *run = s->setup.run;
    char name[ZN_CHECKPOINT_NAME], *path;
    if (zn_comm_rank(run->comm) != 0)
        return;
    if (run->listener.saved && zn_path_join(s->folder, zn_checkpoint_name(s->step, name), &path) == ZN_OK) {
        run->listener.saved(run->listener.self, path, zn_clock_now(&run->clock) - s->begun);
        free(path);
    }
    if (zn_checkpoints_prune(s->folder, s->setup.settings->keep) != ZN_OK)
        zn_run_note(run, "an old checkpoint stays: %s", zn_error_message());
}

static zn_status publish(zn_saving *s, zn_status settled)
{
    zn_status status = zn_save_publish(s->save, settled);
    zn_save_destroy(s->save);
    s->save = NULL;
    if (status == ZN_OK) {
        s->last_saved = s->step;
        s->n_saved++;
        tell_and_prune(s);
    }
    return status;
}

/* A checkpoint on the way is not worth a run: those before it are whole, and the next may be, too. */
static void tell_missing(const zn_saving *s)
{
    char name[ZN_CHECKPOINT_NAME];
    zn_run_note(s->setup.run, "checkpoint %s is not saved: %s; the run goes on and tries again at the next one",
                zn_checkpoint_name(s->step, name), zn_error_message());
}

void zn_saving_set_bytes(zn_saving *s, uint64_t n_bytes)
{
    s->checkpoint_bytes = n_bytes;
}

double zn_saving_bytes(const zn_saving *s)
{
    return (double)s->n_saved * (double)s->checkpoint_bytes;
}

/* ---- In the background ---- */

static void *settle(void *self)
{
    zn_saving *s = self;
    s->status = zn_save_settle(s->save);
    if (s->status != ZN_OK)
        snprintf(s->message, sizeof s->message, "%s", zn_error_message());
    atomic_store(&s->settled, true);
    return NULL;
}

static zn_status start_settling(zn_saving *s)
{
    atomic_store(&s->settled, false);
    int code = pthread_create(&s->thread, NULL, settle, s);
    if (code != 0)
        return zn_fail(ZN_ERR_IO, "--checkpoint-async: cannot start a thread: %s", strerror(code));
    s->in_background = true;
    return ZN_OK;
}

static zn_status join(zn_saving *s)
{
    pthread_join(s->thread, NULL);
    s->in_background = false;
    return s->status == ZN_OK ? ZN_OK : zn_fail_text(s->status, s->message);
}

static void end_background(zn_saving *s)
{
    if (s->in_background && publish(s, join(s)) != ZN_OK)
        tell_missing(s);
}

/* Where a rank has no thread, none goes on with the save. */
static zn_status settle_behind(zn_saving *s)
{
    zn_status status = zn_comm_agree(s->setup.run->comm, start_settling(s));
    if (status == ZN_OK)
        return ZN_OK;
    snprintf(s->message, sizeof s->message, "%s", zn_error_message());
    if (s->in_background)
        join(s);
    return publish(s, zn_fail_text(status, s->message));
}

/* ---- When ---- */

/* *saved is what became of the checkpoint, alike on every rank; the engine is as it was. A failure of the engine or
 * between ranks is returned. */
static zn_status save_now(zn_saving *s, int64_t step, int64_t n_skipped, bool behind, zn_status *saved)
{
    *saved = ZN_OK;
    end_background(s);
    if (step == s->last_saved || s->setup.settings->keep == 0)
        return ZN_OK;
    ZN_TRY(begin(s, s->folder, step, n_skipped));
    if (!behind)
        zn_progress_begin(s->setup.run->listener.progress, "syncing the checkpoint", NULL, 0);
    *saved = behind ? settle_behind(s) : publish(s, zn_save_settle(s->save));
    zn_progress_end(s->setup.run->listener.progress);
    return ZN_OK;
}

zn_status zn_saving_save(zn_saving *s, const char *folder, int64_t step, int64_t n_skipped)
{
    end_background(s);
    ZN_TRY(begin(s, folder, step, n_skipped));
    zn_status status = zn_save_publish(s->save, zn_save_settle(s->save));
    zn_save_destroy(s->save);
    s->save = NULL;
    zn_progress_end(s->setup.run->listener.progress);
    return status;
}

/* The first rank's signal, and whether all are done with the save in the background. */
static zn_status exchange_news(const zn_saving *s, struct news *news)
{
    zn_comm *comm = s->setup.run->comm;
    int n_ranks = zn_comm_n_ranks(comm);
    struct news *all = calloc((size_t)n_ranks, sizeof *all);
    struct news mine = {.signal = s->setup.stop ? s->setup.stop(s->setup.stop_self) : 0,
                        .settled = s->in_background && atomic_load(&s->settled)};
    if (!all)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %d ranks", n_ranks);
    zn_status status = zn_comm_exchange(comm, &mine, sizeof mine, all);
    *news = (struct news){.settled = true};
    for (int r = 0; r < n_ranks; r++) {
        if (news->signal == 0)
            news->signal = all[r].signal;
        news->settled &= all[r].settled;
    }
    free(all);
    return status;
}

static bool is_due(const zn_saving *s, int64_t step)
{
    int64_t every = s->setup.settings->checkpoint_every;
    return every > 0 && step % every == 0;
}

zn_status zn_saving_after_step(zn_saving *s, int64_t step, int64_t n_skipped)
{
    const struct zn_settings *o = s->setup.settings;
    struct news news = {0};
    zn_status saved = ZN_OK;
    if (s->setup.stop || s->in_background)
        ZN_TRY(exchange_news(s, &news));
    if (s->in_background && news.settled)
        end_background(s);
    if (news.signal != 0)
        return zn_saving_stop(s, step, n_skipped,
                              zn_fail(ZN_ERR_INTERRUPTED, "stopped %s after step %lld of %lld",
                                      cause_name(news.signal), (long long)step, (long long)o->steps));
    if (is_due(s, step))
        ZN_TRY(save_now(s, step, n_skipped, o->checkpoint_async, &saved));
    if (saved != ZN_OK)
        tell_missing(s);
    return ZN_OK;
}

zn_status zn_saving_stop(zn_saving *s, int64_t step, int64_t n_skipped, zn_status why)
{
    char cause[MESSAGE_BYTES];
    zn_status saved;
    snprintf(cause, sizeof cause, "%s", zn_error_message());
    if (step == s->first_step) /* nothing was trained since */
        return why;
    zn_status status = save_now(s, step, n_skipped, false, &saved);
    if (status != ZN_OK) {
        zn_comm_abort(s->setup.run->comm, status);
        return status;
    }
    if (saved != ZN_OK) {
        snprintf(s->message, sizeof s->message, "%s", zn_error_message());
        return zn_fail(why, "%s; no checkpoint of step %lld is saved: %s", cause, (long long)step, s->message);
    }
    return zn_fail(why, "%s; %s", cause,
                   s->setup.settings->keep > 0 ? "a checkpoint is saved: --resume goes on from there"
                                              : "nothing is saved, as --keep is 0");
}

zn_status zn_saving_end(zn_saving *s, int64_t step, int64_t n_skipped, zn_status *saved)
{
    if (is_due(s, step) || strcmp(s->setup.settings->save, "all") == 0)
        return save_now(s, step, n_skipped, false, saved);
    *saved = ZN_OK;
    end_background(s);
    return ZN_OK;
}

void zn_saving_destroy(zn_saving *s)
{
    if (!s)
        return;
    if (s->in_background)
        pthread_join(s->thread, NULL);
    zn_save_destroy(s->save);
    if (s->lock >= 0)
        close(s->lock);
    zn_checkpoint_close(s->checkpoint);
    free(s->configuration);
    free(s->folder);
    free(s);
}
