/* Opening a checkpoint, and finding the newest whole one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"

enum { STATE_BYTES = 64 * 1024 * 1024, CONFIG_BYTES = 16 * 1024 * 1024 };

/* ---- One ---- */

static zn_status read_state(zn_checkpoint *c)
{
    char *path;
    ZN_TRY(zn_contents_check_file(&c->contents, c->folder, ZN_STATE_NAME));
    ZN_TRY(zn_path_join(c->folder, ZN_STATE_NAME, &path));
    zn_status status = zn_json_load_file(path, STATE_BYTES, &c->root);
    if (status == ZN_OK)
        status = zn_run_state_parse(c->root, &c->state);
    free(path);
    return status;
}

static zn_status read_contents(zn_checkpoint *c)
{
    char *path;
    ZN_TRY(zn_path_join(c->folder, ZN_CONTENTS_NAME, &path));
    zn_status status = zn_contents_read(path, &c->contents);
    free(path);
    if (status == ZN_OK)
        status = zn_contents_check_sizes(&c->contents, c->folder);
    return status == ZN_OK ? read_state(c) : status;
}

zn_status zn_checkpoint_open(const char *folder, zn_checkpoint **checkpoint)
{
    zn_checkpoint *c = calloc(1, sizeof *c);
    if (!c || !(c->folder = strdup(folder))) {
        free(c);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", folder);
    }
    zn_contents_init(&c->contents);
    zn_status status = read_contents(c);
    if (status != ZN_OK) {
        zn_checkpoint_close(c);
        return status;
    }
    *checkpoint = c;
    return ZN_OK;
}

void zn_checkpoint_close(zn_checkpoint *c)
{
    if (!c)
        return;
    zn_json_destroy(c->root);
    zn_contents_fini(&c->contents);
    free(c->folder);
    free(c);
}

/* ---- The newest whole one ---- */

/* Whether the folder is itself a checkpoint, whole or not. */
static zn_status is_checkpoint(const char *folder, bool *is_one)
{
    ZN_TRY(zn_folder_holds(folder, ZN_CONTENTS_NAME, is_one));
    return *is_one ? ZN_OK : zn_folder_holds(folder, ZN_STATE_NAME, is_one);
}

/* A checkpoint that some ranks can open and others cannot is not broken: the others do not see it. To pass it over would
 * train again what is there. */
