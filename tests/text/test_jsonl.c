/* Rows of JSONL, and malformed and hostile files, each with an error that names file and line. */
#include "files.h"

#include "text/jsonl.h"

static zn_jsonl *open_rows(const char *path)
{
    zn_jsonl *rows = NULL;
    OK(zn_jsonl_open(path, NULL, &rows));
    return rows;
}

static const struct zn_row *next_row(zn_jsonl *rows)
{
    const struct zn_row *row = NULL;
    OK(zn_jsonl_next(rows, &row));
    return row;
}

static void the_three_kinds(void **state)
{
    (void)state;
    zn_jsonl *rows = open_rows(make_text("kinds.jsonl", "{\"text\": \"plain \\u00e9\", \"id\": 7}\n"
                                         "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n"
                                         "{\"prompt\": \"left alone\", \"messages\": ["
                                         "{\"role\": \"user\", \"content\": \"Hi\"},"
                                         "{\"role\": \"assistant\", \"content\": \"\"}]}"));
    const struct zn_row *row = next_row(rows);
    assert_int_equal(row->kind, ZN_ROW_TEXT);
    assert_string_equal(row->text, "plain \xc3\xa9");
    row = next_row(rows);
    assert_int_equal(row->kind, ZN_ROW_COMPLETION);
    assert_string_equal(row->prompt, "2+2=");
    assert_string_equal(row->completion, "4");
    row = next_row(rows);
    assert_int_equal(row->kind, ZN_ROW_MESSAGES);
    assert_int_equal(row->n_messages, 2);
    assert_string_equal(row->messages[0].role, "user");
    assert_string_equal(row->messages[0].content, "Hi");
    assert_string_equal(row->messages[1].content, "");
    assert_string_equal(zn_jsonl_place(rows), in_folder("kinds.jsonl:3"));
    assert_null(next_row(rows));
    assert_null(next_row(rows));
    zn_jsonl_close(rows);
}

/* Empty lines count as lines but not as rows; \r\n and the byte order mark do no harm. */
static void blank_lines_are_skipped(void **state)
{
    (void)state;
    zn_jsonl *rows = open_rows(make_text("blank.jsonl",
                                         "\xef\xbb\xbf{\"text\":\"a\"}\r\n\n \t\r\n{\"text\":\"b\"}\n\n"));
    assert_string_equal(next_row(rows)->text, "a");
    assert_string_equal(next_row(rows)->text, "b");
    assert_string_equal(zn_jsonl_place(rows), in_folder("blank.jsonl:4"));
    assert_null(next_row(rows));
    zn_jsonl_close(rows);
    rows = open_rows(make_text("empty.jsonl", ""));
    assert_null(next_row(rows));
    zn_jsonl_close(rows);
}

/* As Python's decoder replaces: one mark for each longest begin of a character. */
static void invalid_utf8_is_replaced(void **state)
{
    (void)state;
    zn_jsonl *rows = open_rows(make_text("bytes.jsonl",
                                         "{\"text\":\"a\xff" "b\xe2\x82" "c\xc0\xaf" "d\xed\xa0\x80" "e\xf0\x9f\x98\"}\n"));
#define BAD "\xef\xbf\xbd"
    assert_string_equal(next_row(rows)->text, "a" BAD "b" BAD "c" BAD BAD "d" BAD BAD BAD "e" BAD);
    zn_jsonl_close(rows);
}

/* Lines longer than the chunks in which the file is read, with ends at every place of a chunk. */
static void lines_longer_than_a_chunk(void **state)
{
    (void)state;
    enum { N = 200 * 1024 };
    char *text = malloc(N + 64);
    size_t at = (size_t)sprintf(text, "{\"text\":\"");
    memset(text + at, 'x', N);
    strcpy(text + at + N, "\"}\n{\"text\":\"y\"}");
    zn_jsonl *rows = open_rows(make_text("long.jsonl", text));
    assert_int_equal(strlen(next_row(rows)->text), N);
    assert_string_equal(next_row(rows)->text, "y");
    zn_jsonl_close(rows);
    free(text);
}

/* A line of a gigabyte is refused after its first megabytes: neither its memory nor its time is spent. */
static void a_line_without_end(void **state)
{
    (void)state;
    const char *path = make_text("huge.jsonl", "{\"text\":\"a\"}\n{\"text\":\"");
    if (truncate(path, (off_t)1 << 30) != 0)
        skip(); /* no room for large files here */
    zn_jsonl *rows = open_rows(path);
    assert_string_equal(next_row(rows)->text, "a");
    const struct zn_row *row = NULL;
    FAILS(zn_jsonl_next(rows, &row), ZN_ERR_INPUT, in_folder("huge.jsonl:2: "), "more than the 16777216 bytes");
    assert_true(zn_jsonl_n_bytes(rows) < 2 * (uint64_t)ZN_JSONL_MAX_LINE);
    zn_jsonl_close(rows);
    remove(path);
}

