/* Wording, rows and bars at any width, and smoothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/progress.h"
#include "show/canvas.h"
#include "show/panel.h"
#include "show/words.h"

static void seconds_are_worded(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0.44, "0.4 s"}, {12.4, "12 s"}, {185, "3 min 05 s"}, {7800, "2 h 10 min"}, {356400, "4 d 03 h"}, {-3, "0.0 s"}};
    char text[ZN_WORDS];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(zn_words_seconds(cases[i].seconds, text), cases[i].text);
    assert_string_equal(zn_words_rate(1.234e9, text), "1.23 GB/s");
    assert_string_equal(zn_words_rate(0, text), "0 B/s");
    assert_string_equal(zn_words_count(1234, text), "1234");
    assert_string_equal(zn_words_count(123456, text), "123 k");
}

static void progress_is_worded(void **state)
{
    (void)state;
    zn_progress *p;
    struct zn_progress_view view;
    struct zn_activity ended;
    char text[2 * ZN_WORDS];
    assert_int_equal(zn_progress_create(&p), ZN_OK);
    zn_progress_begin(p, "loading the weights", "parameters", 2000000);
    zn_progress_set(p, 500000);
    zn_progress_read(p, &view);
    view.now.seconds = 31;
    assert_string_equal(zn_words_progress(&view, text), "loading the weights: 500 k of 2.00 M parameters after 31 s");
    zn_progress_begin_step(p, 7);
    zn_progress_place(p, &(struct zn_step_place){.micro_batch = 3, .n_micro_batches = 8, .pass = "backward", .segment = 4,
                                                 .n_segments = 14}, 5, 16);
    zn_progress_read(p, &view);
    view.now.seconds = 62;
    assert_string_equal(zn_words_progress(&view, text), "step 7: micro-batch 3 of 8, backward, segment 4 of 14, after 1 min 02 s");
    assert_int_equal(view.n_ended, 1);
    assert_true(zn_progress_ended(p, 0, &ended));
    assert_string_equal(ended.what, "loading the weights");
    assert_false(zn_progress_ended(p, 1, &ended));
    zn_progress_begin(p, "evaluating", "windows", 4);
    zn_progress_place(p, &(struct zn_step_place){.pass = "forward", .segment = 1, .n_segments = 2}, 1, 2);
    zn_progress_read(p, &view);
    assert_int_equal(view.now.total, 4); /* the passes of an evaluation are no step */
    zn_progress_destroy(p);
}

/* No row is wider than the terminal less one column, no more rows than it has. */
static void check_rows(const struct zn_canvas *c)
{
    int n = 0;
    char line[4096];
    assert_int_equal(zn_text_status(&c->text), ZN_OK);
    for (const char *at = c->text.data; at && *at; n++) {
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        assert_true((size_t)(end - at) < sizeof line);
        memcpy(line, at, (size_t)(end - at));
        line[end - at] = '\0';
        assert_true(zn_text_columns(line) <= c->width - 1);
        assert_int_equal(zn_text_columns(line), c->used[n]);
        at = end + 1;
    }
    assert_true(n <= (c->height > 2 ? c->height - 2 : 0));
}

