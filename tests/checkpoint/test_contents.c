/* manifest.json: what it holds, that every change of it and of its files is found, and by which name. */
#include "files.h"

#include <fcntl.h>

#include "checkpoint/contents.h"

#define HEADER                                                                                                         \
    "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"                                         \
    "\"empty\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[16,16]},"                                            \
    "\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]}}"

/* A folder with a safetensors file, a text and an empty file, and its list. */
static void make_checkpoint(const char *name, zn_contents *c)
{
    char path[128];
    OK(zn_folder_create(in_folder(name)));
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    make_safetensors(path, HEADER, 40);
    snprintf(path, sizeof path, "%s/config.json", name);
    make_text(path, "{\"model_type\": \"gpt2\"}");
    snprintf(path, sizeof path, "%s/empty.txt", name);
    make_text(path, "");
    zn_contents_init(c);
    OK(zn_contents_add(c, in_folder(name), "model.safetensors"));
    OK(zn_contents_add(c, in_folder(name), "config.json"));
    OK(zn_contents_add(c, in_folder(name), "empty.txt"));
    OK(zn_contents_write(c, in_folder(name), ZN_CONTENTS_NAME));
}

static void flip(const char *path, off_t at)
{
    char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_list_comes_back(void **state)
{
    (void)state;
    zn_contents made, read;
    make_checkpoint("back", &made);
    OK(zn_contents_read(in_folder("back/manifest.json"), &read));
    assert_int_equal(read.n_files, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct zn_listed_file *a = &made.files[i], *b = &read.files[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->n_bytes, b->n_bytes);
        assert_int_equal(a->n_blocks, b->n_blocks);
        assert_memory_equal(a->blocks, b->blocks, a->n_blocks * sizeof *a->blocks);
        assert_int_equal(a->n_segments, b->n_segments);
        for (size_t k = 0; k < a->n_segments; k++) {
            assert_string_equal(a->segments[k].name, b->segments[k].name);
            assert_int_equal(a->segments[k].hash, b->segments[k].hash);
        }
    }
    assert_int_equal(zn_contents_find(&read, "model.safetensors")->n_segments, 4); /* the header and three tensors */
    assert_int_equal(zn_contents_n_blocks(&read), 2);
    OK(zn_contents_check_sizes(&read, in_folder("back")));
    OK(zn_contents_check_blocks(&read, in_folder("back"), 0, 2));
    zn_contents_fini(&made);
    zn_contents_fini(&read);
}

static void every_changed_byte_of_the_list_is_found(void **state)
{
    (void)state;
    zn_contents c;
    char *text;
    size_t n;
    make_checkpoint("list", &c);
    zn_contents_fini(&c);
    OK(zn_file_read(in_folder("list/manifest.json"), 1 << 20, &text, &n));
    size_t self = (size_t)(strstr(text, "\"self\"") - text);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit += 3) {
            text[i] = (char)(text[i] ^ (1 << bit));
            bool refused = zn_contents_parse(text, n, "manifest.json", &c) != ZN_OK;
            if (refused)
                check_message("manifest.json", "");
            else
                zn_contents_fini(&c);
            if (!refused && i < self + 26) /* what follows the last hash is white space */
                fail_msg("byte %zu of %zu changed unseen", i, n);
            text[i] = (char)(text[i] ^ (1 << bit));
        }
    }
    for (size_t i = 0; i < n - 3; i++)
        assert_int_not_equal(zn_contents_parse(text, i, "manifest.json", &c), ZN_OK);
    free(text);
}

struct told {
    int n;
    char text[256];
};

static void hear(void *self, const char *file, const char *tensor, const char *what)
{
    struct told *told = self;
    told->n++;
    snprintf(told->text, sizeof told->text, "%s|%s|%s", file, tensor, what);
}

/* Damage at a byte of the file is told by both checks, by this name. */
static void expect_damage(const zn_contents *c, const char *folder, const char *file, off_t at, const char *told_as,
                          const char *message)
{
    char path[128];
    struct told told = {0};
    snprintf(path, sizeof path, "%s/%s", folder, file);
    flip(in_folder(path), at);
    OK(zn_contents_verify(c, in_folder(folder), hear, &told));
    assert_int_equal(told.n, 1);
    assert_string_equal(told.text, told_as);
    FAILS(zn_contents_check_blocks(c, in_folder(folder), 0, zn_contents_n_blocks(c)), ZN_ERR_INPUT, file, message);
    flip(in_folder(path), at);
    told.n = 0;
    OK(zn_contents_verify(c, in_folder(folder), hear, &told));
    assert_int_equal(told.n, 0);
}

static void damage_is_told_by_file_and_tensor(void **state)
{
    (void)state;
    zn_contents c;
    make_checkpoint("damage", &c);
    off_t data = 8 + (off_t)strlen(HEADER);
    const char *model = "model.safetensors";
    expect_damage(&c, "damage", model, 20, "model.safetensors||header damaged", "its header");
    expect_damage(&c, "damage", model, data, "model.safetensors|a.weight|damaged", "tensor 'a.weight'");
    expect_damage(&c, "damage", model, data + 15, "model.safetensors|a.weight|damaged", "tensor 'a.weight'");
    expect_damage(&c, "damage", model, data + 16, "model.safetensors|b.weight|damaged", "tensor 'b.weight'");
    expect_damage(&c, "damage", "config.json", 3, "config.json||damaged in block 0 of 16 MiB", "damaged between");
    zn_contents_fini(&c);
}

