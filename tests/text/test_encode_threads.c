/* Files to tokens on one, two and three threads: the same ids and counts, and the same failure. */
#include "files.h"

#include "text/encode.h"
#include "sanitized.h"

enum { N_ROWS = 6000, MAX_THREADS = 3 };

/* Three pieces, and what is longer where that does not take minutes. Under a sanitizer one and three threads. */
#if IS_SANITIZED
enum { LONG_TEXT = 2200000, LONG_LINE = 2000000, MORE_THREADS = 3 };
#else
enum { LONG_TEXT = 3500000, LONG_LINE = ZN_JSONL_MAX_LINE, MORE_THREADS = 2 };
#endif

static zn_tokenizer *open_tokenizer(const char *name)
{
    zn_tokenizer *tokenizer;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/chat/%s", ZN_TEST_DATA, name);
    OK(zn_tokenizer_open(folder, &tokenizer));
    return tokenizer;
}

static zn_encoder *open_encoder(const zn_tokenizer *tokenizer, int n_threads)
{
    zn_encoder *encoder;
    const struct zn_encoder_options options = {.tokenizer = tokenizer, .end_of_text = 2, .n_threads = n_threads};
    OK(zn_encoder_create(&options, &encoder));
    return encoder;
}

/* ---- Data ---- */

static uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Words in no order, runs of spaces and line ends, letters of several bytes, a special token. With `quoted` as a JSON
 * string has it. The text is the caller's to free. */
static char *make_words(size_t n, uint64_t seed, bool quoted)
{
    static const char *const words[] = {"the", "capital", " of", "France,", "  ", "\n", "\n\n", "is.\n", "\tHow", "many",
                                        "spiders", "—", "Grüße", "世界", "8", "<|im_end|>", "</s>", "!", "a b"};
    char *text = malloc(2 * n + 64);
    size_t at = 0;
    assert_non_null(text);
    while (at < n) {
        for (const char *c = words[random_next(&seed) % COUNT(words)]; *c; c++) {
            bool escaped = quoted && (unsigned char)*c < 0x20;
            text[at] = escaped ? '\\' : *c;
            at++;
            if (escaped)
                text[at++] = *c == '\n' ? 'n' : 't';
        }
        if (random_next(&seed) % 8 < 5)
            text[at++] = ' ';
    }
    text[at] = '\0';
    return text;
}

static const char *make_text_file(const char *name, size_t n)
{
    char *text = make_words(n, n, false);
    const char *path = make_file(name, text, n);
    free(text);
    return path;
}

/* Rows of all kinds and lengths, empty lines, and at `wrong` and later rows that are none. */
static const char *make_rows_file(const char *name, int n_rows, int wrong)
{
    char *all = malloc((size_t)n_rows * 700 + 4096);
    size_t at = 0;
    uint64_t random = 7;
    assert_non_null(all);
    for (int i = 1; i <= n_rows; i++) {
        char *text = make_words(1 + random_next(&random) % 150, (uint64_t)i, true);
        if (wrong > 0 && i >= wrong && (i - wrong) % 500 == 0)
            at += (size_t)sprintf(all + at, "{\"text\": %d}\n", i);
        else if (i % 50 == 0)
            all[at++] = '\n';
        else if (i % 3 == 0)
            at += (size_t)sprintf(all + at, "{\"prompt\":\"%s\",\"completion\":\" Yes.\"}\n", text);
        else if (i % 3 == 1)
            at += (size_t)sprintf(all + at,
                                  "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"},"
                                  "{\"role\":\"assistant\",\"content\":\"the capital\"}]}\n",
                                  text);
        else
            at += (size_t)sprintf(all + at, "{\"text\":\"%s\"}\n", text);
        free(text);
    }
    const char *path = make_file(name, all, at);
    free(all);
    return path;
}

/* ---- Tokens ---- */

struct collected {
    int32_t *ids;
    uint8_t *counts;
    size_t n, n_puts, fails_at;
    uint64_t n_bytes;
    struct collected *examples; /* NULL: they go among the documents */
};