static void rows_of_the_wrong_kind(void **state)
{
    (void)state;
    static const struct {
        const char *line, *cause;
    } wrong[] = {
        {"{\"text\": 5}", "'text': expected a string, found 5"},
        {"{\"text\": null}", "the row has none of"},
        {"{\"prompt\": \"x\"}", "the row has none of"},
        {"{\"completion\": \"x\"}", "'prompt': missing"},
        {"{\"prompt\": [], \"completion\": \"x\"}", "'prompt': expected a string, found an array"},
        {"{\"text\": \"x\", \"messages\": []}", "both 'text' and 'messages'; '--map text=text' takes the one, '--map messages=messages' the other"},
        {"{\"messages\": []}", "'messages': has no message"},
        {"{\"messages\": {}}", "'messages': expected an array, found an object"},
        {"{\"messages\": [3]}", "'messages[0]': expected an object, found 3"},
        {"{\"messages\": [{\"role\": \"user\"}]}", "'messages[0].content': missing"},
        {"{\"messages\": [{\"role\": 1, \"content\": \"\"}]}", "'messages[0].role': expected a string, found 1"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
         "'messages[0].content[0].text': missing"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "'messages[0].content[0]': a part of the type 'image'"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [\"text\"]}]}", "content[0]': expected an object"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"weight\": 0}]}", "a 'weight' of 0"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"a\"}]}",
         "has 'reasoning_content'"},
        {"{\"conversations\": [{\"from\": \"narrator\", \"value\": \"\"}]}",
         "'conversations[0]': 'from' is 'narrator'; known are human"},
        {"{\"conversations\": [{\"from\": \"gpt\"}]}", "'conversations[0].value': missing"},
        {"{\"instruction\": \"x\"}", "'output': missing"},
        {"{\"instruction\": \"x\", \"output\": \"y\", \"history\": [[\"a\", \"b\"]]}", "'history': earlier turns"},
        {"{\"prompt\": \"x\", \"chosen\": \"y\", \"rejected\": \"z\"}",
         "a preference pair ('chosen' and 'rejected'), which `zinc train --objective dpo` takes; '--map completion=chosen'"},
        {"{\"question\": \"x\", \"answer\": \"y\"}", "(--map NEW=OLD gives other keys these names); it has 'question', 'answer'"},
        {"{}", "it has no key"},
        {"{\"prompt\": [], \"completion\": []}", "belong in one list, 'messages'"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [1]}]}", "has 'tool_calls'"},
        {"[1, 2]", "a row is an object"},
        {"{\"text\": \"x\", \"y\": Nan}", "not valid JSON: column 22: "},
        {"\"text\"", "a row is an object"},
        {"{\"text\": \"x\"", "not valid JSON"},
        {"{\"text\": \"x\"} {}", "not valid JSON"},
        {"{\"text\": \"a\tb\"}", "not valid JSON"},
        {"{\"text\": \"x\", \"text\": \"y\"}", "not valid JSON"},
        {"text", "not valid JSON"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char text[512];
        snprintf(text, sizeof text, "\n{\"text\":\"good\"}\n%s\n", wrong[i].line);
        zn_jsonl *rows = open_rows(make_text("wrong.jsonl", text));
        const struct zn_row *row = next_row(rows);
        assert_non_null(row);
        FAILS(zn_jsonl_next(rows, &row), ZN_ERR_INPUT, in_folder("wrong.jsonl:3: "), wrong[i].cause);
        zn_jsonl_close(rows);
    }
    char deep[4096] = "{\"text\":";
    memset(deep + strlen(deep), '[', 4000);
    zn_jsonl *rows = open_rows(make_text("deep.jsonl", deep));
    const struct zn_row *row = NULL;
    FAILS(zn_jsonl_next(rows, &row), ZN_ERR_INPUT, "deep.jsonl:1: ", "not valid JSON");
    zn_jsonl_close(rows);
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    zn_jsonl *rows = NULL;
    FAILS(zn_jsonl_open(in_folder("gone.jsonl"), NULL, &rows), ZN_ERR_IO, "gone.jsonl", "No such file");
    FAILS(zn_jsonl_open(test_folder, NULL, &rows), ZN_ERR_INPUT, test_folder, "not a regular file");
    assert_null(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_kinds),
        cmocka_unit_test(blank_lines_are_skipped),
        cmocka_unit_test(invalid_utf8_is_replaced),
        cmocka_unit_test(lines_longer_than_a_chunk),
        cmocka_unit_test(a_line_without_end),
        cmocka_unit_test(rows_of_the_wrong_kind),
        cmocka_unit_test(files_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
