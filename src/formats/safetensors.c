/* Opening and checking a safetensors file, and reading from it. */
#include "formats/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/signature.h"
#include "base/size.h"
#include "base/text.h"
#include "tensor/half.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

enum { LENGTH_BYTES = 8 };

struct zn_st_file {
    char *path;
    int fd;
    struct zn_st_tensor *tensors; /* by offset; `name` points into the header's document */
    const struct zn_st_tensor **by_name;
    size_t n_tensors;
    zn_json *header;
};

static const struct {
    const char *name;
    unsigned bits;
} dtypes[ZN_ST_N_DTYPES] = {
#define DTYPE(name, bits) [ZN_ST_##name] = {#name, bits},
    ZN_ST_DTYPES(DTYPE)
#undef DTYPE
};

const char *zn_st_dtype_name(zn_st_dtype dtype)
{
    return dtypes[dtype].name;
}

bool zn_st_dtype_is_float(zn_st_dtype dtype, zn_dtype *type)
{
    switch ((int)dtype) {
    case ZN_ST_F32:
        *type = ZN_F32;
        return true;
    case ZN_ST_BF16:
        *type = ZN_BF16;
        return true;
    case ZN_ST_F16:
        *type = ZN_F16;
        return true;
    }
    return false;
}

const char *zn_shape_text(int n_dims, const int64_t *dims, char text[ZN_SHAPE_TEXT])
{
    int n = snprintf(text, ZN_SHAPE_TEXT, "(");
    for (int i = 0; i < n_dims && n < ZN_SHAPE_TEXT; i++)
        n += snprintf(text + n, (size_t)(ZN_SHAPE_TEXT - n), "%s%lld", i ? ", " : "", (long long)dims[i]);
    if (n < ZN_SHAPE_TEXT)
        snprintf(text + n, (size_t)(ZN_SHAPE_TEXT - n), ")");
    return text;
}

/* ---- The header ---- */

/* Bytes of a tensor; false when they would not fit 63 bits or end inside a byte. */
static bool tensor_size(struct zn_st_tensor *t)
{
    int64_t n = 1, bits;
    bool is_empty = false, fits = true;
    for (int i = 0; i < t->n_dims; i++) {
        is_empty |= t->dims[i] == 0;
        fits = fits && zn_mul_count(n, t->dims[i], &n);
    }
    if (is_empty) /* whatever the other dimensions are */
        n = 0;
    else if (!fits)
        return false;
    if (!zn_mul_count(n, dtypes[t->dtype].bits, &bits) || bits % 8 != 0)
        return false;
    t->n_elements = n;
    t->n_bytes = (uint64_t)bits / 8;
    return true;
}

static zn_status parse_dtype(zn_json *entry, zn_st_dtype *dtype)
{
    const char *name;
    ZN_TRY(zn_json_get_string(entry, "dtype", &name));
    for (int i = 0; i < ZN_ST_N_DTYPES; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *dtype = (zn_st_dtype)i;
            return ZN_OK;
        }
    }
    return zn_json_fail(entry, "unknown dtype \"%s\"", zn_shown(name).text);
}

/* One entry. `offset` becomes the place in the file; the data begin at `data` and end at `end`. */
static zn_status parse_tensor(zn_json *entry, uint64_t data, uint64_t end, struct zn_st_tensor *t)
{
    zn_json *shape, *offsets;
    ZN_TRY(parse_dtype(entry, &t->dtype));
    ZN_TRY(zn_json_get_array(entry, "shape", &shape));
    if (zn_json_n_items(shape) > ZN_ST_MAX_DIMS)
        return zn_json_fail(shape, "%zu dimensions, at most %d are supported", zn_json_n_items(shape),
                            ZN_ST_MAX_DIMS);
    t->n_dims = (int)zn_json_n_items(shape);
    for (int i = 0; i < t->n_dims; i++)
        ZN_TRY(zn_json_item_int(shape, (size_t)i, 0, INT64_MAX, &t->dims[i]));

    int64_t from, to, n_data = (int64_t)(end - data);
    ZN_TRY(zn_json_get_array(entry, "data_offsets", &offsets));
    if (zn_json_n_items(offsets) != 2)
        return zn_json_fail(offsets, "expected two offsets, found %zu", zn_json_n_items(offsets));
    ZN_TRY(zn_json_item_int(offsets, 0, 0, INT64_MAX, &from));
    ZN_TRY(zn_json_item_int(offsets, 1, 0, INT64_MAX, &to));
    if (from > to)
        return zn_json_fail(offsets, "begins at %lld, after its end %lld", (long long)from, (long long)to);
    if (to > n_data)
        return zn_json_fail(offsets, "ends at %lld, but the file has only %lld bytes of data: it was cut short, fetch it again",
                            (long long)to, (long long)n_data);

    char text[ZN_SHAPE_TEXT];
    if (!tensor_size(t))
        return zn_json_fail(entry, "shape %s of %s is too large or ends inside a byte",
                            zn_shape_text(t->n_dims, t->dims, text), zn_st_dtype_name(t->dtype));
    if (t->n_bytes != (uint64_t)(to - from))
        return zn_json_fail(entry, "shape %s of %s takes %llu bytes, but data_offsets give it %lld",
                            zn_shape_text(t->n_dims, t->dims, text), zn_st_dtype_name(t->dtype),
                            (unsigned long long)t->n_bytes, (long long)(to - from));
    t->offset = data + (uint64_t)from;
    return ZN_OK;
}

