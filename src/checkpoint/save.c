/* Writing the files of a checkpoint and putting them in place. */
#include "checkpoint/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/size.h"
#include "checkpoint/contents.h"
#include "checkpoint/folder.h"
#include "checkpoint/kill_point.h"
#include "checkpoint/sizes.h"

enum {
    MAX_FILES = 512 /* of the optimizer, about: each is an open file of its writer */
};

struct zn_save {
    zn_comm *comm;
    int rank, n_ranks;
    int64_t step;
    const char *folder;
    char *temporary;
    zn_st_writer *model, *optimizer; /* optimizer NULL: it has no states of its own */
    int n_params, first_written;
    int64_t *tensors; /* by state and parameter: which among the optimizer's; -1: none */
    zn_contents contents;              /* of this rank's files */
    bool published;
    zn_status failure; /* of files, in begin: told by settle */
    char message[1024];
};

/* ---- The layout ---- */

static zn_status no_memory(void)
{
    return zn_fail(ZN_ERR_MEMORY, "no memory to save a checkpoint");
}

/* Masters have files of their own unless the weights are exactly they. */
static void choose_states(const struct zn_save_options *o, struct zn_run_state *state)
{
    state->dtype = o->style->dtype;
    state->masters_in_model = o->style->dtype == ZN_F32;
    for (int k = 0; k < ZN_N_STATES; k++)
        state->states[k] = zn_engine_state_name(o->engine, (zn_state)k);
    if (state->masters_in_model)
        state->states[ZN_STATE_MASTER] = NULL;
}

static bool has_tensor(const struct zn_save_options *o, const struct zn_run_state *state, int k, int param)
{
    return param >= zn_model_first_written(o->model) && state->states[k] && zn_engine_has_state(o->engine, &o->model->module->params[param], (zn_state)k);
}

static struct zn_state_sizes sum_states(const struct zn_save_options *o, const struct zn_run_state *state)
{
    struct zn_state_sizes sizes = {0};
    for (int k = 0; k < ZN_N_STATES; k++) {
        for (int i = 0; i < o->model->module->n_params; i++) {
            if (!has_tensor(o, state, k, i))
                continue;
            int64_t n = zn_state_values(zn_param_n_whole(&o->model->module->params[i]), zn_engine_state_grain(o->engine, (zn_state)k));
            sizes.n_tensors++;
            sizes.n_bytes += (uint64_t)n * zn_dtype_bytes(zn_engine_state_type(o->engine, (zn_state)k));
        }
    }
    return sizes;
}

static zn_status create_model_writer(zn_save *s, const struct zn_save_options *o)
{
    const struct zn_st_cut cut = {.part = s->rank, .n_parts = s->n_ranks};
    return zn_weights_writer(o->model, s->temporary, o->style, &cut, &s->model);
}

/* One state after the other, each in the order of parameters: "NAME.exp_avg". It has the shape of its parameter; scales are
 * one row. */
static zn_status name_states(const struct zn_save_options *o, const struct zn_run_state *state, struct zn_st_spec *specs,
                             int64_t *tensors)
{
    const zn_module *module = o->model->module;
    size_t n = 0;
    for (int k = 0; k < ZN_N_STATES; k++) {
        for (int i = 0; i < module->n_params; i++) {
            char *name;
            if (!has_tensor(o, state, k, i))
                continue;
            tensors[k * module->n_params + i] = (int64_t)n;
            specs[n] = zn_weights_spec(o->model, o->style, &module->params[i]);
            specs[n].dtype = zn_engine_state_type(o->engine, (zn_state)k);
            if (k >= ZN_STATE_SCALES) {
                specs[n].n_dims = 1;
                specs[n].dims[0] = zn_state_values(zn_param_n_whole(&module->params[i]), zn_engine_state_grain(o->engine, (zn_state)k));
            }
            if (asprintf(&name, "%s.%s", specs[n].name, state->states[k]) < 0) {
                specs[n].name = NULL;
                return no_memory();
            }
            specs[n++].name = name;
        }
    }
    return ZN_OK;
}

