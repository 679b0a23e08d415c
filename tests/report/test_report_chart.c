/* What a report draws: curves of any length in bins, numbers as people read them, and charts of any values. */
#include "files.h"

#include <math.h>

#include "base/text.h"
#include "report/chart.h"
#include "report/html.h"

/* ---- Curves ---- */

static void a_short_curve_is_kept_as_it_is(void **state)
{
    (void)state;
    static zn_curve c;
    zn_curve_init(&c);
    for (int i = 1; i <= ZN_CURVE_BINS; i++)
        zn_curve_add(&c, i, 10 - 0.001 * i);
    assert_int_equal(c.n_bins, ZN_CURVE_BINS);
    assert_int_equal(c.width, 1);
    for (int i = 1; i <= ZN_CURVE_BINS; i++) {
        assert_true(c.bin[i - 1].from == i && c.bin[i - 1].to == i);
        assert_true(c.bin[i - 1].sum == 10 - 0.001 * i);
    }
}

static void a_long_curve_keeps_its_extremes_and_means(void **state)
{
    (void)state;
    static zn_curve c;
    int64_t n = 0;
    double sum = 0, least = INFINITY, greatest = -INFINITY;
    zn_curve_init(&c);
    for (int i = 1; i <= 100001; i++)
        zn_curve_add(&c, i, i == 70001 ? 1e6 : i == 12345 ? -5 : i % 7);
    assert_in_range(c.n_bins, ZN_CURVE_BINS / 2, ZN_CURVE_BINS);
    for (size_t i = 0; i < c.n_bins; i++) {
        n += c.bin[i].n;
        sum += c.bin[i].sum;
        least = fmin(least, c.bin[i].least);
        greatest = fmax(greatest, c.bin[i].greatest);
        assert_true(c.bin[i].n == c.width || i == c.n_bins - 1);
        assert_true(i == 0 || c.bin[i].from == c.bin[i - 1].to + 1);
    }
    double expected = 1e6 - 5 - 70001 % 7 - 12345 % 7;
    for (int i = 1; i <= 100001; i++)
        expected += i % 7;
    assert_int_equal(n, 100001);
    assert_true(sum == expected && least == -5 && greatest == 1e6);
    assert_true(c.least.at == 12345 && c.greatest.at == 70001 && c.last.at == 100001 && c.first.value == 1);
}

static void what_is_no_number_is_a_gap(void **state)
{
    (void)state;
    static zn_curve c;
    const double values[] = {NAN, 1, INFINITY, -INFINITY, 1e101, 2, 1e-200};
    zn_curve_init(&c);
    for (size_t i = 0; i < COUNT(values); i++)
        zn_curve_add(&c, (double)i, values[i]);
    assert_int_equal(c.n_bins, COUNT(values));
    assert_int_equal(c.n, 3);
    for (size_t i = 0; i < COUNT(values); i++)
        assert_int_equal(c.bin[i].n, i == 1 || i == 5 || i == 6);
    assert_true(c.least.value == 0 && c.greatest.value == 2);
}

static void thinning_joins_neighbours(void **state)
{
    (void)state;
    static zn_curve c;
    zn_curve_init(&c);
    for (int i = 1; i <= 11; i++)
        zn_curve_add(&c, i, i);
    zn_curve_thin(&c, 11);
    assert_int_equal(c.n_bins, 11);
    zn_curve_thin(&c, 4);
    assert_int_equal(c.n_bins, 3);
    assert_int_equal(c.width, 4);
    assert_true(c.bin[0].sum == 10 && c.bin[1].sum == 26 && c.bin[2].sum == 30 && c.bin[2].n == 3);
    assert_true(c.bin[2].from == 9 && c.bin[2].to == 11);
}

/* ---- Texts and numbers ---- */

#define WRITES(call, expected)                                                                     \
    do {                                                                                           \
        zn_text page;                                                                              \
        zn_text_init(&page);                                                                       \
        zn_text_add(&page, "%s", "");                                                              \
        call;                                                                                      \
        assert_string_equal(page.data, expected);                                                  \
        zn_text_fini(&page);                                                                       \
    } while (0)

