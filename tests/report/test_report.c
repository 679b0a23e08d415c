/* The report of a run: logs of every condition, and a page that says how the run ended and that no name can break. */
#include "files.h"

#include "base/text.h"
#include "report/page.h"
#include "zinc/report.h"

/* ---- Logs ---- */

static struct zn_report_log *read_log(const char *text, size_t n_bytes)
{
    struct zn_report_log *log = NULL;
    OK(zn_report_log_read(make_file("metrics.jsonl", text, n_bytes), &log));
    return log;
}

static const char LINE[] =
    "{\"step\":%d,\"loss\":%g,\"grad_norm\":0.5,\"lr\":0.001,\"scale\":1,\"tokens\":100,\"seconds\":0.25,"
    "\"tokens_per_second\":400,\"memory\":{\"device\":%d,\"host\":2,\"nvme\":3,\"resident\":4},\"states\":{"
    "\"parameters\":5,\"gradients\":6,\"optimizer\":7,\"activations\":8,\"buffers\":9},\"comm_bytes\":10,"
    "\"nvme_read_bytes\":20,\"nvme_write_bytes\":30}\n";

static void a_log_is_summed_up(void **state)
{
    (void)state;
    char text[4096];
    int n = sprintf(text, LINE, 1, 4.0, 11);
    n += sprintf(text + n, LINE, 2, 3.5, 12);
    n += sprintf(text + n, "\n{\"step\":3,\"loss\":null,\"skipped\":true,\"reason\":\"norm is inf\",\"tokens\":100,"
                           "\"eval_loss\":3.25}\n");
    struct zn_report_log *log = read_log(text, (size_t)n);
    assert_int_equal(log->n_steps, 3);
    assert_int_equal(log->last_step, 3);
    assert_int_equal(log->n_bad, 0);
    assert_true(log->tokens == 300 && log->seconds == 0.5);
    assert_int_equal(log->loss.n, 2);
    assert_true(log->loss.last.value == 3.5 && log->held_out.last.value == 3.25 && log->held_out.last.at == 3);
    assert_int_equal(log->n_skipped, 1);
    assert_int_equal(log->n_skipped_at_end, 1);
    assert_int_equal(log->reasons[0].step, 3);
    assert_string_equal(log->reasons[0].text, "norm is inf");
    n += sprintf(text + n, LINE, 4, 3.0, 12);
    free(log);
    log = read_log(text, (size_t)n);
    assert_int_equal(log->n_skipped, 1);
    assert_int_equal(log->n_skipped_at_end, 0);
    assert_true(log->tier_bytes[ZN_TIER_DEVICE] == 12 && log->tier_bytes[ZN_TIER_NVME] == 3 && log->resident_bytes == 4);
    assert_true(log->kind_bytes[ZN_KIND_PARAMETERS] == 5 && log->kind_bytes[ZN_KIND_BUFFERS] == 9);
    assert_true(log->traffic_sum[ZN_TRAFFIC_SENT] == 30 && log->traffic_sum[ZN_TRAFFIC_WRITTEN] == 90);
    free(log);
}

static void lines_that_cannot_be_read_are_counted(void **state)
{
    (void)state;
    static char text[200000];
    int n = sprintf(text, LINE, 1, 4.0, 1);
    n += sprintf(text + n, "{\"step\":2,\"loss\n{\"loss\":1}\n[1]\n{\"step\":-4}\n\x01\xff\n");
    memset(text + n, 'x', 100000); /* a line far too long */
    n += 100000;
    text[n++] = '\n';
    memset(text + n, 0, 512); /* what a crash of the machine leaves */
    n += 512;
    text[n++] = '\n';
    n += sprintf(text + n, LINE, 3, 2.0, 1);
    struct zn_report_log *log = read_log(text, (size_t)n);
    assert_int_equal(log->n_steps, 2);
    assert_int_equal(log->n_bad, 7);
    assert_int_equal(log->n_lines, 9);
    assert_false(log->is_cut);
    assert_non_null(strstr(log->fault, "metrics.jsonl:2: not valid JSON"));
    free(log);
}

