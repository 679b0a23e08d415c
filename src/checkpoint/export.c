/* Masters out of a checkpoint and into the files of a hub folder. */
#include "checkpoint/export.h"

#include <stdlib.h>

#include "base/files.h"
#include "checkpoint/hub_files.h"
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

static zn_status check_empty(const char *folder)
{
    static const char *const signs[] = {"model.safetensors", "model.safetensors.index.json", "config.json", "run.json"};
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

static zn_status take(void *self, const zn_param *param, int64_t first, const float *values, int64_t n_elements)
{
    return zn_st_writer_write_f32(self, (size_t)param->index, first, n_elements, values);
}

static zn_status write_weights(const zn_checkpoint *checkpoint, const zn_model *model,
                               const struct zn_weights_style *style, const char *folder)
{
    size_t n = (size_t)model->module->n_params;
    struct zn_st_spec *specs = calloc(n, sizeof *specs);
    zn_st_writer *writer = NULL;
    if (!specs)
        return zn_fail(ZN_ERR_MEMORY, "no memory to export weights");
    for (size_t i = 0; i < n; i++)
        specs[i] = zn_weights_spec(model, style, &model->module->params[i]);
    zn_status status = zn_st_writer_create(folder, "model", specs, n, 0, &writer);
    if (status == ZN_OK)
        status = zn_checkpoint_stream_masters(checkpoint, model, take, writer);
    if (status == ZN_OK)
        status = zn_st_writer_finish(writer);
    zn_st_writer_destroy(writer);
    free(specs);
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

zn_status zn_checkpoint_export(const zn_checkpoint *checkpoint, const char *folder, zn_dtype dtype)
{
    zn_model *model;
    struct zn_weights_style style;
    ZN_TRY(check_empty(folder));
    ZN_TRY(zn_contents_check_blocks(&checkpoint->contents, checkpoint->folder, 0,
                                    zn_contents_n_blocks(&checkpoint->contents)));
    ZN_TRY(open_model(checkpoint->folder, &model, &style));
    style.dtype = dtype;
    zn_status status = write_small_files(checkpoint->folder, folder, dtype);
    if (status == ZN_OK)
        status = write_weights(checkpoint, model, &style, folder);
    zn_model_destroy(model);
    return status;
}
