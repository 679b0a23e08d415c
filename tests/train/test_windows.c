/* Rows as examples: in windows each is whole and alone, every target that counts is there once, and a step over packed
 * examples has the gradient of the examples one by one. */
#include "files.h"

#include <math.h>

#include "formats/safetensors.h"
#include "train/batch.h"
#include "zinc/train.h"

#define FOLDERS ZN_TEST_DATA "/parity/"
#define MODEL FOLDERS "llama3"

enum { N_ROWS = 23 };

/* Prompts and answers of letters that the fixtures' vocabulary of 101 holds, of many lengths. */
static const char *make_rows(const char *name)
{
    char text[16 * 1024], *to = text;
    for (int i = 0; i < N_ROWS; i++) {
        to += sprintf(to, "{\"prompt\": \"");
        for (int k = 0; k <= i * 5 % 17; k++)
            *to++ = (char)('A' + (i * 7 + k * 3) % 26);
        to += sprintf(to, "\", \"completion\": \"");
        for (int k = 0; k <= i * 11 % 29; k++)
            *to++ = (char)('A' + (i * 5 + k * 9) % 26);
        to += sprintf(to, "\"}\n");
    }
    return make_text(name, text);
}

/* Data of the model, opened. */
struct world {
    zn_clock clock;
    zn_comm *comm;
    struct zn_run run;
    struct zn_data data;
    int n_notes;
    char note[512];
};

static void hear(void *self, const char *text)
{
    struct world *w = self;
    snprintf(w->note, sizeof w->note, "%s", text);
    w->n_notes++;
}

static void open_world_of(struct world *w, const char *const *paths, size_t n_paths, zn_packing packing, bool pairs)
{
    int64_t seq_len = 0;
    *w = (struct world){0};
    zn_clock_init_real(&w->clock);
    OK(zn_comm_create_self(&w->clock, &w->comm));
    zn_run_init(&w->run, w->comm, &(struct zn_train_listener){.self = w, .note = hear});
    OK(zn_run_open_model(&w->run, MODEL, false, &seq_len));
    OK(zn_run_measure(&w->run, 1, 0));
    w->run.byte_tokenizer = true;
    w->run.rows.pairs = pairs;
    const struct zn_data_options options = {
        .folder = MODEL, .paths = paths, .n_paths = n_paths, .may_encode = true, .packing = packing};
    OK(zn_run_open_data(&w->run, &options, &w->data));
}

static void open_world(struct world *w, const char *const *paths, size_t n_paths, zn_packing packing)
{
    open_world_of(w, paths, n_paths, packing, false);
}

static void close_world(struct world *w)
{
    zn_data_close(&w->data);
    zn_run_fini(&w->run);
    zn_comm_destroy(w->comm);
}

static zn_windows *new_windows(struct world *w, int64_t seq_len, zn_packing packing)
{
    zn_windows *windows = NULL;
    OK(zn_windows_create(&w->run, &w->data,
                         &(struct zn_windows_options){.seq_len = seq_len, .packing = packing, .max_seq_len = 256, .what = "--data"},
                         &windows));
    return windows;
}

/* Finds the example that a run of a row is, as prompt and answer. */
static int which_row(const int32_t *ids, const int32_t *targets, int64_t n)
{
    for (int i = 0; i < N_ROWS; i++) {
        int n_prompt = i * 5 % 17 + 1, n_answer = i * 11 % 29 + 1, k = 0;
        if (n_prompt + n_answer - 1 != n)
            continue;
        for (; k < n; k++) {
            int id = k < n_prompt ? 'A' + (i * 7 + k * 3) % 26 : 'A' + (i * 5 + (k - n_prompt) * 9) % 26;
            int target = k + 1 < n_prompt ? -1 : 'A' + (i * 5 + (k + 1 - n_prompt) * 9) % 26;
            if (ids[k] != id || targets[k] != target)
                break;
        }
        if (k == n)
            return i;
    }
    return -1;
}

