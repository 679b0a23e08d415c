/* Token files and bytes: reading across files, windows, and every kind of bad data. */
#include "files.h"

#include "formats/tokens.h"

static const struct zn_token_source_options any = {.vocab_size = 0, .end_of_text = -1, .bytes = true};

static zn_token_source *open_one(const char *path, struct zn_token_source_options options)
{
    zn_token_source *source = NULL;
    OK(zn_tokens_open(&path, 1, &options, &source));
    return source;
}

#define BAD(path, options, code, cause)                                                            \
    do {                                                                                           \
        zn_token_source *source_ = NULL;                                                           \
        const char *path_ = path;                                                                  \
        FAILS(zn_tokens_open(&path_, 1, options, &source_), code, path_, cause);                   \
        assert_null(source_);                                                                      \
    } while (0)

static const char *make_bin(const char *name, uint32_t magic, uint32_t version, uint32_t count, size_t n_data)
{
    uint32_t header[256 + 16] = {magic, version, count};
    assert_true(n_data <= 64);
    return make_file(name, header, 1024 + n_data);
}

/* What is written, in both widths, comes back whatever the range. */
static void round_trip_of_both_widths(void **state)
{
    (void)state;
    enum { N = 20000 };
    static int32_t ids[N], back[N];
    for (int width = 2; width <= 4; width += 2) {
        int32_t vocab = width == 2 ? 65536 : 200000;
        for (int32_t i = 0; i < N; i++)
            ids[i] = (i * 7919) % vocab;
        ids[5] = vocab - 1;
        const char *path = in_folder("ids.bin");
        OK(zn_tokens_write(path, vocab, ids, N));
        struct stat s;
        assert_int_equal(stat(path, &s), 0);
        assert_int_equal(s.st_size, 1024 + N * width);
        zn_token_source *source =
            open_one(path, (struct zn_token_source_options){.vocab_size = vocab, .end_of_text = -1});
        assert_int_equal(zn_tokens_total(source), N);
        OK(zn_tokens_read(source, 0, N, back));
        assert_memory_equal(back, ids, sizeof ids);
        OK(zn_tokens_read(source, 12345, 17, back));
        assert_memory_equal(back, ids + 12345, 17 * sizeof ids[0]);
        OK(zn_tokens_read(source, N, 0, back));
        assert_int_equal(zn_tokens_read(source, N - 1, 2, back), ZN_ERR_INTERNAL);
        assert_int_equal(zn_tokens_read(source, -1, 1, back), ZN_ERR_INTERNAL);
        zn_tokens_close(source);
    }
}

/* The header to the byte: other programs write and read it. */
static void header_is_that_of_llm_c(void **state)
{
    (void)state;
    const char *path = in_folder("exact.bin");
    OK(zn_tokens_write(path, 50257, (const int32_t[]){1, 50256, 3}, 3));
    char *data;
    size_t n;
    OK(zn_file_read(path, 2000, &data, &n));
    uint32_t header[256], expected[256] = {20240520, 1, 3};
    memcpy(header, data, 1024);
    assert_memory_equal(header, expected, 1024);
    assert_memory_equal(data + 1024, "\x01\x00\x50\xc4\x03\x00", 6);
    free(data);
    OK(zn_tokens_write(path, 65537, (const int32_t[]){65536}, 1));
    OK(zn_file_read(path, 2000, &data, &n));
    memcpy(header, data, 1024);
    assert_int_equal(header[0], 20240801);
    assert_int_equal(header[1], 7);
    assert_memory_equal(data + 1024, "\x00\x00\x01\x00", 4);
    free(data);
}

static void text_is_bytes_and_the_end_of_text(void **state)
{
    (void)state;
    OK(zn_folder_create(in_folder("texts/sub")));
    make_text("texts/b.txt", "B\xff");
    make_text("texts/a.txt", "aa");
    make_text("texts/c.txt", "");
    make_text("texts/sub/d.txt", "d");
    make_text("texts/.hidden.png", "not data");
    OK(zn_tokens_write(in_folder("texts/bb.bin"), 300, (const int32_t[]){299, 7}, 2));
    static const int32_t with[] = {'a', 'a', 256, 'B', 255, 256, 299, 7, 256, 'd', 256};
    static const int32_t without[] = {'a', 'a', 'B', 255, 299, 7, 'd'};
    int32_t back[16];
    zn_token_source *source =
        open_one(in_folder("texts"), (struct zn_token_source_options){300, 256, true});
    assert_int_equal(zn_tokens_n_files(source), 5);
    assert_int_equal(zn_tokens_total(source), COUNT(with));
    for (size_t from = 0; from < COUNT(with); from++) { /* every range, over every border */
        for (size_t to = from; to <= COUNT(with); to++) {
            OK(zn_tokens_read(source, (int64_t)from, (int64_t)(to - from), back));
            assert_memory_equal(back, with + from, (to - from) * sizeof back[0]);
        }
    }
    zn_tokens_close(source);
    source = open_one(in_folder("texts"), (struct zn_token_source_options){300, -1, true});
    assert_int_equal(zn_tokens_total(source), COUNT(without));
    OK(zn_tokens_read(source, 0, COUNT(without), back));
    assert_memory_equal(back, without, sizeof without);
    zn_tokens_close(source);
}