static void missing_and_cut_files_are_told(void **state)
{
    (void)state;
    zn_contents c;
    struct told told = {0};
    make_checkpoint("cut", &c);
    assert_int_equal(truncate(in_folder("cut/model.safetensors"), 100), 0);
    FAILS(zn_contents_check_sizes(&c, in_folder("cut")), ZN_ERR_INPUT, "cut/model.safetensors: has 100 bytes", "says");
    OK(zn_contents_verify(&c, in_folder("cut"), hear, &told));
    assert_int_equal(told.n, 1);
    assert_non_null(strstr(told.text, "model.safetensors||has 100 bytes"));
    unlink(in_folder("cut/model.safetensors"));
    FAILS(zn_contents_check_sizes(&c, in_folder("cut")), ZN_ERR_IO, "cut/model.safetensors: cannot open", "No such file");
    OK(zn_contents_verify(&c, in_folder("cut"), hear, &told));
    assert_string_equal(told.text, "model.safetensors||cannot open: No such file or directory");
    zn_contents_fini(&c);
}

/* Ranks share the blocks: each is checked by one of them, whatever their number. */
static void blocks_of_large_files_are_shared(void **state)
{
    (void)state;
    zn_contents c;
    uint64_t n_bytes = 5 * ZN_BLOCK_BYTES + 1;
    OK(zn_folder_create(in_folder("large")));
    make_text("large/first.bin", "x");
    make_text("large/second.bin", "");
    assert_int_equal(truncate(in_folder("large/second.bin"), (off_t)n_bytes), 0);
    zn_contents_init(&c);
    OK(zn_contents_add(&c, in_folder("large"), "first.bin"));
    OK(zn_contents_add(&c, in_folder("large"), "second.bin"));
    assert_int_equal(zn_contents_n_blocks(&c), 7);
    flip(in_folder("large/second.bin"), (off_t)(2 * ZN_BLOCK_BYTES));
    for (uint64_t n_ranks = 1; n_ranks <= 9; n_ranks++) {
        int n_found = 0;
        for (uint64_t rank = 0; rank < n_ranks; rank++) {
            uint64_t first = 7 * rank / n_ranks, n = 7 * (rank + 1) / n_ranks - first;
            n_found += zn_contents_check_blocks(&c, in_folder("large"), first, n) != ZN_OK;
        }
        assert_int_equal(n_found, 1);
    }
    FAILS(zn_contents_check_blocks(&c, in_folder("large"), 0, 7), ZN_ERR_INPUT, "second.bin", "33554432 and 50331648");
    flip(in_folder("large/second.bin"), (off_t)(2 * ZN_BLOCK_BYTES));
    flip(in_folder("large/second.bin"), (off_t)(n_bytes - 1));
    OK(zn_contents_check_blocks(&c, in_folder("large"), 0, 6));
    FAILS(zn_contents_check_blocks(&c, in_folder("large"), 6, 1), ZN_ERR_INPUT, "second.bin", "damaged");
    zn_contents_fini(&c);
}

/* A tensor that begins in one block and ends in the next has one hash. */
static void tensors_across_blocks_are_named(void **state)
{
    (void)state;
    zn_contents c;
    char header[256];
    uint64_t n_first = ZN_BLOCK_BYTES - 1000, n_second = ZN_BLOCK_BYTES;
    snprintf(header, sizeof header,
             "{\"first\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[0,%llu]},"
             "\"second\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}}",
             (unsigned long long)n_first, (unsigned long long)n_first, (unsigned long long)n_second,
             (unsigned long long)n_first, (unsigned long long)(n_first + n_second));
    OK(zn_folder_create(in_folder("across")));
    make_safetensors("across/model.safetensors", header, (size_t)(n_first + n_second));
    zn_contents_init(&c);
    OK(zn_contents_add(&c, in_folder("across"), "model.safetensors"));
    off_t data = 8 + (off_t)strlen(header);
    expect_damage(&c, "across", "model.safetensors", (off_t)ZN_BLOCK_BYTES - 1, "model.safetensors|second|damaged",
                  "tensor 'second'");
    expect_damage(&c, "across", "model.safetensors", (off_t)ZN_BLOCK_BYTES, "model.safetensors|second|damaged",
                  "tensor 'second'");
    expect_damage(&c, "across", "model.safetensors", data, "model.safetensors|first|damaged", "tensor 'first'");
    zn_contents_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_comes_back),
        cmocka_unit_test(every_changed_byte_of_the_list_is_found),
        cmocka_unit_test(damage_is_told_by_file_and_tensor),
        cmocka_unit_test(missing_and_cut_files_are_told),
        cmocka_unit_test(blocks_of_large_files_are_shared),
        cmocka_unit_test(tensors_across_blocks_are_named),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