static zn_status collect(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct collected *c = self;
    if (++c->n_puts == c->fails_at)
        return zn_fail(ZN_ERR_IO, "the disk is full");
    c->ids = realloc(c->ids, (c->n + n) * sizeof *ids);
    c->counts = realloc(c->counts, c->n + n);
    memcpy(c->ids + c->n, ids, n * sizeof *ids);
    memcpy(c->counts + c->n, counts, n);
    c->n += n;
    return ZN_OK;
}

static zn_status collect_example(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct collected *c = self;
    return collect(c->examples ? c->examples : c, ids, counts, n);
}

static void note_progress(void *self, uint64_t n_bytes)
{
    struct collected *c = self;
    assert_true(n_bytes >= c->n_bytes);
    c->n_bytes = n_bytes;
}

static void collected_fini(struct collected *c)
{
    free(c->ids);
    free(c->counts);
    *c = (struct collected){0};
}

static zn_status encode(const zn_tokenizer *tokenizer, int n_threads, const struct zn_data_file *files, size_t n_files,
                        struct collected *into)
{
    zn_encoder *encoder = open_encoder(tokenizer, n_threads);
    zn_status status =
        zn_encode_files(encoder, files, n_files,
                        &(struct zn_token_sink){into, collect, collect_example, note_progress});
    zn_encoder_destroy(encoder);
    return status;
}

static void same_tokens(const struct collected *one, const struct collected *more, int n_threads)
{
    for (size_t i = 0; i < one->n && i < more->n; i++)
        if (one->ids[i] != more->ids[i] || one->counts[i] != more->counts[i])
            fail_msg("token %zu of %d threads is %d, of one thread %d", i, n_threads, more->ids[i], one->ids[i]);
    assert_int_equal(one->n, more->n);
    assert_int_equal(one->n_bytes, more->n_bytes);
}

static void check_tokens(const struct zn_document *document, const struct collected *found)
{
    assert_true(found->n > 0);
    assert_int_equal(document->ids.n, found->n);
    assert_memory_equal(document->ids.id, found->ids, found->n * sizeof found->ids[0]);
    assert_memory_equal(document->counts, found->counts, found->n);
}

/* Row by row, as zn_encode_row gives them. */
static void check_rows(const zn_tokenizer *tokenizer, const char *path, const struct collected *found)
{
    zn_encoder *encoder = open_encoder(tokenizer, 1);
    struct zn_document document = {0}, examples = {0};
    size_t n_examples = 0;
    zn_jsonl *rows;
    const struct zn_row *row;
    OK(zn_jsonl_open(path, NULL, &rows));
    for (;;) {
        OK(zn_jsonl_next(rows, &row));
        if (!row)
            break;
        OK(zn_encode_row(encoder, row, "here", zn_row_is_example(row) ? &examples : &document));
        n_examples += zn_row_is_example(row);
    }
    check_tokens(&document, found);
    assert_int_equal(found->examples ? found->examples->n_puts : 0, n_examples); /* each by itself */
    if (n_examples > 0)
        check_tokens(&examples, found->examples);
    zn_jsonl_close(rows);
    zn_document_fini(&document);
    zn_document_fini(&examples);
    zn_encoder_destroy(encoder);
}

/* Not under a sanitizer: tests of one thread do that. */
static void check_whole_text(const zn_tokenizer *tokenizer, const char *path, const struct collected *found)
{
    if (IS_SANITIZED)
        return;
    struct zn_ids whole = {0};
    char *text;
    size_t n;
    OK(zn_file_read(path, 1 << 24, &text, &n));
    OK(zn_tokenizer_encode(tokenizer, text, n, true, &whole));
    OK(zn_ids_add(&whole, 2));
    assert_int_equal(whole.n, found->n);
    assert_memory_equal(whole.id, found->ids, found->n * sizeof found->ids[0]);
    zn_ids_fini(&whole);
    free(text);
}

/* ---- Cases ---- */

