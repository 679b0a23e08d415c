/* Names, listing, removal and the lock of a run's checkpoints. */
#include "checkpoint/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/files.h"
#include "checkpoint/load.h"

enum { N_OPEN = 16 }; /* folders that a removal may hold open */

static zn_status fail_errno(const char *path, const char *what)
{
    return zn_fail(ZN_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* ---- Names ---- */

const char *zn_checkpoint_name(int64_t step, char name[ZN_CHECKPOINT_NAME])
{
    snprintf(name, ZN_CHECKPOINT_NAME, "step-%08lld", (long long)step);
    return name;
}

/* -1: not a checkpoint's name. */
static int64_t step_of(const char *name)
{
    char again[ZN_CHECKPOINT_NAME];
    if (strncmp(name, "step-", 5) != 0 || !isdigit((unsigned char)name[5]))
        return -1;
    int64_t step = strtoll(name + 5, NULL, 10);
    return step >= 0 && strcmp(zn_checkpoint_name(step, again), name) == 0 ? step : -1;
}

static int compare_steps(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

zn_status zn_checkpoints_list(const char *folder, int64_t **steps, size_t *n_steps)
{
    char **names = NULL;
    size_t n_names = 0, n = 0;
    bool found;
    ZN_TRY(zn_path_look(folder, &found));
    if (found)
        ZN_TRY(zn_folder_list(folder, &names, &n_names));
    int64_t *list = malloc((n_names + 1) * sizeof *list);
    for (size_t i = 0; list && i < n_names; i++)
        if (step_of(names[i]) >= 0)
            list[n++] = step_of(names[i]);
    zn_names_free(names, n_names);
    if (!list)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for the list of checkpoints", folder);
    qsort(list, n, sizeof *list, compare_steps);
    *steps = list;
    *n_steps = n;
    return ZN_OK;
}

/* ---- Removal ---- */

static int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

zn_status zn_tree_remove(const char *path)
{
    if (nftw(path, remove_entry, N_OPEN, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return fail_errno(path, "cannot remove");
    return ZN_OK;
}

/* folder/.tmp-WORD-NAME-PID */
static zn_status temporary_path(const char *folder, const char *word, const char *name, char **path)
{
    if (asprintf(path, "%s/" ZN_TEMPORARY "%s-%s-%ld", folder, word, name, (long)getpid()) < 0)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", folder);
    return ZN_OK;
}

zn_status zn_checkpoint_remove(const char *folder, int64_t step)
{
    char name[ZN_CHECKPOINT_NAME], *path, *gone = NULL;
    ZN_TRY(zn_path_join(folder, zn_checkpoint_name(step, name), &path));
    zn_status status = temporary_path(folder, "old", name, &gone);
    if (status == ZN_OK)
        status = zn_tree_remove(gone);
    if (status == ZN_OK && rename(path, gone) != 0)
        status = fail_errno(path, "cannot remove");
    if (status == ZN_OK)
        status = zn_tree_remove(gone);
    free(gone);
    free(path);
    return status;
}

/* Steps skipped in a row up to the checkpoint; -1: it is broken. */
static int64_t skipped_at(const char *folder, int64_t step)
{
    char name[ZN_CHECKPOINT_NAME], *path;
    zn_checkpoint *checkpoint = NULL;
    if (zn_path_join(folder, zn_checkpoint_name(step, name), &path) != ZN_OK)
        return -1;
    int64_t n_skipped = zn_checkpoint_open(path, &checkpoint) == ZN_OK ? checkpoint->state.n_skipped : -1;
    zn_checkpoint_close(checkpoint);
    free(path);
    return n_skipped;
}

zn_status zn_checkpoints_prune(const char *folder, int64_t keep)
{
    int64_t *steps, n_good = 0, n_skipping = 0;
    size_t n_steps;
    zn_status status = ZN_OK;
    ZN_TRY(zn_checkpoints_list(folder, &steps, &n_steps));
    for (size_t i = 0; i < n_steps && status == ZN_OK; i++) {
        int64_t n_skipped = skipped_at(folder, steps[i]);
        bool stays = n_skipped < 0 || (n_skipped == 0 ? n_good++ < keep : n_skipping++ == 0 && n_good == 0);
        if (!stays)
            status = zn_checkpoint_remove(folder, steps[i]);
    }
    free(steps);
    return status;
}

/* Removes the folders of checkpoints that were never finished. */
static zn_status clean(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    zn_status status = ZN_OK;
    if (!list)
        return errno == ENOENT ? ZN_OK : fail_errno(folder, "cannot open the folder");
    while (status == ZN_OK && (entry = readdir(list))) {
        char *path;
        if (strncmp(entry->d_name, ZN_TEMPORARY, strlen(ZN_TEMPORARY)) != 0)
            continue;
        status = zn_path_join(folder, entry->d_name, &path);
        if (status != ZN_OK)
            break;
        status = zn_tree_remove(path);
        free(path);
    }
    closedir(list);
    return status;
}

zn_status zn_checkpoints_clean(const char *output)
{
    static const char *const names[] = {ZN_CHECKPOINTS, ZN_BEST};
    zn_status status = zn_folder_remove_left(output);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && status == ZN_OK; i++) {
        char *folder;
        ZN_TRY(zn_path_join(output, names[i], &folder));
        status = clean(folder);
        free(folder);
    }
    return status;
}

/* ---- A finished one ---- */

/* Swaps the two in one step where the file system can; else the old one has no name for a moment. */
static zn_status replace(const char *folder, const char *temporary, const char *path, const char *name)
{
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return ZN_OK;
    if (errno != EINVAL && errno != ENOSYS)
        return fail_errno(path, "cannot put the finished checkpoint at this name");
    char *old;
    ZN_TRY(temporary_path(folder, "old", name, &old));
    zn_status status = ZN_OK;
    if (rename(path, old) != 0 || rename(temporary, path) != 0)
        status = fail_errno(path, "cannot put the finished checkpoint at this name");
    else
        status = zn_tree_remove(old);
    free(old);
    return status;
}

zn_status zn_checkpoint_put(const char *folder, const char *temporary, int64_t step)
{
    char name[ZN_CHECKPOINT_NAME], *path;
    ZN_TRY(zn_path_join(folder, zn_checkpoint_name(step, name), &path));
    zn_status status = ZN_OK;
    bool was_there = false;
    if (rename(temporary, path) != 0) {
        was_there = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR;
        status = was_there ? replace(folder, temporary, path, name)
                           : fail_errno(path, "cannot put the finished checkpoint at this name");
    }
    if (status == ZN_OK)
        status = zn_folder_sync(folder);
    if (status == ZN_OK && was_there) /* what the swap left there */
        status = zn_tree_remove(temporary);
    free(path);
    return status;
}

/* ---- The lock ---- */

static zn_status fail_held(const char *output, int fd)
{
    char who[128] = "";
    ssize_t n = pread(fd, who, sizeof who - 1, 0);
    for (ssize_t i = 0; i < n; i++)
        if (!isprint((unsigned char)who[i]))
            who[i] = '\0';
    return zn_fail(ZN_ERR_USAGE, "--output %s: another run is writing to this folder%s%s; give another one, or wait",
                   output, who[0] ? ": " : "", who);
}

zn_status zn_output_lock(const char *output, int *fd, bool *is_locked)
{
    char *path, host[65] = "", who[128];
    ZN_TRY(zn_path_join(output, ".lock", &path));
    int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    zn_status status = opened < 0 ? fail_errno(path, "cannot open the lock") : ZN_OK;
    *is_locked = status == ZN_OK && flock(opened, LOCK_EX | LOCK_NB) == 0;
    if (status == ZN_OK && !*is_locked && errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK)
        status = errno == EWOULDBLOCK ? fail_held(output, opened) : fail_errno(path, "cannot lock");
    if (status == ZN_OK) {
        gethostname(host, sizeof host - 1);
        int n = snprintf(who, sizeof who, "process %ld on %s\n", (long)getpid(), host);
        /* For people only: a lock without a name is a lock. */
        if (ftruncate(opened, 0) == 0 && pwrite(opened, who, (size_t)n, 0) == n)
            fsync(opened);
        *fd = opened;
    } else if (opened >= 0) {
        close(opened);
    }
    free(path);
    return status;
}
