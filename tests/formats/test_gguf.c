/* GGUF: roundings to each type, the bytes of a file, and copies of tensors in the layouts of llama.cpp. */
#include "files.h"

#include <math.h>

#include "formats/gguf_write.h"
#include "formats/safetensors_write.h"
#include "gguf_file.h"
#include "tensor/half.h"

/* ---- Types ---- */

static void types_have_names_and_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        zn_gguf_type type;
        uint32_t number, file_type;
        size_t n_bytes; /* of 64 values */
    } known[] = {{"f32", ZN_GGUF_F32, 0, 0, 256}, {"f16", ZN_GGUF_F16, 1, 1, 128}, {"q8_0", ZN_GGUF_Q8_0, 8, 7, 68},
                 {"bf16", ZN_GGUF_BF16, 30, 32, 128}};
    zn_gguf_type type;
    for (size_t i = 0; i < COUNT(known); i++) {
        OK(zn_gguf_type_parse(known[i].name, "--gguf", &type));
        assert_int_equal(type, known[i].type);
        assert_int_equal(type, known[i].number);
        assert_string_equal(zn_gguf_type_name(type), known[i].name);
        assert_int_equal(zn_gguf_file_type(type), known[i].file_type);
        assert_int_equal(zn_gguf_bytes(type, 64), known[i].n_bytes);
    }
    FAILS(zn_gguf_type_parse("q4_0", "--gguf", &type), ZN_ERR_USAGE, "--gguf: 'q4_0'", "q8_0");
}

/* A block whose largest value is 127 has the scale 1: the bytes are the rounded values, halves away from zero. */
static void q8_0_rounds_to_nearest_and_halves_away_from_zero(void **state)
{
    (void)state;
    float x[32] = {127, 0.5f, -0.5f, 1.5f, -2.5f, 0.49999997f, -0.49999997f, 126.5f, -127, 2.4999998f};
    const signed char wanted[32] = {127, 1, -1, 2, -3, 0, 0, 127, -127, 2};
    unsigned char block[34];
    uint16_t scale;
    assert_int_equal(zn_gguf_encode(ZN_GGUF_Q8_0, x, 32, block), -1);
    memcpy(&scale, block, 2);
    assert_int_equal(scale, 0x3c00);
    assert_memory_equal(block + 2, wanted, 32);
}

/* The values are divided by the scale before it is rounded to fp16, which would give other values for some. */
static void q8_0_divides_by_the_scale_in_fp32(void **state)
{
    (void)state;
    enum { N = 128 * 32 };
    static float x[N];
    static unsigned char blocks[N / 32 * 34];
    int n_different = 0;
    for (int i = 0; i < N; i++)
        x[i] = sinf((float)i * 0.7f) * (1 + (float)(i / 32));
    assert_int_equal(zn_gguf_encode(ZN_GGUF_Q8_0, x, N, blocks), -1);
    for (int k = 0; k < N / 32; k++) {
        const unsigned char *block = blocks + 34 * k;
        float largest = 0;
        uint16_t scale;
        for (int i = 0; i < 32; i++)
            largest = fmaxf(largest, fabsf(x[32 * k + i]));
        float d = largest / 127, inverse = 1 / d, rounded = 1 / zn_f16_to_float(zn_float_to_f16(d));
        memcpy(&scale, block, 2);
        assert_int_equal(scale, zn_float_to_f16(d));
        for (int i = 0; i < 32; i++) {
            assert_int_equal((signed char)block[2 + i], (int)roundf(x[32 * k + i] * inverse));
            n_different += roundf(x[32 * k + i] * inverse) != roundf(x[32 * k + i] * rounded);
        }
    }
    assert_true(n_different > 0);
}

static void zeros_have_the_scale_0(void **state)
{
    (void)state;
    const float x[32] = {0};
    unsigned char block[34];
    assert_int_equal(zn_gguf_encode(ZN_GGUF_Q8_0, x, 32, block), -1);
    for (int i = 0; i < 34; i++)
        assert_int_equal(block[i], 0);
}

