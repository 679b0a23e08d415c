/* Documents to tokens: the mask of a conversation token by token, what counts in each kind of row, and long texts in
 * pieces. The tokenizers and what transformers makes of the conversation are in tests/data/chat. */
#include "files.h"

#include "base/json.h"
#include "text/encode.h"
#include "sanitized.h"

struct world {
    zn_tokenizer *tokenizer;
    zn_encoder *encoder;
    struct zn_document document;
};

static struct world open_world(const char *name, int64_t vocab_size, int32_t end_of_text)
{
    struct world w = {0};
    char folder[512];
    snprintf(folder, sizeof folder, "%s/chat/%s", ZN_TEST_DATA, name ? name : "");
    if (name)
        OK(zn_tokenizer_open(folder, &w.tokenizer));
    const struct zn_encoder_options options = {.tokenizer = w.tokenizer, .vocab_size = vocab_size,
                                               .end_of_text = end_of_text};
    OK(zn_encoder_create(&options, &w.encoder));
    return w;
}

static void close_world(struct world *w)
{
    zn_document_fini(&w->document);
    zn_encoder_destroy(w->encoder);
    zn_tokenizer_close(w->tokenizer);
}

/* ---- The mask of a conversation ---- */

static size_t read_messages(zn_json *root, struct zn_chat_message *messages)
{
    zn_json *list, *item;
    OK(zn_json_get_array(root, "messages", &list));
    for (size_t i = 0; i < zn_json_n_items(list); i++) {
        OK(zn_json_item_object(list, i, &item));
        OK(zn_json_get_string(item, "role", &messages[i].role));
        OK(zn_json_get_string(item, "content", &messages[i].content));
    }
    return zn_json_n_items(list);
}

/* Prints each token with its text, '*' where it counts, and compares both with what transformers gives. */
static void check_conversation(const char *name)
{
    struct world w = open_world(name, 0, -1);
    char path[512];
    zn_json *root, *ids, *tokens;
    struct zn_chat_message messages[8];
    snprintf(path, sizeof path, "%s/chat/%s/expected.json", ZN_TEST_DATA, name);
    OK(zn_json_load_file(path, 1 << 20, &root));
    struct zn_row row = {.kind = ZN_ROW_MESSAGES, .messages = messages};
    row.n_messages = read_messages(root, messages);
    OK(zn_encode_row(w.encoder, &row, "rows.jsonl:1", &w.document));
    OK(zn_json_get_array(root, "ids", &ids));
    OK(zn_json_get_array(root, "tokens", &tokens));
    zn_json *counts;
    OK(zn_json_get_array(root, "counts", &counts));
    assert_int_equal(w.document.ids.n, zn_json_n_items(ids));
    assert_int_equal(w.document.n_counts, zn_json_n_items(ids));
    for (size_t i = 0; i < w.document.ids.n; i++) {
        int64_t id;
        const char *text;
        OK(zn_json_item_int(ids, i, 0, INT32_MAX, &id));
        OK(zn_json_item_string(tokens, i, &text));
        char line[128], *to = line;
        for (const char *c = text; *c && to < line + 100; c++)
            to += sprintf(to, *c == '\n' ? "\\n" : "%c", *c);
        *to = '\0';
        print_message("%4zu %5d %c '%s'\n", i, w.document.ids.id[i], w.document.counts[i] ? '*' : ' ', line);
        assert_int_equal(w.document.ids.id[i], id);
        OK(zn_json_item_int(counts, i, 0, 1, &id));
        assert_int_equal(w.document.counts[i], id);
    }
    zn_json_destroy(root);
    close_world(&w);
}

static void mask_of_chatml_token_by_token(void **state)
{
    (void)state;
    check_conversation("bytes");
}

/* Here the borders of answers are not special tokens: a space goes with the word after it. */
static void mask_of_llama2_token_by_token(void **state)
{
    (void)state;
    check_conversation("pieces");
}

/* ---- Rows ---- */

