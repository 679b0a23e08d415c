/* Rows of every kind to tokens, what is told of them, and arrays of rows as the same rows in lines. */
#include "files.h"

#include "text/encode.h"

struct world {
    zn_tokenizer *tokenizer;
    zn_encoder *encoder;
};

static struct world open_folder(const char *folder, int n_threads)
{
    struct world w = {0};
    if (folder)
        OK(zn_tokenizer_open(folder, &w.tokenizer));
    const struct zn_encoder_options options = {.tokenizer = w.tokenizer, .end_of_text = folder ? 0 : 256,
                                               .n_threads = n_threads};
    OK(zn_encoder_create(&options, &w.encoder));
    return w;
}

static void close_world(struct world *w)
{
    zn_encoder_destroy(w->encoder);
    zn_tokenizer_close(w->tokenizer);
}

static const char *chatml(void)
{
    return ZN_TEST_DATA "/chat/bytes";
}

/* A folder with this chat template (NULL: none) beside the tokenizer of ChatML. */
static const char *folder_with(const char *template)
{
    static char folder[256];
    char path[512], *data;
    size_t n;
    snprintf(folder, sizeof folder, "%s", in_folder("folder"));
    OK(zn_folder_create(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", chatml());
    OK(zn_file_read(path, 1 << 24, &data, &n));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    OK(zn_file_write(path, data, n));
    free(data);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    static const char config[] = "{\"eos_token\": \"<|im_end|>\"}";
    OK(zn_file_write(path, config, strlen(config)));
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    remove(path);
    if (template)
        OK(zn_file_write(path, template, strlen(template)));
    return folder;
}

/* The text of the row's tokens, each run of those that count in [ ]. */
static void check_row(struct world *w, const struct zn_row *row, const char *expected)
{
    char found[2048] = "";
    struct zn_document document = {0};
    OK(zn_encode_row(w->encoder, row, "rows.jsonl:1", &document));
    for (size_t i = 0; i < document.ids.n; i++) {
        bool counts = document.counts[i], before = i > 0 && document.counts[i - 1];
        strcat(found, counts && !before ? "[" : !counts && before ? "]" : "");
        if (w->tokenizer) {
            char *text;
            size_t n;
            OK(zn_tokenizer_decode(w->tokenizer, &document.ids.id[i], 1, false, &text, &n));
            strcat(found, text);
            free(text);
        } else {
            const char byte[2] = {(char)document.ids.id[i], '\0'};
            strcat(found, document.ids.id[i] == 256 ? "<end>" : byte);
        }
    }
    strcat(found, document.n_counts > 0 && document.counts[document.n_counts - 1] ? "]" : "");
    assert_string_equal(found, expected);
    zn_document_fini(&document);
}

static const struct zn_chat_message talk[] = {{"user", "Hi"}, {"assistant", "Yes."}};
static const struct zn_row talk_row = {.kind = ZN_ROW_MESSAGES, .messages = talk, .n_messages = 2};
static const struct zn_row instruction = {.kind = ZN_ROW_INSTRUCTION, .instruction = "Add.", .input = "2", .output = "4"};
static const struct zn_row no_input = {.kind = ZN_ROW_INSTRUCTION, .system = "Be brief.", .instruction = "Say hi.",
                                       .input = "", .output = "Hi"};

/* The end-of-text id comes behind texts and completions, not here. */
static void conversations_are_the_templates_text(void **state)
{
    (void)state;
    struct world w = open_folder(chatml(), 1);
    check_row(&w, &talk_row, "<|im_start|>system\nYou are a test.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\n[Yes.<|im_end|>]\n");
    close_world(&w);
}

static void instructions_by_the_template(void **state)
{
    (void)state;
    struct world w = open_folder(chatml(), 1);
    check_row(&w, &instruction, "<|im_start|>system\nYou are a test.<|im_end|>\n<|im_start|>user\nAdd.\n2<|im_end|>\n"
              "<|im_start|>assistant\n[4<|im_end|>]\n");
    check_row(&w, &no_input, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay hi.<|im_end|>\n"
              "<|im_start|>assistant\n[Hi<|im_end|>]\n");
    close_world(&w);
}

static void instructions_by_alpacas_prompt(void **state)
{
    (void)state;
    struct world w = open_folder(NULL, 1);
    check_row(&w, &instruction, "Below is an instruction that describes a task, paired with an input that provides further "
              "context. Write a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n"
              "### Input:\n2\n\n### Response:\n[4<end>]");
    check_row(&w, &no_input, "Be brief.\n\n### Instruction:\nSay hi.\n\n### Response:\n[Hi<end>]");
    close_world(&w);
    w = open_folder(folder_with(NULL), 1);
    check_row(&w, &no_input, "Be brief.\n\n### Instruction:\nSay hi.\n\n### Response:\n[Hi<|endoftext|>]");
    close_world(&w);
}

/* ---- What is told ---- */

static void add_note(void *self, const char *text)
{
    char *all = self;
    strcat(strcat(all, text), "|");
}

static zn_status collect(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct zn_document *all = self;
    (void)counts;
    for (size_t i = 0; i < n; i++)
        ZN_TRY(zn_ids_add(&all->ids, ids[i]));
    return ZN_OK;
}

/* Encodes the rows with the template and checks that what is told holds each of the two, or is nothing. */
static void check_told(const char *template, const char *rows, int32_t end, const char *first, const char *second)
{
    char told[2048] = "", path[256];
    struct zn_document all = {0};
    struct world w = open_folder(folder_with(template), 1);
    snprintf(path, sizeof path, "%s", make_text("rows.jsonl", rows));
    const struct zn_token_sink sink = {.self = &all, .put = collect, .put_example = collect};
    OK(zn_encode_files(w.encoder, &(struct zn_data_file){path, ZN_DATA_JSONL}, 1, &sink));
    zn_encoder_tell(w.encoder, &end, 1, add_note, told);
    if (!first && *told)
        fail_msg("'%s' should be nothing", told);
    if (first && (!strstr(told, first) || !strstr(told, second)))
        fail_msg("'%s' should hold '%s' and '%s'", told, first, second);
    zn_document_fini(&all);
    close_world(&w);
}

static const char good[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
static const char endless[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
static const char cut[] = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                          "{% endgeneration %}<|im_end|>{% else %}{{ m.content }}{% endif %}{% endfor %}";
static const char whole[] = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>\n"
                            "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
                           "{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]}\n";

static void ends_of_answers(void **state)
{
    (void)state;
    enum { END_OF_TEXT = 0, IM_END = 2 };
    check_told(good, chat, IM_END, NULL, NULL);
    check_told(whole, chat, IM_END, NULL, NULL);
    check_told(good, "{\"text\":\"a\"}", END_OF_TEXT, NULL, NULL);
    check_told(good, chat, END_OF_TEXT, "ends answers with '<|im_end|>' (id 2), which is not among eos_token_id of config.json",
               "generation does not stop there");
    check_told(whole, chat, END_OF_TEXT, "ends answers with '<|im_end|>' (id 2)", "");
    check_told(endless, chat, IM_END, "2 of 2 answers have no special token behind them that is trained",
               "may not learn to stop");
    check_told(cut, chat, IM_END, "2 of 2 answers have no special token", "{% generation %}");
}

static void what_else_is_told(void **state)
{
    (void)state;
    check_told(good, "{\"text\":\"a\\u0000\\ud800\"}\n{\"text\":\"\xff\"}\n", 2, "3 characters replaced by U+FFFD in rows: \\u0000", "");
    check_told(good, "{\"text\":\"a\",\"x\":NaN}\n", 2, NULL, NULL);
    check_told(good, "{\"instruction\":\"a\",\"output\":\"b\"}\n", 2, "rows with 'instruction' (1) go through the folder's chat template", "");
    check_told(NULL, "{\"instruction\":\"a\",\"output\":\"b\"}\n", 2, "(1) are completions of Alpaca's prompt", "no chat template");
}

/* ---- Arrays ---- */

/* Rows of many lengths, as lines or as an array over several lines each; row `wrong` (-1: none) has no text. */
static const char *write_rows(const char *name, bool is_array, int wrong)
{
    enum { N = 3000 };
    const char *path = in_folder(name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(is_array ? "[\n" : "", out);
    for (int i = 0; i < N; i++) {
        fprintf(out, is_array ? "  {\n    \"id\": [%d, {}],\n    \"text\": " : "{\"id\": [%d, {}], \"text\": ", i);
        fprintf(out, i == wrong ? "%d" : "\"] } \\\" \\\\ %0*d\"", i == wrong ? 7 : 1 + i * 7 % 997, i);
        fprintf(out, is_array ? "\n  }%s\n" : "}%s\n", is_array && i < N - 1 ? "," : "");
    }
    fputs(is_array ? "]\n" : "", out);
    fclose(out);
    return path;
}

static zn_status encode_rows(const char *path, int n_threads, struct zn_document *all)
{
    char copy[256];
    struct world w = open_folder(NULL, n_threads);
    snprintf(copy, sizeof copy, "%s", path);
    const struct zn_token_sink sink = {.self = all, .put = collect, .put_example = collect};
    all->ids.n = 0;
    zn_status status = zn_encode_files(w.encoder, &(struct zn_data_file){copy, ZN_DATA_JSONL}, 1, &sink);
    close_world(&w);
    return status;
}

static void arrays_are_the_rows_of_lines(void **state)
{
    (void)state;
    struct zn_document lines = {0}, array = {0};
    OK(encode_rows(write_rows("rows.jsonl", false, -1), 1, &lines));
    assert_true(lines.ids.n > 1000000); /* several parts */
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        OK(encode_rows(write_rows("rows.json", true, -1), n_threads, &array));
        assert_int_equal(array.ids.n, lines.ids.n);
        assert_memory_equal(array.ids.id, lines.ids.id, lines.ids.n * sizeof *lines.ids.id);
        FAILS(encode_rows(write_rows("rows.json", true, 2500), n_threads, &array), ZN_ERR_INPUT, "rows.json:10002: 'text'",
              "expected a string");
    }
    zn_document_fini(&lines);
    zn_document_fini(&array);
}

/* An array that is cut off, or goes wrong behind its first parts, is told as such. */
static void arrays_that_go_wrong_late(void **state)
{
    (void)state;
    struct zn_document array = {0};
    const char *path = write_rows("late.json", true, -1);
    char *data;
    size_t n;
    OK(zn_file_read(path, 1 << 24, &data, &n));
    OK(zn_file_write(path, data, n - 2)); /* "]\n" */
    FAILS(encode_rows(path, 1, &array), ZN_ERR_INPUT, "late.json:12002: ", "the array of rows has no end");
    data[n - 2] = ';';
    OK(zn_file_write(path, data, n));
    FAILS(encode_rows(path, 3, &array), ZN_ERR_INPUT, "late.json:12002: ", "';' cannot stand here");
    data[n / 2] = '\\';
    OK(zn_file_write(path, data, n / 2));
    FAILS(encode_rows(path, 3, &array), ZN_ERR_INPUT, "late.json:", "the file ends inside of this row");
    free(data);
    zn_document_fini(&array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_are_the_templates_text),
        cmocka_unit_test(instructions_by_the_template),
        cmocka_unit_test(instructions_by_alpacas_prompt),
        cmocka_unit_test(ends_of_answers),
        cmocka_unit_test(what_else_is_told),
        cmocka_unit_test(arrays_are_the_rows_of_lines),
        cmocka_unit_test(arrays_that_go_wrong_late),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