static void what_a_type_cannot_hold_is_found(void **state)
{
    (void)state;
    float x[64] = {1, 2};
    unsigned char out[256];
    x[40] = NAN;
    assert_int_equal(zn_gguf_encode(ZN_GGUF_Q8_0, x, 64, out), 40);
    assert_int_equal(zn_gguf_encode(ZN_GGUF_F16, x, 64, out), -1);
    x[40] = 65520;
    assert_int_equal(zn_gguf_encode(ZN_GGUF_F16, x, 64, out), 40);
    assert_int_equal(zn_gguf_encode(ZN_GGUF_Q8_0, x, 64, out), -1);
    x[40] = -1e8f;
    assert_int_equal(zn_gguf_encode(ZN_GGUF_Q8_0, x, 64, out), 40);
    assert_int_equal(zn_gguf_encode(ZN_GGUF_BF16, x, 64, out), -1);
    assert_int_equal(zn_gguf_encode(ZN_GGUF_F32, x, 64, out), -1);
}

/* ---- Files ---- */

static void write_values(zn_gguf_writer *w, size_t i, int64_t n, float first)
{
    for (int64_t k = 0; k < n; k++)
        OK(zn_gguf_writer_append(w, i, &(float){first + (float)k}, 1));
}

static void a_file_has_its_parts_where_they_belong(void **state)
{
    (void)state;
    static const struct zn_gguf_spec specs[] = {{"a.weight", ZN_GGUF_F32, 2, {2, 3}}, {"b.weight", ZN_GGUF_BF16, 1, {5}}};
    const char *path = in_folder("parts.gguf");
    zn_gguf_metadata metadata;
    zn_gguf_writer *w;
    zn_gguf_metadata_init(&metadata);
    zn_gguf_add_string(&metadata, "general.architecture", "llama");
    zn_gguf_add_u32(&metadata, "llama.block_count", 7);
    zn_gguf_add_array(&metadata, "numbers", ZN_GGUF_FLOAT32, 2);
    zn_gguf_item_f32(&metadata, 1.5f);
    zn_gguf_item_f32(&metadata, -2);
    OK(zn_gguf_writer_create(path, &metadata, specs, 2, &w));
    write_values(w, 0, 6, 10);
    write_values(w, 1, 5, 1);
    assert_false(zn_file_exists(path));
    OK(zn_gguf_writer_finish(w));
    uint64_t n_said = zn_gguf_writer_bytes(w);
    zn_gguf_writer_destroy(w);
    zn_gguf_metadata_fini(&metadata);

    char *data;
    size_t n;
    OK(zn_file_read(path, 1 << 20, &data, &n));
    assert_int_equal(n, n_said);
    struct gguf_at at = {(unsigned char *)data, n}, value = {0};
    assert_memory_equal(take_bytes(&at, 4), "GGUF", 4);
    assert_int_equal(take_u32(&at), 3);
    assert_int_equal(take_u64(&at), 2);
    assert_int_equal(take_u64(&at), 3);
    assert_true(find_value(&at, 3, "llama.block_count", ZN_GGUF_UINT32, NULL, &value));
    assert_int_equal(take_u32(&value), 7);
    uint64_t offsets[2];
    for (int i = 0; i < 2; i++) {
        char *name = take_text(&at);
        assert_string_equal(name, specs[i].name);
        free(name);
        assert_int_equal(take_u32(&at), specs[i].n_dims);
        for (int k = specs[i].n_dims - 1; k >= 0; k--) /* the fastest first */
            assert_int_equal(take_u64(&at), specs[i].dims[k]);
        assert_int_equal(take_u32(&at), specs[i].type);
        offsets[i] = take_u64(&at);
    }
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[1], 32);
    size_t begin = ((size_t)(at.data - (unsigned char *)data) + 31) / 32 * 32;
    assert_int_equal(n, begin + 64);
    float floats[6];
    uint16_t halves[5];
    memcpy(floats, data + begin, sizeof floats);
    memcpy(halves, data + begin + 32, sizeof halves);
    assert_true(floats[0] == 10 && floats[5] == 15);
    assert_true(zn_bf16_to_float(halves[4]) == 5);
    free(data);
}

