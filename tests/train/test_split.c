/* --eval-split: every example and every document is in one of the two parts, whole, and which is what the permutation says. */
#include "files.h"

#include "formats/documents.h"
#include "train/batch.h"
#include "train/order.h"

#define FOLDERS ZN_TEST_DATA "/parity/"
#define MODEL FOLDERS "llama3"

enum { N_FILES = 12, N_ROWS = 30, T = 8 };

struct world {
    zn_clock clock;
    zn_comm *comm;
    struct zn_run run;
    struct zn_data data;
    struct zn_data_part part[2];
};

/* Token file i is a run of letter 'A' + i, of its own length: a document; row i has prompt and answer of its own. */
static char *paths[N_FILES + 1];

static int length_of(int i)
{
    return 5 + i * 7 % 13;
}

static void make_files(void)
{
    char text[64 * N_ROWS] = "", name[32];
    for (int i = 0; i < N_FILES; i++) {
        int32_t ids[32];
        for (int k = 0; k < length_of(i); k++)
            ids[k] = 'A' + i;
        snprintf(name, sizeof name, "%02d.bin", i);
        paths[i] = strdup(in_folder(name));
        OK(zn_tokens_write(paths[i], 101, ids, length_of(i)));
    }
    char *to = text;
    for (int i = 0; i < N_ROWS; i++)
        to += sprintf(to, "{\"prompt\": \"%c%c\", \"completion\": \"Z\"}\n", 'A' + i / 6, 'A' + i % 6);
    paths[N_FILES] = strdup(make_text("rows.jsonl", text));
}

static void free_files(void)
{
    for (int i = 0; i <= N_FILES; i++)
        free(paths[i]);
}

static void open_world(struct world *w, char *const *files, size_t n_files, zn_packing packing)
{
    int64_t seq_len = 0;
    *w = (struct world){0};
    zn_clock_init_real(&w->clock);
    OK(zn_comm_create_self(&w->clock, &w->comm));
    zn_run_init(&w->run, w->comm, &(struct zn_train_listener){0});
    OK(zn_run_open_model(&w->run, MODEL, false, &seq_len));
    OK(zn_run_measure(&w->run, 1, 0));
    w->run.byte_tokenizer = true;
    const struct zn_data_options options = {
        .folder = MODEL, .paths = (const char *const *)files, .n_paths = n_files, .may_encode = true, .packing = packing};
    OK(zn_run_open_data(&w->run, &options, &w->data));
}

static void close_world(struct world *w)
{
    zn_data_part_fini(&w->part[0]);
    zn_data_part_fini(&w->part[1]);
    zn_data_close(&w->data);
    zn_run_fini(&w->run);
    zn_comm_destroy(w->comm);
}

/* Whether item i of n is held out: it is among the last of the permutation. */
static bool should_be_held_out(const struct zn_split *split, int64_t n, int64_t n_held_out, int64_t i)
{
    const struct zn_order order = {.n_windows = n, .seed = split->seed, .shuffle = split->shuffle};
    for (int64_t k = n - n_held_out; k < n; k++)
        if (zn_order_window(&order, k) == i)
            return true;
    return false;
}

/* All tokens of the part's documents, by windows of one token. */
static int64_t read_documents(const struct zn_data_part *part, char *text)
{
    int64_t n = zn_data_part_n_tokens(part);
    for (int64_t i = 0; i < n; i++) {
        int32_t ids[2];
        uint8_t counts[2];
        OK(zn_data_part_window(part, i + 1 < n ? i : n - 2, 1, ids, counts));
        text[i] = (char)ids[i + 1 < n ? 0 : 1];
    }
    return n;
}

static void check_documents(struct world *w, const struct zn_split *split, int64_t n_held_out)
{
    char text[1024];
    for (int p = 0; p < 2; p++) {
        int64_t n = read_documents(&w->part[p], text), at = 0;
        for (int i = 0; i < N_FILES; i++) {
            if (should_be_held_out(split, N_FILES, n_held_out, i) != (p == 1))
                continue;
            for (int k = 0; k < length_of(i); k++)
                assert_int_equal(text[at + k], 'A' + i);
            at += length_of(i);
        }
        assert_int_equal(at, n);
        for (int64_t i = 0; i < (n - 1) / T; i++) { /* longer windows are cut from the same row of tokens */
            int32_t ids[T + 1];
            uint8_t counts[T + 1];
            OK(zn_data_part_window(&w->part[p], i, T, ids, counts));
            for (int k = 0; k <= T; k++) {
                assert_int_equal(ids[k], text[i * T + k]);
                assert_int_equal(counts[k], 1);
            }
        }
    }
}