static void a_last_line_without_an_end_may_be_whole_or_cut(void **state)
{
    (void)state;
    char text[2048];
    int n = sprintf(text, LINE, 1, 4.0, 1);
    n += sprintf(text + n, LINE, 2, 4.0, 1);
    struct zn_report_log *log = read_log(text, (size_t)n - 1);
    assert_int_equal(log->n_steps, 2);
    assert_false(log->is_cut);
    free(log);
    log = read_log(text, (size_t)n - 20);
    assert_int_equal(log->n_steps, 1);
    assert_int_equal(log->n_bad, 1);
    assert_true(log->is_cut);
    free(log);
    log = read_log(text, 20); /* a run that has just begun */
    assert_int_equal(log->n_steps, 0);
    free(log);
}

static void numbers_that_json_lacks_are_gaps(void **state)
{
    (void)state;
    static const char text[] = "{\"step\":1,\"loss\":NaN,\"grad_norm\":-inf,\"lr\":0.5}\n"
                               "{\"step\":2,\"loss\":-Infinity,\"grad_norm\":nan,\"lr\":0.5}\n"
                               "{\"step\":3,\"loss\":1.5,\"skipped\":true,\"reason\":\"is nan, \\\"inf\\\" or NaN\",\"lr\":inf}\n"
                               "{\"step\":4,\"loss\":nano}\n";
    struct zn_report_log *log = read_log(text, strlen(text));
    assert_int_equal(log->n_steps, 3);
    assert_int_equal(log->n_bad, 1);
    assert_int_equal(log->loss.n, 1);
    assert_int_equal(log->loss.n_bins, 3);
    assert_int_equal(log->grad_norm.n, 0);
    assert_int_equal(log->lr.n, 2);
    assert_string_equal(log->reasons[0].text, "is nan, \"inf\" or NaN");
    free(log);
}

static void a_file_that_is_no_log_is_refused(void **state)
{
    (void)state;
    struct zn_report_log *log = NULL;
    FAILS(zn_report_log_read(make_text("metrics.jsonl", "hello\nworld\n"), &log), ZN_ERR_INPUT, "no line of it is a step",
          "metrics.jsonl:1: not valid JSON");
    FAILS(zn_report_log_read(make_text("metrics.jsonl", "{\"text\":\"a row of data\"}\n"), &log), ZN_ERR_INPUT,
          "no line of it is a step", "'step': missing");
    FAILS(zn_report_log_read(test_folder, &log), ZN_ERR_INPUT, test_folder, "not a regular file");
    FAILS(zn_report_log_read(in_folder("none"), &log), ZN_ERR_IO, "none", "No such file");
    assert_null(log);
}

/* ---- Pages ---- */

/* The page of the folder, which the caller frees. */
static char *report(void)
{
    const struct zn_report_options options = {.folder = test_folder};
    char *page;
    size_t n_bytes;
    OK(zn_report(&options));
    OK(zn_file_read(in_folder("report.html"), 1 << 20, &page, &n_bytes));
    return page;
}

static void check_page(const char *what, const char *there, const char *not_there)
{
    char *page = report();
    if (!strstr(page, there) || (not_there && strstr(page, not_there)))
        fail_msg("%s: the page should hold '%s' and not '%s'", what, there, not_there ? not_there : "");
    free(page);
}

static void make_log(int n)
{
    static char text[100000];
    int length = 0;
    for (int i = 1; i <= n; i++)
        length += sprintf(text + length, LINE, i, 4.0 / i, 1);
    make_file("metrics.jsonl", text, (size_t)length);
}

