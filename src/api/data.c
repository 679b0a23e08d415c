/* Data as a handle: a list of paths, rows and tokens. Rows and tokens become files where an engine is made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/tokens.h"

zn_status zn_data_create(zn_data **data)
{
    zn_data *d = calloc(1, sizeof *d);
    if (!d)
        return zn_fail(ZN_ERR_MEMORY, "no memory for data");
    *data = d;
    return ZN_OK;
}

void zn_data_destroy(zn_data *data)
{
    if (!data)
        return;
    for (size_t i = 0; i < data->n_items; i++) {
        free(data->items[i].text);
        free(data->items[i].ids);
    }
    free(data->items);
    free(data);
}

/* The item's memory is the data's from now on. */
static zn_status add_item(zn_data *d, const struct data_item *item)
{
    if (d->n_items == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 64;
        struct data_item *grown = realloc(d->items, capacity * sizeof *grown);
        if (!grown) {
            free(item->text);
            free(item->ids);
            return zn_fail(ZN_ERR_MEMORY, "no memory for data");
        }
        d->items = grown;
        d->capacity = capacity;
    }
    d->items[d->n_items++] = *item;
    return ZN_OK;
}

static zn_status add_copy(zn_data *d, enum data_kind kind, const char *text)
{
    char *copy = strdup(text);
    return copy ? add_item(d, &(struct data_item){.kind = kind, .text = copy}) : zn_fail(ZN_ERR_MEMORY, "no memory for data");
}

zn_status zn_data_add_path(zn_data *data, const char *path)
{
    return add_copy(data, DATA_PATH, path);
}

zn_status zn_data_add_text(zn_data *data, const char *text, size_t n_bytes)
{
    if (memchr(text, '\0', n_bytes))
        return zn_fail(ZN_ERR_INPUT, "a text of %zu bytes holds a NUL", n_bytes);
    char *copy = strndup(text, n_bytes);
    zn_text row;
    zn_text_init(&row);
    zn_text_add(&row, "{\"text\":");
    if (copy)
        zn_text_add_quoted(&row, copy);
    zn_text_add(&row, "}");
    zn_status status = copy ? zn_text_status(&row) : zn_fail(ZN_ERR_MEMORY, "no memory for data");
    free(copy);
    if (status == ZN_OK)
        return add_item(data, &(struct data_item){.kind = DATA_ROW, .text = row.data});
    zn_text_fini(&row);
    return status;
}

zn_status zn_data_add_row(zn_data *data, const char *row)
{
    zn_json *root;
    if (strchr(row, '\n'))
        return zn_fail(ZN_ERR_INPUT, "a row holds a line break: it is one line of JSON");
    ZN_TRY(zn_json_load_buffer(row, strlen(row), "a row of data", &root));
    zn_json_destroy(root);
    return add_copy(data, DATA_ROW, row);
}

zn_status zn_data_add_tokens(zn_data *data, const int32_t *ids, size_t n_ids)
{
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0)
            return zn_fail(ZN_ERR_INPUT, "token %zu is %d: ids are at least 0", i, ids[i]);
    int32_t *copy = malloc((n_ids ? n_ids : 1) * sizeof *copy);
    if (!copy)
        return zn_fail(ZN_ERR_MEMORY, "no memory for data");
    memcpy(copy, ids, n_ids * sizeof *copy);
    return add_item(data, &(struct data_item){.kind = DATA_TOKENS, .ids = copy, .n_ids = n_ids});
}

bool data_needs_files(const zn_data *data)
{
    for (size_t i = 0; data && i < data->n_items; i++)
        if (data->items[i].kind != DATA_PATH)
            return true;
    return false;
}

/* ---- Files ---- */

/* Rows that follow one another share a file: how many items do from item i on. */
static size_t run_length(const zn_data *d, size_t i)
{
    size_t n = 1;
    while (d->items[i].kind == DATA_ROW && i + n < d->n_items && d->items[i + n].kind == DATA_ROW)
        n++;
    return n;
}

static zn_status file_path(const zn_data *d, size_t i, const char *folder, const char *name, char **path)
{
    char file[64];
    snprintf(file, sizeof file, "%s-%zu.%s", name, i, d->items[i].kind == DATA_ROW ? "jsonl" : "bin");
    return zn_path_join(folder, file, path);
}

static zn_status write_rows(const struct data_item *items, size_t n, const char *path)
{
    zn_text text;
    zn_text_init(&text);
    for (size_t i = 0; i < n; i++) {
        zn_text_add_bytes(&text, items[i].text, strlen(items[i].text));
        zn_text_add_bytes(&text, "\n", 1);
    }
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_file_write(path, text.data, text.n_bytes);
    zn_text_fini(&text);
    return status;
}

static zn_status write_tokens(const struct data_item *item, const char *path)
{
    int32_t largest = 0;
    for (size_t i = 0; i < item->n_ids; i++)
        largest = item->ids[i] > largest ? item->ids[i] : largest;
    return zn_tokens_write(path, (int64_t)largest + 1, item->ids, (int64_t)item->n_ids);
}

zn_status data_write(const zn_data *d, const char *folder, const char *name)
{
    zn_status status = ZN_OK;
    for (size_t i = 0, n; d && i < d->n_items && status == ZN_OK; i += n) {
        char *path;
        n = run_length(d, i);
        if (d->items[i].kind == DATA_PATH)
            continue;
        ZN_TRY(file_path(d, i, folder, name, &path));
        status = d->items[i].kind == DATA_ROW ? write_rows(&d->items[i], n, path) : write_tokens(&d->items[i], path);
        free(path);
    }
    return status;
}

zn_status data_set_paths(const zn_data *d, const char *folder, const char *name, const char *flag, zn_options *options)
{
    zn_status status = zn_options_unset(options, flag);
    if (status == ZN_OK && d->n_items == 0)
        return zn_fail(ZN_ERR_INPUT, "the %s hold nothing", flag);
    for (size_t i = 0, n; i < d->n_items && status == ZN_OK; i += n) {
        char *path = d->items[i].text;
        n = run_length(d, i);
        if (d->items[i].kind != DATA_PATH)
            ZN_TRY(file_path(d, i, folder, name, &path));
        status = zn_options_set(options, flag, path);
        if (d->items[i].kind != DATA_PATH)
            free(path);
    }
    return status;
}
