/* The layout of shards, the headers, and the writes between creation and finish. */
#include "formats/safetensors_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/size.h"
#include "base/text.h"
#include "formats/spans.h"
#include "tensor/half.h"

struct tensor {
    struct zn_st_spec spec; /* the name is ours */
    int64_t n_elements;
    uint64_t n_bytes;
    uint64_t offset; /* from the begin of its file's data */
    size_t shard;
    struct spans written;
};

struct shard {
    char *name;
    size_t first, n_tensors;
    uint64_t data; /* where the data begin in the file */
    uint64_t n_data;
    zn_new_file *file; /* NULL: another part makes it */
};

struct zn_st_writer {
    char *folder, *stem;
    struct zn_st_cut cut;
    struct tensor *tensors;
    size_t n_tensors;
    struct shard *shards;
    size_t n_shards;
    uint64_t n_bytes; /* of all tensors */
};

/* ---- Layout ---- */

static zn_status no_memory(const char *folder)
{
    return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for the list of tensors", folder);
}

static zn_status copy_spec(zn_st_writer *w, const struct zn_st_spec *spec)
{
    struct zn_shown shown = zn_shown(spec->name);
    const char *name = shown.text;
    if (spec->n_dims < 0 || spec->n_dims > ZN_ST_MAX_DIMS)
        return zn_fail(ZN_ERR_INTERNAL, "tensor '%s' has %d dimensions", name, spec->n_dims);
    if (spec->dtype != ZN_F32 && spec->dtype != ZN_BF16 && spec->dtype != ZN_F16 && spec->dtype != ZN_U8)
        return zn_fail(ZN_ERR_INTERNAL, "tensor '%s' cannot be written as %s", name, zn_dtype_name(spec->dtype));
    struct tensor *t = &w->tensors[w->n_tensors];
    int64_t n = 1;
    size_t n_bytes = 0;
    for (int i = 0; i < spec->n_dims; i++)
        if (spec->dims[i] < 0 || !zn_mul_count(n, spec->dims[i], &n))
            return zn_fail(ZN_ERR_INTERNAL, "tensor '%s' has an impossible shape", name);
    if (!zn_mul_size((size_t)n, zn_dtype_bytes(spec->dtype), &n_bytes))
        return zn_fail(ZN_ERR_INTERNAL, "tensor '%s' has an impossible shape", name);
    t->spec = *spec;
    t->n_elements = n;
    t->n_bytes = n_bytes;
    if (!(t->spec.name = strdup(spec->name)))
        return no_memory(w->folder);
    w->n_tensors++;
    w->n_bytes += n_bytes;
    return ZN_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static zn_status check_names(const zn_st_writer *w)
{
    const char **names = malloc((w->n_tensors + 1) * sizeof *names);
    if (!names)
        return no_memory(w->folder);
    for (size_t i = 0; i < w->n_tensors; i++)
        names[i] = w->tensors[i].spec.name;
    qsort(names, w->n_tensors, sizeof *names, compare_names);
    zn_status status = ZN_OK;
    for (size_t i = 0; i + 1 < w->n_tensors && status == ZN_OK; i++)
        if (strcmp(names[i], names[i + 1]) == 0)
            status = zn_fail(ZN_ERR_INTERNAL, "tensor '%s' is to be written twice", zn_shown(names[i]).text);
    free(names);
    return status;
}

/* Cuts the list into shards; each tensor learns its shard. There is one even without tensors. */
static zn_status cut_shards(zn_st_writer *w)
{
    uint64_t limit = w->cut.limit;
    w->shards = calloc(w->n_tensors + 1, sizeof *w->shards);
    if (!w->shards)
        return no_memory(w->folder);
    w->n_shards = 1;
    for (size_t i = 0; i < w->n_tensors; i++) {
        struct shard *s = &w->shards[w->n_shards - 1];
        if (s->n_tensors > 0 && (s->n_data > limit || w->tensors[i].n_bytes > limit - s->n_data)) {
            s = &w->shards[w->n_shards++];
            s->first = i;
        }
        s->n_tensors++;
        s->n_data += w->tensors[i].n_bytes;
        w->tensors[i].shard = w->n_shards - 1;
    }
    for (size_t k = 0; k < w->n_shards; k++) {
        int n = w->n_shards == 1 && !w->cut.numbered
                    ? asprintf(&w->shards[k].name, "%s.safetensors", w->stem)
                    : asprintf(&w->shards[k].name, "%s-%05zu-of-%05zu.safetensors", w->stem, k + 1, w->n_shards);
        if (n < 0) {
            w->shards[k].name = NULL;
            return no_memory(w->folder);
        }
    }
    return ZN_OK;
}

static void add_entry(zn_text *header, const struct tensor *t)
{
    static const zn_st_dtype names[] = {[ZN_F32] = ZN_ST_F32, [ZN_BF16] = ZN_ST_BF16, [ZN_F16] = ZN_ST_F16, [ZN_U8] = ZN_ST_U8};
    zn_text_add(header, ",");
    zn_text_add_quoted(header, t->spec.name);
    zn_text_add(header, ":{\"dtype\":\"%s\",\"shape\":[", zn_st_dtype_name(names[t->spec.dtype]));
    for (int i = 0; i < t->spec.n_dims; i++)
        zn_text_add(header, "%s%lld", i ? "," : "", (long long)t->spec.dims[i]);
    zn_text_add(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->offset,
                (unsigned long long)(t->offset + t->n_bytes));
}

/* Places the shard's tensors, the wide types first, and writes its header. */
static zn_status create_shard(zn_st_writer *w, struct shard *s)
{
    char *path = NULL;
    zn_text header;
    zn_text_init(&header);
    zn_text_add(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    uint64_t at = 0;
    for (size_t width = 4; width >= 1; width /= 2) {
        for (size_t i = s->first; i < s->first + s->n_tensors; i++) {
            struct tensor *t = &w->tensors[i];
            if (zn_dtype_bytes(t->spec.dtype) != width)
                continue;
            t->offset = at;
            at += t->n_bytes;
            add_entry(&header, t);
        }
    }
    zn_text_add(&header, "}");
    uint64_t n_header = zn_round_up(header.n_bytes, 8);
    zn_text_add(&header, "%*s", (int)(n_header - header.n_bytes), "");
    s->data = sizeof n_header + n_header;

    zn_status status = zn_text_status(&header);
    if (status == ZN_OK && n_header > ZN_ST_MAX_HEADER)
        status = zn_fail(ZN_ERR_UNSUPPORTED, "%s/%s: too many tensors for one header", w->folder, s->name);
    if (status == ZN_OK)
        status = zn_path_join(w->folder, s->name, &path);
    if (status == ZN_OK)
        status = zn_new_file_create(path, &s->file);
    if (status == ZN_OK)
        status = zn_new_file_reserve(s->file, s->data + s->n_data);
    if (status == ZN_OK)
        status = zn_new_file_write(s->file, &n_header, sizeof n_header, 0);
    if (status == ZN_OK)
        status = zn_new_file_write(s->file, header.data, header.n_bytes, sizeof n_header);
    free(path);
    zn_text_fini(&header);
    return status;
}

static bool is_own(const zn_st_writer *w, size_t shard)
{
    return shard % (size_t)w->cut.n_parts == (size_t)w->cut.part;
}

static zn_status lay_out(zn_st_writer *w, const struct zn_st_spec *specs, size_t n_specs)
{
    for (size_t i = 0; i < n_specs; i++)
        ZN_TRY(copy_spec(w, &specs[i]));
    ZN_TRY(check_names(w));
    ZN_TRY(cut_shards(w));
    for (size_t k = 0; k < w->n_shards; k++)
        if (is_own(w, k))
            ZN_TRY(create_shard(w, &w->shards[k]));
    return ZN_OK;
}

zn_status zn_st_writer_create(const char *folder, const char *stem, const struct zn_st_spec *specs,
                              size_t n_specs, uint64_t shard_limit, zn_st_writer **writer)
{
    const struct zn_st_cut cut = {.limit = shard_limit, .n_parts = 1};
    return zn_st_writer_create_part(folder, stem, specs, n_specs, &cut, writer);
}

zn_status zn_st_writer_create_part(const char *folder, const char *stem, const struct zn_st_spec *specs,
                                   size_t n_specs, const struct zn_st_cut *cut, zn_st_writer **writer)
{
    zn_st_writer *w = calloc(1, sizeof *w);
    zn_status status;
    if (!w || !(w->folder = strdup(folder)) || !(w->stem = strdup(stem)) ||
        !(w->tensors = calloc(n_specs + 1, sizeof *w->tensors))) {
        status = no_memory(folder);
    } else {
        w->cut = *cut;
        if (w->cut.limit == 0)
            w->cut.limit = ZN_ST_SHARD_LIMIT;
        status = lay_out(w, specs, n_specs);
    }
    if (status != ZN_OK) {
        zn_st_writer_destroy(w);
        return status;
    }
    *writer = w;
    return ZN_OK;
}

void zn_st_writer_destroy(zn_st_writer *writer)
{
    if (!writer)
        return;
    for (size_t k = 0; k < writer->n_shards; k++) {
        zn_new_file_destroy(writer->shards[k].file);
        free(writer->shards[k].name);
    }
    for (size_t i = 0; i < writer->n_tensors; i++) {
        free((char *)(uintptr_t)writer->tensors[i].spec.name);
        spans_fini(&writer->tensors[i].written);
    }
    free(writer->shards);
    free(writer->tensors);
    free(writer->stem);
    free(writer->folder);
    free(writer);
}

size_t zn_st_writer_n_files(const zn_st_writer *writer)
{
    return writer->n_shards;
}

const char *zn_st_writer_file(const zn_st_writer *writer, size_t i)
{
    return writer->shards[i].file ? writer->shards[i].name : NULL;
}

/* ---- Data ---- */

static zn_status write_halves(const struct tensor *t, const struct shard *s, int64_t first, int64_t n_elements,
                              const float *values)
{
    enum { CHUNK = 16384 };
    uint16_t halves[CHUNK];
    for (int64_t done = 0; done < n_elements;) {
        int64_t n = n_elements - done < CHUNK ? n_elements - done : CHUNK;
        if (t->spec.dtype == ZN_BF16) {
            for (int64_t i = 0; i < n; i++)
                halves[i] = zn_float_to_bf16(values[done + i]);
        } else {
            for (int64_t i = 0; i < n; i++)
                halves[i] = zn_float_to_f16(values[done + i]);
        }
        uint64_t at = s->data + t->offset + 2 * (uint64_t)(first + done);
        ZN_TRY(zn_new_file_write(s->file, halves, 2 * (size_t)n, at));
        done += n;
    }
    return ZN_OK;
}

static zn_status write_codes(const struct tensor *t, const struct shard *s, int64_t first, int64_t n_elements, const float *values)
{
    enum { CHUNK = 16384 };
    uint8_t codes[CHUNK];
    for (int64_t done = 0; done < n_elements;) {
        int64_t n = n_elements - done < CHUNK ? n_elements - done : CHUNK;
        for (int64_t i = 0; i < n; i++)
            codes[i] = (uint8_t)values[done + i];
        ZN_TRY(zn_new_file_write(s->file, codes, (size_t)n, s->data + t->offset + (uint64_t)(first + done)));
        done += n;
    }
    return ZN_OK;
}

zn_status zn_st_writer_write_f32(zn_st_writer *writer, size_t i, int64_t first, int64_t n_elements,
                                 const float *values)
{
    if (i >= writer->n_tensors)
        return zn_fail(ZN_ERR_INTERNAL, "%s: no tensor %zu among %zu", writer->folder, i, writer->n_tensors);
    struct tensor *t = &writer->tensors[i];
    const struct shard *s = &writer->shards[t->shard];
    if (first < 0 || n_elements < 0 || first > t->n_elements || n_elements > t->n_elements - first)
        return zn_fail(ZN_ERR_INTERNAL, "%s/%s: tensor '%s': write of %lld elements at %lld is outside its %lld",
                       writer->folder, s->name, zn_shown(t->spec.name).text, (long long)n_elements,
                       (long long)first, (long long)t->n_elements);
    if (!s->file)
        return ZN_OK;
    if (t->spec.dtype == ZN_F32)
        ZN_TRY(zn_new_file_write(s->file, values, 4 * (size_t)n_elements,
                                 s->data + t->offset + 4 * (uint64_t)first));
    else if (t->spec.dtype == ZN_U8)
        ZN_TRY(write_codes(t, s, first, n_elements, values));
    else
        ZN_TRY(write_halves(t, s, first, n_elements, values));
    return spans_add(&t->written, first, first + n_elements);
}

/* ---- The end ---- */

static zn_status check_written(const zn_st_writer *w)
{
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct tensor *t = &w->tensors[i];
        struct span missing = spans_missing(&t->written, t->n_elements);
        if (is_own(w, t->shard) && missing.from < missing.to)
            return zn_fail(ZN_ERR_INTERNAL, "%s/%s: tensor '%s': elements %lld to %lld of %lld were never written",
                           w->folder, w->shards[t->shard].name, zn_shown(t->spec.name).text,
                           (long long)missing.from, (long long)missing.to, (long long)t->n_elements);
    }
    return ZN_OK;
}

static zn_status write_index(const zn_st_writer *w, const char *path)
{
    zn_text index;
    zn_text_init(&index);
    zn_text_add(&index, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                (unsigned long long)w->n_bytes);
    for (size_t i = 0; i < w->n_tensors; i++) {
        zn_text_add(&index, "%s\n    ", i ? "," : "");
        zn_text_add_quoted(&index, w->tensors[i].spec.name);
        zn_text_add(&index, ": ");
        zn_text_add_quoted(&index, w->shards[w->tensors[i].shard].name);
    }
    zn_text_add(&index, "\n  }\n}\n");
    zn_status status = zn_text_status(&index);
    if (status == ZN_OK)
        status = zn_file_write(path, index.data, index.n_bytes);
    zn_text_fini(&index);
    return status;
}

static zn_status remove_stale(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return zn_fail(ZN_ERR_IO, "%s: cannot remove the file of an earlier layout: %s", path, strerror(errno));
    return ZN_OK;
}

/* The file a reader begins with, of the layout given. */
static zn_status entry_path(const zn_st_writer *w, bool sharded, char **path)
{
    if (asprintf(path, "%s/%s.safetensors%s", w->folder, w->stem, sharded ? ".index.json" : "") < 0)
        return no_memory(w->folder);
    return ZN_OK;
}

zn_status zn_st_writer_finish(zn_st_writer *writer)
{
    zn_st_writer *w = writer;
    bool sharded = w->n_shards > 1;
    ZN_TRY(check_written(w));
    for (size_t k = 0; k < w->n_shards; k++)
        if (is_own(w, k))
            ZN_TRY(zn_new_file_sync(w->shards[k].file));
    for (size_t k = 0; k < w->n_shards; k++)
        if (is_own(w, k))
            ZN_TRY(zn_new_file_publish(w->shards[k].file));
    if (w->cut.part > 0 || w->cut.numbered)
        return zn_folder_sync(w->folder);

    char *index = NULL, *other = NULL;
    zn_status status = entry_path(w, true, &index);
    if (status == ZN_OK && sharded)
        status = write_index(w, index);
    if (status == ZN_OK)
        status = entry_path(w, !sharded, &other);
    if (status == ZN_OK)
        status = remove_stale(other);
    if (status == ZN_OK)
        status = zn_folder_sync(w->folder);
    free(index);
    free(other);
    return status;
}