static void the_page_says_how_the_run_ended(void **state)
{
    (void)state;
    make_log(20);
    check_page("no run.json", "Unknown end", "Finished");
    make_text("run.json", "{\"format\":1,\"steps\":20}");
    check_page("no model", "Not finished", "Finished");
    make_text("model.safetensors", "x");
    check_page("all there", "All steps of the run (20) are done", "Cut short");
    remove(in_folder("model.safetensors"));
    make_text("model.safetensors.index.json", "{}");
    check_page("model in shards", "Finished", "Cut short");
    make_text("run.json", "{\"format\":1,\"steps\":100}");
    check_page("a model of an earlier run", "The log ends at step 20 of 100", "Finished");
    OK(zn_folder_create(in_folder("checkpoints/step-00000009")));
    OK(zn_folder_create(in_folder("checkpoints/step-00000018")));
    OK(zn_folder_create(in_folder("checkpoints/tmp-00000019")));
    check_page("checkpoints", "The newest checkpoint is step-00000018.", NULL);
    make_log(0);
    check_page("no step yet", "The log has no step yet, of 100", "<svg");
    make_text("run.json", "{\"format\":1,\"steps\":0}");
    check_page("no steps at all", "All steps of the run (0) are done", "<svg");
    remove(in_folder("model.safetensors.index.json"));
    assert_int_equal(rmdir(in_folder("checkpoints/step-00000009")), 0);
    assert_int_equal(rmdir(in_folder("checkpoints/step-00000018")), 0);
    assert_int_equal(rmdir(in_folder("checkpoints/tmp-00000019")), 0);
    assert_int_equal(rmdir(in_folder("checkpoints")), 0);
}

static void bytes_are_shown_by_kind_and_tier(void **state)
{
    (void)state;
    make_log(2);
    make_text("run.json", "{\"format\":1,\"steps\":2,\"bytes\":{\"parameters\":{\"device\":1024,\"host\":2048,\"nvme\":0},"
                          "\"gradients\":{\"device\":0,\"host\":0,\"nvme\":0},\"optimizer\":{\"device\":0,\"host\":0,"
                          "\"nvme\":4096},\"activations\":{\"device\":0,\"host\":0,\"nvme\":0},\"buffers\":{\"device\":0,"
                          "\"host\":0,\"nvme\":0}}}");
    check_page("plan", "<td>parameters</td><td>1.00 KiB</td><td>2.00 KiB</td><td>0</td><td>3.00 KiB</td>", NULL);
    check_page("plan", "<td>optimizer</td><td>0</td><td>0</td><td>4.00 KiB</td><td>4.00 KiB</td>", NULL);
    check_page("peaks", "<td>peak in the log</td><td>1 B</td><td>2 B</td><td>3 B</td><td>6 B</td>", NULL);
    check_page("traffic", "<td>written to NVMe</td><td>30 B</td><td>30 B</td><td>60 B</td>", NULL);
    make_text("run.json", "{\"format\":1,\"steps\":2,\"bytes\":{\"parameters\":7}}");
    check_page("without a plan only the sum is known", "<td>optimizer</td><td>–</td><td>–</td><td>–</td><td>7 B</td>", NULL);
    make_text("metrics.jsonl", "{\"step\":1,\"memory\":{\"device\":9,\"host\":0,\"nvme\":0},\"states\":{\"optimizer\":9}}\n");
    check_page("one tier", "<td>optimizer</td><td>9 B</td><td>0</td><td>0</td><td>9 B</td>", NULL);
}

static void every_key_of_the_configuration_is_shown(void **state)
{
    (void)state;
    make_log(1);
    make_text("run.json", "{\"format\":1,\"model\":\"a/b/Tiny-1B//\",\"steps\":1,\"lr\":2.0000000000000002e-05,\"seq_len\":128,"
                          "\"memory_limit\":1073741824,\"recompute\":true,\"freeze\":[],\"data\":[\"x.txt\",\"y z\",3,[]],"
                          "\"offload\":{\"parameters\":\"nvme\",\"deep\":{\"er\":{\"and\":{\"so\":{\"on\":{}}}}}},"
                          "\"delayed_update\":-1,\"surprise_key\":\"new\",\"nothing\":null,\"empty\":\"\"}");
    static const char *const shown[] = {
        "<h1>Tiny-1B</h1>", "<dt>lr</dt><dd>2e-5</dd>", "<dt>seq len</dt><dd>128</dd>",
        "<dt>memory limit</dt><dd>1.00 GiB</dd>", "<dt>recompute</dt><dd>yes</dd>", "<dt>freeze</dt><dd>none</dd>",
        "<dt>data</dt><dd>x.txt, y z, 3, …</dd>",
        "<dt>offload</dt><dd>parameters: nvme, deep: er: and: so: …</dd>", "<dt>delayed update</dt><dd>off</dd>",
        "<dt>surprise key</dt><dd>new</dd>", "<dt>nothing</dt><dd>–</dd>", "<dt>empty</dt><dd>(empty)</dd>"};
    for (size_t i = 0; i < COUNT(shown); i++)
        check_page("configuration", shown[i], NULL);
}

