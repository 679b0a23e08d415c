/* Folders of the best weights: written, kept while something names them, and put in place. */
#include "train/best.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "checkpoint/folder.h"
#include "train/output.h"

bool zn_best_take(struct zn_best *best, int64_t step, double loss)
{
    if (!isfinite(loss) || (best->step >= 0 && loss >= best->loss)) {
        best->n_worse++;
        return false;
    }
    *best = (struct zn_best){.step = step, .loss = loss};
    return true;
}

static zn_status best_folder(const char *output, int64_t step, char **path)
{
    char name[sizeof ZN_BEST + 1 + ZN_CHECKPOINT_NAME], step_name[ZN_CHECKPOINT_NAME];
    snprintf(name, sizeof name, ZN_BEST "/%s", zn_checkpoint_name(step, step_name));
    return zn_path_join(output, name, path);
}

/* ---- Writing ---- */

/* Whether a checkpoint would go on from them. One that cannot be read names none. */
static bool is_named(const char *checkpoints, const int64_t *steps, size_t n_steps, int64_t best)
{
    bool found = false;
    for (size_t i = 0; i < n_steps && !found; i++) {
        char name[ZN_CHECKPOINT_NAME], *path;
        zn_checkpoint *checkpoint = NULL;
        if (zn_path_join(checkpoints, zn_checkpoint_name(steps[i], name), &path) != ZN_OK)
            return true;
        found = zn_checkpoint_open(path, &checkpoint) == ZN_OK && checkpoint->state.best.step == best;
        zn_checkpoint_close(checkpoint);
        free(path);
    }
    return found;
}

zn_status zn_best_prune(const char *output, int64_t stays)
{
    char *folder, *checkpoints = NULL;
    int64_t *there = NULL, *steps = NULL;
    size_t n_there = 0, n_steps = 0;
    ZN_TRY(zn_path_join(output, ZN_BEST, &folder));
    zn_status status = zn_path_join(output, ZN_CHECKPOINTS, &checkpoints);
    if (status == ZN_OK)
        status = zn_checkpoints_list(folder, &there, &n_there);
    if (status == ZN_OK)
        status = zn_checkpoints_list(checkpoints, &steps, &n_steps);
    for (size_t i = 0; i < n_there && status == ZN_OK; i++)
        if (there[i] != stays && !is_named(checkpoints, steps, n_steps, there[i]))
            status = zn_checkpoint_remove(folder, there[i]);
    if (status == ZN_OK && rmdir(folder) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
        status = zn_fail(ZN_ERR_IO, "%s: cannot remove: %s", folder, strerror(errno));
    free(there);
    free(steps);
    free(checkpoints);
    free(folder);
    return status;
}

/* Of all ranks' runs rank 0 alone has the folder; the others take part in the export. */
static zn_status write_temporary(struct zn_run *run, const char *folder, const char *temporary, int64_t step)
{
    bool writes = zn_comm_rank(run->comm) == 0;
    zn_status status = writes ? zn_tree_remove(temporary) : ZN_OK;
    if (status == ZN_OK && writes)
        status = zn_folder_create(temporary);
    ZN_TRY(zn_comm_agree(run->comm, status));
    ZN_TRY(zn_output_write_model(temporary, run));
    status = writes ? zn_folder_sync(temporary) : ZN_OK;
    if (status == ZN_OK && writes)
        status = zn_checkpoint_put(folder, temporary, step);
    return zn_comm_agree(run->comm, status);
}

zn_status zn_best_write(struct zn_run *run, const char *output, int64_t step)
{
    char *folder, *temporary = NULL;
    ZN_TRY(zn_path_join(output, ZN_BEST, &folder));
    zn_status status = zn_path_join(folder, ZN_TEMPORARY ZN_BEST, &temporary);
    if (status == ZN_OK)
        status = write_temporary(run, folder, temporary, step);
    if (status == ZN_OK && zn_comm_rank(run->comm) == 0 && zn_best_prune(output, step) != ZN_OK)
        zn_run_note(run, "old weights stay: %s", zn_error_message());
    free(temporary);
    free(folder);
    return status == ZN_OK ? ZN_OK : zn_add_context(status, "the best weights so far");
}

/* ---- At the end ---- */

/* A second name for the file, since a checkpoint may still name the folder; where there are no such names, the file moves. */
static zn_status place_file(const char *from, const char *to)
{
    char *temporary;
    if (asprintf(&temporary, "%s.best", to) < 0)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", to);
    unlink(temporary);
    bool is_linked = link(from, temporary) == 0;
    zn_status status = ZN_OK;
    if (rename(is_linked ? temporary : from, to) != 0)
        status = zn_fail(ZN_ERR_IO, "%s: cannot put the best weights at this name: %s", to, strerror(errno));
    free(temporary);
    return status;
}

static zn_status place_named(const char *folder, const char *output, const char *name)
{
    char *from, *to = NULL;
    ZN_TRY(zn_path_join(folder, name, &from));
    zn_status status = zn_path_join(output, name, &to);
    if (status == ZN_OK)
        status = place_file(from, to);
    free(from);
    free(to);
    return status;
}

zn_status zn_best_place(const char *output, int64_t step)
{
    char *folder, **names = NULL;
    size_t n_names = 0;
    ZN_TRY(best_folder(output, step, &folder));
    zn_status status = zn_folder_list(folder, &names, &n_names);
    for (size_t i = 0; i < n_names && status == ZN_OK; i++)
        status = place_named(folder, output, names[i]);
    zn_names_free(names, n_names);
    free(folder);
    if (status == ZN_OK)
        status = zn_folder_sync(output);
    return status == ZN_OK ? zn_best_prune(output, -1) : status;
}

zn_status zn_best_check(const char *output, int64_t step)
{
    char *folder;
    ZN_TRY(best_folder(output, step, &folder));
    zn_status status = ZN_OK;
    if (!zn_folder_exists(folder))
        status = zn_fail(ZN_ERR_USAGE, "--resume: the best weights so far are those of step %lld, and %s is not there; go on in the output "
                         "folder that has it, or without --early-stop", (long long)step, folder);
    free(folder);
    return status;
}