static void several_paths_keep_their_order(void **state)
{
    (void)state;
    make_text("z.txt", "z");
    make_text("y.txt", "y");
    const char *const paths[] = {in_folder("z.txt"), in_folder("y.txt"), in_folder("z.txt")};
    zn_token_source *source;
    int32_t back[3];
    OK(zn_tokens_open(paths, 3, &any, &source));
    OK(zn_tokens_read(source, 0, 3, back));
    assert_true(back[0] == 'z' && back[1] == 'y' && back[2] == 'z');
    zn_tokens_close(source);
}

static void windows_share_their_border(void **state)
{
    (void)state;
    int32_t ids[11], w[6];
    for (int32_t i = 0; i < 11; i++)
        ids[i] = i;
    const char *path = in_folder("windows.bin");
    for (int n = 11; n >= 10; n--) {
        OK(zn_tokens_write(path, 100, ids, n));
        zn_token_source *source = open_one(path, any);
        int64_t n_windows;
        OK(zn_tokens_n_windows(source, 5, &n_windows));
        assert_int_equal(n_windows, n == 11 ? 2 : 1);
        OK(zn_tokens_window(source, 0, 5, w, NULL));
        assert_memory_equal(w, ids, sizeof w);
        if (n == 11) {
            OK(zn_tokens_window(source, 1, 5, w, NULL));
            assert_memory_equal(w, ids + 5, sizeof w);
        }
        assert_int_equal(zn_tokens_window(source, n_windows, 5, w, NULL), ZN_ERR_INTERNAL);
        assert_int_equal(zn_tokens_window(source, -1, 5, w, NULL), ZN_ERR_INTERNAL);
        zn_tokens_close(source);
    }
}

static void data_shorter_than_a_window(void **state)
{
    (void)state;
    make_text("s1.txt", "abc");
    make_text("s2.txt", "de");
    const char *const paths[] = {in_folder("s1.txt"), in_folder("s2.txt")};
    zn_token_source *source;
    int64_t n = 0;
    int32_t w[6];
    OK(zn_tokens_open(paths, 2, &any, &source));
    OK(zn_tokens_n_windows(source, 4, &n));
    assert_int_equal(n, 1);
    FAILS(zn_tokens_n_windows(source, 5, &n), ZN_ERR_INPUT, "s1.txt",
          "s2.txt: 5 tokens are too few for one window of length 5, which takes 6");
    FAILS(zn_tokens_window(source, 0, 5, w, NULL), ZN_ERR_INPUT, "s1.txt", "5 tokens are too few");
    FAILS(zn_tokens_n_windows(source, 0, &n), ZN_ERR_USAGE, "window of 0", "");
    zn_tokens_close(source);
}

static void empty_data(void **state)
{
    (void)state;
    const struct zn_token_source_options eot = {300, 256, true};
    BAD(make_text("empty.txt", ""), &any, ZN_ERR_INPUT, "empty: 1 files (.txt, .jsonl, .json, .bin) with 0 tokens");
    BAD(make_text("empty.txt", ""), &eot, ZN_ERR_INPUT, "empty");
    BAD(make_bin("empty.bin", 20240520, 1, 0, 0), &any, ZN_ERR_INPUT, "empty");
    OK(zn_folder_create(in_folder("nothing")));
    BAD(in_folder("nothing"), &any, ZN_ERR_INPUT, "empty: 0 files");
    zn_token_source *source = NULL;
    FAILS(zn_tokens_open(NULL, 0, &any, &source), ZN_ERR_USAGE, "no data files", "");
}

static void ids_outside_the_vocabulary(void **state)
{
    (void)state;
    const char *path = in_folder("range.bin");
    OK(zn_tokens_write(path, 100, (const int32_t[]){1, 2, 50, 3}, 4));
    zn_token_source *source = open_one(path, (struct zn_token_source_options){50, -1, false});
    int32_t back[4];
    OK(zn_tokens_read(source, 0, 2, back));
    FAILS(zn_tokens_read(source, 1, 3, back), ZN_ERR_INPUT, path, "token 2 has id 50, outside the vocabulary of 50");
    FAILS(zn_tokens_window(source, 0, 3, back, NULL), ZN_ERR_INPUT, path, "token 2 has id 50");
    zn_tokens_close(source);
    /* A 32-bit id that would be negative, with the vocabulary unknown. */
    uint32_t wide[257] = {20240801, 7, 1};
    wide[256] = 0x80000000u;
    source = open_one(make_file("wide.bin", wide, sizeof wide), any);
    FAILS(zn_tokens_read(source, 0, 1, back), ZN_ERR_INPUT, "wide.bin", "id 2147483648");
    zn_tokens_close(source);
    /* The end-of-text id of a smaller vocabulary. */
    source = open_one(make_text("eot.txt", "a"), (struct zn_token_source_options){256, 256, true});
    FAILS(zn_tokens_read(source, 0, 2, back), ZN_ERR_INPUT, "eot.txt", "token 1 has id 256");
    zn_tokens_close(source);
    /* The writer holds to it too. */
    FAILS(zn_tokens_write(path, 50, (const int32_t[]){1, 50}, 2), ZN_ERR_INPUT, path, "token 1 has id 50");
    FAILS(zn_tokens_write(path, 50, (const int32_t[]){-1}, 1), ZN_ERR_INPUT, path, "token 0 has id -1");
}