static void check_threads(const zn_tokenizer *tokenizer, const struct zn_data_file *files, size_t n_files,
                          struct collected *one)
{
    OK(encode(tokenizer, 1, files, n_files, one));
    for (int n = MORE_THREADS; n <= MAX_THREADS; n++) {
        struct collected more = {0};
        OK(encode(tokenizer, n, files, n_files, &more));
        same_tokens(one, &more, n);
        collected_fini(&more);
    }
}

static void long_texts(void **state)
{
    (void)state;
    static const char *const names[] = {"bytes", "pieces"};
    const struct zn_data_file file = {(char *)make_text_file("long.txt", LONG_TEXT), ZN_DATA_TEXT};
    for (size_t i = 0; i < COUNT(names); i++) {
        zn_tokenizer *tokenizer = open_tokenizer(names[i]);
        struct collected one = {0};
        check_threads(tokenizer, &file, 1, &one);
        assert_true(one.n_puts > 2 && one.n_bytes == LONG_TEXT);
        check_whole_text(tokenizer, file.path, &one);
        collected_fini(&one);
        zn_tokenizer_close(tokenizer);
    }
}

static void rows_of_all_kinds(void **state)
{
    (void)state;
    zn_tokenizer *tokenizer = open_tokenizer("bytes");
    const struct zn_data_file file = {(char *)make_rows_file("rows.jsonl", N_ROWS, 0), ZN_DATA_JSONL};
    struct collected examples = {0}, one = {.examples = &examples};
    OK(encode(tokenizer, 1, &file, 1, &one));
    assert_true(one.n_puts > 2);
    check_rows(tokenizer, file.path, &one);
    collected_fini(&one);
    collected_fini(&examples);
    check_threads(tokenizer, &file, 1, &one);
    collected_fini(&one);
    zn_tokenizer_close(tokenizer);
}

static void many_files(void **state)
{
    (void)state;
    zn_tokenizer *tokenizer = open_tokenizer("bytes");
    char names[40][32];
    struct zn_data_file files[42];
    struct collected one = {0};
    for (size_t i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "%zu.txt", i);
        files[i] = (struct zn_data_file){strdup(make_text_file(names[i], i * i)), ZN_DATA_TEXT};
    }
    files[40] = (struct zn_data_file){strdup(make_rows_file("few.jsonl", 60, 0)), ZN_DATA_JSONL};
    files[41] = (struct zn_data_file){strdup(make_file("empty.jsonl", "", 0)), ZN_DATA_JSONL};
    check_threads(tokenizer, files, 42, &one);
    assert_int_equal(one.n_puts, 41 + 40); /* an empty text has its end, 40 of 60 rows are examples, a file without rows nothing */
    collected_fini(&one);
    for (size_t i = 0; i < 42; i++)
        free(files[i].path);
    zn_tokenizer_close(tokenizer);
}

/* Later rows are wrong, too, and their threads may come to them first. */
static void the_first_wrong_row_is_told(void **state)
{
    (void)state;
    zn_tokenizer *tokenizer = open_tokenizer("bytes");
    const struct zn_data_file file = {(char *)make_rows_file("wrong.jsonl", N_ROWS, 2711), ZN_DATA_JSONL};
    for (int n = 1; n <= MAX_THREADS; n += MORE_THREADS - 1) {
        struct collected found = {0};
        FAILS(encode(tokenizer, n, &file, 1, &found), ZN_ERR_INPUT, "wrong.jsonl:2711: ", "'text'");
        collected_fini(&found);
    }
    zn_tokenizer_close(tokenizer);
}