/* Every row of every window is whole examples, each with positions from 0, and padding; every example is there once. */
static void check_windows(const zn_windows *windows, int64_t seq_len)
{
    bool seen[N_ROWS] = {false};
    struct zn_host_batch batch;
    OK(zn_host_batch_init(&batch, 1, seq_len));
    for (int64_t w = 0; w < zn_windows_n(windows); w++) {
        OK(zn_host_batch_fill(&batch, windows, &w));
        int64_t at = 0, n_tokens = 0;
        for (int64_t end; at < batch.seq_len; at = end) {
            assert_int_equal(batch.position_ids[at], 0);
            for (end = at + 1; end < batch.seq_len && batch.position_ids[end] != 0; end++)
                assert_int_equal(batch.position_ids[end], end - at);
            if (end == at + 1 && batch.targets[at] < 0)
                continue; /* padding */
            int row = which_row(batch.ids + at, batch.targets + at, end - at);
            assert_true(row >= 0 && !seen[row]);
            seen[row] = true;
            n_tokens += end - at;
        }
        assert_int_equal(batch.n_tokens, n_tokens);
    }
    for (int i = 0; i < N_ROWS; i++)
        assert_true(seen[i]);
    assert_int_equal(zn_windows_n_examples(windows), N_ROWS);
    zn_host_batch_fini(&batch);
}

static void examples_are_whole_and_there_once(void **state)
{
    (void)state;
    const char *rows = make_rows("rows.jsonl");
    static const int64_t times[] = {45, 64, 100, 256};
    for (size_t i = 0; i < COUNT(times); i++)
        for (zn_packing packing = ZN_PACKING_BEST_FIT; packing <= ZN_PACKING_NONE; packing++) {
            struct world w;
            open_world(&w, &rows, 1, packing);
            zn_windows *windows = new_windows(&w, times[i], packing);
            check_windows(windows, times[i]);
            assert_int_equal(w.n_notes, 0);
            if (packing == ZN_PACKING_NONE)
                assert_int_equal(zn_windows_n(windows), N_ROWS);
            else
                assert_true(zn_windows_n(windows) < N_ROWS / 2 + 4);
            zn_windows_destroy(windows);
            close_world(&w);
        }
}

static void long_examples_are_refused_or_cut(void **state)
{
    (void)state;
    const char *rows = make_rows("long.jsonl");
    struct world w;
    zn_windows *windows = NULL;
    open_world(&w, &rows, 1, ZN_PACKING_BEST_FIT);
    struct zn_windows_options options = {.seq_len = 20, .max_seq_len = 256, .what = "--data"};
    FAILS(zn_windows_create(&w.run, &w.data, &options, &windows), ZN_ERR_INPUT, "of 23 examples are too long for --seq-len 20",
          "--truncate-rows");
    check_message("give --seq-len", "the longest has");
    options.max_seq_len = 20;
    FAILS(zn_windows_create(&w.run, &w.data, &options, &windows), ZN_ERR_INPUT, "the model takes windows of at most 20",
          "--truncate-rows");
    options.truncate = true;
    OK(zn_windows_create(&w.run, &w.data, &options, &windows));
    assert_int_equal(w.n_notes, 1);
    assert_non_null(strstr(w.note, "examples are cut to 21 tokens"));
    struct zn_host_batch batch;
    OK(zn_host_batch_init(&batch, 1, 20));
    for (int64_t i = 0; i < zn_windows_n(windows); i++)
        OK(zn_host_batch_fill(&batch, windows, &i));
    zn_host_batch_fini(&batch);
    zn_windows_destroy(windows);
    close_world(&w);
}