/* The rows of all windows of the part, by their prompts. */
static void check_examples(struct world *w, const struct zn_split *split, int64_t n_held_out)
{
    for (int p = 0; p < 2; p++) {
        bool seen[N_ROWS] = {false};
        zn_windows *windows = NULL;
        struct zn_host_batch batch;
        OK(zn_windows_create(&w->run, &w->data,
                             &(struct zn_windows_options){.seq_len = T, .max_seq_len = 256, .what = "--data", .part = &w->part[p]},
                             &windows));
        OK(zn_host_batch_init(&batch, 1, T));
        assert_int_equal(zn_windows_n_examples(windows), p ? n_held_out : N_ROWS - n_held_out);
        for (int64_t i = zn_windows_n(windows) - zn_windows_n_packed(windows); i < zn_windows_n(windows); i++) {
            OK(zn_host_batch_fill(&batch, windows, &i));
            for (int k = 0; k + 1 < T; k++)
                if (batch.targets[k + 1] == 'Z' && batch.position_ids[k] == 0)
                    seen[(batch.ids[k] - 'A') * 6 + batch.ids[k + 1] - 'A'] = true;
        }
        for (int i = 0; i < N_ROWS; i++)
            assert_int_equal(seen[i], should_be_held_out(split, N_ROWS, n_held_out, i) == (p == 1));
        zn_host_batch_fini(&batch);
        zn_windows_destroy(windows);
    }
}

static void both_parts_are_all_of_it(void **state)
{
    (void)state;
    static const struct {
        struct zn_split split;
        int64_t n_documents, n_examples; /* held out: ⌈F·n⌉ */
    } cases[] = {{{0.25, 1, true}, 3, 8}, {{0.3, 7, true}, 4, 9}, {{0.1, 1, false}, 2, 3}, {{0.9, 3, true}, 11, 27}};
    make_files();
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world w;
        open_world(&w, paths, N_FILES + 1, ZN_PACKING_BEST_FIT);
        OK(zn_split_data(&w.data, &cases[i].split, &w.part[0], &w.part[1]));
        check_documents(&w, &cases[i].split, cases[i].n_documents);
        check_examples(&w, &cases[i].split, cases[i].n_examples);
        close_world(&w);
    }
    free_files();
}

/* With --packing stream. */
static void rows_of_a_stream_are_documents(void **state)
{
    (void)state;
    struct world w;
    make_files();
    open_world(&w, paths + N_FILES, 1, ZN_PACKING_STREAM);
    OK(zn_split_data(&w.data, &(struct zn_split){0.5, 1, true}, &w.part[0], &w.part[1]));
    char text[1024];
    assert_int_equal(zn_data_part_n_tokens(&w.part[0]), 3 * N_ROWS / 2);
    assert_int_equal(read_documents(&w.part[1], text), 3 * N_ROWS / 2);
    for (int i = 0; i < 3 * N_ROWS / 2; i++)
        assert_int_equal(text[i] == 'Z', i % 3 == 2);
    close_world(&w);
    free_files();
}

/* In a token file the end-of-text id ends a document. */
static void an_end_of_text_ends_a_document(void **state)
{
    (void)state;
    const int32_t ids[] = {1, 2, 9, 3, 9, 9, 4, 5, 6};
    const char *path = in_folder("documents.bin");
    zn_token_source *source;
    int64_t *first, n;
    OK(zn_tokens_write(path, 101, ids, COUNT(ids)));
    OK(zn_tokens_open(&path, 1, &(struct zn_token_source_options){.vocab_size = 101, .end_of_text = 9}, &source));
    OK(zn_documents_find(source, &first, &n));
    assert_int_equal(n, 4);
    static const int64_t expected[] = {0, 3, 5, 6};
    for (int i = 0; i < 4; i++)
        assert_int_equal(first[i], expected[i]);
    free(first);
    zn_tokens_close(source);
}

static void what_cannot_be_split_is_refused(void **state)
{
    (void)state;
    struct world w;
    make_files();
    open_world(&w, paths, 1, ZN_PACKING_BEST_FIT);
    FAILS(zn_split_data(&w.data, &(struct zn_split){0.1, 1, true}, &w.part[0], &w.part[1]), ZN_ERR_INPUT,
          "--eval-split 0.1: of 1 document none would be trained", "--eval-data");
    close_world(&w);
    open_world(&w, paths, 2, ZN_PACKING_BEST_FIT);
    OK(zn_split_data(&w.data, &(struct zn_split){0.1, 1, true}, &w.part[0], &w.part[1]));
    zn_windows *windows = NULL;
    FAILS(zn_windows_create(&w.run, &w.data, &(struct zn_windows_options){.seq_len = 64, .what = "--eval-split", .part = &w.part[1]},
                            &windows),
          ZN_ERR_INPUT, "too few for one window of length 64", "holds out");
    close_world(&w);
    free_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_parts_are_all_of_it),
        cmocka_unit_test(rows_of_a_stream_are_documents),
        cmocka_unit_test(an_end_of_text_ends_a_document),
        cmocka_unit_test(what_cannot_be_split_is_refused),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
