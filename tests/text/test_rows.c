/* Rows as people have them: Alpaca's and ShareGPT's forms, contents in parts, other keys, arrays, what Python writes, and
 * files of kinds that are refused with the way to rows. */
#include "files.h"

#include "formats/data_files.h"
#include "text/jsonl.h"

static zn_jsonl *open_mapped(const char *name, const char *text, const char *const *map, size_t n_map)
{
    zn_jsonl *rows = NULL;
    const struct zn_row_options options = {.map = map, .n_map = n_map};
    OK(zn_jsonl_open(make_text(name, text), &options, &rows));
    return rows;
}

static zn_jsonl *open_text(const char *name, const char *text)
{
    return open_mapped(name, text, NULL, 0);
}

static const struct zn_row *next_row(zn_jsonl *rows)
{
    const struct zn_row *row = NULL;
    OK(zn_jsonl_next(rows, &row));
    return row;
}

static void check_messages(const struct zn_row *row, const char *expected)
{
    char found[512] = "";
    assert_int_equal(row->kind, ZN_ROW_MESSAGES);
    for (size_t i = 0; i < row->n_messages; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s: %s|", row->messages[i].role,
                 row->messages[i].content);
    assert_string_equal(found, expected);
}

static void instructions(void **state)
{
    (void)state;
    zn_jsonl *rows = open_text("alpaca.jsonl", "{\"instruction\":\"Add.\",\"input\":\"2, 2\",\"output\":\"4\"}\n"
                               "{\"instruction\":\"Say hi.\",\"input\":NaN,\"output\":\"Hi\",\"history\":[],\"system\":\"Brief.\"}\n"
                               "{\"instruction\":\"Say hi.\",\"output\":\"\",\"prompt\":\"left alone\"}\n");
    const struct zn_row *row = next_row(rows);
    assert_int_equal(row->kind, ZN_ROW_INSTRUCTION);
    assert_string_equal(row->instruction, "Add.");
    assert_string_equal(row->input, "2, 2");
    assert_string_equal(row->output, "4");
    assert_null(row->system);
    row = next_row(rows);
    assert_string_equal(row->input, "");
    assert_string_equal(row->system, "Brief.");
    row = next_row(rows);
    assert_string_equal(row->input, "");
    assert_string_equal(row->output, "");
    zn_jsonl_close(rows);
}

static void conversations(void **state)
{
    (void)state;
    zn_jsonl *rows = open_text(
        "sharegpt.jsonl",
        "{\"id\":\"x\",\"conversations\":[{\"from\":\"system\",\"value\":\"Brief.\"},{\"from\":\"human\",\"value\":\"Hi\"},"
        "{\"from\":\"gpt\",\"value\":\"Yes\",\"weight\":null}]}\n"
        "{\"conversations\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Yes\"}],\"system\":\"Brief.\"}\n"
        "{\"messages\":[{\"from\":\"user\",\"value\":\"a\"},{\"from\":\"tool\",\"value\":\"b\"},{\"from\":\"model\",\"value\":\"c\"}],\"system\":\"\"}\n"
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Long.\"},{\"role\":\"user\",\"content\":\"a\"}],\"system\":\"Brief.\"}\n");
    check_messages(next_row(rows), "system: Brief.|user: Hi|assistant: Yes|");
    check_messages(next_row(rows), "system: Brief.|user: Hi|assistant: Yes|");
    check_messages(next_row(rows), "user: a|tool: b|assistant: c|");
    check_messages(next_row(rows), "system: Long.|user: a|");
    zn_jsonl_close(rows);
}

static void contents_in_parts(void **state)
{
    (void)state;
    zn_jsonl *rows = open_text(
        "parts.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}],\"tool_calls\":[],\"reasoning_content\":\"\"},"
        "{\"role\":\"user\",\"content\":[]}]}\n"
        "{\"messages\":[{\"role\":\"user\",\"content\":\"d\"}]}\n");
    check_messages(next_row(rows), "user: a\nb|assistant: c|user: |");
    check_messages(next_row(rows), "user: d|");
    zn_jsonl_close(rows);
}

/* ---- Other keys ---- */