/* Files go on being numbered after those of the model, so that rank i mod N writes file i. */
static zn_status create_optimizer_writer(zn_save *s, const struct zn_save_options *o, const struct zn_run_state *state)
{
    struct zn_state_sizes sizes = sum_states(o, state);
    size_t n = (size_t)sizes.n_tensors, n_slots = (size_t)(ZN_N_STATES * o->model->module->n_params);
    s->n_params = o->model->module->n_params;
    s->tensors = malloc(n_slots * sizeof *s->tensors);
    if (!s->tensors)
        return no_memory();
    memset(s->tensors, 0xff, n_slots * sizeof *s->tensors); /* -1: none */
    if (n == 0)
        return ZN_OK;
    uint64_t least = sizes.n_bytes / MAX_FILES, limit = o->file_bytes ? o->file_bytes : least > ZN_GIB ? least : ZN_GIB;
    int n_before = (int)(zn_st_writer_n_files(s->model) % (size_t)s->n_ranks);
    const struct zn_st_cut cut = {.limit = limit, .numbered = true, .part = (s->rank + s->n_ranks - n_before) % s->n_ranks,
                                  .n_parts = s->n_ranks};
    struct zn_st_spec *specs = calloc(n, sizeof *specs);
    if (!specs)
        return no_memory();
    zn_status status = name_states(o, state, specs, s->tensors);
    if (status == ZN_OK)
        status = zn_st_writer_create_part(s->temporary, "optimizer", specs, n, &cut, &s->optimizer);
    for (size_t i = 0; i < n; i++)
        free((char *)(uintptr_t)specs[i].name);
    free(specs);
    return status;
}

static zn_status create_writers(zn_save *s, const struct zn_save_options *o, const struct zn_run_state *state)
{
    kill_point(s->rank);
    ZN_TRY(create_model_writer(s, o));
    kill_point(s->rank);
    return create_optimizer_writer(s, o, state);
}

/* ---- The folder, by rank 0 ---- */

static zn_status check_space(const struct zn_save_options *o, const struct zn_run_state *state)
{
    uint64_t device, n_free;
    uint64_t wanted = zn_checkpoint_disk_bytes(o->model, o->style, o->hub, sum_states(o, state));
    char want[ZN_SIZE_TEXT], have[ZN_SIZE_TEXT];
    ZN_TRY(zn_disk_free(o->folder, &n_free, &device));
    if (n_free < wanted)
        return zn_fail(ZN_ERR_IO, "%s: no room for a checkpoint: it takes %llu bytes (%s), %llu (%s) are free", o->folder,
                       (unsigned long long)wanted, zn_size_text((size_t)wanted, want), (unsigned long long)n_free,
                       zn_size_text((size_t)n_free, have));
    return ZN_OK;
}

static zn_status write_state(const zn_save *s, const struct zn_run_state *state, const char *configuration)
{
    zn_text text;
    char *path = NULL;
    zn_text_init(&text);
    zn_run_state_print(state, configuration, &text);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_path_join(s->temporary, ZN_STATE_NAME, &path);
    if (status == ZN_OK)
        status = zn_file_write(path, text.data, text.n_bytes);
    free(path);
    zn_text_fini(&text);
    return status;
}

static zn_status make_folder(zn_save *s, const struct zn_save_options *o, const struct zn_run_state *state)
{
    ZN_TRY(zn_folder_create(o->folder));
    ZN_TRY(check_space(o, state));
    kill_point(s->rank);
    if (mkdir(s->temporary, 0777) != 0)
        return zn_fail(ZN_ERR_IO, "%s: cannot make the folder: %s", s->temporary, strerror(errno));
    kill_point(s->rank);
    if (o->adapter)
        ZN_TRY(zn_peft_write_config(s->temporary, o->model, o->adapter));
    ZN_TRY(o->adapter ? zn_hub_files_write_tokenizer(o->hub, s->temporary)
                      : zn_hub_files_write(o->hub, s->temporary, o->style->dtype));
    kill_point(s->rank);
    return write_state(s, state, o->configuration);
}

