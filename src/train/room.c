/* What a run needs on each file system, against what is free there. */
#include "train/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/size.h"
#include "base/text.h"
#include "checkpoint/folder.h"
#include "checkpoint/sizes.h"
#include "storage/storage.h"

typedef enum need_kind { NEED_MODEL, NEED_CHECKPOINTS, NEED_SWAP, N_NEED_KINDS } need_kind;

enum { MAX_NEEDS = ZN_STORAGE_MAX_PATHS + 3 };

struct need {
    uint64_t host, device; /* which file system */
    uint64_t n_bytes, kind;
};

/* Of one rank, as ranks exchange it. */
struct needs {
    uint64_t n;
    struct need need[MAX_NEEDS];
};
_Static_assert(sizeof(struct needs) <= ZN_EXCHANGE_BYTES, "needs of a rank go into one exchange");

void zn_room_sizes(const struct zn_run *run, const struct zn_room *room, uint64_t *model_bytes, uint64_t *checkpoint_bytes)
{
    *model_bytes = zn_model_disk_bytes(run->model, &run->style, run->hub);
    *checkpoint_bytes = zn_checkpoint_disk_bytes(run->model, &run->style, run->hub,
                                                 zn_checkpoint_states(run->model, &run->style, room->engine));
}

/* ---- Checkpoints ---- */

/* That this run makes. */
static int64_t count_saves(const struct zn_room *room)
{
    const struct zn_settings *o = room->settings;
    if (o->keep == 0 || room->first_step >= o->steps)
        return 0;
    int64_t n = o->checkpoint_every > 0 ? o->steps / o->checkpoint_every - room->first_step / o->checkpoint_every : 0;
    bool is_due = o->checkpoint_every > 0 && o->steps % o->checkpoint_every == 0;
    return n + (strcmp(o->save, "all") == 0 && !is_due);
}

/* Checkpoints beyond those that are there: at the most at once, as a new one is whole before an old one goes, and at the
 * end. */
static zn_status count_checkpoints(const struct zn_room *room, int64_t *at_once, int64_t *at_end)
{
    int64_t *steps, n_saves = count_saves(room);
    size_t n_steps;
    ZN_TRY(zn_checkpoints_list(room->checkpoints, &steps, &n_steps));
    free(steps);
    int64_t n_there = room->settings->overwrite ? 0 : (int64_t)n_steps;
    int64_t n_left = room->settings->keep > n_there ? room->settings->keep - n_there : 0;
    *at_end = n_saves < n_left ? n_saves : n_left;
    *at_once = n_saves < n_left + 1 ? n_saves : n_left + 1;
    return ZN_OK;
}

/* ---- Needs of this rank ---- */

static uint64_t host_key(void)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return zn_random_key(0, name);
}

static zn_status add_need(struct needs *needs, const char *path, need_kind kind, uint64_t n_bytes)
{
    uint64_t n_free = 0, device = 0;
    if (n_bytes == 0 || needs->n == MAX_NEEDS)
        return ZN_OK;
    ZN_TRY(zn_disk_free(path, &n_free, &device));
    needs->need[needs->n++] = (struct need){host_key(), device, n_bytes, (uint64_t)kind};
    return ZN_OK;
}

/* The model is written when old checkpoints are gone: where both are on one file system, it takes the place of the one that
 * was being written. */
static zn_status add_files(const struct zn_run *run, const struct zn_room *room, struct needs *needs)
{
    const struct zn_settings *o = room->settings;
    int64_t at_once, at_end;
    uint64_t model, checkpoint, n_free = 0, output_device = 0, device = 0;
    zn_room_sizes(run, room, &model, &checkpoint);
    ZN_TRY(count_checkpoints(room, &at_once, &at_end));
    ZN_TRY(zn_disk_free(o->output, &n_free, &output_device));
    ZN_TRY(zn_disk_free(room->checkpoints, &n_free, &device));
    uint64_t shared = device != output_device || at_once == at_end ? 0 : model < checkpoint ? model : checkpoint;
    if (ZN_GIVEN(o, early_stop)) /* the best weights so far, those being written, and what checkpoints name */
        ZN_TRY(add_need(needs, o->output, NEED_MODEL, (2 + (uint64_t)at_once) * model));
    uint64_t freed = o->overwrite ? zn_tree_disk_bytes(room->checkpoints) : 0;
    uint64_t wanted = (uint64_t)at_once * checkpoint;
    ZN_TRY(add_need(needs, o->output, NEED_MODEL, run->is_temporary ? 0 : model - shared));
    return add_need(needs, room->checkpoints, NEED_CHECKPOINTS, wanted > freed ? wanted - freed : 0);
}