static void other_keys(void **state)
{
    (void)state;
    static const char *const map[] = {"messages=dialog", "prompt=question", "completion=answer"};
    zn_jsonl *rows = open_mapped("map.jsonl",
                                 "{\"question\":\"2+2=\",\"answer\":\"4\",\"text\":\"left alone\"}\n"
                                 "{\"dialog\":[{\"from\":\"human\",\"value\":\"Hi\"}],\"messages\":7}\n"
                                 "{\"text\":\"as it is\"}\n{\"messages\":[]}\n", map, 3);
    const struct zn_row *row = next_row(rows);
    assert_int_equal(row->kind, ZN_ROW_COMPLETION);
    assert_string_equal(row->prompt, "2+2=");
    assert_string_equal(row->completion, "4");
    check_messages(next_row(rows), "user: Hi|");
    assert_string_equal(next_row(rows)->text, "as it is");
    FAILS(zn_jsonl_next(rows, &row), ZN_ERR_INPUT, "map.jsonl:4: the row has none of", "as --map names them");
    zn_jsonl_close(rows);
}

/* tatsu-lab/alpaca has the text beside its parts: the map says which is meant. */
static void the_map_chooses_among_kinds(void **state)
{
    (void)state;
    static const char line[] = "{\"instruction\":\"a\",\"input\":\"\",\"output\":\"b\",\"text\":\"c\"}\n";
    static const char *const text[] = {"text=text"}, *const parts[] = {"instruction=instruction"},
                             *const output[] = {"text=output"}, *const two[] = {"text=text", "instruction=instruction"};
    const struct zn_row *row = NULL;
    zn_jsonl *rows = open_text("both.jsonl", line);
    FAILS(zn_jsonl_next(rows, &row), ZN_ERR_INPUT, "both 'text' and 'instruction'", "'--map text=text'");
    zn_jsonl_close(rows);
    rows = open_mapped("both.jsonl", line, text, 1);
    assert_string_equal(next_row(rows)->text, "c");
    zn_jsonl_close(rows);
    rows = open_mapped("both.jsonl", line, parts, 1);
    assert_string_equal(next_row(rows)->instruction, "a");
    zn_jsonl_close(rows);
    rows = open_mapped("both.jsonl", line, output, 1);
    assert_string_equal(next_row(rows)->text, "b");
    zn_jsonl_close(rows);
    rows = open_mapped("both.jsonl", line, two, 2);
    FAILS(zn_jsonl_next(rows, &row), ZN_ERR_INPUT, "both 'text' and 'instruction'", "");
    zn_jsonl_close(rows);
}

