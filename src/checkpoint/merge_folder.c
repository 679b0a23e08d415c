/* From a base and an adapter to a hub folder. */
#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/export.h"
#include "checkpoint/hub_files.h"
#include "checkpoint/merge.h"

enum { PIECE = 1 << 20 }; /* elements */

/* What is open. */
struct work {
    const struct zn_merge_options *options;
    zn_hub_files *hub;
    zn_json *config;
    zn_model *model;
    zn_model_files *files;
    struct zn_weights_style style;
    zn_peft *peft;
    zn_merging *merging;
    zn_st_writer *writer;
    float *piece;
};

static void note(const struct work *w, const char *text)
{
    if (w->options->note)
        w->options->note(w->options->self, text);
}

static void tell_unknown(void *self, const char *tensor)
{
    char text[256];
    snprintf(text, sizeof text, "tensor '%s' of the folder is not used by this model and is left out", zn_shown(tensor).text);
    note(self, text);
}

static zn_status open_inputs(struct work *w)
{
    const struct zn_merge_options *o = w->options;
    ZN_TRY(zn_peft_open(o->adapter, &w->peft));
    ZN_TRY(zn_hub_files_open(o->model, true, &w->hub));
    ZN_TRY(zn_hub_files_config(w->hub, &w->config));
    ZN_TRY(zn_model_create(w->config, 1, &w->model));
    ZN_TRY(zn_model_files_open(o->model, &w->files));
    ZN_TRY(zn_weights_check(w->model, w->files, tell_unknown, w, &w->style));
    if (o->dtype)
        ZN_TRY(zn_dtype_parse(o->dtype, "--output-dtype", &w->style.dtype));
    return zn_merging_create(w->peft, w->model, &w->merging);
}

static zn_status create_writer(struct work *w)
{
    size_t n = (size_t)zn_model_first_written(w->model); /* the base: what comes before the adapters */
    struct zn_st_spec *specs = calloc(n, sizeof *specs);
    w->piece = malloc(PIECE * sizeof *w->piece);
    zn_status status = specs && w->piece ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory to merge weights");
    for (size_t i = 0; i < n && status == ZN_OK; i++)
        specs[i] = zn_weights_spec(w->model, &w->style, &w->model->module->params[i]);
    if (status == ZN_OK)
        status = zn_st_writer_create(w->options->output, "model", specs, n, 0, &w->writer);
    free(specs);
    return status;
}

static zn_status write_param(struct work *w, const zn_param *p)
{
    struct zn_model_tensor from;
    ZN_TRY(zn_merging_find(w->merging, w->files, &w->style, p, &from));
    for (int64_t at = 0; at < p->n_elements; at += PIECE) {
        int64_t n = p->n_elements - at < PIECE ? p->n_elements - at : PIECE;
        ZN_TRY(zn_model_tensor_read(&from, at, n, w->piece));
        ZN_TRY(zn_st_writer_write_f32(w->writer, (size_t)p->index, at, n, w->piece));
    }
    return ZN_OK;
}

static zn_status write_output(struct work *w)
{
    ZN_TRY(zn_export_check_folder(w->options->output));
    ZN_TRY(zn_hub_files_write(w->hub, w->options->output, w->style.dtype));
    ZN_TRY(create_writer(w));
    for (int i = 0; i < zn_model_first_written(w->model); i++)
        ZN_TRY(write_param(w, &w->model->module->params[i]));
    return zn_st_writer_finish(w->writer);
}

zn_status zn_merge_folders(const struct zn_merge_options *options)
{
    struct work w = {.options = options};
    zn_status status = open_inputs(&w);
    if (status == ZN_OK)
        status = write_output(&w);
    free(w.piece);
    zn_st_writer_destroy(w.writer);
    zn_merging_destroy(w.merging);
    zn_peft_close(w.peft);
    zn_model_files_close(w.files);
    zn_model_destroy(w.model);
    zn_json_destroy(w.config);
    zn_hub_files_close(w.hub);
    return status;
}
