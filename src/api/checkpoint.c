/* Checkpoints for programs: which there are, what they are of, verified and exported. */
#include "zinc/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"
#include "checkpoint/export.h"
#include "checkpoint/folder.h"

static zn_status tell_folder(const char *folder, void (*tell)(void *self, const char *path), void *self)
{
    int64_t *steps;
    size_t n_steps;
    zn_status status = ZN_OK;
    ZN_TRY(zn_checkpoints_list(folder, &steps, &n_steps));
    for (size_t i = n_steps; i > 0 && status == ZN_OK; i--) {
        char name[ZN_CHECKPOINT_NAME], *path;
        status = zn_path_join(folder, zn_checkpoint_name(steps[i - 1], name), &path);
        if (status == ZN_OK) {
            tell(self, path);
            free(path);
        }
    }
    free(steps);
    return status;
}

zn_status zn_checkpoint_list(const char *folder, void (*tell)(void *self, const char *path), void *self)
{
    bool has_contents, has_state;
    char *inner;
    if (!zn_folder_exists(folder))
        return zn_fail(ZN_ERR_INPUT, "%s: no such folder", folder);
    ZN_TRY(zn_folder_holds(folder, ZN_CONTENTS_NAME, &has_contents));
    ZN_TRY(zn_folder_holds(folder, ZN_STATE_NAME, &has_state));
    if (has_contents || has_state) {
        tell(self, folder);
        return ZN_OK;
    }
    ZN_TRY(zn_path_join(folder, ZN_CHECKPOINTS, &inner));
    zn_status status = tell_folder(zn_folder_exists(inner) ? inner : folder, tell, self);
    free(inner);
    return status;
}

zn_status zn_checkpoint_info(const zn_checkpoint *c, struct zn_checkpoint_info *info)
{
    if (info->size != sizeof *info)
        return zn_fail(ZN_ERR_USAGE, "zn_checkpoint_info: size is %zu, not %zu: set it to sizeof", info->size, sizeof *info);
    *info = (struct zn_checkpoint_info){.size = sizeof *info,
                                        .step = c->state.step,
                                        .updates = c->state.updates,
                                        .n_bytes = zn_contents_n_bytes(&c->contents),
                                        .optimizer = c->state.optimizer,
                                        .precision = c->state.precision,
                                        .folder = c->folder,
                                        .type = zn_dtype_name(c->state.dtype)};
    return ZN_OK;
}

/* Damages on their way to the caller; the first of them is what the failure says. */
struct telling {
    void (*tell)(void *self, const char *file, const char *tensor, const char *what);
    void *self;
    size_t n;
    char first[512];
};

static void tell_damage(void *self, const char *file, const char *tensor, const char *what)
{
    struct telling *t = self;
    if (t->n++ == 0)
        snprintf(t->first, sizeof t->first, "%s: %s%s%s%s", file, tensor[0] ? "tensor '" : "", tensor, tensor[0] ? "': " : "", what);
    if (t->tell)
        t->tell(t->self, file, tensor, what);
}

/* The list itself, everything in it, and then that state.json makes sense. */
static zn_status verify_contents(const char *folder, zn_contents *contents, struct telling *t)
{
    char *path;
    ZN_TRY(zn_path_join(folder, ZN_CONTENTS_NAME, &path));
    zn_status status = zn_contents_read(path, contents);
    free(path);
    if (status == ZN_ERR_MEMORY)
        return status;
    if (status != ZN_OK) {
        tell_damage(t, ZN_CONTENTS_NAME, "", zn_error_message());
        return ZN_OK;
    }
    ZN_TRY(zn_contents_verify(contents, folder, tell_damage, t));
    zn_checkpoint *c = NULL;
    if (t->n == 0 && zn_checkpoint_open(folder, &c) != ZN_OK)
        tell_damage(t, ZN_STATE_NAME, "", zn_error_message());
    zn_checkpoint_close(c);
    return ZN_OK;
}

zn_status zn_checkpoint_verify(const char *folder, void (*tell)(void *self, const char *file, const char *tensor, const char *what),
                               void *self, struct zn_verified *result)
{
    struct telling telling = {.tell = tell, .self = self};
    zn_contents contents;
    if (result && result->size != sizeof *result)
        return zn_fail(ZN_ERR_USAGE, "zn_verified: size is %zu, not %zu: set it to sizeof", result->size, sizeof *result);
    zn_contents_init(&contents);
    zn_status status = verify_contents(folder, &contents, &telling);
    if (result)
        *result = (struct zn_verified){.size = sizeof *result,
                                       .n_files = contents.n_files,
                                       .n_damages = telling.n,
                                       .n_bytes = zn_contents_n_bytes(&contents)};
    zn_contents_fini(&contents);
    if (status != ZN_OK || telling.n == 0)
        return status;
    return zn_fail(ZN_ERR_INPUT, "%s: %zu damage%s, the first in %s", folder, telling.n, telling.n == 1 ? "" : "s", telling.first);
}

zn_status zn_checkpoint_export(const zn_checkpoint *c, const char *folder, const char *type)
{
    zn_dtype dtype = c->state.dtype;
    if (type)
        ZN_TRY(zn_dtype_parse(type, "--dtype", &dtype));
    return zn_checkpoint_write_model(c, folder, dtype);
}