/* A file that is not there is told when all before it is encoded, and not when something before it is wrong. */
static void files_fail_in_their_order(void **state)
{
    (void)state;
    zn_tokenizer *tokenizer = open_tokenizer("bytes");
    char *gone = strdup(in_folder("gone.txt"));
    struct zn_data_file files[] = {{strdup(make_text_file("good.txt", IS_SANITIZED ? 300000 : 1200000)), ZN_DATA_TEXT},
                                   {strdup(make_rows_file("bad.jsonl", 10, 4)), ZN_DATA_JSONL},
                                   {gone, ZN_DATA_TEXT}};
    const struct zn_data_file without[] = {files[0], files[2]};
    for (int n = 1; n <= MAX_THREADS; n += MORE_THREADS - 1) {
        struct collected one = {0}, found = {0};
        OK(encode(tokenizer, n, files, 1, &one));
        FAILS(encode(tokenizer, n, without, 2, &found), ZN_ERR_IO, "gone.txt", "No such file");
        same_tokens(&one, &found, n);
        collected_fini(&found);
        FAILS(encode(tokenizer, n, files, 3, &found), ZN_ERR_INPUT, "bad.jsonl:4: ", "");
        same_tokens(&one, &found, n);
        collected_fini(&one);
        collected_fini(&found);
    }
    for (size_t i = 0; i < COUNT(files); i++)
        free(files[i].path);
    zn_tokenizer_close(tokenizer);
}

static void a_sink_that_fails_ends_it(void **state)
{
    (void)state;
    zn_tokenizer *tokenizer = open_tokenizer("bytes");
    const struct zn_data_file file = {(char *)make_text_file("sink.txt", LONG_TEXT), ZN_DATA_TEXT};
    for (int n = 1; n <= MAX_THREADS; n += MORE_THREADS - 1) {
        struct collected found = {.fails_at = 2};
        FAILS(encode(tokenizer, n, &file, 1, &found), ZN_ERR_IO, "the disk is full", "");
        assert_int_equal(found.n_puts, 2);
        collected_fini(&found);
    }
    zn_tokenizer_close(tokenizer);
}

/* Lines that do not fit into a block, one that is as long as a line may be, and one that is longer. As bytes. */
static void long_lines(void **state)
{
    (void)state;
    static const size_t sizes[] = {600000, 20, LONG_LINE, 300000};
    size_t at = 0;
    char *all = malloc(2 * (size_t)ZN_JSONL_MAX_LINE + 2000000);
    assert_non_null(all);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memset(all + at, ' ', sizes[i]);
        memcpy(all + at, "{\"text\":\"", 9);
        memcpy(all + at + sizes[i] - 2, "\"}", 2);
        at += sizes[i];
        all[at++] = '\n';
    }
    size_t whole = at;
    memset(all + at, 'x', ZN_JSONL_MAX_LINE + 1);
    at += ZN_JSONL_MAX_LINE + 1;
    struct collected one = {0};
    struct zn_data_file file = {strdup(make_file("lines.jsonl", all, whole)), ZN_DATA_JSONL};
    check_threads(NULL, &file, 1, &one);
    check_rows(NULL, file.path, &one);
    make_file("lines.jsonl", all, at);
    for (int n = MORE_THREADS; n <= MAX_THREADS; n++) {
        collected_fini(&one);
        FAILS(encode(NULL, n, &file, 1, &one), ZN_ERR_INPUT, "lines.jsonl:5: ", "more than the 16777216 bytes");
    }
    collected_fini(&one);
    free(file.path);
    free(all);
}

/* The only place to cut is further from the end of what was read than a piece is long. */
static void a_place_far_from_the_end(void **state)
{
    (void)state;
    enum { PIECE = 1024 * 1024, N = 4 * PIECE };
    zn_tokenizer *tokenizer = open_tokenizer("bytes");
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, '7', N);
    memcpy(text + PIECE - 2000, ".\nThe", 5);
    const struct zn_data_file file = {(char *)make_file("far.txt", text, N), ZN_DATA_TEXT};
    struct collected one = {0};
    check_threads(tokenizer, &file, 1, &one);
    check_whole_text(tokenizer, file.path, &one);
    collected_fini(&one);
    free(text);
    zn_tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_texts),
        cmocka_unit_test(rows_of_all_kinds),
        cmocka_unit_test(many_files),
        cmocka_unit_test(the_first_wrong_row_is_told),
        cmocka_unit_test(files_fail_in_their_order),
        cmocka_unit_test(a_sink_that_fails_ends_it),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(a_place_far_from_the_end),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
