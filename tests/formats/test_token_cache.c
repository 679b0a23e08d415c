/* The cache of encoded text: what is written comes back, a damaged or foreign one is not taken, and the key
 * changes with everything that the tokens depend on. */
#include "files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "formats/tokens.h"

enum { N = 300000 };

static const struct zn_cache_key key = {1, 2};

static void fill(int32_t *ids, uint8_t *counts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)(i * 7 % 70000);
        counts[i] = i % 3 == 0 || (i / 1000) % 2 == 1;
    }
}

/* In pieces of many lengths, so that they end at every bit. */
static struct zn_token_cache write_cache(const char *folder, int64_t vocab_size)
{
    static int32_t ids[N];
    static uint8_t counts[N];
    zn_cache_writer *writer;
    struct zn_token_cache cache;
    fill(ids, counts, N);
    for (size_t i = 0; vocab_size <= 65536 && i < N; i++)
        ids[i] %= 65536;
    OK(zn_cache_writer_create(folder, &key, ZN_CACHE_DOCUMENTS, vocab_size, &writer));
    for (size_t at = 0, n = 0; at < N; at += n) {
        n = (n * 3 + 1) % 2003;
        n = n < N - at ? n : N - at;
        OK(zn_cache_writer_append(writer, ids + at, counts + at, n));
    }
    OK(zn_cache_writer_finish(writer, &cache));
    zn_cache_writer_destroy(writer);
    return cache;
}

static void check_cache(struct zn_token_cache cache, int64_t vocab_size)
{
    static int32_t ids[N], back[N];
    static uint8_t counts[N], counts_back[N];
    const struct zn_token_source_options options = {.vocab_size = vocab_size, .end_of_text = -1};
    zn_token_source *source;
    fill(ids, counts, N);
    int64_t n_counting = 0;
    for (size_t i = 0; i < N; i++)
        n_counting += counts[i];
    assert_int_equal(cache.n_counting, n_counting);
    OK(zn_tokens_create(&options, &source));
    OK(zn_tokens_add_cache(source, "rows.jsonl", &cache));
    assert_int_equal(zn_tokens_total(source), N);
    static const struct {
        int64_t first, n;
    } ranges[] = {{0, N}, {0, 1}, {7, 9}, {N - 1, 1}, {131071, 3}, {12345, 100001}, {N, 0}};
    for (size_t r = 0; r < COUNT(ranges); r++) {
        OK(zn_tokens_read(source, ranges[r].first, ranges[r].n, back));
        OK(zn_tokens_read_counts(source, ranges[r].first, ranges[r].n, counts_back));
        assert_memory_equal(counts_back, counts + ranges[r].first, (size_t)ranges[r].n);
        for (int64_t i = 0; i < ranges[r].n; i++) {
            int32_t id = ids[ranges[r].first + i];
            assert_int_equal(back[i], vocab_size <= 65536 ? id % 65536 : id);
        }
    }
    zn_tokens_close(source);
}

static void what_is_written_comes_back(void **state)
{
    (void)state;
    bool found = true;
    struct zn_token_cache cache;
    OK(zn_token_cache_open(in_folder("wide"), &key, ZN_CACHE_DOCUMENTS, &cache, &found));
    assert_false(found);
    check_cache(write_cache(in_folder("wide"), 100000), 100000);
    OK(zn_token_cache_open(in_folder("wide"), &key, ZN_CACHE_DOCUMENTS, &cache, &found));
    assert_true(found);
    check_cache(cache, 100000);
    check_cache(write_cache(in_folder("narrow"), 65536), 65536);
    assert_int_equal(n_entries(in_folder("narrow")), 2);
}

/* Without a folder nothing is left behind, not even for a moment that a crash could find. */
static void without_a_folder_nothing_is_left(void **state)
{
    (void)state;
    OK(zn_folder_create(in_folder("tmp")));
    setenv("TMPDIR", in_folder("tmp"), 1);
    struct zn_token_cache cache = write_cache(NULL, 100000);
    assert_int_equal(n_entries(in_folder("tmp")), 0);
    check_cache(cache, 100000);
    setenv("TMPDIR", in_folder("gone"), 1);
    zn_cache_writer *writer = NULL;
    FAILS(zn_cache_writer_create(NULL, &key, ZN_CACHE_DOCUMENTS, 10, &writer), ZN_ERR_IO, in_folder("gone"),
          "cannot make a temporary file");
    unsetenv("TMPDIR");
}

