/* A hub folder as one set of tensors, whole and sharded, good and bad. */
#include "files.h"

#include "formats/model_files.h"
#include "formats/safetensors_write.h"

#define HEADER(name) "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}"

/* Each test has a folder below the common one. */
static const char *make_folder(const char *name)
{
    const char *path = in_folder(name);
    OK(zn_folder_create(path));
    return path;
}

static void check_bad(const char *folder, const char *first, const char *second)
{
    zn_model_files *files = NULL;
    FAILS(zn_model_files_open(in_folder(folder), &files), ZN_ERR_INPUT, first, second);
    assert_null(files);
}

static void write_model(const char *folder, uint64_t shard_limit)
{
    static const struct zn_st_spec specs[] = {
        {"wte", ZN_F32, 2, {4, 2}}, {"h.0", ZN_F32, 1, {3}}, {"h.1", ZN_F32, 1, {3}}, {"ln", ZN_F32, 1, {1}}};
    zn_st_writer *w;
    OK(zn_st_writer_create(folder, "model", specs, COUNT(specs), shard_limit, &w));
    for (size_t i = 0; i < COUNT(specs); i++) {
        int64_t n = specs[i].dims[0] * (specs[i].n_dims == 2 ? specs[i].dims[1] : 1);
        for (int64_t k = 0; k < n; k++)
            OK(zn_st_writer_write_f32(w, i, k, 1, &(float){(float)i * 10 + (float)k}));
    }
    OK(zn_st_writer_finish(w));
    zn_st_writer_destroy(w);
}

static void check_model(const char *folder)
{
    zn_model_files *files;
    struct zn_model_tensor t;
    float values[8];
    OK(zn_model_files_open(folder, &files));
    assert_int_equal(zn_model_files_n_tensors(files), 4);
    assert_string_equal(zn_model_files_tensor_at(files, 0).tensor->name, "h.0");
    assert_string_equal(zn_model_files_tensor_at(files, 3).tensor->name, "wte");
    assert_true(zn_model_files_find(files, "h.1", &t));
    OK(zn_st_read_f32(t.file, t.tensor, 0, 3, values));
    assert_true(values[0] == 20 && values[2] == 22);
    assert_false(zn_model_files_find(files, "h.2", &t));

    OK(zn_model_files_get(files, "wte", 2, (const int64_t[]){4, 2}, &t));
    OK(zn_st_read_f32(t.file, t.tensor, 0, 8, values));
    assert_true(values[7] == 7);
    FAILS(zn_model_files_get(files, "h.2", 1, (const int64_t[]){3}, &t), ZN_ERR_INPUT, folder, "'h.2' is missing");
    FAILS(zn_model_files_get(files, "wte", 2, (const int64_t[]){2, 4}, &t), ZN_ERR_INPUT, ".safetensors: tensor 'wte'",
          "shape (4, 2), but config.json asks for (2, 4)");
    FAILS(zn_model_files_get(files, "wte", 1, (const int64_t[]){4}, &t), ZN_ERR_INPUT, "'wte'", "asks for (4)");
    zn_model_files_close(files);
}

static void one_file(void **state)
{
    (void)state;
    const char *folder = make_folder("one");
    write_model(folder, 0);
    assert_true(zn_file_exists(in_folder("one/model.safetensors")));
    assert_false(zn_file_exists(in_folder("one/model.safetensors.index.json")));
    check_model(folder);
}

/* 32, 12, 12 and 4 bytes: with 24 a shard the first is alone though larger, two fill one exactly. */
static void shards_and_their_index(void **state)
{
    (void)state;
    const char *folder = make_folder("shards");
    write_model(folder, 24);
    for (int k = 1; k <= 3; k++) {
        char name[64];
        snprintf(name, sizeof name, "shards/model-%05d-of-00003.safetensors", k);
        assert_true(zn_file_exists(in_folder(name)));
    }
    char *index;
    size_t n;
    OK(zn_file_read(in_folder("shards/model.safetensors.index.json"), 10000, &index, &n));
    assert_non_null(strstr(index, "\"total_size\": 60"));
    assert_non_null(strstr(index, "\"wte\": \"model-00001-of-00003.safetensors\""));
    assert_non_null(strstr(index, "\"h.1\": \"model-00002-of-00003.safetensors\""));
    assert_non_null(strstr(index, "\"ln\": \"model-00003-of-00003.safetensors\""));
    free(index);
    check_model(folder);
}

/* Written again in the other layout: a reader must not find the old entry. */
static void the_other_layout_is_replaced(void **state)
{
    (void)state;
    const char *folder = make_folder("twice");
    write_model(folder, 0);
    write_model(folder, 24);
    assert_false(zn_file_exists(in_folder("twice/model.safetensors")));
    check_model(folder);
    write_model(folder, 0);
    assert_false(zn_file_exists(in_folder("twice/model.safetensors.index.json")));
    check_model(folder);
}