static void panel_fits_any_width(void **state)
{
    (void)state;
    struct zn_panel panel;
    zn_panel_init(&panel);
    struct zn_plan_report plan = {.memory_limit = (size_t)4 << 30, .flops = 1e12, .peak_flops = 1e12, .bytes = {{1 << 30, 1 << 20, 1 << 30}}};
    zn_panel_plan(&panel, &plan);
    for (int s = 1; s <= 1000; s++)
        zn_panel_step(&panel, &(struct zn_step_report){
            .step = s, .steps = 5000, .loss = 10.0 / s, .grad_norm = 1, .lr = 1e-4, .seconds = 2, .tokens = 4096, .targets = 1000,
            .device_bytes = 1 << 30, .host_bytes = 1 << 20, .nvme_bytes = 1 << 30, .resident_bytes = 2u << 30,
            .comm_bytes = 1 << 20, .nvme_read_bytes = 1 << 30, .nvme_write_bytes = 1 << 29, .evaluated = true, .eval_loss = 3});
    const struct zn_progress_view view = {
        .now = {.what = "step", .done = 5, .total = 16, .seconds = 3},
        .place = {.step = 1001, .micro_batch = 3, .n_micro_batches = 8, .pass = "backward", .segment = 4, .n_segments = 14}};
    for (int blocks = 0; blocks < 2; blocks++)
        for (int width = 1; width <= 250; width++)
            for (int height = 1; height <= 40; height += 13) {
                struct zn_canvas c;
                zn_canvas_init(&c, width, height, false, blocks);
                zn_panel_draw(&panel, &c, &view);
                zn_canvas_end(&c);
                check_rows(&c);
                for (const char *at = c.text.data; !blocks && at && *at; at++)
                    assert_true((unsigned char)*at < 128);
                if (width == 100 && height == 40) {
                    assert_non_null(strstr(c.text.data, "step    1000 of 5000  "));
                    assert_non_null(strstr(c.text.data, "2048 tokens/s  500 trained/s  2.0 s a step  50% of the machine's peak"));
                    assert_non_null(strstr(c.text.data, "micro-batch 3 of 8, backward, segment 4 of 14"));
                    assert_non_null(strstr(c.text.data, "drive read 537 MB/s  written 268 MB/s  between ranks 524 kB/s"));
                }
                zn_canvas_fini(&c);
            }
}

static void time_left_does_not_jump(void **state)
{
    (void)state;
    struct zn_forecast f = {0};
    double now = 1000, before = -1;
    assert_true(zn_forecast_left(&f, now) < 0);
    for (int step = 1; step <= 200; step++) {
        now += step % 20 == 0 ? 30 : 2; /* every twentieth evaluates */
        zn_forecast_step(&f, now, 2, 1000 - step);
        double left = zn_forecast_left(&f, now);
        if (step > 60)
            assert_true(fabs(left - before) < 0.1 * before);
        before = left;
    }
    assert_true(fabs(before / (800 * 3.4) - 1) < 0.3);
    assert_true(zn_forecast_left(&f, now + 1) < before);
    assert_true(zn_forecast_left(&f, now + 1e6) >= 0);
    assert_true(fabs(zn_forecast_left(&f, now + 500) - zn_forecast_left(&f, now + 400)) < 1e-6); /* it stands */
}

static void trend_keeps_the_whole_run(void **state)
{
    (void)state;
    struct zn_trend t = {0};
    double points[ZN_TREND_POINTS];
    for (int i = 0; i < 100000; i++)
        zn_trend_add(&t, 100000 - i);
    zn_trend_add(&t, NAN);
    int n = zn_trend_points(&t, 40, points);
    assert_int_equal(n, 40);
    assert_true(points[0] > 98000 && points[39] < 2000);
    for (int i = 1; i < n; i++)
        assert_true(points[i] < points[i - 1]);
}

static void lines_break_between_words(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *wanted;
        int width;
    } cases[] = {
        {"step 1/3  loss 4.7\n", "step 1/3  loss 4.7\n", 60},
        {"step 1/3  loss 4.7387  norm 22.600\n", "step 1/3  loss 4.7387  norm\n        22.600\n", 32},
        {"  moved   one two three four five six\nshort\n", "  moved   one two three four five\n          six\nshort\n", 34},
        {"          one two three four five six\n", "          one two three four five\n          six\n", 34},
        {"exactly ten\n", "exactly ten\n", 11},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b\n", 30},
        {"ä ö ü ä ö ü ä ö ü ä ö ü ä ö ü\n", "ä ö ü ä ö ü ä ö ü ä ö ü ä ö ü\n", 29},
        {"no end of line", "no end of line", 60},
        {"\n\n", "\n\n", 60},
        {"one two three", "one two\nthree", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        zn_text text;
        zn_text_init(&text);
        zn_text_add_wrapped(&text, cases[i].lines, strlen(cases[i].lines), cases[i].width);
        assert_string_equal(text.data, cases[i].wanted);
        zn_text_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_are_worded), cmocka_unit_test(progress_is_worded), cmocka_unit_test(panel_fits_any_width),
        cmocka_unit_test(time_left_does_not_jump), cmocka_unit_test(trend_keeps_the_whole_run),
        cmocka_unit_test(lines_break_between_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