static void names_from_outside_are_escaped(void **state)
{
    (void)state;
    WRITES(html_add(&page, "<script>alert('1\" & 2')</script>"),
           "&lt;script&gt;alert(&#39;1&quot; &amp; 2&#39;)&lt;/script&gt;");
    WRITES(html_add(&page, "é – 字 😀\t\n"), "é – 字 😀\t\n");
    WRITES(html_add(&page, "a\x01\x1b\x7f\r"), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    WRITES(html_add(&page, "\xff<\xc3"), "\xef\xbf\xbd&lt;\xef\xbf\xbd");
    WRITES(html_add(&page, "\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    WRITES(html_add(&page, ""), "");
}

static void numbers_read_well(void **state)
{
    (void)state;
    WRITES(html_add_count(&page, 0), "0");
    WRITES(html_add_count(&page, 999), "999");
    WRITES(html_add_count(&page, 1000), "1,000");
    WRITES(html_add_count(&page, 12345678901.0), "12,345,678,901");
    WRITES(html_add_count(&page, -3), "0");
    WRITES(html_add_size(&page, 1536), "1.50 KiB");
    WRITES(html_add_size(&page, -1), "0 B");
    WRITES(html_add_duration(&page, 0), "0 s");
    WRITES(html_add_duration(&page, 41.26), "41.3 s");
    WRITES(html_add_duration(&page, 59.7), "1 min 0 s");
    WRITES(html_add_duration(&page, 62.4), "1 min 2 s");
    WRITES(html_add_duration(&page, 3599.8), "1 h 0 min");
    WRITES(html_add_duration(&page, 11520), "3 h 12 min");
    WRITES(html_add_duration(&page, 187200), "2 d 4 h");
    WRITES(html_add_large(&page, 812), "812");
    WRITES(html_add_large(&page, 1623936), "1.62 M");
    WRITES(html_add_large(&page, 494032768), "494 M");
    WRITES(html_add_large(&page, 999999999), "1.00 B");
    WRITES(html_add_large(&page, 1543714304), "1.54 B");
    WRITES(html_add_number(&page, 3e-4), "0.0003");
    WRITES(html_add_number(&page, 1e-8), "1e-8");
    WRITES(html_add_number(&page, 0.9), "0.9");
    WRITES(html_add_number(&page, 1.0 / 3), "0.3333333333333333");
    WRITES(html_add_short(&page, 2.00000e-5), "2e-5");
    WRITES(html_add_short(&page, 1.647321), "1.6473");
}

static void marks_of_an_axis_tell_their_values_apart(void **state)
{
    (void)state;
    char text[HTML_TICK_TEXT];
    static const struct {
        double value, step, greatest;
        const char *expected;
    } cases[] = {{0, 0.5, 4, "0"},          {2.5, 0.5, 4, "2.5"},       {3, 0.5, 4, "3.0"},
                 {150, 50, 200, "150"},     {3000, 1000, 9000, "3000"}, {5000, 5000, 20000, "5k"},
                 {1500, 500, 12000, "1.5k"}, {1e6, 2e5, 1.2e6, "1.0M"}, {2e-5, 1e-5, 2e-5, "2e-5"},
                 {1.5e-4, 5e-5, 3e-4, "1.5e-4"}, {1e-4, 5e-5, 3e-4, "1e-4"}, {0.0010, 0.0005, 0.001, "0.0010"},
                 {1e20, 1e19, 1e20, "1e20"}, {-0.5, 0.5, 1, "-0.5"}, {0.001, 0.001, 0.001, "0.001"}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(html_tick_text(cases[i].value, cases[i].step, cases[i].greatest, text), cases[i].expected);
}

/* ---- Charts ---- */

static void draw(const struct zn_chart *chart, zn_text *svg)
{
    zn_text_init(svg);
    zn_chart_add(svg, chart);
    assert_false(svg->failed);
    assert_null(strstr(svg->data, "nan"));
    assert_null(strstr(svg->data, "inf"));
}

static void a_line_is_where_its_values_are(void **state)
{
    (void)state;
    static zn_curve c;
    zn_text svg;
    zn_curve_init(&c);
    zn_curve_add(&c, 1, 0);
    zn_curve_add(&c, 2, 10);
    zn_curve_add(&c, 3, NAN);
    zn_curve_add(&c, 4, 5);
    /* The plot is 400 by 200, from 54, 10; steps 0 to 4, values 0 to 10. */
    const struct zn_chart chart = {.title = "T", .line = &c, .from_zero = true, .width = 470, .height = 250};
    draw(&chart, &svg);
    assert_non_null(strstr(svg.data, "d=\"M154.0 210.0L254.0 10.0M454.0 110.0h0\""));
    assert_non_null(strstr(svg.data, ">step</text>"));
    assert_null(strstr(svg.data, "class=\"band\""));
    zn_text_fini(&svg);
    zn_curve_thin(&c, 2);
    draw(&chart, &svg); /* 1 and 2 are one bin with the mean 5, and 4 is alone in the other */
    assert_non_null(strstr(svg.data, "class=\"band\" d=\"M204.0 10.0L404.0 110.0L404.0 110.0L204.0 210.0Z\""));
    assert_non_null(strstr(svg.data, "class=\"line\" d=\"M204.0 110.0L404.0 110.0\""));
    zn_text_fini(&svg);
}

static void an_axis_need_not_begin_at_zero(void **state)
{
    (void)state;
    static zn_curve c;
    zn_text svg;
    zn_curve_init(&c);
    zn_curve_add(&c, 100, 20);
    zn_curve_add(&c, 150, 30);
    zn_curve_add(&c, 200, 25);
    const struct zn_chart chart = {.title = "T", .line = &c, .width = 470, .height = 250};
    draw(&chart, &svg);
    assert_non_null(strstr(svg.data, "d=\"M54.0 210.0L254.0 10.0L454.0 110.0\""));
    zn_text_fini(&svg);
}

static void a_single_value_is_a_dot_in_the_middle(void **state)
{
    (void)state;
    static zn_curve c;
    zn_text svg;
    zn_curve_init(&c);
    zn_curve_add(&c, 7, 2.5);
    const struct zn_chart chart = {.title = "T", .line = &c, .width = 470, .height = 250};
    draw(&chart, &svg);
    assert_non_null(strstr(svg.data, "<circle class=\"only\" cx=\"254.0\""));
    assert_non_null(strstr(svg.data, "<title>step 7: 2.5</title>"));
    zn_text_fini(&svg);
}

static void values_of_many_sizes_have_a_logarithmic_axis(void **state)
{
    (void)state;
    static zn_curve c;
    zn_text svg;
    zn_curve_init(&c);
    zn_curve_add(&c, 1, 1);
    zn_curve_add(&c, 2, 99);
    struct zn_chart chart = {.title = "T", .line = &c, .may_be_log = true, .width = 470, .height = 250};
    assert_false(zn_chart_is_log(&chart));
    zn_curve_add(&c, 3, 100);
    assert_true(zn_chart_is_log(&chart));
    draw(&chart, &svg);
    assert_non_null(strstr(svg.data, ">1</text>"));
    assert_non_null(strstr(svg.data, ">100</text>"));
    zn_text_fini(&svg);
    chart.may_be_log = false;
    assert_false(zn_chart_is_log(&chart));
    chart.may_be_log = true;
    zn_curve_add(&c, 4, 0);
    assert_false(zn_chart_is_log(&chart));
}

static void any_values_can_be_drawn(void **state)
{
    (void)state;
    static const double values[][3] = {{0, 0, 0},          {5, 5, 5},         {-1e100, 1e100, 0},
                                       {1e-99, 2e-99, 0},  {1e9, 1e9 + 1e-6, 1e9}, {NAN, NAN, NAN},
                                       {1e-100, 1e100, 1}, {-3, -3, -3},      {NAN, 7, NAN}};
    static const double steps[][3] = {{1, 2, 3}, {1, 1, 1}, {1e15, 1e15, 1e15}, {3, 2, 1}, {0, 0, 0}, {7, 1e15, 8}};
    for (size_t v = 0; v < COUNT(values); v++) {
        for (size_t s = 0; s < COUNT(steps); s++) {
            for (int kind = 0; kind < 4; kind++) {
                static zn_curve c;
                zn_text svg;
                zn_curve_init(&c);
                for (int i = 0; i < 3; i++)
                    zn_curve_add(&c, steps[s][i], values[v][i]);
                struct zn_chart chart = {.title = "T", .line = &c, .points = &c, .marks = &c, .from_zero = kind & 1,
                                         .may_be_log = kind & 2, .width = 310, .height = 200};
                draw(&chart, &svg);
                assert_true(svg.n_bytes < 10000); /* a bounded number of marks */
                zn_text_fini(&svg);
            }
        }
    }
    static zn_curve none;
    zn_text svg;
    zn_curve_init(&none);
    draw(&(struct zn_chart){.title = "T", .line = &none, .width = 310, .height = 200}, &svg);
    assert_non_null(strstr(svg.data, "no values"));
    zn_text_fini(&svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_curve_is_kept_as_it_is),
        cmocka_unit_test(a_long_curve_keeps_its_extremes_and_means),
        cmocka_unit_test(what_is_no_number_is_a_gap),
        cmocka_unit_test(thinning_joins_neighbours),
        cmocka_unit_test(names_from_outside_are_escaped),
        cmocka_unit_test(numbers_read_well),
        cmocka_unit_test(marks_of_an_axis_tell_their_values_apart),
        cmocka_unit_test(a_line_is_where_its_values_are),
        cmocka_unit_test(an_axis_need_not_begin_at_zero),
        cmocka_unit_test(a_single_value_is_a_dot_in_the_middle),
        cmocka_unit_test(values_of_many_sizes_have_a_logarithmic_axis),
        cmocka_unit_test(any_values_can_be_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