static bool is_found(const char *folder, const struct zn_cache_key *k)
{
    bool found;
    struct zn_token_cache cache;
    OK(zn_token_cache_open(folder, k, ZN_CACHE_DOCUMENTS, &cache, &found));
    if (found)
        zn_token_cache_close(&cache);
    return found;
}

/* A cache that does not fit is made anew, never used. */
static void damaged_caches_are_not_taken(void **state)
{
    (void)state;
    char bin[256], mask[256];
    const char *folder = in_folder("damaged");
    snprintf(bin, sizeof bin, "%s/00000000000000020000000000000001.bin", folder);
    snprintf(mask, sizeof mask, "%s/00000000000000020000000000000001.mask", folder);
    for (int damage = 0; damage < 6; damage++) {
        struct zn_token_cache cache = write_cache(folder, 100000);
        zn_token_cache_close(&cache);
        assert_true(is_found(folder, &key));
        if (damage == 0)
            assert_int_equal(truncate(bin, 1024), 0);
        else if (damage == 1)
            assert_int_equal(truncate(mask, 1000), 0);
        else if (damage == 2)
            assert_int_equal(remove(mask), 0);
        else if (damage == 3)
            assert_int_equal(remove(bin), 0);
        else {
            int fd = open(damage == 4 ? mask : bin, O_WRONLY);
            assert_int_equal(pwrite(fd, "\1\2\3\4\5\6\7\10", 8, 4), 8);
            close(fd);
        }
        assert_false(is_found(folder, &key));
    }
    struct zn_token_cache cache = write_cache(folder, 100000);
    zn_token_cache_close(&cache);
    assert_false(is_found(folder, &(struct zn_cache_key){1, 3}));
}

/* A writer that is given up leaves no file. */
static void given_up_writers_leave_nothing(void **state)
{
    (void)state;
    zn_cache_writer *writer;
    OK(zn_cache_writer_create(in_folder("given-up"), &key, ZN_CACHE_DOCUMENTS, 10, &writer));
    OK(zn_cache_writer_append(writer, (const int32_t[]){1, 2}, (const uint8_t[]){0, 1}, 2));
    FAILS(zn_cache_writer_append(writer, (const int32_t[]){10}, (const uint8_t[]){1}, 1), ZN_ERR_INPUT, "id 10",
          "vocabulary of 10");
    zn_cache_writer_destroy(writer);
    assert_int_equal(n_entries(in_folder("given-up")), 0);
}

static void keys_change_with_what_matters(void **state)
{
    (void)state;
    OK(zn_folder_create(in_folder("model")));
    make_text("model/tokenizer.json", "{}");
    char a[256], b[256];
    snprintf(a, sizeof a, "%s", make_text("a.txt", "one"));
    snprintf(b, sizeof b, "%s", make_text("b.jsonl", "two"));
    struct zn_data_file files[] = {{a, ZN_DATA_TEXT}, {b, ZN_DATA_JSONL}};
    struct zn_cache_options options = {.model_folder = in_folder("model"), .vocab_size = 100, .end_of_text = 0};
    struct zn_cache_key keys[16];
    size_t n = 0;
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    struct zn_cache_key same;
    OK(zn_cache_key_of(&options, files, 2, &same));
    assert_memory_equal(&same, &keys[0], sizeof same);
    OK(zn_cache_key_of(&options, files, 1, &keys[n++]));
    OK(zn_cache_key_of(&options, files + 1, 1, &keys[n++]));
    OK(zn_cache_key_of(&options, (struct zn_data_file[]){files[1], files[0]}, 2, &keys[n++]));
    options.vocab_size = 101;
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    options.end_of_text = -1;
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    make_text("model/tokenizer.json", "{ }");
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    make_text("model/chat_template.jinja", "x");
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    options.bytes = true;
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    const struct timespec times[2] = {{1000, 5}, {1000, 5}};
    assert_int_equal(utimensat(AT_FDCWD, a, times, 0), 0);
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    make_text("a.txt", "three");
    assert_int_equal(utimensat(AT_FDCWD, a, times, 0), 0);
    OK(zn_cache_key_of(&options, files, 2, &keys[n++]));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(&keys[i], &keys[k], sizeof keys[0]);
    files[0].path = (char *)(uintptr_t)in_folder("gone.txt");
    FAILS(zn_cache_key_of(&options, files, 2, &same), ZN_ERR_IO, "gone.txt", "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(without_a_folder_nothing_is_left),
        cmocka_unit_test(damaged_caches_are_not_taken),
        cmocka_unit_test(given_up_writers_leave_nothing),
        cmocka_unit_test(keys_change_with_what_matters),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