static zn_status list_needs(const struct zn_run *run, const struct zn_room *room, struct needs *needs)
{
    *needs = (struct needs){0};
    if (zn_comm_rank(run->comm) == 0)
        ZN_TRY(add_files(run, room, needs));
    for (size_t i = 0; i < room->swap->n_paths && i < ZN_STORAGE_MAX_PATHS; i++)
        ZN_TRY(add_need(needs, room->swap->paths[i], NEED_SWAP, run->plan.swap_bytes / room->swap->n_paths));
    return ZN_OK;
}

/* ---- Against what is free ---- */

struct sums {
    uint64_t n_bytes[N_NEED_KINDS], total;
};

static struct sums sum_needs(const struct needs *all, int n_ranks, const struct need *where)
{
    struct sums sums = {0};
    for (int r = 0; r < n_ranks; r++) {
        for (uint64_t i = 0; i < all[r].n; i++) {
            const struct need *need = &all[r].need[i];
            if (need->host != where->host || need->device != where->device)
                continue;
            sums.n_bytes[need->kind] += need->n_bytes;
            sums.total += need->n_bytes;
        }
    }
    return sums;
}

static zn_status fail_full(const char *path, const struct sums *sums, uint64_t n_free)
{
    static const char *const names[N_NEED_KINDS] = {"the model", "checkpoints", "swap"};
    static const char *const flags[N_NEED_KINDS] = {"", ", --keep, --save model, --checkpoint-every", ", --nvme-path"};
    zn_text what, help;
    char size[ZN_SIZE_TEXT], have[ZN_SIZE_TEXT];
    zn_text_init(&what);
    zn_text_init(&help);
    zn_text_add(&help, "--output");
    for (int k = 0; k < N_NEED_KINDS; k++) {
        if (sums->n_bytes[k] == 0)
            continue;
        zn_text_add(&what, "%s%s %s", what.n_bytes ? ", " : "", names[k], zn_size_text((size_t)sums->n_bytes[k], size));
        zn_text_add(&help, "%s", flags[k]);
    }
    zn_status status = zn_text_status(&what) == ZN_OK ? zn_text_status(&help) : ZN_ERR_MEMORY;
    if (status == ZN_OK)
        status = zn_fail(ZN_ERR_IO, "%s: no room for this run: its file system takes %llu bytes (%s) of it at once: %s; %llu (%s) "
                         "are free; free some, or see %s", path, (unsigned long long)sums->total,
                         zn_size_text((size_t)sums->total, size), what.data, (unsigned long long)n_free,
                         zn_size_text((size_t)n_free, have), help.data);
    zn_text_fini(&what);
    zn_text_fini(&help);
    return status;
}

static zn_status check_path(const char *path, const struct needs *all, int n_ranks, uint64_t *left)
{
    struct need where = {.host = host_key()};
    uint64_t n_free = 0;
    ZN_TRY(zn_disk_free(path, &n_free, &where.device));
    struct sums sums = sum_needs(all, n_ranks, &where);
    *left = n_free - sums.total;
    return sums.total <= n_free ? ZN_OK : fail_full(path, &sums, n_free);
}

/* A run that plans no checkpoint still makes one when it is stopped. */
static void note_signal(const struct zn_run *run, const struct zn_room *room, uint64_t left)
{
    uint64_t model, checkpoint;
    char want[ZN_SIZE_TEXT], have[ZN_SIZE_TEXT];
    zn_room_sizes(run, room, &model, &checkpoint);
    if (room->settings->keep > 0 && count_saves(room) == 0 && left < checkpoint)
        zn_run_note(run, "%s: no room for a checkpoint, which a signal would ask for: it takes %s, %s are left", room->checkpoints,
                    zn_size_text((size_t)checkpoint, want), zn_size_text((size_t)left, have));
}

static zn_status check_own(const struct zn_run *run, const struct zn_room *room, const struct needs *all)
{
    int n_ranks = zn_comm_n_ranks(run->comm);
    uint64_t left;
    for (size_t i = 0; run->plan.swap_bytes > 0 && i < room->swap->n_paths; i++)
        ZN_TRY(check_path(room->swap->paths[i], all, n_ranks, &left));
    if (zn_comm_rank(run->comm) != 0)
        return ZN_OK;
    ZN_TRY(check_path(room->settings->output, all, n_ranks, &left));
    ZN_TRY(check_path(room->checkpoints, all, n_ranks, &left));
    note_signal(run, room, left);
    return ZN_OK;
}

zn_status zn_room_check(struct zn_run *run, const struct zn_room *room)
{
    struct needs mine, *all = calloc((size_t)zn_comm_n_ranks(run->comm), sizeof *all);
    zn_status status = all ? list_needs(run, room, &mine) : zn_fail(ZN_ERR_MEMORY, "no memory to sum up room on disks");
    status = zn_comm_agree(run->comm, status);
    if (status == ZN_OK)
        status = zn_comm_exchange(run->comm, &mine, sizeof mine, all);
    if (status == ZN_OK)
        status = zn_comm_agree(run->comm, check_own(run, room, all));
    free(all);
    return status;
}