static zn_status check_metadata(zn_json *header, const char *key)
{
    zn_json *metadata;
    const char *value;
    ZN_TRY(zn_json_get_object(header, key, &metadata));
    for (const char *k = zn_json_first_key(metadata); k; k = zn_json_next_key(metadata, k))
        ZN_TRY(zn_json_get_string(metadata, k, &value));
    return ZN_OK;
}

static int compare_offset(const void *a, const void *b)
{
    const struct zn_st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp((*(const struct zn_st_tensor *const *)a)->name, (*(const struct zn_st_tensor *const *)b)->name);
}

/* The tensors, sorted, must cover the data exactly. */
static zn_status check_cover(const zn_st_file *file, uint64_t data, uint64_t end)
{
    uint64_t at = data;
    const char *before = NULL;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct zn_st_tensor *t = &file->tensors[i];
        if (t->offset < at)
            return zn_fail(ZN_ERR_INPUT, "%s: tensors '%s' and '%s' overlap", file->path,
                           zn_shown(before).text, zn_shown(t->name).text);
        if (t->offset > at)
            return zn_fail(ZN_ERR_INPUT, "%s: %llu bytes before tensor '%s' belong to no tensor", file->path,
                           (unsigned long long)(t->offset - at), zn_shown(t->name).text);
        at = t->offset + t->n_bytes;
        before = t->name;
    }
    if (at != end)
        return zn_fail(ZN_ERR_INPUT, "%s: the last %llu bytes belong to no tensor", file->path,
                       (unsigned long long)(end - at));
    return ZN_OK;
}

static zn_status parse_header(zn_st_file *file, uint64_t data, uint64_t end)
{
    zn_json *header = file->header;
    size_t n_keys = zn_json_n_keys(header);
    file->tensors = calloc(n_keys + 1, sizeof *file->tensors);
    file->by_name = calloc(n_keys + 1, sizeof(struct zn_st_tensor *));
    if (!file->tensors || !file->by_name)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu tensors", file->path, n_keys);
    for (const char *key = zn_json_first_key(header); key; key = zn_json_next_key(header, key)) {
        if (strcmp(key, "__metadata__") == 0) {
            ZN_TRY(check_metadata(header, key));
            continue;
        }
        zn_json *entry;
        ZN_TRY(zn_json_get_object(header, key, &entry));
        struct zn_st_tensor *t = &file->tensors[file->n_tensors++];
        t->name = key;
        ZN_TRY(parse_tensor(entry, data, end, t));
    }
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_offset);
    for (size_t i = 0; i < file->n_tensors; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->n_tensors, sizeof *file->by_name, compare_name);
    return check_cover(file, data, end);
}

/* Reads the header's length and text, and parses it. */
static zn_status read_header(zn_st_file *file, uint64_t file_bytes)
{
    uint64_t n_header;
    ZN_TRY(zn_signature_check(file->path));
    if (file_bytes < LENGTH_BYTES)
        return zn_fail(ZN_ERR_INPUT, "%s: %llu bytes are too few for a safetensors file", file->path,
                       (unsigned long long)file_bytes);
    ZN_TRY(zn_pread_all(file->fd, file->path, &n_header, sizeof n_header, 0));
    if (n_header > ZN_ST_MAX_HEADER)
        return zn_fail(ZN_ERR_INPUT, "%s: the header claims %llu bytes, at most %llu are allowed; "
                       "is this a safetensors file?", file->path, (unsigned long long)n_header,
                       (unsigned long long)ZN_ST_MAX_HEADER);
    if (n_header > file_bytes - LENGTH_BYTES)
        return zn_fail(ZN_ERR_INPUT, "%s: truncated: the header claims %llu bytes, the file has %llu",
                       file->path, (unsigned long long)n_header, (unsigned long long)file_bytes);
    char *text = malloc((size_t)n_header + 1);
    if (!text)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for the header", file->path);
    zn_status status = zn_pread_all(file->fd, file->path, text, (size_t)n_header, LENGTH_BYTES);
    if (status == ZN_OK && (n_header == 0 || text[0] != '{'))
        status = zn_fail(ZN_ERR_INPUT, "%s: the header is not a JSON object", file->path);
    if (status == ZN_OK)
        status = zn_json_load_buffer(text, (size_t)n_header, file->path, &file->header);
    free(text);
    if (status == ZN_OK)
        status = parse_header(file, LENGTH_BYTES + n_header, file_bytes);
    return status;
}

