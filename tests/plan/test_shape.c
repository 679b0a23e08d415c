/* Shapes by size and by number of parameters: the models made of them, and sizes that make none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "plan/shape.h"

static struct zn_shape near(double n_parameters)
{
    struct zn_shape s;
    if (zn_shape_near(n_parameters, ZN_SHAPE_VOCABULARY, &s) != ZN_OK)
        fail_msg("%g: %s", n_parameters, zn_error_message());
    return s;
}

static zn_model *model_of(const struct zn_shape *s, int64_t seq_len)
{
    zn_model *model;
    if (zn_shape_model(s, seq_len, &model) != ZN_OK)
        fail_msg("%s", zn_error_message());
    return model;
}

static void is(struct zn_shape s, int64_t layers, int64_t hidden, int64_t heads)
{
    assert_int_equal(s.layers, layers);
    assert_int_equal(s.hidden, hidden);
    assert_int_equal(s.heads, heads);
}

static void counts_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double count;
    } good[] = {{"124M", 124e6}, {"1.5B", 1.5e9}, {"1T", 1e12}, {"0.5t", 0.5e12}, {"7e9", 7e9}, {"175g", 175e9}, {"300k", 3e5}};
    static const char *const bad[] = {"", "0", "0T", "-1T", "T", "1X", "1 T", "1TB", "nan", "inf", "0x1B", "1e400T", "+1T"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double count = 0;
        assert_int_equal(zn_count_parse(good[i].text, "--params", &count), ZN_OK);
        assert_true(fabs(count / good[i].count - 1) < 1e-12);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double count = -5;
        if (zn_count_parse(bad[i], "--params", &count) != ZN_ERR_USAGE)
            fail_msg("'%s' was taken", bad[i]);
        assert_true(count == -5);
        assert_non_null(strstr(zn_error_message(), "--params"));
    }
}

static void the_papers_shapes_are_found(void **state)
{
    (void)state;
    is(near(124e6), 12, 768, 12);
    is(near(100e9), 80, 10240, 128);
    is(near(0.5e12), 100, 20480, 160);
    is(near(1e12), 128, 25600, 256);
    is(near(10e12), 195, 65536, 512);
    is(near(100e12), 315, 163840, 1024);
}

/* In steps of a tenth over eight decades: near what was asked, and never less for more. */
static void others_lie_between(void **state)
{
    (void)state;
    double before = 0;
    for (double n = 3e7; n < 1e16; n *= 1.1) {
        struct zn_shape s = near(n);
        double got = zn_shape_parameters(&s, 1024);
        assert_int_equal(s.hidden % 128, 0);
        assert_int_equal(s.hidden % s.heads, 0);
        assert_int_equal(s.hidden / s.heads % 8, 0);
        if (fabs(log(got / n)) > (n < 1e9 ? 0.25 : n < 1e10 ? 0.08 : 0.05))
            fail_msg("%g gave %g (%lld layers, hidden %lld)", n, got, (long long)s.layers, (long long)s.hidden);
        assert_true(got >= before * 0.97);
        before = got;
    }
    struct zn_shape s = near(175e9);
    assert_true(s.layers > 80 && s.layers < 100 && s.hidden > 10240 && s.hidden < 20480);
}

static void the_model_has_the_shape(void **state)
{
    (void)state;
    struct zn_shape s = {.layers = 3, .hidden = 64, .heads = 4, .vocabulary = 101};
    zn_model *m = model_of(&s, 32);
    assert_string_equal(m->architecture, "gpt2");
    assert_int_equal(m->n_layers, 3);
    assert_int_equal(m->hidden, 64);
    assert_int_equal(m->module->vocabulary, 101);
    assert_int_equal(m->module->max_seq_len, 32);
    assert_false(m->has_dropout);
    assert_true((double)zn_model_n_elements(m) == zn_shape_parameters(&s, 32));
    zn_model_destroy(m);

    s.inner = 100;
    m = model_of(&s, 5000); /* beyond GPT-2's own positions */
    assert_true((double)zn_model_n_elements(m) == zn_shape_parameters(&s, 5000));
    assert_int_equal(m->max_positions, 5000);
    zn_model_destroy(m);

    s = near(124e6);
    m = model_of(&s, 1024);
    assert_int_equal(zn_model_n_elements(m), 124439808); /* GPT-2's own number */
    zn_model_destroy(m);
}

static void refused(struct zn_shape s, int64_t seq_len, const char *text)
{
    zn_model *model = NULL;
    assert_int_equal(zn_shape_model(&s, seq_len, &model), ZN_ERR_USAGE);
    assert_null(model);
    if (!strstr(zn_error_message(), text) || strchr(zn_error_message(), '\n'))
        fail_msg("no '%s' in: %s", text, zn_error_message());
}

static void sizes_that_make_no_model_are_refused(void **state)
{
    (void)state;
    refused((struct zn_shape){12, 768, 7, 0, 100}, 8, "--heads 7 does not divide --hidden 768");
    refused((struct zn_shape){0, 768, 12, 0, 100}, 8, "--layers 0");
    refused((struct zn_shape){1001, 768, 12, 0, 100}, 8, "--layers 1001");
    refused((struct zn_shape){-1, 768, 12, 0, 100}, 8, "--layers -1");
    refused((struct zn_shape){1, 0, 12, 0, 100}, 8, "from 1");
    refused((struct zn_shape){1, 768, 0, 0, 100}, 8, "from 1");
    refused((struct zn_shape){1, 768, 12, -1, 100}, 8, "from 1");
    refused((struct zn_shape){1, 768, 12, 0, 0}, 8, "from 1");
    refused((struct zn_shape){1, 768, 12, 0, (int64_t)1 << 40}, 8, "from 1");
    refused((struct zn_shape){1, 768, 12, 0, 100}, 0, "from 1");
    refused((struct zn_shape){1000, 2147483647, 1, 2147483647, 100}, 8, "2^63");
    refused((struct zn_shape){1000, 4000000, 1, 0, 100}, 8, "2^63");
}

static void numbers_without_a_shape_are_refused(void **state)
{
    (void)state;
    struct zn_shape s = {0};
    assert_int_equal(zn_shape_near(1e6, ZN_SHAPE_VOCABULARY, &s), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "vocabulary"));
    assert_int_equal(zn_shape_near(1e18, ZN_SHAPE_VOCABULARY, &s), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "2^63"));
    assert_int_equal(s.layers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_read_as_people_write_them),
        cmocka_unit_test(the_papers_shapes_are_found),
        cmocka_unit_test(others_lie_between),
        cmocka_unit_test(the_model_has_the_shape),
        cmocka_unit_test(sizes_that_make_no_model_are_refused),
        cmocka_unit_test(numbers_without_a_shape_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
