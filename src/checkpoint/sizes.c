/* Sizes of files to come, and room for them. */
#include "checkpoint/sizes.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/size.h"
#include "models/adapter.h"

enum {
    TENSOR_BYTES = 512,       /* at most, about: of a tensor in a header and in manifest.json */
    SMALL_BYTES = 64 * 1024, /* state.json, and what files take beyond their length */
    BLOCK_BYTES = 32,         /* of 16 MiB of data in manifest.json */
    N_OPEN = 16
};

static uint64_t disk_bytes(const zn_model *model, const struct zn_weights_style *style, const zn_hub_files *hub,
                           struct zn_state_sizes states)
{
    const zn_module *module = model->module;
    int first = zn_model_first_written(model);
    uint64_t n = (uint64_t)zn_model_n_written(model);
    uint64_t data = n * zn_dtype_bytes(style->dtype) + states.n_bytes;
    uint64_t n_tensors = (uint64_t)(module->n_params - first) + states.n_tensors;
    return data + data / (16 * ZN_MIB) * BLOCK_BYTES + n_tensors * TENSOR_BYTES + zn_hub_files_bytes(hub) + SMALL_BYTES;
}

uint64_t zn_model_disk_bytes(const zn_model *model, const struct zn_weights_style *style, const zn_hub_files *hub)
{
    return disk_bytes(model, style, hub, (struct zn_state_sizes){0});
}

uint64_t zn_checkpoint_disk_bytes(const zn_model *model, const struct zn_weights_style *style, const zn_hub_files *hub,
                                  struct zn_state_sizes states)
{
    return disk_bytes(model, style, hub, states);
}

static void add_tensor(struct zn_state_sizes *sizes, int64_t n_elements, zn_dtype type)
{
    sizes->n_tensors++;
    sizes->n_bytes += (uint64_t)n_elements * zn_dtype_bytes(type);
}

struct zn_state_sizes zn_checkpoint_states(const zn_model *model, const struct zn_weights_style *style,
                                           const struct zn_engine_options *o)
{
    struct zn_state_sizes sizes = {0};
    for (int i = zn_model_first_written(model); i < model->module->n_params; i++) {
        int64_t n = zn_param_n_whole(&model->module->params[i]);
        if (style->dtype != ZN_F32)
            add_tensor(&sizes, n, ZN_F32);
        bool by_matrix = zn_optimizer_is_by_matrix(o->optimizer) &&
                         zn_param_is_hidden_matrix(&model->module->params[i], model->module->n_segments);
        if (o->frozen && o->frozen[i])
            continue;
        if (o->delay_after >= 0)
            add_tensor(&sizes, n, ZN_F32);
        for (int k = 0; k < o->optimizer->n_states; k++) {
            const struct zn_optimizer_state *s = &o->optimizer->state[k];
            if (!zn_optimizer_keeps(s, by_matrix))
                continue;
            add_tensor(&sizes, n, s->type);
            if (s->block)
                add_tensor(&sizes, zn_state_values(n, s->block), ZN_F32);
        }
    }
    return sizes;
}

/* ---- Room ---- */

/* The path, or the nearest folder above that is there; the caller frees. NULL: no memory. */
static char *find_existing(const char *path)
{
    struct stat s;
    char *part = strdup(path);
    while (part && stat(part, &s) != 0) {
        char *slash = strrchr(part, '/');
        if (slash && slash != part) {
            *slash = '\0';
            continue;
        }
        free(part);
        return strdup(slash ? "/" : ".");
    }
    return part;
}

zn_status zn_disk_free(const char *path, uint64_t *n_bytes, uint64_t *device)
{
    struct stat s;
    struct statvfs fs;
    zn_status status = ZN_OK;
    char *found = find_existing(path);
    if (!found)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    if (stat(found, &s) != 0 || statvfs(found, &fs) != 0) {
        status = zn_fail(ZN_ERR_IO, "%s: cannot tell the free space: %s", found, strerror(errno));
    } else {
        *device = (uint64_t)s.st_dev;
        *n_bytes = fs.f_blocks == 0 ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize;
    }
    free(found);
    return status;
}

static _Thread_local uint64_t tree_bytes; /* nftw has no argument for it */

static int add_entry(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)path, (void)at;
    if (kind == FTW_F)
        tree_bytes += (uint64_t)s->st_blocks * 512;
    return 0;
}

uint64_t zn_tree_disk_bytes(const char *path)
{
    tree_bytes = 0;
    nftw(path, add_entry, N_OPEN, FTW_PHYS);
    return tree_bytes;
}
