/* The layout of a GGUF file, and values on their way into it. */
#include "formats/gguf_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/size.h"
#include "base/text.h"

/* ALIGNMENT is the format's where metadata do not say otherwise. PIECE is in values. */
enum { VERSION = 3, ALIGNMENT = 32, PIECE = 1 << 20 };

struct tensor {
    struct zn_gguf_spec spec;
    int64_t n_elements, n_written;
    uint64_t offset; /* from where the data begin */
};

struct zn_gguf_writer {
    char *path;
    zn_new_file *file;
    struct tensor *tensors;
    size_t n_tensors;
    uint64_t data, n_bytes; /* where the data begin; of the whole file */
    float *values;          /* PIECE of them */
    void *encoded;          /* room for PIECE values of any type */
};

static zn_status no_memory(const char *path)
{
    return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for the file's tensors", path);
}

/* ---- Layout ---- */

/* Places a tensor behind *at. */
static zn_status place_tensor(struct tensor *t, const struct zn_gguf_spec *spec, uint64_t *at)
{
    int64_t n = 1;
    t->spec = *spec;
    bool fits = spec->n_dims >= 1 && spec->n_dims <= ZN_GGUF_MAX_DIMS;
    for (int i = 0; fits && i < spec->n_dims; i++)
        fits = spec->dims[i] > 0 && zn_mul_count(n, spec->dims[i], &n) && n <= INT64_MAX / 64;
    if (!fits || spec->dims[spec->n_dims - 1] % zn_gguf_group(spec->type) != 0)
        return zn_fail(ZN_ERR_INTERNAL, "tensor '%s' cannot be written as %s", zn_shown(spec->name).text,
                       zn_gguf_type_name(spec->type));
    t->n_elements = n;
    t->offset = *at;
    *at += zn_round_up(zn_gguf_bytes(spec->type, n), ALIGNMENT);
    return ZN_OK;
}

static void add_tensor(zn_text *head, const struct tensor *t)
{
    uint64_t n_name = strlen(t->spec.name);
    uint32_t n_dims = (uint32_t)t->spec.n_dims, type = t->spec.type;
    zn_text_add_bytes(head, &n_name, sizeof n_name);
    zn_text_add_bytes(head, t->spec.name, n_name);
    zn_text_add_bytes(head, &n_dims, sizeof n_dims);
    for (int i = t->spec.n_dims - 1; i >= 0; i--)
        zn_text_add_bytes(head, &t->spec.dims[i], sizeof t->spec.dims[i]);
    zn_text_add_bytes(head, &type, sizeof type);
    zn_text_add_bytes(head, &t->offset, sizeof t->offset);
}

static zn_status write_head(zn_gguf_writer *w, const zn_gguf_metadata *metadata, uint64_t n_data)
{
    const uint32_t version = VERSION;
    const uint64_t n_tensors = w->n_tensors;
    zn_text head;
    zn_text_init(&head);
    zn_text_add_bytes(&head, "GGUF", 4);
    zn_text_add_bytes(&head, &version, sizeof version);
    zn_text_add_bytes(&head, &n_tensors, sizeof n_tensors);
    zn_text_add_bytes(&head, &metadata->n_pairs, sizeof metadata->n_pairs);
    zn_text_add_bytes(&head, metadata->bytes.data, metadata->bytes.n_bytes);
    for (size_t i = 0; i < w->n_tensors; i++)
        add_tensor(&head, &w->tensors[i]);
    w->data = zn_round_up(head.n_bytes, ALIGNMENT);
    w->n_bytes = w->data + n_data;
    zn_status status = zn_text_status(&metadata->bytes);
    if (status == ZN_OK)
        status = zn_text_status(&head);
    if (status == ZN_OK)
        status = zn_new_file_create(w->path, &w->file);
    if (status == ZN_OK)
        status = zn_new_file_reserve(w->file, w->n_bytes);
    if (status == ZN_OK)
        status = zn_new_file_write(w->file, head.data, head.n_bytes, 0);
    zn_text_fini(&head);
    return status;
}

