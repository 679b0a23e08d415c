/* A checkpoint for a person to read, and as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/json_text.h"
#include "base/size.h"
#include "checkpoint/load.h"

static void print_tensor(FILE *out, const struct zn_st_tensor *t, const char *file, bool json, bool first)
{
    char shape[ZN_SHAPE_TEXT];
    if (!json) {
        fprintf(out, "  %-5s %-16s %s\n", zn_st_dtype_name(t->dtype), zn_shape_text(t->n_dims, t->dims, shape), t->name);
        return;
    }
    fprintf(out, "%s{\"name\":", first ? "" : ",");
    zn_json_put_string(out, t->name);
    fprintf(out, ",\"dtype\":\"%s\",\"shape\":[", zn_st_dtype_name(t->dtype));
    for (int i = 0; i < t->n_dims; i++)
        fprintf(out, "%s%lld", i ? "," : "", (long long)t->dims[i]);
    fputs("],\"file\":", out);
    zn_json_put_string(out, file);
    fputc('}', out);
}

/* Tensors of a file, where it has some. */
static zn_status print_tensors(FILE *out, const zn_checkpoint *c, const struct zn_listed_file *listed, bool json, size_t *n_printed)
{
    char *path;
    zn_st_file *file;
    if (listed->n_segments == 0)
        return ZN_OK;
    ZN_TRY(zn_path_join(c->folder, listed->name, &path));
    zn_status status = zn_st_open(path, &file);
    free(path);
    ZN_TRY(status);
    for (size_t i = 0; i < zn_st_n_tensors(file); i++)
        print_tensor(out, zn_st_tensor_at(file, i), listed->name, json, (*n_printed)++ == 0);
    zn_st_close(file);
    return ZN_OK;
}

static zn_status print_text(FILE *out, const zn_checkpoint *c)
{
    const struct zn_run_state *s = &c->state;
    char size[ZN_SIZE_TEXT];
    size_t n_printed = 0;
    fprintf(out, "%s: step %lld, %lld updates, %lld windows of %lld tokens consumed of %lld an epoch, seed %llu%s\n", c->folder,
           (long long)s->step, (long long)s->updates, (long long)s->consumed, (long long)s->seq_len,
           (long long)s->n_windows, (unsigned long long)s->seed, s->shuffle ? "" : ", not shuffled");
    fprintf(out, "%s, trained in %s, weights in %s, masters in the %s\n", s->optimizer, s->precision, zn_dtype_name(s->dtype),
           s->masters_in_model ? "model's files" : "optimizer's files");
    for (size_t i = 0; i < c->contents.n_files; i++) {
        const struct zn_listed_file *file = &c->contents.files[i];
        fprintf(out, "%s  %s\n", file->name, zn_size_text((size_t)file->n_bytes, size));
        ZN_TRY(print_tensors(out, c, file, false, &n_printed));
    }
    return ZN_OK;
}

static zn_status print_json(FILE *out, const zn_checkpoint *c)
{
    char *state;
    size_t n_printed = 0;
    ZN_TRY(zn_json_print(c->root, &state));
    fputs("{\"path\":", out);
    zn_json_put_string(out, c->folder);
    fprintf(out, ",\"bytes\":%llu,\"files\":[", (unsigned long long)zn_contents_n_bytes(&c->contents));
    for (size_t i = 0; i < c->contents.n_files; i++) {
        fputs(i ? ",{\"name\":" : "{\"name\":", out);
        zn_json_put_string(out, c->contents.files[i].name);
        fprintf(out, ",\"bytes\":%llu}", (unsigned long long)c->contents.files[i].n_bytes);
    }
    fputs("],\"tensors\":[", out);
    zn_status status = ZN_OK;
    for (size_t i = 0; i < c->contents.n_files && status == ZN_OK; i++)
        status = print_tensors(out, c, &c->contents.files[i], true, &n_printed);
    fprintf(out, "],\"state\":%s}\n", state);
    free(state);
    return status;
}

zn_status zn_checkpoint_print(const zn_checkpoint *c, bool as_json, char **text)
{
    char *data = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&data, &n_bytes);
    zn_status status = !out ? zn_fail(ZN_ERR_MEMORY, "no memory for a text") : as_json ? print_json(out, c) : print_text(out, c);
    if (out && fclose(out) != 0 && status == ZN_OK)
        status = zn_fail(ZN_ERR_MEMORY, "no memory for a text");
    if (status != ZN_OK) {
        free(data);
        return status;
    }
    *text = data;
    return ZN_OK;
}