/* ---- Begin ---- */

struct taking {
    zn_save *save;
    zn_state state;
};

static zn_status write_piece(const struct taking *t, const zn_param *param, int64_t first, const float *values,
                             int64_t n_values)
{
    zn_save *s = t->save;
    kill_point(s->rank);
    if (t->state == ZN_STATE_MASTER)
        ZN_TRY(zn_st_writer_write_f32(s->model, (size_t)(param->index - s->first_written), first, n_values, values));
    int64_t tensor = s->tensors[(int)t->state * s->n_params + param->index];
    if (tensor < 0)
        return ZN_OK;
    return zn_st_writer_write_f32(s->optimizer, (size_t)tensor, first, n_values, values);
}

static void keep_failure(zn_save *s, zn_status status)
{
    s->failure = status;
    if (status != ZN_OK)
        snprintf(s->message, sizeof s->message, "%s", zn_error_message());
}

/* Never fails, so that the engine's own failures are told from those of files. */
static zn_status take(void *self, const zn_param *param, int64_t first, const float *values, int64_t n_values)
{
    struct taking *t = self;
    if (t->save->failure == ZN_OK)
        keep_failure(t->save, write_piece(t, param, first, values, n_values));
    return ZN_OK;
}

/* The temporary folder is rank 0's: ".tmp-step-00000100-4711". */
static zn_status name_temporary(zn_save *s)
{
    int64_t mine = getpid(), *all = calloc((size_t)s->n_ranks, sizeof *all);
    char name[ZN_CHECKPOINT_NAME];
    if (!all)
        return no_memory();
    zn_status status = zn_comm_exchange(s->comm, &mine, sizeof mine, all);
    if (status == ZN_OK && asprintf(&s->temporary, "%s/" ZN_TEMPORARY "%s-%lld", s->folder,
                                    zn_checkpoint_name(s->step, name), (long long)all[0]) < 0) {
        s->temporary = NULL;
        status = no_memory();
    }
    free(all);
    return status;
}

static zn_status write_all(zn_save *s, const struct zn_save_options *o)
{
    struct zn_run_state state = o->state;
    choose_states(o, &state);
    if (o->adapter) {
        state.base_name = o->adapter->base_name;
        state.base_hash = o->adapter->base_hash;
        state.base_config = o->adapter->base_config;
    }
    keep_failure(s, zn_comm_agree(s->comm, s->rank == 0 ? make_folder(s, o, &state) : ZN_OK));
    if (s->failure == ZN_OK)
        keep_failure(s, zn_comm_agree(s->comm, create_writers(s, o, &state)));
    for (int k = 0; k < ZN_N_STATES && s->failure == ZN_OK; k++) {
        struct taking taking = {s, (zn_state)k};
        if (k != ZN_STATE_MASTER && !state.states[k])
            continue;
        ZN_TRY(k == ZN_STATE_MASTER ? zn_weights_stream(o->engine, o->model, take, &taking)
                                    : zn_engine_stream_state(o->engine, (zn_state)k, take, &taking));
        keep_failure(s, zn_comm_agree(s->comm, s->failure == ZN_OK ? ZN_OK : zn_fail_text(s->failure, s->message)));
    }
    return ZN_OK;
}

zn_status zn_save_begin(const struct zn_save_options *o, zn_save **save)
{
    zn_save *s = calloc(1, sizeof *s);
    if (!s)
        return no_memory();
    *s = (zn_save){.comm = o->comm, .rank = zn_comm_rank(o->comm), .n_ranks = zn_comm_n_ranks(o->comm),
                   .step = o->state.step, .folder = o->folder, .first_written = zn_model_first_written(o->model)};
    zn_contents_init(&s->contents);
    zn_status status = name_temporary(s);
    if (status == ZN_OK)
        status = write_all(s, o);
    if (status != ZN_OK) {
        zn_save_destroy(s);
        return status;
    }
    *save = s;
    return ZN_OK;
}

/* ---- Settle ---- */

