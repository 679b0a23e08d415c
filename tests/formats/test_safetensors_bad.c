/* Damaged and lying safetensors files: each an error of one line that names the file and the
 * cause. Run under the sanitizers these are also the cases that must not crash. */
#include "files.h"

#include "formats/safetensors.h"

#define ENTRY(name, dtype, shape, from, to)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #from "," #to "]}"
#define F32_AT(name, from, to) ENTRY(name, "F32", "2", from, to)

static void check_bad(const char *path, const char *cause)
{
    zn_st_file *file = NULL;
    FAILS(zn_st_open(path, &file), ZN_ERR_INPUT, path, cause);
    assert_null(file);
}

static const struct {
    const char *header;
    size_t n_data;
    const char *cause;
} bad_headers[] = {
    /* JSON */
    {"", 0, "not a JSON object"},
    {"[]", 0, "not a JSON object"},
    {" {}", 0, "not a JSON object"},
    {"{" F32_AT("a", 0, 8), 8, "not valid JSON"},
    {"{" F32_AT("a", 0, 8) "} x", 8, "not valid JSON"},
    {"{" F32_AT("a", 0, 8) "," F32_AT("a", 8, 16) "}", 16, "duplicate object key near '\"a\"'"},
    {"{\"a\":7}", 8, "'a': expected an object, found 7"},
    {"{\"__metadata__\":{\"n\":1}}", 0, "'__metadata__.n': expected a string"},
    {"{\"__metadata__\":[]}", 0, "'__metadata__': expected an object"},
    /* Fields */
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'a.dtype': missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "'a.shape': missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "'a.data_offsets': missing"},
    {"{" ENTRY("a", "F33", "2", 0, 8) "}", 8, "'a': unknown dtype \"F33\""},
    {"{" ENTRY("a", "F32", "-2", 0, 8) "}", 8, "'a.shape[0]': expected an integer of at least 0, found -2"},
    {"{" ENTRY("a", "F32", "1.5", 0, 8) "}", 8, "'a.shape[0]': expected an integer"},
    {"{" ENTRY("a", "F32", "\"2\"", 0, 8) "}", 8, "'a.shape[0]': expected an integer"},
    {"{" ENTRY("a", "F32", "1,1,1,1,1,1,1,1,2", 0, 8) "}", 8, "9 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", 8, "expected two offsets, found 3"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "'a.data_offsets[0]'"},
    /* Shape, type and range must agree */
    {"{" ENTRY("a", "F32", "3", 0, 8) "}", 8, "shape (3) of F32 takes 12 bytes, but data_offsets give it 8"},
    {"{" ENTRY("a", "F16", "2", 0, 8) "}", 8, "takes 4 bytes"},
    {"{" ENTRY("a", "F32", "4611686018427387904,4", 0, 0) "}", 0, "too large"},  /* 2^64 elements */
    {"{" ENTRY("a", "F32", "4294967296,1073741824", 0, 0) "}", 0, "too large"},  /* 2^64 bytes */
    {"{" ENTRY("a", "F4", "3", 0, 2) "}", 2, "ends inside a byte"},
    /* Ranges in the file */
    {"{" F32_AT("a", 0, 8) "}", 7, "ends at 8, but the file has only 7 bytes of data"},
    {"{" F32_AT("a", 8, 16) "}", 8, "ends at 16"},
    {"{" F32_AT("a", 9223372036854775800, 9223372036854775807) "}", 8, "ends at 9223372036854775807"},
    {"{" F32_AT("a", 8, 0) "}", 8, "begins at 8, after its end 0"},
    {"{" F32_AT("a", 0, 8) "," F32_AT("b", 0, 8) "}", 8, "'a' and 'b' overlap"},
    {"{" F32_AT("a", 0, 8) "," F32_AT("b", 4, 12) "}", 12, "'a' and 'b' overlap"},
    {"{" F32_AT("b", 8, 16) "," F32_AT("a", 0, 8) "," F32_AT("c", 12, 20) "}", 20, "'b' and 'c' overlap"},
    {"{" F32_AT("a", 8, 16) "}", 16, "8 bytes before tensor 'a' belong to no tensor"},
    {"{" F32_AT("a", 0, 8) "," F32_AT("b", 9, 17) "}", 17, "1 bytes before tensor 'b'"},
    {"{" F32_AT("a", 0, 8) "}", 9, "the last 1 bytes belong to no tensor"},
    {"{}", 1, "the last 1 bytes belong to no tensor"},
    {"{" ENTRY("a", "F32", "0", 4, 4) "," F32_AT("b", 0, 8) "}", 8, "'b' and 'a' overlap"},
    {"{" ENTRY("a\\nb", "F32", "3", 0, 8) "}", 8, "'a?b'"},
};

static void bad_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_headers); i++)
        check_bad(make_safetensors("bad.safetensors", bad_headers[i].header, bad_headers[i].n_data),
                  bad_headers[i].cause);
}

static void lying_lengths_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *cause;
    } cases[] = {
        {3, "truncated: the header claims 3 bytes"},
        {100 * 1000 * 1000, "truncated: the header claims 100000000 bytes"},
        {100 * 1000 * 1000 + 1, "at most 100000000 are allowed"},
        {UINT64_MAX, "at most 100000000 are allowed"},
        {UINT64_MAX - 7, "at most 100000000 are allowed"}, /* +8 would wrap */
        {0, "not a JSON object"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char bytes[10];
        memcpy(bytes, &cases[i].length, 8);
        memcpy(bytes + 8, "{}", 2);
        check_bad(make_file("length.safetensors", bytes, sizeof bytes), cases[i].cause);
    }
}

/* Every shorter version of a good file is refused. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    const char *path = make_safetensors("whole.safetensors", "{" F32_AT("a", 0, 8) "," F32_AT("b", 8, 16) "}", 16);
    char *data;
    size_t n;
    OK(zn_file_read(path, 1000, &data, &n));
    zn_st_file *file;
    OK(zn_st_open(path, &file));
    zn_st_close(file);
    for (size_t k = 0; k < n; k++)
        check_bad(make_file("cut.safetensors", data, k), k < 8 ? "too few" : k < n - 16 ? "truncated" : "cut short");
    free(data);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    zn_st_file *file = NULL;
    FAILS(zn_st_open(in_folder("none.safetensors"), &file), ZN_ERR_IO, "none.safetensors", "No such file");
    FAILS(zn_st_open(test_folder, &file), ZN_ERR_INPUT, test_folder, "not a regular file");
    assert_null(file);
}

/* A file cut after it was opened: the read tells, and gives no made-up values. */
static void a_short_read_is_an_error(void **state)
{
    (void)state;
    const char *path = make_safetensors("later.safetensors", "{" F32_AT("a", 0, 8) "}", 8);
    zn_st_file *file;
    OK(zn_st_open(path, &file));
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(truncate(path, s.st_size - 2), 0);
    float values[2];
    FAILS(zn_st_read_f32(file, zn_st_tensor_at(file, 0), 0, 2, values), ZN_ERR_IO, path, "2 bytes short");
    zn_st_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(lying_lengths_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_short_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