static void words_of_the_map(void **state)
{
    (void)state;
    static const struct {
        const char *map[2], *cause;
    } wrong[] = {
        {{"messages"}, "'messages' is not NEW=OLD"},
        {{"messages="}, "'messages=' is not NEW=OLD"},
        {{"=dialog"}, "a row has no key ''; its keys are text, prompt"},
        {{"dialog=messages"}, "a row has no key 'dialog'"},
        {{"put=x"}, "a row has no key 'put'"},
        {{"text=a", "text=b"}, "'text' is given twice"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const struct zn_row_options options = {.map = wrong[i].map, .n_map = wrong[i].map[1] ? 2 : 1};
        FAILS(zn_row_options_check(&options), ZN_ERR_USAGE, "--map: ", wrong[i].cause);
    }
    static const char *const good[] = {"text=a=b", "prompt=x", "system=y"};
    OK(zn_row_options_check(&(struct zn_row_options){.map = good, .n_map = 3}));
}

/* ---- Arrays ---- */

static void arrays_of_rows(void **state)
{
    (void)state;
    zn_jsonl *rows = open_text("rows.json", "\xef\xbb\xbf [\r\n  {\"text\": \"a ]},{ \\\" \\\\\"},\n  {\n    \"text\": \"b\",\n"
                               "    \"x\": [{}, [1]]\n  } , {\"text\": \"c\"}\n]\n");
    assert_string_equal(next_row(rows)->text, "a ]},{ \" \\");
    assert_string_equal(zn_jsonl_place(rows), in_folder("rows.json:2"));
    assert_string_equal(next_row(rows)->text, "b");
    assert_string_equal(zn_jsonl_place(rows), in_folder("rows.json:3"));
    assert_string_equal(next_row(rows)->text, "c");
    assert_string_equal(zn_jsonl_place(rows), in_folder("rows.json:6"));
    assert_null(next_row(rows));
    zn_jsonl_close(rows);
    rows = open_text("rows.json", "[]");
    assert_null(next_row(rows));
    zn_jsonl_close(rows);
    rows = open_text("rows.json", "{\"text\": \"a row a line\"}\n{\"text\": \"b\"}\n");
    assert_string_equal(next_row(rows)->text, "a row a line");
    assert_string_equal(next_row(rows)->text, "b");
    zn_jsonl_close(rows);
}

static void arrays_that_are_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *cause;
    } wrong[] = {
        {"[{\"text\":\"x\"}\n", "rows.json:2: ", "the array of rows has no end"},
        {"[{\"text\":\"x\"},", "rows.json:1: ", "the array of rows has no end"},
        {"[{\"text\":\"x\"},\n\n{\"text\":", "rows.json:3: ", "the file ends inside of this row"},
        {"[{\"text\":\"x\"}\n{\"text\":\"y\"}]", "rows.json:2: ", "'{' cannot stand here"},
        {"[{\"text\":\"x\"},]", "rows.json:1: ", "']' cannot stand here"},
        {"[{\"text\":\"x\"},\n5]", "rows.json:2: ", "'5' cannot stand here: the file is an array of rows"},
        {"[{\"text\":\"x\"}]\n[", "rows.json:2: ", "'[' cannot stand here"},
        {"[{\"text\":\"x\"},\n{\n\"text\":\n tru}]", "rows.json:4: ", "not valid JSON: column 4"},
        {"[{\"text\":\"x\"},\n{\"text\":]]", "rows.json:2: ", "not valid JSON"},
        {"[{\"text\":\"x\"},\n{\n\"text\": 5}]", "rows.json:2: ", "'text': expected a string, found 5"},
        {"{\n\"data\": [{\"text\":\"x\"}]\n}", "rows.json:1: ", "a .json file is an array of rows, or has a row a line"},
        {"{\"data\": [{\"text\":\"x\"}]}", "rows.json:1: ", "it has 'data'"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        zn_jsonl *rows = open_text("rows.json", wrong[i].text);
        const struct zn_row *row = NULL;
        zn_status status;
        while ((status = zn_jsonl_next(rows, &row)) == ZN_OK && row)
            assert_string_equal(row->text, "x");
        assert_int_equal(status, ZN_ERR_INPUT);
        check_message(in_folder(wrong[i].place), wrong[i].cause);
        zn_jsonl_close(rows);
    }
}

/* ---- What Python writes ---- */

static void what_python_writes(void **state)
{
    (void)state;
    zn_jsonl *rows = open_text("python.jsonl",
                               "{\"text\": \"a\\u0000b\\ud800c\", \"score\": NaN, \"best\": -Infinity, \"id\": 123456789012345678901234567890}\n"
                               "{\"text\": NaN, \"messages\": [{\"role\": \"user\", \"content\": \"\\ud83d\\ude00\xff\"}]}\n");
#define BAD "\xef\xbf\xbd"
    assert_string_equal(next_row(rows)->text, "a" BAD "b" BAD "c");
    check_messages(next_row(rows), "user: \xf0\x9f\x98\x80" BAD "|");
    assert_int_equal(zn_jsonl_n_replaced(rows), 3);
    zn_jsonl_close(rows);
}

/* ---- Files ---- */

static void files_of_other_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *name, *cause, *way;
    } wrong[] = {
        {"a.parquet", ".parquet files are not read; this makes rows of it: python3 -c \"import datasets; "
         "datasets.Dataset.from_parquet('", "a.parquet').to_json('"},
        {"a.arrow", "Dataset.from_file('", "a.jsonl')\""},
        {"a.csv", "Dataset.from_csv('", "a.jsonl')\""},
        {"a.tsv", "a.tsv', sep='\\t').to_json('", "a.jsonl')\""},
        {"a.jsonl.gz", "compressed files are not read", "gzip -d '"},
        {"a.jsonl.zst", "compressed files are not read", "zstd -d '"},
        {"a.pdf", "not a kind of data", "expected .txt, .jsonl, .json or .bin"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct zn_data_files files = {0};
        const char *path = make_text(wrong[i].name, "");
        FAILS(zn_data_files_list(&path, 1, &files), ZN_ERR_INPUT, wrong[i].cause, wrong[i].way);
        zn_data_files_fini(&files);
    }
}