static void a_folder_without_weights(void **state)
{
    (void)state;
    zn_model_files *files = NULL;
    make_folder("empty");
    check_bad("empty", "empty: no weights", "expected model.safetensors");
    check_bad("nowhere", "nowhere", "no such folder");
    make_folder("pickle");
    make_text("pickle/pytorch_model.bin", "x");
    FAILS(zn_model_files_open(in_folder("pickle"), &files), ZN_ERR_UNSUPPORTED, "pytorch_model.bin",
          "convert it to safetensors");
}

static void a_damaged_file_is_named(void **state)
{
    (void)state;
    make_folder("damaged");
    make_text("damaged/model.safetensors", "abc");
    check_bad("damaged", "damaged/model.safetensors", "too few");
}

static void an_index_stays_in_its_folder(void **state)
{
    (void)state;
    static const char *const outside[] = {"../secret.safetensors", "/etc/passwd", "sub/a.safetensors", "..", ".", "",
                                          "..\\\\a"};
    make_folder("outside/sub");
    make_safetensors("secret.safetensors", HEADER("a"), 8);
    make_safetensors("outside/sub/a.safetensors", HEADER("a"), 8);
    for (size_t i = 0; i < COUNT(outside); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", outside[i]);
        make_text("outside/model.safetensors.index.json", text);
        check_bad("outside", "outside/model.safetensors.index.json: 'weight_map': tensor 'a'",
                  "not a file name inside the folder");
    }
}

static void a_bad_index_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *first, *cause;
    } cases[] = {
        {"{", "index.json", "not valid JSON"},
        {"[]", "index.json", "expected an object"},
        {"{\"metadata\":{}}", "index.json: 'weight_map'", "missing"},
        {"{\"weight_map\":{}}", "index.json: 'weight_map'", "lists no tensors"},
        {"{\"weight_map\":{\"a\":3}}", "index.json: 'weight_map.a'", "expected a string, found 3"},
        {"{\"weight_map\":{\"a\":\"1.safetensors\",\"c\":\"1.safetensors\"}}", "index.json",
         "tensor 'c' is not in 1.safetensors, nor in another shard"},
        {"{\"weight_map\":{\"a\":\"2.safetensors\",\"b\":\"1.safetensors\"}}", "index.json",
         "tensor 'a' is not in 2.safetensors, but in"},
        {"{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"again.safetensors\"}}", "1.safetensors: tensor 'a'",
         "again.safetensors"},
        {"{\"weight_map\":{\"a\":\"broken.safetensors\"}}", "bad/broken.safetensors", "too few"},
    };
    make_folder("bad");
    make_safetensors("bad/1.safetensors", HEADER("a"), 8);
    make_safetensors("bad/2.safetensors", HEADER("b"), 8);
    make_safetensors("bad/again.safetensors", HEADER("a"), 8);
    make_text("bad/broken.safetensors", "x");
    for (size_t i = 0; i < COUNT(cases); i++) {
        make_text("bad/model.safetensors.index.json", cases[i].text);
        check_bad("bad", cases[i].first, cases[i].cause);
    }
    zn_model_files *files = NULL;
    make_text("bad/model.safetensors.index.json", "{\"weight_map\":{\"a\":\"gone.safetensors\"}}");
    FAILS(zn_model_files_open(in_folder("bad"), &files), ZN_ERR_IO, "bad/gone.safetensors", "No such file");
    make_text("bad/model.safetensors.index.json", "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}");
    OK(zn_model_files_open(in_folder("bad"), &files)); /* the same files with a true index */
    zn_model_files_close(files);
}

static void a_needed_tensor_must_be_of_floats(void **state)
{
    (void)state;
    make_folder("ints");
    make_safetensors("ints/model.safetensors", "{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8);
    zn_model_files *files;
    struct zn_model_tensor t;
    OK(zn_model_files_open(in_folder("ints"), &files));
    FAILS(zn_model_files_get(files, "a", 1, (const int64_t[]){1}, &t), ZN_ERR_UNSUPPORTED, "ints/model.safetensors",
          "'a' is of type I64");
    zn_model_files_close(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file),
        cmocka_unit_test(shards_and_their_index),
        cmocka_unit_test(the_other_layout_is_replaced),
        cmocka_unit_test(a_folder_without_weights),
        cmocka_unit_test(a_damaged_file_is_named),
        cmocka_unit_test(an_index_stays_in_its_folder),
        cmocka_unit_test(a_bad_index_is_refused),
        cmocka_unit_test(a_needed_tensor_must_be_of_floats),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