static void examples_without_a_target_are_left_out(void **state)
{
    (void)state;
    const char *rows = make_text("empty.jsonl", "{\"prompt\": \"ABC\", \"completion\": \"\"}\n"
                                 "{\"prompt\": \"AB\", \"completion\": \"CD\"}\n{\"prompt\": \"\", \"completion\": \"A\"}\n");
    struct world w;
    open_world(&w, &rows, 1, ZN_PACKING_BEST_FIT);
    zn_windows *windows = new_windows(&w, 16, ZN_PACKING_BEST_FIT);
    assert_int_equal(zn_windows_n_examples(windows), 1); /* a token alone has nothing before it */
    assert_non_null(strstr(w.note, "2 of 3 examples have no target that counts and are left out"));
    zn_windows_destroy(windows);
    close_world(&w);
    rows = make_text("none.jsonl", "{\"prompt\": \"ABC\", \"completion\": \"\"}\n");
    open_world(&w, &rows, 1, ZN_PACKING_BEST_FIT);
    FAILS(zn_windows_create(&w.run, &w.data, &(struct zn_windows_options){.seq_len = 16, .what = "--eval-data"}, &windows),
          ZN_ERR_INPUT, "--eval-data: none of the 1 examples", "completions do");
    close_world(&w);
}

/* ---- Pairs ---- */

enum { N_PAIRS = 19 };

/* Row i has a prompt of its own letter, and answers of two more. */
static const char *make_pairs(const char *name)
{
    char text[16 * 1024], *to = text;
    for (int i = 0; i < N_PAIRS; i++) {
        to += sprintf(to, "{\"prompt\": \"%c%c\", \"chosen\": \"", 'A' + i, 'A' + i);
        for (int k = 0; k <= i * 3 % 7; k++)
            *to++ = 'Y';
        to += sprintf(to, "\", \"rejected\": \"");
        for (int k = 0; k <= i * 5 % 11; k++)
            *to++ = 'Z';
        to += sprintf(to, "\"}\n");
    }
    return make_text(name, text);
}

/* Of each pair both answers are in one window, the chosen one first, with numbers that follow one another through the batch. */
static void check_pairs(const zn_windows *windows, int64_t seq_len)
{
    bool seen[N_PAIRS] = {false};
    struct zn_host_batch batch;
    OK(zn_host_batch_init(&batch, 2, seq_len));
    for (int64_t w = 0; w < zn_windows_n(windows); w += 2) {
        OK(zn_host_batch_fill(&batch, windows, (const int64_t[]){w, w + 1 < zn_windows_n(windows) ? w + 1 : -1}));
        int32_t expected = 0;
        for (int64_t at = 0, end; at < 2 * batch.seq_len; at = end) {
            int32_t sequence = batch.sequences[at];
            for (end = at + 1; end % batch.seq_len != 0 && batch.sequences[end] == sequence; end++)
                ;
            if (sequence < 0)
                continue;
            int pair = batch.ids[at] - 'A', n_targets = 0, length = 1 + (sequence % 2 ? pair * 5 % 11 : pair * 3 % 7);
            assert_int_equal(sequence, expected++);
            assert_int_equal(end - at, length + 1);
            if (sequence % 2)
                assert_int_equal(batch.ids[at - 1] == 'Y' || batch.ids[at - 1] == 'A' + pair, 1); /* behind its other answer */
            for (int64_t k = at; k < end; k++)
                n_targets += batch.targets[k] == (sequence % 2 ? 'Z' : 'Y');
            assert_int_equal(n_targets, length);
            assert_true(sequence % 2 ? seen[pair] : !seen[pair]);
            seen[pair] = true;
        }
        assert_int_equal(batch.n_losses, expected / 2);
    }
    for (int i = 0; i < N_PAIRS; i++)
        assert_true(seen[i]);
    zn_host_batch_fini(&batch);
}