static zn_status finish_writer(zn_save *s, zn_st_writer *writer)
{
    kill_point(s->rank);
    ZN_TRY(zn_st_writer_finish(writer));
    for (size_t i = 0; i < zn_st_writer_n_files(writer); i++) {
        const char *name = zn_st_writer_file(writer, i);
        if (!name)
            continue;
        kill_point(s->rank);
        ZN_TRY(zn_contents_add(&s->contents, s->temporary, name));
    }
    return ZN_OK;
}

/* Hashes of other ranks' files come to rank 0 by way of the folder. */
static const char *part_name(int rank, char name[ZN_CHECKPOINT_NAME])
{
    snprintf(name, ZN_CHECKPOINT_NAME, ".part-%d.json", rank);
    return name;
}

zn_status zn_save_settle(zn_save *s)
{
    char name[ZN_CHECKPOINT_NAME];
    if (s->failure != ZN_OK)
        return zn_fail_text(s->failure, s->message);
    ZN_TRY(finish_writer(s, s->model));
    if (s->optimizer)
        ZN_TRY(finish_writer(s, s->optimizer));
    kill_point(s->rank);
    return s->rank > 0 ? zn_contents_write(&s->contents, s->temporary, part_name(s->rank, name)) : ZN_OK;
}

/* ---- Publish, by rank 0 ---- */

static zn_status take_part(zn_save *s, int rank)
{
    char name[ZN_CHECKPOINT_NAME], *path;
    zn_contents part;
    zn_contents_init(&part);
    ZN_TRY(zn_path_join(s->temporary, part_name(rank, name), &path));
    zn_status status = zn_contents_read(path, &part);
    if (status == ZN_OK)
        status = zn_contents_move(&s->contents, &part);
    if (status == ZN_OK && unlink(path) != 0)
        status = zn_fail(ZN_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
    zn_contents_fini(&part);
    free(path);
    return status;
}

/* What no writer made: config.json, the tokenizer's files, the index, state.json. */
static zn_status add_small_files(zn_save *s)
{
    char **names;
    size_t n_names;
    zn_status status = ZN_OK;
    ZN_TRY(zn_folder_list(s->temporary, &names, &n_names));
    for (size_t i = 0; i < n_names && status == ZN_OK; i++)
        if (!zn_contents_find(&s->contents, names[i]))
            status = zn_contents_add(&s->contents, s->temporary, names[i]);
    zn_names_free(names, n_names);
    return status;
}

static zn_status put_in_place(zn_save *s)
{
    for (int rank = 1; rank < s->n_ranks; rank++)
        ZN_TRY(take_part(s, rank));
    kill_point(s->rank);
    ZN_TRY(add_small_files(s));
    kill_point(s->rank);
    ZN_TRY(zn_contents_write(&s->contents, s->temporary, ZN_CONTENTS_NAME));
    kill_point(s->rank);
    ZN_TRY(zn_folder_sync(s->temporary));
    kill_point(s->rank);
    ZN_TRY(zn_checkpoint_put(s->folder, s->temporary, s->step));
    kill_point(s->rank);
    return ZN_OK;
}

zn_status zn_save_publish(zn_save *s, zn_status settled)
{
    ZN_TRY(zn_comm_agree(s->comm, settled));
    ZN_TRY(zn_comm_agree(s->comm, s->rank == 0 ? put_in_place(s) : ZN_OK));
    s->published = true;
    return ZN_OK;
}

void zn_save_destroy(zn_save *s)
{
    if (!s)
        return;
    free(s->tensors);
    zn_st_writer_destroy(s->model);
    zn_st_writer_destroy(s->optimizer);
    if (!s->published && s->rank == 0 && s->temporary) {
        /* The failure that led here is what the person must read. */
        char message[1024];
        snprintf(message, sizeof message, "%s", zn_error_message());
        zn_tree_remove(s->temporary);
        zn_fail_text(ZN_OK, message);
    }
    zn_contents_fini(&s->contents);
    free(s->temporary);
    free(s);
}