static void a_file_that_is_not_whole_does_not_appear(void **state)
{
    (void)state;
    static const struct zn_gguf_spec spec = {"a", ZN_GGUF_F32, 1, {4}};
    zn_gguf_metadata metadata;
    zn_gguf_writer *w;
    OK(zn_folder_create(in_folder("none")));
    zn_gguf_metadata_init(&metadata);
    OK(zn_gguf_writer_create(in_folder("none/x.gguf"), &metadata, &spec, 1, &w));
    write_values(w, 0, 3, 1);
    FAILS(zn_gguf_writer_finish(w), ZN_ERR_INTERNAL, "tensor 'a'", "3 of 4");
    FAILS(zn_gguf_writer_append(w, 0, (float[]){1, 2}, 2), ZN_ERR_INTERNAL, "does not fit", "");
    zn_gguf_writer_destroy(w);
    assert_int_equal(n_entries(in_folder("none")), 0);
}

static void values_beyond_the_type_are_refused_by_name(void **state)
{
    (void)state;
    static const struct zn_gguf_spec spec = {"a.weight", ZN_GGUF_F16, 1, {2}};
    zn_gguf_metadata metadata;
    zn_gguf_writer *w;
    zn_gguf_metadata_init(&metadata);
    OK(zn_gguf_writer_create(in_folder("beyond.gguf"), &metadata, &spec, 1, &w));
    FAILS(zn_gguf_writer_append(w, 0, (float[]){1, 1e6f}, 2), ZN_ERR_INPUT, "'a.weight' has the value 1e+06", "bf16");
    zn_gguf_writer_destroy(w);
}

static void rows_that_are_no_blocks_cannot_be_q8_0(void **state)
{
    (void)state;
    static const struct zn_gguf_spec spec = {"a.weight", ZN_GGUF_Q8_0, 2, {32, 33}};
    zn_gguf_metadata metadata;
    zn_gguf_writer *w = NULL;
    zn_gguf_metadata_init(&metadata);
    FAILS(zn_gguf_writer_create(in_folder("odd.gguf"), &metadata, &spec, 1, &w), ZN_ERR_INTERNAL, "'a.weight'", "q8_0");
    assert_null(w);
}

/* ---- Copies ---- */

static float value_at(int64_t row, int64_t col)
{
    return (float)(row * 4096 + col);
}

/* A folder with the matrix (rows,cols) of value_at. */
static zn_model_files *make_matrix(const char *name, int64_t rows, int64_t cols)
{
    const struct zn_st_spec spec = {"m", ZN_F32, cols ? 2 : 1, {rows, cols}};
    const char *folder = in_folder(name);
    zn_st_writer *w;
    zn_model_files *files;
    OK(zn_folder_create(folder));
    OK(zn_st_writer_create(folder, "model", &spec, 1, 0, &w));
    int64_t width = cols ? cols : 1;
    float *row = malloc((size_t)width * sizeof *row);
    assert_non_null(row);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < width; c++)
            row[c] = value_at(r, c);
        OK(zn_st_writer_write_f32(w, 0, r * width, width, row));
    }
    OK(zn_st_writer_finish(w));
    zn_st_writer_destroy(w);
    free(row);
    OK(zn_model_files_open(folder, &files));
    return files;
}

/* The values of a file with one fp32 tensor, which is a copy of the folder's. The caller frees it. */
static char *copy_matrix(const zn_model_files *files, int64_t rows, int64_t cols, zn_gguf_layout layout, int64_t n_heads,
                         const float **values)
{
    const struct zn_gguf_spec spec = {"m", ZN_GGUF_F32, cols ? 2 : 1, {rows, cols}};
    const char *path = in_folder("copy.gguf");
    struct zn_model_tensor from = zn_model_files_tensor_at(files, 0);
    zn_gguf_metadata metadata;
    zn_gguf_writer *w;
    char *data;
    size_t n;
    zn_gguf_metadata_init(&metadata);
    OK(zn_gguf_writer_create(path, &metadata, &spec, 1, &w));
    OK(zn_gguf_writer_copy(w, 0, &from, layout, n_heads));
    OK(zn_gguf_writer_finish(w));
    zn_gguf_writer_destroy(w);
    OK(zn_file_read(path, 1 << 30, &data, &n));
    size_t n_data = (size_t)(rows * (cols ? cols : 1)) * sizeof **values;
    *values = (const float *)(data + n - (n_data + 31) / 32 * 32);
    return data;
}

