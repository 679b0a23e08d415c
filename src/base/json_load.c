/* Documents from files and buffers, with places of errors as they are in what was given. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json_private.h"
#include "base/json_repair.h"
#include "base/signature.h"
#include "base/text.h"

/* Where a document stands in its file. */
struct source {
    const char *name;
    int64_t first_line; /* 0: messages name no line of the file */
    json_repair_kind repair;
};

static json_t *parse(const char *data, size_t n_bytes, json_error_t *error)
{
    return json_loadb(data, n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, error);
}

/* Moves the error's place from the rewritten document to the one that was given. */
static void move_error(const char *data, size_t n_bytes, json_repair_kind kind, json_error_t *error)
{
    size_t end = json_repair_origin(data, n_bytes, kind, error->position < 0 ? 0 : (size_t)error->position), begin = end;
    int column = 0;
    while (begin > 0 && data[begin - 1] != '\n')
        column += ((unsigned char)data[--begin] & 0xc0) != 0x80; /* characters, as jansson counts them */
    error->column = column;
}

/* Parses it as it is and, where a strict reader may refuse what is meant to be read, once more rewritten. */
static zn_status parse_source(const char *data, size_t n_bytes, const struct source *source, json_error_t *error,
                              json_t **document, int64_t *n_replaced)
{
    *n_replaced = 0;
    *document = parse(data, n_bytes, error);
    if (*document || (source->repair == JSON_REPAIR_NUMBERS && json_error_code(error) != json_error_numeric_overflow))
        return ZN_OK;
    zn_text text;
    zn_text_init(&text);
    zn_status status = json_repair(data, n_bytes, source->repair, &text, n_replaced);
    if (status == ZN_OK) {
        *document = parse(text.data ? text.data : "", text.n_bytes, error);
        if (!*document)
            move_error(data, n_bytes, source->repair, error);
    }
    zn_text_fini(&text);
    return status;
}

static zn_status fail_parse(const struct source *source, const json_error_t *error)
{
    if (!error->text[0] || json_error_code(error) == json_error_out_of_memory) /* jansson does not always say so */
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", source->name);
    if (source->first_line > 0)
        return zn_fail(ZN_ERR_INPUT, "%s:%lld: not valid JSON: column %d: %s", source->name,
                       (long long)(source->first_line + error->line - 1), error->column, zn_shown(error->text).text);
    return zn_fail(ZN_ERR_INPUT, "%s: not valid JSON: line %d, column %d: %s", source->name, error->line,
                   error->column, zn_shown(error->text).text);
}

static zn_status name_root(zn_json *root, const struct source *source)
{
    zn_text name;
    zn_text_init(&name);
    zn_text_add(&name, source->first_line > 0 ? "%s:%lld" : "%s", source->name, (long long)source->first_line);
    root->name = name.data;
    return zn_text_status(&name);
}

static zn_status load(const void *data, size_t n_bytes, const struct source *source, zn_json **root,
                      int64_t *n_replaced)
{
    json_error_t error;
    json_t *document;
    ZN_TRY(parse_source(data, n_bytes, source, &error, &document, n_replaced));
    bool is_file = source->first_line == 0; /* not a row of one */
    const char *advice = document || !is_file ? NULL : zn_signature_advice(data, n_bytes);
    if (advice)
        return zn_fail(ZN_ERR_INPUT, "%s: %s", source->name, advice);
    if (!document)
        return fail_parse(source, &error);
    zn_json *json = calloc(1, sizeof *json);
    if (!json || name_root(json, source) != ZN_OK) {
        if (json)
            free(json->name);
        free(json);
        json_decref(document);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", source->name);
    }
    json->document = document;
    json->value = document;
    json->root = json;
    *root = json;
    return ZN_OK;
}

zn_status zn_json_load_buffer(const void *data, size_t n_bytes, const char *name, zn_json **root)
{
    const struct source source = {.name = name, .repair = JSON_REPAIR_NUMBERS};
    int64_t n_replaced;
    return load(data, n_bytes, &source, root, &n_replaced);
}

zn_status zn_json_load_row(const void *data, size_t n_bytes, const char *file, int64_t line, zn_json **root,
                           int64_t *n_replaced)
{
    const struct source source = {.name = file, .first_line = line, .repair = JSON_REPAIR_PYTHON};
    return load(data, n_bytes, &source, root, n_replaced);
}

zn_status zn_json_load_file(const char *path, size_t max_bytes, zn_json **root)
{
    char *data;
    size_t n_bytes;
    ZN_TRY(zn_file_read(path, max_bytes, &data, &n_bytes));
    zn_status status = zn_json_load_buffer(data, n_bytes, path, root);
    free(data);
    return status;
}

void zn_json_destroy(zn_json *root)
{
    if (!root)
        return;
    for (zn_json *value = root->values, *next; value; value = next) {
        next = value->next;
        free(value);
    }
    json_decref(root->document);
    free(root->name);
    free(root);
}