static void pairs_stay_together(void **state)
{
    (void)state;
    const char *rows = make_pairs("pairs.jsonl");
    static const int64_t times[] = {24, 40, 100};
    for (size_t i = 0; i < COUNT(times); i++)
        for (zn_packing packing = ZN_PACKING_BEST_FIT; packing <= ZN_PACKING_NONE; packing++) {
            struct world w;
            open_world_of(&w, &rows, 1, packing, true);
            zn_windows *windows = new_windows(&w, times[i], packing);
            check_pairs(windows, times[i]);
            assert_int_equal(zn_windows_n_examples(windows), N_PAIRS);
            if (packing == ZN_PACKING_NONE)
                assert_int_equal(zn_windows_n(windows), N_PAIRS);
            zn_windows_destroy(windows);
            close_world(&w);
        }
    struct world w;
    zn_windows *windows = NULL;
    open_world_of(&w, &rows, 1, ZN_PACKING_BEST_FIT, true);
    FAILS(zn_windows_create(&w.run, &w.data, &(struct zn_windows_options){.seq_len = 12, .max_seq_len = 256, .what = "--data"}, &windows),
          ZN_ERR_INPUT, "of 19 pairs are too long for --seq-len 12", "give --seq-len 20");
    close_world(&w);
}

/* Documents are a stream before the examples, with positions from 0 in each window. */
static void documents_and_examples_share_a_list(void **state)
{
    (void)state;
    char text[512] = "{\"text\": \"";
    for (int i = 0; i < 70; i++)
        strcat(text, "B");
    strcat(text, "\"}\n{\"prompt\": \"AA\", \"completion\": \"AAA\"}\n{\"text\": \"CCCCCCCCCC\"}\n");
    const char *paths[] = {make_text("mixed.jsonl", text), FOLDERS "tokens.bin"};
    struct world w;
    open_world(&w, paths, 2, ZN_PACKING_BEST_FIT);
    int64_t n_tokens = zn_tokens_total(w.data.stream);
    assert_true(n_tokens > 80);
    zn_windows *windows = new_windows(&w, 40, ZN_PACKING_BEST_FIT);
    assert_int_equal(zn_windows_n(windows), (n_tokens - 1) / 40 + 1);
    struct zn_host_batch batch;
    OK(zn_host_batch_init(&batch, 1, 40));
    OK(zn_host_batch_fill(&batch, windows, (const int64_t[]){1}));
    for (int t = 0; t < 40; t++) {
        assert_int_equal(batch.position_ids[t], t);
        assert_int_equal(batch.ids[t], t < 30 ? 'B' : 'C');
    }
    OK(zn_host_batch_fill(&batch, windows, (const int64_t[]){zn_windows_n(windows) - 1}));
    assert_int_equal(batch.n_tokens, 4);
    assert_int_equal(batch.n_targets, 3);
    zn_host_batch_fini(&batch);
    zn_windows_destroy(windows);
    close_world(&w);
    open_world(&w, paths, 2, ZN_PACKING_STREAM); /* then all of it is one row of tokens */
    assert_int_equal(zn_tokens_total(w.data.stream), n_tokens + 5);
    close_world(&w);
}

/* Another token, another mask and another border are other data. */
static void the_hash_is_of_all(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"prompt\": \"AB\", \"completion\": \"CD\"}\n{\"prompt\": \"A\", \"completion\": \"B\"}\n",
        "{\"prompt\": \"AB\", \"completion\": \"CA\"}\n{\"prompt\": \"A\", \"completion\": \"B\"}\n",
        "{\"prompt\": \"A\", \"completion\": \"BCD\"}\n{\"prompt\": \"A\", \"completion\": \"B\"}\n",
        "{\"prompt\": \"AB\", \"completion\": \"C\"}\n{\"prompt\": \"DA\", \"completion\": \"B\"}\n",
    };
    uint64_t hashes[COUNT(texts)];
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct world w;
        const char *rows = make_text("hashed.jsonl", texts[i]);
        open_world(&w, &rows, 1, ZN_PACKING_BEST_FIT);
        hashes[i] = w.data.hash;
        close_world(&w);
        for (size_t k = 0; k < i; k++)
            assert_true(hashes[k] != hashes[i]);
    }
}

/* ---- Gradients ---- */