/* More than a piece, so that strips are several; neither side is a multiple of anything. */
static void a_transposed_copy_has_every_value(void **state)
{
    (void)state;
    const int64_t rows = 1301, cols = 907;
    const float *values;
    zn_model_files *files = make_matrix("transposed", rows, cols);
    char *data = copy_matrix(files, cols, rows, ZN_GGUF_TRANSPOSED, 0, &values);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            if (values[c * rows + r] != value_at(r, c))
                fail_msg("row %lld, column %lld", (long long)r, (long long)c);
    free(data);
    zn_model_files_close(files);
}

/* (heads, 2, half) of the hub becomes (heads, half, 2). */
static void a_paired_copy_puts_rotary_pairs_side_by_side(void **state)
{
    (void)state;
    const int64_t heads = 3, half = 250, cols = 811, rows = heads * 2 * half;
    const float *values;
    zn_model_files *files = make_matrix("paired", rows, cols);
    char *data = copy_matrix(files, rows, cols, ZN_GGUF_PAIRED, heads, &values);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t k = 0; k < 2; k++)
            for (int64_t i = 0; i < half; i++)
                for (int64_t c = 0; c < cols; c++)
                    if (values[((h * half + i) * 2 + k) * cols + c] != value_at((h * 2 + k) * half + i, c))
                        fail_msg("head %lld, half %lld, row %lld", (long long)h, (long long)k, (long long)i);
    free(data);
    zn_model_files_close(files);
}

static void a_paired_vector_is_rows_of_one(void **state)
{
    (void)state;
    const float *values;
    zn_model_files *files = make_matrix("vector", 12, 0);
    char *data = copy_matrix(files, 12, 0, ZN_GGUF_PAIRED, 2, &values);
    static const int64_t from[] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    for (int i = 0; i < 12; i++)
        assert_true(values[i] == value_at(from[i], 0));
    free(data);
    zn_model_files_close(files);
}

static void a_copy_of_another_size_is_refused(void **state)
{
    (void)state;
    static const struct zn_gguf_spec spec = {"m", ZN_GGUF_F32, 1, {11}};
    zn_gguf_metadata metadata;
    zn_gguf_writer *w;
    zn_model_files *files = make_matrix("other", 12, 0);
    struct zn_model_tensor from = zn_model_files_tensor_at(files, 0);
    zn_gguf_metadata_init(&metadata);
    OK(zn_gguf_writer_create(in_folder("other.gguf"), &metadata, &spec, 1, &w));
    FAILS(zn_gguf_writer_copy(w, 0, &from, ZN_GGUF_SAME, 0), ZN_ERR_INTERNAL, "tensor 'm'", "");
    zn_gguf_writer_destroy(w);
    zn_model_files_close(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_names_and_numbers),
        cmocka_unit_test(q8_0_rounds_to_nearest_and_halves_away_from_zero),
        cmocka_unit_test(q8_0_divides_by_the_scale_in_fp32),
        cmocka_unit_test(zeros_have_the_scale_0),
        cmocka_unit_test(what_a_type_cannot_hold_is_found),
        cmocka_unit_test(a_file_has_its_parts_where_they_belong),
        cmocka_unit_test(a_file_that_is_not_whole_does_not_appear),
        cmocka_unit_test(values_beyond_the_type_are_refused_by_name),
        cmocka_unit_test(rows_that_are_no_blocks_cannot_be_q8_0),
        cmocka_unit_test(a_transposed_copy_has_every_value),
        cmocka_unit_test(a_paired_copy_puts_rotary_pairs_side_by_side),
        cmocka_unit_test(a_paired_vector_is_rows_of_one),
        cmocka_unit_test(a_copy_of_another_size_is_refused),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