/* The texts of the document's tokens, "*" after those that count. */
static void check_document(struct world *w, const struct zn_row *row, const char *expected)
{
    char found[1024] = "";
    w->document.ids.n = w->document.n_counts = 0;
    OK(zn_encode_row(w->encoder, row, "rows.jsonl:1", &w->document));
    assert_int_equal(w->document.ids.n, w->document.n_counts);
    for (size_t i = 0; i < w->document.ids.n; i++) {
        char *text, byte[2] = {(char)w->document.ids.id[i], '\0'};
        size_t n;
        if (w->tokenizer) {
            OK(zn_tokenizer_decode(w->tokenizer, &w->document.ids.id[i], 1, false, &text, &n));
            strcat(found, text);
            free(text);
        } else {
            strcat(found, w->document.ids.id[i] < 256 ? byte : "<end>");
        }
        strcat(found, w->document.counts[i] ? "*|" : "|");
    }
    if (strcmp(found, expected) != 0)
        fail_msg("'%s' should be '%s'", found, expected);
}

static const struct zn_row text_row = {.kind = ZN_ROW_TEXT, .text = "Hello there"};
static const struct zn_row completion_row = {.kind = ZN_ROW_COMPLETION, .prompt = "How many? ", .completion = " Yes."};

static void what_counts_in_rows(void **state)
{
    (void)state;
    struct world w = open_world("bytes", 0, 0);
    check_document(&w, &text_row, "Hello*| there*|<|endoftext|>*|");
    check_document(&w, &completion_row, "How| many|?| | Yes*|.*|<|endoftext|>*|");
    close_world(&w);
    w = open_world("bytes", 0, -1);
    check_document(&w, &text_row, "Hello*| there*|");
    close_world(&w);
}

/* The post-processor's token comes first, once. The decoder leaves out the space before a text. */
static void what_the_post_processor_adds(void **state)
{
    (void)state;
    struct world w = open_world("pieces", 0, 2);
    check_document(&w, &text_row, "<s>*|Hello*|th*|er*|e*|</s>*|");
    const struct zn_row row = {.kind = ZN_ROW_COMPLETION, .prompt = "the capital", .completion = "of France"};
    check_document(&w, &row, "<s>|the|capital|of*|France*|</s>*|");
    close_world(&w);
}

static void rows_as_bytes(void **state)
{
    (void)state;
    struct world w = open_world(NULL, 257, 256);
    const struct zn_row row = {.kind = ZN_ROW_COMPLETION, .prompt = "ab", .completion = "c"};
    check_document(&w, &row, "a|b|c*|<end>*|");
    check_document(&w, &(struct zn_row){.kind = ZN_ROW_TEXT, .text = ""}, "<end>*|");
    const struct zn_chat_message message = {"user", "a"};
    const struct zn_row talk = {.kind = ZN_ROW_MESSAGES, .messages = &message, .n_messages = 1};
    FAILS(zn_encode_row(w.encoder, &talk, "rows.jsonl:7", &w.document), ZN_ERR_INPUT, "rows.jsonl:7: ",
          "need a tokenizer");
    close_world(&w);
}

static void failures_name_the_row(void **state)
{
    (void)state;
    const struct zn_chat_message messages[] = {{"assistant", "I begin."}};
    const struct zn_row row = {.kind = ZN_ROW_MESSAGES, .messages = messages, .n_messages = 1};
    struct world w = open_world("pieces", 0, 2);
    FAILS(zn_encode_row(w.encoder, &row, "rows.jsonl:3", &w.document), ZN_ERR_INPUT, "rows.jsonl:3: ",
          "Roles must alternate");
    close_world(&w);
    w = open_world("bytes", 100, 0);
    FAILS(zn_encode_row(w.encoder, &text_row, "rows.jsonl:4", &w.document), ZN_ERR_INPUT,
          "rows.jsonl:4: the tokenizer gives id ", "the model's vocabulary has 100");
    close_world(&w);
}

/* ---- Files ---- */

struct collected {
    int32_t *ids;
    size_t n, n_pieces;
};

