/* What is written comes back: types, ranges, orders, shards. */
#include "files.h"

#include <math.h>

#include "formats/safetensors.h"
#include "formats/safetensors_write.h"
#include "tensor/half.h"

/* A value of its own for each element, exact in none of the 16-bit types. */
static float value(size_t tensor, int64_t i)
{
    return (float)(tensor + 1) * 0.37f - 0.001f * (float)i;
}

static void write_all(zn_st_writer *w, size_t tensor, int64_t n)
{
    float *values = malloc((size_t)(n + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = value(tensor, i);
    OK(zn_st_writer_write_f32(w, tensor, 0, n, values));
    free(values);
}

static float as_type(float x, zn_st_dtype type)
{
    return type == ZN_ST_BF16  ? zn_bf16_to_float(zn_float_to_bf16(x))
           : type == ZN_ST_F16 ? zn_f16_to_float(zn_float_to_f16(x))
                               : x;
}

/* Every element of the file's tensor is that of value(), rounded to the type, bit for bit. */
static void check_all(const zn_st_file *file, const char *name, size_t tensor)
{
    const struct zn_st_tensor *t = zn_st_find(file, name);
    assert_non_null(t);
    float *values = malloc((size_t)(t->n_elements + 1) * sizeof *values);
    assert_non_null(values);
    OK(zn_st_read_f32(file, t, 0, t->n_elements, values));
    for (int64_t i = 0; i < t->n_elements; i++)
        assert_true(zn_float_bits(values[i]) == zn_float_bits(as_type(value(tensor, i), t->dtype)));
    free(values);
}

/* bf16 of an odd count before fp32: the fp32 tensor must still be aligned. */
static const struct zn_st_spec specs[] = {
    {"a.weight", ZN_BF16, 2, {3, 5}},  {"b.weight", ZN_F32, 2, {4, 2}},       {"c.bias", ZN_F16, 1, {7}},
    {"scalar", ZN_F32, 0, {0}},        {"empty", ZN_BF16, 2, {0, 9}},         {"large", ZN_F16, 1, {50000}},
    {"odd \"name\"\n", ZN_BF16, 1, {2}}, {"d", ZN_F32, 8, {1, 2, 1, 1, 3, 1, 1, 1}},
};

static void round_trip_of_every_type(void **state)
{
    (void)state;
    zn_st_writer *w;
    OK(zn_st_writer_create(test_folder, "model", specs, COUNT(specs), 0, &w));
    static const int64_t counts[] = {15, 8, 7, 1, 0, 50000, 2, 6};
    for (size_t i = COUNT(specs); i-- > 0;)
        write_all(w, i, counts[i]);
    assert_false(zn_file_exists(in_folder("model.safetensors")));
    OK(zn_st_writer_finish(w));
    zn_st_writer_destroy(w);

    zn_st_file *file;
    OK(zn_st_open(in_folder("model.safetensors"), &file));
    assert_int_equal(zn_st_n_tensors(file), COUNT(specs));
    for (size_t i = 0; i < COUNT(specs); i++) {
        const struct zn_st_tensor *t = zn_st_find(file, specs[i].name);
        zn_dtype type;
        assert_non_null(t);
        assert_true(zn_st_dtype_is_float(t->dtype, &type) && type == specs[i].dtype);
        assert_int_equal(t->n_dims, specs[i].n_dims);
        assert_memory_equal(t->dims, specs[i].dims, (size_t)t->n_dims * sizeof t->dims[0]);
        assert_int_equal(t->n_elements, counts[i]);
        assert_int_equal(t->offset % zn_dtype_bytes(type), 0);
        check_all(file, specs[i].name, i);
    }
    assert_null(zn_st_find(file, "a.weigh"));
    assert_int_equal(zn_st_tensor_at(file, 0)->offset % 8, 0); /* the header is padded */
    zn_st_close(file);
    remove(in_folder("model.safetensors"));
}

static void tensors_of_one_type_lie_in_the_order_given(void **state)
{
    (void)state;
    static const struct zn_st_spec list[] = {
        {"z", ZN_BF16, 1, {2}}, {"a", ZN_BF16, 1, {3}}, {"m", ZN_F16, 1, {1}}};
    zn_st_writer *w;
    OK(zn_st_writer_create(test_folder, "order", list, 3, 0, &w));
    for (size_t i = 0; i < 3; i++)
        write_all(w, i, list[i].dims[0]);
    OK(zn_st_writer_finish(w));
    zn_st_writer_destroy(w);
    zn_st_file *file;
    OK(zn_st_open(in_folder("order.safetensors"), &file));
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(zn_st_tensor_at(file, i)->name, list[i].name);
    zn_st_close(file);
}

/* The file to the byte, so that it stays what other tools read. */
static void header_is_laid_out_exactly(void **state)
{
    (void)state;
    static const struct zn_st_spec list[] = {{"x", ZN_BF16, 2, {1, 2}}};
    static const float values[] = {1.0f, -2.0f};
    zn_st_writer *w;
    OK(zn_st_writer_create(test_folder, "exact", list, 1, 0, &w));
    OK(zn_st_writer_write_f32(w, 0, 0, 2, values));
    OK(zn_st_writer_finish(w));
    zn_st_writer_destroy(w);
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"x\":{\"dtype\":\"BF16\",\"shape\":[1,2],"
                                 "\"data_offsets\":[0,4]}}";
    char *data;
    size_t n, padded = (strlen(header) + 7) / 8 * 8;
    OK(zn_file_read(in_folder("exact.safetensors"), 1000, &data, &n));
    assert_int_equal(n, 8 + padded + 4);
    uint64_t length;
    memcpy(&length, data, 8);
    assert_int_equal(length, padded);
    assert_memory_equal(data + 8, header, strlen(header));
    for (size_t i = strlen(header); i < padded; i++)
        assert_int_equal(data[8 + i], ' ');
    assert_memory_equal(data + 8 + padded, "\x80\x3f\x00\xc0", 4);
    free(data);
    struct stat s;
    assert_int_equal(stat(in_folder("exact.safetensors"), &s), 0);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(s.st_mode & 0777, 0644 & ~mask);
}

static void ranges_are_read_and_written_in_any_order(void **state)
{
    (void)state;
    enum { N = 40000, PIECE = 1777 };
    static const struct zn_st_spec list[] = {{"a", ZN_BF16, 1, {N}}, {"b", ZN_F32, 1, {N}}};
    zn_st_writer *w;
    OK(zn_st_writer_create(test_folder, "ranges", list, 2, 0, &w));
    float values[PIECE];
    int n_pieces = (N + PIECE - 1) / PIECE;
    for (int k = 0; k < n_pieces; k++) {
        int64_t first = (int64_t)(k * 7 % n_pieces) * PIECE, n = N - first < PIECE ? N - first : PIECE;
        for (size_t tensor = 0; tensor < 2; tensor++) {
            for (int64_t i = 0; i < n; i++)
                values[i] = value(tensor, first + i);
            OK(zn_st_writer_write_f32(w, tensor, first, n, values));
        }
    }
    OK(zn_st_writer_finish(w));
    zn_st_writer_destroy(w);

    zn_st_file *file;
    OK(zn_st_open(in_folder("ranges.safetensors"), &file));
    check_all(file, "a", 0);
    check_all(file, "b", 1);
    const struct zn_st_tensor *a = zn_st_find(file, "a"), *b = zn_st_find(file, "b");
    OK(zn_st_read_f32(file, a, 20001, 3, values));
    assert_true(values[2] == as_type(value(0, 20003), ZN_ST_BF16));
    OK(zn_st_read_f32(file, b, N, 0, values));
    OK(zn_st_read_raw(file, b, 4 * 39999, 4, values));
    assert_true(values[0] == value(1, 39999));
    assert_int_equal(zn_st_read_f32(file, a, N - 1, 2, values), ZN_ERR_INTERNAL);
    assert_int_equal(zn_st_read_f32(file, a, -1, 1, values), ZN_ERR_INTERNAL);
    assert_int_equal(zn_st_read_raw(file, b, 4 * N - 1, 2, values), ZN_ERR_INTERNAL);
    zn_st_close(file);
}

static void what_was_not_written_is_told(void **state)
{
    (void)state;
    static const struct zn_st_spec list[] = {{"a", ZN_F32, 1, {10}}, {"b", ZN_F32, 1, {10}}};
    static const float values[10] = {0};
    zn_st_writer *w;
    OK(zn_folder_create(in_folder("part")));
    OK(zn_st_writer_create(in_folder("part"), "model", list, 2, 0, &w));
    OK(zn_st_writer_write_f32(w, 0, 0, 10, values));
    FAILS(zn_st_writer_finish(w), ZN_ERR_INTERNAL, "part/model.safetensors: tensor 'b'", "elements 0 to 10");
    OK(zn_st_writer_write_f32(w, 1, 0, 3, values));
    OK(zn_st_writer_write_f32(w, 1, 5, 2, values));
    OK(zn_st_writer_write_f32(w, 1, 1, 3, values)); /* twice counts once */
    FAILS(zn_st_writer_finish(w), ZN_ERR_INTERNAL, "'b'", "elements 4 to 5");
    OK(zn_st_writer_write_f32(w, 1, 4, 1, values));
    FAILS(zn_st_writer_finish(w), ZN_ERR_INTERNAL, "'b'", "elements 7 to 10");
    assert_int_equal(zn_st_writer_write_f32(w, 1, 7, 4, values), ZN_ERR_INTERNAL);
    assert_int_equal(zn_st_writer_write_f32(w, 2, 0, 1, values), ZN_ERR_INTERNAL);
    zn_st_writer_destroy(w);
    assert_int_equal(n_entries(in_folder("part")), 0);
}

static void impossible_specs_are_refused(void **state)
{
    (void)state;
    zn_st_writer *w = NULL;
    const struct zn_st_spec twice[] = {{"a", ZN_F32, 1, {1}}, {"b", ZN_F32, 1, {1}}, {"a", ZN_F16, 1, {1}}};
    const struct zn_st_spec large = {"a", ZN_F32, 2, {INT64_MAX, 3}}, type = {"a", ZN_I32, 1, {1}};
    FAILS(zn_st_writer_create(test_folder, "bad", twice, 3, 0, &w), ZN_ERR_INTERNAL, "'a'", "twice");
    FAILS(zn_st_writer_create(test_folder, "bad", &large, 1, 0, &w), ZN_ERR_INTERNAL, "'a'", "impossible shape");
    FAILS(zn_st_writer_create(test_folder, "bad", &type, 1, 0, &w), ZN_ERR_INTERNAL, "'a'", "int32");
    FAILS(zn_st_writer_create(in_folder("nowhere"), "bad", twice, 2, 0, &w), ZN_ERR_IO, "nowhere/bad.safetensors",
          "No such file");
    assert_null(w);
}

static void other_types_are_listed_and_refused_as_floats(void **state)
{
    (void)state;
    const char *path = make_safetensors(
        "types.safetensors",
        "{\"mask\":{\"dtype\":\"BOOL\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
        "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
        "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
        "\"four\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[16,19]}}   ", 19);
    zn_st_file *file;
    OK(zn_st_open(path, &file));
    assert_int_equal(zn_st_n_tensors(file), 4);
    const struct zn_st_tensor *n = zn_st_find(file, "n");
    assert_int_equal(n->dtype, ZN_ST_I64);
    assert_int_equal(n->n_elements, 1);
    float x;
    unsigned char bytes[8];
    FAILS(zn_st_read_f32(file, n, 0, 1, &x), ZN_ERR_UNSUPPORTED, path, "'n' is of type I64");
    OK(zn_st_read_raw(file, n, 0, 8, bytes));
    assert_int_equal(bytes[0], 8); /* the data are 0, 1, 2 … */
    OK(zn_st_read_raw(file, zn_st_find(file, "mask"), 1, 2, bytes));
    assert_int_equal(bytes[1], 2);
    OK(zn_st_read_f32(file, zn_st_find(file, "f"), 0, 1, &x));
    assert_int_equal(zn_float_bits(x), 0x07060504);
    zn_st_close(file);
}

static void a_file_without_tensors_opens(void **state)
{
    (void)state;
    zn_st_file *file;
    OK(zn_st_open(make_safetensors("none.safetensors", "{}", 0), &file));
    assert_int_equal(zn_st_n_tensors(file), 0);
    assert_null(zn_st_find(file, "x"));
    zn_st_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_of_every_type),
        cmocka_unit_test(tensors_of_one_type_lie_in_the_order_given),
        cmocka_unit_test(header_is_laid_out_exactly),
        cmocka_unit_test(ranges_are_read_and_written_in_any_order),
        cmocka_unit_test(what_was_not_written_is_told),
        cmocka_unit_test(impossible_specs_are_refused),
        cmocka_unit_test(other_types_are_listed_and_refused_as_floats),
        cmocka_unit_test(a_file_without_tensors_opens),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
