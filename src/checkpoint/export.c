/* Masters out of a checkpoint and into the files of a hub folder. */
#include "checkpoint/export.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "checkpoint/hub_files.h"
#include "checkpoint/peft.h"
#include "formats/model_files.h"

enum { CONFIG_BYTES = 16 * 1024 * 1024 };

static void ignore_name(void *self, const char *tensor)
{
    (void)self, (void)tensor;
}

static zn_status open_model(const char *folder, zn_model **model, struct zn_weights_style *style)
{
    char *path;
    zn_json *config;
    zn_model_files *files;
    ZN_TRY(zn_path_join(folder, "config.json", &path));
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &config);
    free(path);
    ZN_TRY(status);
    status = zn_model_create(config, 1, model);
    zn_json_destroy(config);
    ZN_TRY(status);
    status = zn_model_files_open(folder, &files);
    if (status == ZN_OK) {
        status = zn_weights_check(*model, files, ignore_name, NULL, style);
        zn_model_files_close(files);
    }
    if (status != ZN_OK)
        zn_model_destroy(*model);
    return status;
}

zn_status zn_export_check_folder(const char *folder)
{
    static const char *const signs[] = {"model.safetensors", "model.safetensors.index.json", "config.json", "run.json",
                                        ZN_PEFT_WEIGHTS};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        char *path;
        ZN_TRY(zn_path_join(folder, signs[i], &path));
        bool found = zn_file_exists(path);
        free(path);
        if (found)
            return zn_fail(ZN_ERR_USAGE, "--output %s: holds a model already (%s); give another folder", folder, signs[i]);
    }
    return zn_folder_create(folder);
}

/* Where tensors go: the first of them is this parameter. */
struct exporting {
    zn_st_writer *writer;
    int first;
};

static zn_status take(void *self, const zn_param *param, int64_t first, const float *values, int64_t n_elements)
{
    const struct exporting *x = self;
    return zn_st_writer_write_f32(x->writer, (size_t)(param->index - x->first), first, n_elements, values);
}

static zn_status write_weights(const zn_checkpoint *checkpoint, const zn_model *model,
                               const struct zn_weights_style *style, const char *folder)
{
    struct exporting x = {.first = zn_model_first_written(model)};
    zn_status status = zn_weights_writer(model, folder, style, NULL, &x.writer);
    if (status == ZN_OK)
        status = zn_checkpoint_stream_masters(checkpoint, model, take, &x);
    if (status == ZN_OK)
        status = zn_st_writer_finish(x.writer);
    zn_st_writer_destroy(x.writer);
    return status;
}

static zn_status write_small_files(const char *from, const char *to, zn_dtype dtype)
{
    zn_hub_files *hub;
    ZN_TRY(zn_hub_files_open(from, true, &hub));
    zn_status status = zn_hub_files_write(hub, to, dtype);
    zn_hub_files_close(hub);
    return status;
}

static zn_status export_model(const zn_checkpoint *checkpoint, const char *folder, zn_dtype dtype)
{
    zn_model *model;
    struct zn_weights_style style;
    ZN_TRY(open_model(checkpoint->folder, &model, &style));
    style.dtype = dtype;
    zn_status status = write_small_files(checkpoint->folder, folder, dtype);
    if (status == ZN_OK)
        status = write_weights(checkpoint, model, &style, folder);
    zn_model_destroy(model);
    return status;
}

/* ---- Adapters ---- */

/* The small files that a checkpoint has besides those that it is resumed from: adapter_config.json and the tokenizer's. */
static zn_status copy_small_files(const zn_checkpoint *checkpoint, const char *folder)
{
    static const size_t MAX_BYTES = 256 * 1024 * 1024;
    zn_status status = ZN_OK;
    for (size_t i = 0; i < checkpoint->contents.n_files && status == ZN_OK; i++) {
        const struct zn_listed_file *file = &checkpoint->contents.files[i];
        char *from, *to = NULL, *data = NULL;
        size_t n_bytes;
        if (file->n_segments > 0 || strcmp(file->name, ZN_STATE_NAME) == 0)
            continue;
        ZN_TRY(zn_path_join(checkpoint->folder, file->name, &from));
        status = zn_path_join(folder, file->name, &to);
        if (status == ZN_OK)
            status = zn_file_read(from, MAX_BYTES, &data, &n_bytes);
        if (status == ZN_OK)
            status = zn_file_write(to, data, n_bytes);
        free(data);
        free(to);
        free(from);
    }
    return status;
}

/* The base itself is not needed: state.json has its config.json. */
static zn_status export_adapters(const zn_checkpoint *checkpoint, const char *folder, zn_dtype dtype)
{
    zn_json *config = NULL;
    zn_peft *peft = NULL;
    zn_model *model = NULL;
    zn_json *base;
    const struct zn_weights_style style = {.dtype = dtype};
    ZN_TRY(zn_json_get_object(checkpoint->root, "base", &base));
    zn_status status = zn_json_get_object(base, "config", &config);
    if (status == ZN_OK)
        status = zn_model_create(config, 1, &model);
    if (status == ZN_OK)
        status = zn_peft_open(checkpoint->folder, &peft);
    if (status == ZN_OK)
        status = zn_model_add_adapters(model, zn_peft_options(peft));
    if (status == ZN_OK)
        status = copy_small_files(checkpoint, folder);
    if (status == ZN_OK)
        status = write_weights(checkpoint, model, &style, folder);
    zn_peft_close(peft);
    zn_model_destroy(model);
    return status;
}

zn_status zn_checkpoint_write_model(const zn_checkpoint *checkpoint, const char *folder, zn_dtype dtype)
{
    ZN_TRY(zn_export_check_folder(folder));
    ZN_TRY(zn_contents_check_blocks(&checkpoint->contents, checkpoint->folder, 0,
                                    zn_contents_n_blocks(&checkpoint->contents)));
    return checkpoint->state.base_config ? export_adapters(checkpoint, folder, dtype) : export_model(checkpoint, folder, dtype);
}