static zn_status collect(void *self, const int32_t *ids, const uint8_t *counts, size_t n)
{
    struct collected *c = self;
    c->ids = realloc(c->ids, (c->n + n) * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(counts[i], 1);
        c->ids[c->n++] = ids[i];
    }
    c->n_pieces++;
    return ZN_OK;
}

static zn_status encode_file(const struct world *w, const char *name, struct collected *into)
{
    char path[300];
    snprintf(path, sizeof path, "%s", in_folder(name));
    return zn_encode_files(w->encoder, &(struct zn_data_file){path, ZN_DATA_TEXT}, 1,
                           &(struct zn_token_sink){.self = into, .put = collect, .put_example = collect});
}

/* Words in no order, with all that makes cutting hard: runs of spaces and line ends, punctuation before line
 * ends, letters of several bytes, and bytes that are none. */
static char *make_long_text(size_t n)
{
    static const char *const words[] = {"the", "capital", " of", "France,", "  ", "\n", "\n\n", "is.\n", "\tHow",
                                        "many", "spiders", "—", "Grüße", "世界", "8", "\r\n", "\xff", "!", "a b"};
    char *text = malloc(n + 16);
    uint64_t random = 1;
    size_t at = 0;
    while (at < n) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        at += (size_t)sprintf(text + at, "%s%s", words[(random >> 33) % COUNT(words)], (random >> 60) < 10 ? " " : "");
    }
    text[n] = '\0';
    return text;
}

static void check_long_text(const char *name, size_t n_bytes)
{
    struct world w = open_world(name, 0, 2);
    struct zn_ids whole = {0};
    struct collected pieces = {0};
    char *text = make_long_text(n_bytes);
    OK(zn_tokenizer_encode(w.tokenizer, text, n_bytes, true, &whole));
    OK(zn_ids_add(&whole, 2));
    make_file("long.txt", text, n_bytes);
    OK(encode_file(&w, "long.txt", &pieces));
    assert_true(n_bytes < 2000000 || pieces.n_pieces > 3);
    for (size_t i = 0; i < whole.n && i < pieces.n; i++)
        if (whole.id[i] != pieces.ids[i])
            fail_msg("%s: token %zu of %zu bytes is %d, should be %d", name, i, n_bytes, pieces.ids[i], whole.id[i]);
    assert_int_equal(pieces.n, whole.n);
    free(pieces.ids);
    free(text);
    zn_ids_fini(&whole);
    close_world(&w);
}

static void long_texts_in_pieces(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5000, 1024 * 1024 - 1, 1024 * 1024, 1024 * 1024 + 1, 3500000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        if (!IS_SANITIZED || i % 2 == 0)
            check_long_text("bytes", sizes[i]);
        if (!IS_SANITIZED || i % 2 == 1)
            check_long_text("pieces", sizes[i]);
    }
}

/* A text without a place to cut is taken in one piece as long as that is allowed. */
static void a_text_without_spaces(void **state)
{
    (void)state;
    struct world w = open_world("bytes", 0, -1);
    struct collected all = {0};
    size_t n = 3 * 1024 * 1024;
    char *text = malloc(n);
    memset(text, '7', n);
    const char *path = make_file("dense.txt", text, n);
    OK(encode_file(&w, "dense.txt", &all));
    assert_int_equal(all.n_pieces, 1);
    free(all.ids);
    all = (struct collected){0};
    if (truncate(path, (off_t)70 << 20) == 0)
        FAILS(encode_file(&w, "dense.txt", &all), ZN_ERR_INPUT, "dense.txt",
              "no place to cut in the 67108864 bytes from byte 0 on");
    free(text);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_of_chatml_token_by_token),
        cmocka_unit_test(mask_of_llama2_token_by_token),
        cmocka_unit_test(what_counts_in_rows),
        cmocka_unit_test(what_the_post_processor_adds),
        cmocka_unit_test(rows_as_bytes),
        cmocka_unit_test(failures_name_the_row),
        cmocka_unit_test(long_texts_in_pieces),
        cmocka_unit_test(a_text_without_spaces),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