static void damaged_token_files(void **state)
{
    (void)state;
    BAD(make_text("bad.bin", "short"), &any, ZN_ERR_INPUT, "5 bytes are too few");
    BAD(make_bin("bad.bin", 7, 1, 2, 4), &any, ZN_ERR_INPUT, "not a token file: it begins with 7");
    BAD(make_bin("bad.bin", 20240520, 7, 2, 4), &any, ZN_ERR_INPUT, "version 7, expected 1");
    BAD(make_bin("bad.bin", 20240801, 1, 1, 4), &any, ZN_ERR_INPUT, "version 1, expected 7");
    BAD(make_bin("bad.bin", 20240520, 1, 2, 3), &any, ZN_ERR_INPUT, "counts 2 tokens of 2 bytes, 1028 bytes in all");
    BAD(make_bin("bad.bin", 20240520, 1, 2, 5), &any, ZN_ERR_INPUT, "the file has 1029");
    BAD(make_bin("bad.bin", 20240801, 7, 2, 4), &any, ZN_ERR_INPUT, "counts 2 tokens of 4 bytes");
    BAD(make_bin("bad.bin", 20240801, 7, UINT32_MAX, 4), &any, ZN_ERR_INPUT, "counts 4294967295 tokens");
    zn_token_source *source = open_one(make_bin("good.bin", 20240801, 7, 1, 4), any);
    int32_t id;
    assert_int_equal(truncate(in_folder("good.bin"), 1026), 0);
    FAILS(zn_tokens_read(source, 0, 1, &id), ZN_ERR_IO, "good.bin", "2 bytes short");
    zn_tokens_close(source);
}

/* More than 2^31 tokens, as a sparse file. */
static void counts_past_int32(void **state)
{
    (void)state;
    const char *path = make_bin("huge.bin", 20240520, 1, 3000000000u, 0);
    if (truncate(path, 1024 + 2 * (off_t)3000000000) != 0)
        skip(); /* no room for large files here */
    zn_token_source *source = open_one(path, any);
    assert_int_equal(zn_tokens_total(source), 3000000000);
    int32_t back[3] = {1, 1, 1};
    OK(zn_tokens_read(source, 2999999997, 3, back));
    assert_int_equal(back[2], 0);
    zn_tokens_close(source);
    remove(path);
}

static void kinds_that_are_not_taken(void **state)
{
    (void)state;
    const struct zn_token_source_options tokenizer = {50257, 50256, false}, small = {128, -1, true};
    BAD(make_text("rows.jsonl", "{}"), &any, ZN_ERR_UNSUPPORTED, "have to be encoded");
    BAD(make_text("a.pdf", "x"), &any, ZN_ERR_INPUT, "expected .txt, .jsonl, .json or .bin");
    BAD(make_text("noextension", "x"), &any, ZN_ERR_INPUT, "expected .txt, .jsonl, .json or .bin");
    BAD(make_text("t.txt", "x"), &tokenizer, ZN_ERR_UNSUPPORTED, "tokenizer");
    BAD(make_text("t.txt", "x"), &small, ZN_ERR_INPUT, "needs a vocabulary of 256, the model has 128");
    BAD(in_folder("gone.txt"), &any, ZN_ERR_INPUT, "no such file");
    OK(zn_folder_create(in_folder("mixed.txt")));
    make_text("mixed.txt/a.txt", "a");
    make_text("mixed.txt/b.md", "b");
    BAD(in_folder("mixed.txt"), &any, ZN_ERR_INPUT, "b.md: not a kind of data");
    OK(zn_folder_create(in_folder("loop")));
    assert_int_equal(symlink(".", in_folder("loop/again")), 0);
    BAD(in_folder("loop"), &any, ZN_ERR_INPUT, "deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_of_both_widths),
        cmocka_unit_test(header_is_that_of_llm_c),
        cmocka_unit_test(text_is_bytes_and_the_end_of_text),
        cmocka_unit_test(several_paths_keep_their_order),
        cmocka_unit_test(windows_share_their_border),
        cmocka_unit_test(data_shorter_than_a_window),
        cmocka_unit_test(empty_data),
        cmocka_unit_test(ids_outside_the_vocabulary),
        cmocka_unit_test(damaged_token_files),
        cmocka_unit_test(counts_past_int32),
        cmocka_unit_test(kinds_that_are_not_taken),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