static zn_status lay_out(zn_gguf_writer *w, const zn_gguf_metadata *metadata, const struct zn_gguf_spec *specs,
                         size_t n_specs)
{
    uint64_t n_data = 0;
    for (size_t i = 0; i < n_specs; i++)
        ZN_TRY(place_tensor(&w->tensors[i], &specs[i], &n_data));
    w->n_tensors = n_specs;
    return write_head(w, metadata, n_data);
}

zn_status zn_gguf_writer_create(const char *path, const zn_gguf_metadata *metadata, const struct zn_gguf_spec *specs,
                                size_t n_specs, zn_gguf_writer **writer)
{
    zn_gguf_writer *w = calloc(1, sizeof *w);
    zn_status status;
    if (!w || !(w->path = strdup(path)) || !(w->tensors = calloc(n_specs + 1, sizeof *w->tensors)) ||
        !(w->values = malloc(PIECE * sizeof *w->values)) || !(w->encoded = malloc(PIECE * sizeof *w->values)))
        status = no_memory(path);
    else
        status = lay_out(w, metadata, specs, n_specs);
    if (status != ZN_OK) {
        zn_gguf_writer_destroy(w);
        return status;
    }
    *writer = w;
    return ZN_OK;
}

uint64_t zn_gguf_writer_bytes(const zn_gguf_writer *writer)
{
    return writer->n_bytes;
}

void zn_gguf_writer_destroy(zn_gguf_writer *writer)
{
    if (!writer)
        return;
    zn_new_file_destroy(writer->file);
    free(writer->encoded);
    free(writer->values);
    free(writer->tensors);
    free(writer->path);
    free(writer);
}

/* ---- Data ---- */

static zn_status append_piece(zn_gguf_writer *w, struct tensor *t, const float *values, int64_t n)
{
    int64_t bad = zn_gguf_encode(t->spec.type, values, n, w->encoded);
    if (bad >= 0)
        return zn_fail(ZN_ERR_INPUT, "tensor '%s' has the value %g, which %s cannot hold; export as bf16 or f32", t->spec.name,
                       (double)values[bad], zn_gguf_type_name(t->spec.type));
    uint64_t at = w->data + t->offset + zn_gguf_bytes(t->spec.type, t->n_written);
    ZN_TRY(zn_new_file_write(w->file, w->encoded, zn_gguf_bytes(t->spec.type, n), at));
    t->n_written += n;
    return ZN_OK;
}

zn_status zn_gguf_writer_append(zn_gguf_writer *writer, size_t i, const float *values, int64_t n)
{
    struct tensor *t = i < writer->n_tensors ? &writer->tensors[i] : NULL;
    if (!t || n < 0 || n > t->n_elements - t->n_written || n % zn_gguf_group(t->spec.type) != 0)
        return zn_fail(ZN_ERR_INTERNAL, "%s: write of %lld values to tensor %zu does not fit", writer->path, (long long)n, i);
    for (int64_t done = 0; done < n;) {
        int64_t piece = n - done < PIECE ? n - done : PIECE;
        ZN_TRY(append_piece(writer, t, values + done, piece));
        done += piece;
    }
    return ZN_OK;
}

/* ---- Copies ---- */

/* Which row of the folder's tensor becomes this one. */
static int64_t source_row(zn_gguf_layout layout, int64_t row, int64_t rows_of_head)
{
    if (layout != ZN_GGUF_PAIRED)
        return row;
    int64_t within = row % rows_of_head;
    return row - within + within % 2 * (rows_of_head / 2) + within / 2;
}

/* Row after row, as many as a piece holds. */
static zn_status copy_rows(zn_gguf_writer *w, size_t i, const struct zn_model_tensor *from, zn_gguf_layout layout, int64_t rows,
                           int64_t cols, int64_t rows_of_head)
{
    int64_t n = rows * cols, n_held = 0;
    for (int64_t at = 0; at < n;) {
        int64_t row = at / cols, col = at % cols, run = layout == ZN_GGUF_SAME ? n - at : cols - col;
        run = run < PIECE - n_held ? run : PIECE - n_held;
        ZN_TRY(zn_model_tensor_read(from, source_row(layout, row, rows_of_head) * cols + col, run, w->values + n_held));
        at += run;
        n_held += run;
        if (n_held == PIECE || at == n) {
            ZN_TRY(zn_gguf_writer_append(w, i, w->values, n_held));
            n_held = 0;
        }
    }
    return ZN_OK;
}