static zn_status check_all_see(zn_comm *comm, const char *folder, zn_status mine, zn_status agreed)
{
    size_t n_ranks = (size_t)zn_comm_n_ranks(comm), n_open = 0;
    uint8_t opened = mine == ZN_OK, *all = malloc(n_ranks);
    char cause[1024];
    snprintf(cause, sizeof cause, "%s", zn_error_message());
    ZN_TRY(zn_comm_agree(comm, all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory to look for checkpoints")));
    zn_status status = zn_comm_exchange(comm, &opened, sizeof opened, all);
    for (size_t r = 0; status == ZN_OK && r < n_ranks; r++)
        n_open += all[r];
    free(all);
    ZN_TRY(status);
    if (n_open == 0)
        return zn_fail_text(agreed, cause);
    return zn_fail(ZN_ERR_USAGE, "--resume: %s can be opened on %zu of %zu ranks, and all need it; %s", folder, n_open, n_ranks,
                   cause);
}

/* Opens it on every rank; each holds its share of the blocks to their hashes. */
static zn_status open_together(zn_comm *comm, const char *folder, zn_checkpoint **checkpoint)
{
    zn_checkpoint *c = NULL;
    zn_status mine = zn_checkpoint_open(folder, &c), status = zn_comm_agree(comm, mine);
    if (status != ZN_OK) {
        status = check_all_see(comm, folder, mine, status);
    } else {
        uint64_t n = zn_contents_n_blocks(&c->contents), n_ranks = (uint64_t)zn_comm_n_ranks(comm);
        uint64_t rank = (uint64_t)zn_comm_rank(comm), first = n * rank / n_ranks;
        status = zn_contents_check_blocks(&c->contents, folder, first, n * (rank + 1) / n_ranks - first);
        status = zn_comm_agree(comm, status);
    }
    if (status != ZN_OK) {
        zn_checkpoint_close(c);
        return status;
    }
    *checkpoint = c;
    return ZN_OK;
}

/* Rank 0 says which folder is next; "" is the end. All ranks get its text. */
static zn_status share_path(zn_comm *comm, const char *path, char shared[ZN_EXCHANGE_BYTES])
{
    size_t n_ranks = (size_t)zn_comm_n_ranks(comm);
    char *all = malloc(n_ranks * ZN_EXCHANGE_BYTES);
    ZN_TRY(zn_comm_agree(comm, all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory to look for checkpoints")));
    memset(shared, 0, ZN_EXCHANGE_BYTES);
    if (path)
        snprintf(shared, ZN_EXCHANGE_BYTES, "%s", path);
    zn_status status = zn_comm_exchange(comm, shared, ZN_EXCHANGE_BYTES, all);
    if (status == ZN_OK)
        memcpy(shared, all, ZN_EXCHANGE_BYTES);
    free(all);
    return status;
}

static zn_status share_step(zn_comm *comm, const char *folder, const int64_t *step, char shared[ZN_EXCHANGE_BYTES])
{
    char name[ZN_CHECKPOINT_NAME], *path = NULL;
    zn_status status = step ? zn_path_join(folder, zn_checkpoint_name(*step, name), &path) : ZN_OK;
    if (status == ZN_OK)
        status = share_path(comm, path, shared);
    free(path);
    return status;
}

/* Tries the steps, which rank 0 knows, one after the other. */
static zn_status find_newest(zn_comm *comm, const char *folder, const int64_t *steps, size_t n_steps,
                             void (*note)(void *, const char *), void *self, zn_checkpoint **checkpoint)
{
    char path[ZN_EXCHANGE_BYTES], text[1024];
    for (size_t i = 0;; i++) {
        ZN_TRY(share_step(comm, folder, i < n_steps ? &steps[i] : NULL, path));
        if (!path[0])
            return ZN_OK;
        zn_status status = open_together(comm, path, checkpoint);
        if (status != ZN_ERR_INPUT && status != ZN_ERR_IO)
            return status;
        snprintf(text, sizeof text, "passed over a broken checkpoint: %s", zn_error_message());
        note(self, text);
    }
}

/* folder/checkpoints of a run, or the folder itself; only rank 0 looks. */
static zn_status list_steps(const char *from, char **folder, int64_t **steps, size_t *n_steps)
{
    char *inner;
    bool found;
    ZN_TRY(zn_folder_holds(from, ZN_CHECKPOINTS, &found));
    ZN_TRY(zn_path_join(from, found ? ZN_CHECKPOINTS : "", &inner));
    zn_status status = zn_checkpoints_list(inner, steps, n_steps);
    if (status != ZN_OK) {
        free(inner);
        return status;
    }
    *folder = inner;
    return ZN_OK;
}

zn_status zn_checkpoint_find(zn_comm *comm, const char *from, void (*note)(void *self, const char *text), void *self,
                             zn_checkpoint **checkpoint)
{
    bool looks = zn_comm_rank(comm) == 0;
    char path[ZN_EXCHANGE_BYTES], *folder = NULL;
    int64_t *steps = NULL;
    size_t n_steps = 0;
    *checkpoint = NULL;
    bool is_one = false;
    ZN_TRY(zn_comm_agree(comm, looks ? is_checkpoint(from, &is_one) : ZN_OK));
    ZN_TRY(share_path(comm, is_one ? from : NULL, path));
    if (path[0])
        return open_together(comm, path, checkpoint);
    zn_status status = zn_comm_agree(comm, looks ? list_steps(from, &folder, &steps, &n_steps) : ZN_OK);
    if (status == ZN_OK)
        status = find_newest(comm, folder, steps, n_steps, note, self, checkpoint);
    free(steps);
    free(folder);
    return status;
}

/* ---- Its model ---- */

static zn_status load_config(const char *folder, zn_json **config)
{
    char *path;
    ZN_TRY(zn_path_join(folder, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, config);
    free(path);
    return status;
}

static zn_status fail_config(const zn_checkpoint *checkpoint, const char *model_folder, const char *key, const zn_json *saved,
                             const zn_json *now)
{
    char *was = NULL, *is = NULL;
    zn_status status = zn_json_print_at(saved, key, &was);
    if (status == ZN_OK)
        status = zn_json_print_at(now, key, &is);
    if (status == ZN_OK)
        status = zn_fail(ZN_ERR_USAGE, "--resume: %s is of another model than --model %s: in config.json it has \"%s\": %s, the "
                         "other has %s", checkpoint->folder, model_folder, zn_shown(key).text, zn_shown(was).text,
                         zn_shown(is).text);
    free(is);
    free(was);
    return status;
}

zn_status zn_checkpoint_check_config(const zn_checkpoint *checkpoint, const char *model_folder)
{
    /* What says how the file was made, or how others run it; none of it makes the model. */
    static const char *const ignored[] = {
        "dtype", "torch_dtype", "transformers_version", "_name_or_path", "_commit_hash", "use_cache", "architectures", "auto_map",
        "_attn_implementation", "_attn_implementation_autoset", "attn_implementation", "return_dict", "output_attentions",
        "output_hidden_states", "torchscript", "use_bfloat16", "task_specific_params", "finetuning_task", "id2label", "label2id",
        "problem_type", "gradient_checkpointing", "pretraining_tp", "tokenizer_class", "prefix", "chunk_size_feed_forward",
        "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
        "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout", "initializer_range", "bos_token_id",
        "eos_token_id", "pad_token_id", NULL};
    zn_json *loaded = NULL, *now = NULL;
    const zn_json *saved = checkpoint->state.base_config;
    zn_status status = saved ? ZN_OK : load_config(checkpoint->folder, &loaded);
    saved = saved ? saved : loaded;
    if (status == ZN_OK)
        status = load_config(model_folder, &now);
    const char *key = status == ZN_OK ? zn_json_first_difference(saved, now, ignored) : NULL;
    if (key)
        status = fail_config(checkpoint, model_folder, key, saved, now);
    zn_json_destroy(now);
    zn_json_destroy(loaded);
    return status;
}