static void nothing_from_outside_is_taken_as_html(void **state)
{
    (void)state;
    make_text("metrics.jsonl", "{\"step\":1,\"loss\":null,\"skipped\":true,\"reason\":\"</td><b>\"}\n<i>broken</i>\n");
    make_text("run.json", "{\"format\":1,\"steps\":1,\"model\":\"<b>x\",\"architecture\":\"<b>\",\"<b>\":\"<b>\","
                          "\"data\":[\"<b>\"],\"offload\":{\"<b>\":\"<b>\"}}");
    check_page("hostile names", "<h1>&lt;b&gt;x</h1>", "<b>");
    check_page("hostile log", "&lt;/td&gt;&lt;b&gt;", "<i>");
    check_page("broken line", "1 of 2 lines of the log cannot be read", "<i>");
}

static void what_cannot_be_a_report_is_refused(void **state)
{
    (void)state;
    struct zn_report_options o = {.folder = test_folder};
    make_log(1);
    make_text("run.json", "{\"format\":2}");
    FAILS(zn_report(&o), ZN_ERR_INPUT, "run.json", "has format 2");
    make_text("run.json", "{\"format\":1,");
    FAILS(zn_report(&o), ZN_ERR_INPUT, "run.json", "not valid JSON");
    make_text("run.json", "[]");
    FAILS(zn_report(&o), ZN_ERR_INPUT, "run.json", "expected an object");
    remove(in_folder("run.json"));
    o.output = in_folder("metrics.jsonl");
    FAILS(zn_report(&o), ZN_ERR_USAGE, "metrics.jsonl", "ends in .html");
    o.output = in_folder("none/page.html");
    FAILS(zn_report(&o), ZN_ERR_IO, "none/page.html", "No such file");
    OK(zn_folder_create(in_folder("folder.html")));
    o.output = in_folder("folder.html");
    FAILS(zn_report(&o), ZN_ERR_USAGE, "folder.html", "is a folder");
    o.output = NULL;
    o.log = in_folder("elsewhere.jsonl");
    FAILS(zn_report(&o), ZN_ERR_IO, "elsewhere.jsonl", "No such file");
    o.log = NULL;
    o.folder = in_folder("metrics.jsonl");
    FAILS(zn_report(&o), ZN_ERR_INPUT, "metrics.jsonl", "is a file");
    o.folder = in_folder("nowhere");
    FAILS(zn_report(&o), ZN_ERR_INPUT, "nowhere", "no such folder");
    remove(in_folder("metrics.jsonl"));
    o.folder = test_folder;
    FAILS(zn_report(&o), ZN_ERR_INPUT, "holds no metrics.jsonl", "--log");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_summed_up),
        cmocka_unit_test(lines_that_cannot_be_read_are_counted),
        cmocka_unit_test(a_last_line_without_an_end_may_be_whole_or_cut),
        cmocka_unit_test(numbers_that_json_lacks_are_gaps),
        cmocka_unit_test(a_file_that_is_no_log_is_refused),
        cmocka_unit_test(the_page_says_how_the_run_ended),
        cmocka_unit_test(bytes_are_shown_by_kind_and_tier),
        cmocka_unit_test(every_key_of_the_configuration_is_shown),
        cmocka_unit_test(nothing_from_outside_is_taken_as_html),
        cmocka_unit_test(what_cannot_be_a_report_is_refused),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