/* A strip of the result: n_rows of it from `row` on, of each n_cols from `col` on. */
static zn_status copy_strip(zn_gguf_writer *w, size_t i, const struct zn_model_tensor *from, int64_t rows, int64_t row,
                            int64_t n_rows, int64_t col, int64_t n_cols)
{
    enum { RUN = 256 };
    float run[RUN];
    for (int64_t k = 0; k < n_cols; k++) {
        for (int64_t done = 0; done < n_rows;) {
            int64_t n = n_rows - done < RUN ? n_rows - done : RUN;
            ZN_TRY(zn_model_tensor_read(from, (col + k) * rows + row + done, n, run));
            for (int64_t r = 0; r < n; r++)
                w->values[(done + r) * n_cols + k] = run[r];
            done += n;
        }
    }
    return zn_gguf_writer_append(w, i, w->values, n_rows * n_cols);
}

/* The folder has (cols,rows). A strip has several whole rows, or a part of one that is longer than a piece. */
static zn_status copy_transposed(zn_gguf_writer *w, size_t i, const struct zn_model_tensor *from, int64_t rows, int64_t cols)
{
    int64_t most_rows = cols < PIECE ? PIECE / cols : 1, most_cols = cols < PIECE ? cols : PIECE;
    for (int64_t row = 0; row < rows; row += most_rows) {
        int64_t n_rows = rows - row < most_rows ? rows - row : most_rows;
        for (int64_t col = 0; col < cols; col += most_cols)
            ZN_TRY(copy_strip(w, i, from, rows, row, n_rows, col, cols - col < most_cols ? cols - col : most_cols));
    }
    return ZN_OK;
}

zn_status zn_gguf_writer_copy(zn_gguf_writer *writer, size_t i, const struct zn_model_tensor *from, zn_gguf_layout layout,
                              int64_t n_heads)
{
    const struct tensor *t = i < writer->n_tensors ? &writer->tensors[i] : NULL;
    if (!t || t->n_elements != from->tensor->n_elements)
        return zn_fail(ZN_ERR_INTERNAL, "%s: tensor '%s' is none of the file's", writer->path,
                       zn_shown(from->tensor->name).text);
    /* Rows of a paired vector are its values. */
    bool is_vector = t->spec.n_dims == 1 && layout == ZN_GGUF_PAIRED;
    int64_t cols = is_vector ? 1 : t->spec.dims[t->spec.n_dims - 1], rows = t->n_elements / cols;
    if (layout == ZN_GGUF_PAIRED && (n_heads < 1 || rows % (2 * n_heads) != 0))
        return zn_fail(ZN_ERR_INTERNAL, "tensor '%s' has no pairs of rows in %lld heads", t->spec.name, (long long)n_heads);
    if (layout == ZN_GGUF_TRANSPOSED)
        return copy_transposed(writer, i, from, rows, cols);
    return copy_rows(writer, i, from, layout, rows, cols, layout == ZN_GGUF_PAIRED ? rows / n_heads : rows);
}

/* ---- The end ---- */

zn_status zn_gguf_writer_finish(zn_gguf_writer *writer)
{
    for (size_t i = 0; i < writer->n_tensors; i++) {
        const struct tensor *t = &writer->tensors[i];
        if (t->n_written != t->n_elements)
            return zn_fail(ZN_ERR_INTERNAL, "%s: tensor '%s': %lld of %lld values were written", writer->path, t->spec.name,
                           (long long)t->n_written, (long long)t->n_elements);
    }
    ZN_TRY(zn_new_file_sync(writer->file));
    return zn_new_file_publish(writer->file);
}