/* One step of plain descent: the weights are then those before minus the gradient. */
static void train_once(const char *model, int64_t seq_len, const char *rows, const char *packing, int64_t n_windows,
                       const char *output)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, model);
    ZN_SET_WORDS(o, data, &rows, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, output_dtype, "fp32");
    ZN_SET(o, precision, "fp32");
    ZN_SET(o, steps, 1);
    ZN_SET(o, accumulate, n_windows);
    ZN_SET(o, seq_len, seq_len);
    ZN_SET(o, truncate_rows, true); /* GPT-2 has 40 positions */
    if (packing)
        ZN_SET(o, packing, packing);
    ZN_SET(o, optimizer, "sgd");
    ZN_SET(o, lr, 1);
    ZN_SET(o, clip, 0);
    ZN_SET(o, threads, 1);
    ZN_SET(o, keep, 0);
    ZN_SET(o, byte_tokenizer, true);
    OK(zn_train(&o));
}

static void compare_weights(const char *model, const char *a, const char *b)
{
    char path[2][512];
    zn_st_file *files[2];
    double worst = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/model.safetensors", i ? b : a);
        OK(zn_st_open(path[i], &files[i]));
    }
    for (size_t i = 0; i < zn_st_n_tensors(files[0]); i++) {
        const struct zn_st_tensor *x = zn_st_tensor_at(files[0], i), *y = zn_st_find(files[1], x->name);
        size_t n = (size_t)x->n_bytes / sizeof(float);
        float *values[2] = {malloc(x->n_bytes), malloc(x->n_bytes)};
        assert_non_null(y);
        OK(zn_st_read_raw(files[0], x, 0, x->n_bytes, values[0]));
        OK(zn_st_read_raw(files[1], y, 0, y->n_bytes, values[1]));
        double most = 0;
        for (size_t k = 0; k < n; k++)
            most = fmax(most, fabs((double)values[0][k]));
        for (size_t k = 0; k < n; k++) {
            double off = fabs((double)values[0][k] - (double)values[1][k]) / (1 + most);
            worst = fmax(worst, off);
            if (!(off <= 5e-6))
                fail_msg("%s: %s[%zu] is %.9g packed, %.9g alone", model, x->name, k, (double)values[0][k],
                         (double)values[1][k]);
        }
        free(values[0]);
        free(values[1]);
    }
    print_message("%s: weights after a step differ by at most %.2g\n", model, worst);
    zn_st_close(files[0]);
    zn_st_close(files[1]);
}

/* Learned positions, rotary ones, sliding windows, biases. */
static void packed_examples_have_the_gradient_of_each_alone(void **state)
{
    (void)state;
    static const char *const models[] = {FOLDERS "gpt2", FOLDERS "llama3", FOLDERS "qwen2-window", FOLDERS "qwen3",
                                         FOLDERS "mistral"};
    char *rows = strdup(make_rows("step.jsonl")); /* in_folder is asked often below */
    for (size_t i = 0; i < COUNT(models); i++) {
        struct world w;
        zn_windows *windows = NULL;
        int64_t seq_len = i == 0 ? 40 : 120;
        open_world(&w, (const char *const *)&rows, 1, ZN_PACKING_BEST_FIT);
        OK(zn_windows_create(&w.run, &w.data, &(struct zn_windows_options){.seq_len = seq_len, .truncate = true}, &windows));
        int64_t n_windows = zn_windows_n(windows);
        zn_windows_destroy(windows);
        close_world(&w);
        train_once(models[i], seq_len, rows, "best-fit", n_windows, in_folder("packed"));
        train_once(models[i], seq_len, rows, "none", N_ROWS, in_folder("alone"));
        compare_weights(models[i], in_folder("packed"), in_folder("alone"));
    }
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_whole_and_there_once),
        cmocka_unit_test(long_examples_are_refused_or_cut),
        cmocka_unit_test(examples_without_a_target_are_left_out),
        cmocka_unit_test(pairs_stay_together),
        cmocka_unit_test(documents_and_examples_share_a_list),
        cmocka_unit_test(the_hash_is_of_all),
        cmocka_unit_test(packed_examples_have_the_gradient_of_each_alone),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