zn_status zn_st_open(const char *path, zn_st_file **file)
{
    zn_st_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    }
    f->fd = -1;
    uint64_t file_bytes;
    zn_status status = zn_file_open(path, &f->fd, &file_bytes);
    if (status == ZN_OK)
        status = read_header(f, file_bytes);
    if (status != ZN_OK) {
        zn_st_close(f);
        return status;
    }
    *file = f;
    return ZN_OK;
}

void zn_st_close(zn_st_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    zn_json_destroy(file->header);
    free(file->tensors);
    free(file->by_name);
    free(file->path);
    free(file);
}

/* ---- Tensors ---- */

const char *zn_st_path(const zn_st_file *file)
{
    return file->path;
}

size_t zn_st_n_tensors(const zn_st_file *file)
{
    return file->n_tensors;
}

const struct zn_st_tensor *zn_st_tensor_at(const zn_st_file *file, size_t i)
{
    return &file->tensors[i];
}

const struct zn_st_tensor *zn_st_find(const zn_st_file *file, const char *name)
{
    const struct zn_st_tensor key = {.name = name}, *wanted = &key;
    const struct zn_st_tensor **found =
        bsearch(&wanted, file->by_name, file->n_tensors, sizeof *file->by_name, compare_name);
    return found ? *found : NULL;
}

zn_status zn_st_read_raw(const zn_st_file *file, const struct zn_st_tensor *tensor, uint64_t first,
                         size_t n_bytes, void *out)
{
    if (first > tensor->n_bytes || n_bytes > tensor->n_bytes - first)
        return zn_fail(ZN_ERR_INTERNAL, "%s: tensor '%s': read of %zu bytes at %llu is outside its %llu",
                       file->path, zn_shown(tensor->name).text, n_bytes, (unsigned long long)first,
                       (unsigned long long)tensor->n_bytes);
    return zn_pread_all(file->fd, file->path, out, n_bytes, tensor->offset + first);
}

/* Through a buffer that stays in the cache. */
static zn_status read_halves(const zn_st_file *file, const struct zn_st_tensor *tensor, int64_t first,
                             int64_t n_elements, float *out)
{
    enum { CHUNK = 16384 };
    uint16_t halves[CHUNK];
    for (int64_t done = 0; done < n_elements;) {
        int64_t n = n_elements - done < CHUNK ? n_elements - done : CHUNK;
        ZN_TRY(zn_st_read_raw(file, tensor, 2 * (uint64_t)(first + done), 2 * (size_t)n, halves));
        if (tensor->dtype == ZN_ST_BF16) {
            for (int64_t i = 0; i < n; i++)
                out[done + i] = zn_bf16_to_float(halves[i]);
        } else {
            for (int64_t i = 0; i < n; i++)
                out[done + i] = zn_f16_to_float(halves[i]);
        }
        done += n;
    }
    return ZN_OK;
}

zn_status zn_st_read_f32(const zn_st_file *file, const struct zn_st_tensor *tensor, int64_t first,
                         int64_t n_elements, float *out)
{
    zn_dtype type;
    if (!zn_st_dtype_is_float(tensor->dtype, &type))
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s: tensor '%s' is of type %s; F32, BF16 and F16 can be read",
                       file->path, zn_shown(tensor->name).text, zn_st_dtype_name(tensor->dtype));
    if (first < 0 || n_elements < 0 || first > tensor->n_elements || n_elements > tensor->n_elements - first)
        return zn_fail(ZN_ERR_INTERNAL, "%s: tensor '%s': read of %lld elements at %lld is outside its %lld",
                       file->path, zn_shown(tensor->name).text, (long long)n_elements, (long long)first,
                       (long long)tensor->n_elements);
    if (type != ZN_F32)
        return read_halves(file, tensor, first, n_elements, out);
    return zn_st_read_raw(file, tensor, 4 * (uint64_t)first, 4 * (size_t)n_elements, out);
}

zn_status zn_st_read_codes(const zn_st_file *file, const struct zn_st_tensor *tensor, int64_t first, int64_t n_elements,
                           float *out)
{
    enum { CHUNK = 16384 };
    uint8_t codes[CHUNK];
    for (int64_t done = 0; done < n_elements;) {
        int64_t n = n_elements - done < CHUNK ? n_elements - done : CHUNK;
        ZN_TRY(zn_st_read_raw(file, tensor, (uint64_t)(first + done), (size_t)n, codes));
        for (int64_t i = 0; i < n; i++)
            out[done + i] = (float)codes[i];
        done += n;
    }
    return ZN_OK;
}