/* ---- Pairs ---- */

static zn_jsonl *open_pairs(const char *name, const char *text)
{
    zn_jsonl *rows = NULL;
    OK(zn_jsonl_open(make_text(name, text), &(struct zn_row_options){.pairs = true}, &rows));
    return rows;
}

static void check_answer(const struct zn_row_answer *answer, const char *expected)
{
    char found[512] = "";
    for (size_t i = 0; i < answer->n_messages; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s: %s|", answer->messages[i].role, answer->messages[i].content);
    assert_string_equal(found, expected);
}

/* As texts, with a list of messages for each, and with the prompt at the begin of both lists. */
static void pairs_of_answers(void **state)
{
    (void)state;
    zn_jsonl *rows = open_pairs("pairs.jsonl",
        "{\"prompt\":\"p\",\"chosen\":\"c\",\"rejected\":\"\",\"text\":\"left alone\"}\n"
        "{\"prompt\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"}],"
        "\"chosen\":[{\"role\":\"assistant\",\"content\":\"c\"}],"
        "\"rejected\":[{\"from\":\"gpt\",\"value\":\"r\"},{\"role\":\"user\",\"content\":\"v\"}]}\n"
        "{\"chosen\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"c\"}],"
        "\"rejected\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"r\"}]}\n");
    const struct zn_row *row = next_row(rows);
    assert_int_equal(row->kind, ZN_ROW_PAIR);
    assert_string_equal(row->prompt, "p");
    assert_string_equal(row->chosen.text, "c");
    assert_string_equal(row->rejected.text, "");
    row = next_row(rows);
    assert_int_equal(row->n_prompt, 2);
    check_answer(&row->chosen, "system: s|user: u|assistant: c|");
    check_answer(&row->rejected, "system: s|user: u|assistant: r|user: v|");
    row = next_row(rows);
    assert_int_equal(row->n_prompt, 1);
    check_answer(&row->chosen, "user: u|assistant: c|");
    check_answer(&row->rejected, "user: u|assistant: r|");
    assert_null(next_row(rows));
    zn_jsonl_close(rows);
}

static void pairs_that_are_none(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"prompt\":\"p\",\"completion\":\"c\"}", "the row has no 'chosen'"},
        {"{\"prompt\":\"p\",\"chosen\":\"c\"}", "the row has no 'rejected'"},
        {"{\"chosen\":\"c\",\"rejected\":\"r\"}", "'prompt': missing"},
        {"{\"prompt\":\"p\",\"chosen\":[],\"rejected\":[]}", "all texts, or all lists"},
        {"{\"prompt\":[],\"chosen\":[],\"rejected\":[]}", "has no message"},
        {"{\"chosen\":[{\"role\":\"user\",\"content\":\"a\"}],\"rejected\":[{\"role\":\"user\",\"content\":\"b\"}]}",
         "do not begin with the same messages"},
        {"{\"chosen\":[{\"role\":\"user\",\"content\":\"a\"}],\"rejected\":[{\"role\":\"user\",\"content\":\"a\"}],"
         "\"system\":\"s\"}", "belongs among those of 'prompt'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct zn_row *row = NULL;
        zn_jsonl *rows = open_pairs("wrong.jsonl", cases[i][0]);
        FAILS(zn_jsonl_next(rows, &row), ZN_ERR_INPUT, cases[i][1], "wrong.jsonl");
        zn_jsonl_close(rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions),
        cmocka_unit_test(conversations),
        cmocka_unit_test(contents_in_parts),
        cmocka_unit_test(other_keys),
        cmocka_unit_test(the_map_chooses_among_kinds),
        cmocka_unit_test(words_of_the_map),
        cmocka_unit_test(arrays_of_rows),
        cmocka_unit_test(arrays_that_are_wrong),
        cmocka_unit_test(what_python_writes),
        cmocka_unit_test(files_of_other_kinds),
        cmocka_unit_test(pairs_of_answers),
        cmocka_unit_test(pairs_that_are_none),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
