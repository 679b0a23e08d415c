/* The loss scale follows DeepSpeed's sequences, and gradients are divided by the scale they were
 * multiplied with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "zero/precision.h"
#include "zero/ranks.h"

static zn_loss_scale dynamic(double initial, int64_t window, int64_t hysteresis)
{
    zn_loss_scale s;
    zn_loss_scale_init(&s, &(struct zn_loss_scale_options){.dynamic = true,
                                                           .initial = initial,
                                                           .window = window,
                                                           .hysteresis = hysteresis,
                                                           .min = 1});
    return s;
}

/* One step for each letter: 'o' overflows, 'g' is good; `wanted` are the scales after each. */
static void follows(zn_loss_scale *s, const char *steps, const double *wanted)
{
    for (size_t i = 0; steps[i]; i++) {
        zn_loss_scale_update(s, steps[i] == 'o');
        if (s->scale != wanted[i])
            fail_msg("after step %zu of %s: %g, not %g", i + 1, steps, s->scale, wanted[i]);
    }
}

static void grows_every_window(void **state)
{
    (void)state;
    zn_loss_scale s = dynamic(256, 2, 2);
    follows(&s, "ggggggg", (double[]){256, 256, 512, 512, 1024, 1024, 2048});
}

static void falls_at_every_overflow_without_patience(void **state)
{
    (void)state;
    zn_loss_scale s = dynamic(256, 2, 1);
    follows(&s, "oogggo", (double[]){128, 64, 64, 64, 128, 64});
}

static void ends_at_the_minimum(void **state)
{
    (void)state;
    zn_loss_scale s = dynamic(256, 1000, 1);
    assert_false(zn_loss_scale_is_least(&s));
    follows(&s, "oooooooo", (double[]){128, 64, 32, 16, 8, 4, 2, 1});
    assert_true(zn_loss_scale_is_least(&s));
    follows(&s, "oo", (double[]){1, 1});
}

/* The minimum is met, not passed, where halves of the first scale do not hit it. */
static void a_minimum_that_is_no_power_of_two(void **state)
{
    (void)state;
    zn_loss_scale s;
    zn_loss_scale_init(&s, &(struct zn_loss_scale_options){
                               .dynamic = true, .initial = 16, .window = 10, .hysteresis = 1, .min = 3});
    follows(&s, "ooo", (double[]){8, 4, 3});
    assert_true(zn_loss_scale_is_least(&s));
}

static void hysteresis_forgives_until_the_scale_grows(void **state)
{
    (void)state;
    zn_loss_scale s = dynamic(256, 2, 2);
    follows(&s, "oo", (double[]){256, 128}); /* the first is forgiven */
    follows(&s, "go", (double[]){128, 64});  /* good steps alone do not bring patience back */
    follows(&s, "ggg", (double[]){64, 64, 128});
    follows(&s, "oo", (double[]){128, 64}); /* growth does */
    s = dynamic(256, 1000, 3);
    follows(&s, "oooo", (double[]){256, 256, 128, 64});
}

static void an_overflow_starts_the_window_anew(void **state)
{
    (void)state;
    zn_loss_scale s = dynamic(256, 3, 2);
    follows(&s, "ggoggg", (double[]){256, 256, 256, 256, 256, 256});
    follows(&s, "g", (double[]){512});
}

static void a_static_scale_stays(void **state)
{
    (void)state;
    zn_loss_scale s;
    zn_loss_scale_init(&s, &(struct zn_loss_scale_options){.initial = 128});
    follows(&s, "ooggoo", (double[]){128, 128, 128, 128, 128, 128});
    assert_true(zn_loss_scale_is_least(&s)); /* overflows count at once */
}

/* ---- In training ---- */

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};

static char *losses_with(const char *folder, bool is_dynamic, double scale, int stage, int n_ranks)
{
    char stays[32];
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, ZN_TEST_DATA "/parity/gpt2-calm");
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, folder);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 6);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, clip, 0.5);
    ZN_SET(o, precision, "fp16");
    snprintf(stays, sizeof stays, "%g", scale);
    ZN_SET(o, loss_scale, is_dynamic ? "dynamic" : stays);
    ZN_SET(o, loss_scale_init, scale);
    ZN_SET(o, loss_scale_window, 1);
    ZN_SET(o, stage, stage);
    ZN_SET(o, threads, 1);
    assert_int_equal(train_on_ranks(&o, n_ranks), ZN_OK);
    return losses_of(folder);
}

/* Loss and norm of a step from losses_of. */
static const char *read_step(const char *at, double *loss, double *norm)
{
    int step;
    assert_int_equal(sscanf(at, "{\"step\":%d,\"loss\":%lf,\"grad_norm\":%lf", &step, loss, norm), 3);
    return strchr(at, '\n') + 1;
}

/* The scale doubles after every step but the first: were a step's gradients divided by the new one, norms would be
 * half of what they are with a scale that stays. Only fp16's smallest gradients see the scale at all: 1e-4. */
static void a_growing_scale_changes_no_gradient(void **state)
{
    (void)state;
    char folder[] = "/tmp/zinc-precision-XXXXXX", command[128];
    assert_non_null(mkdtemp(folder));
    for (int stage = 0; stage <= 3; stage += 3) {
        char *grows = losses_with(folder, true, 1024, stage, 2);
        assert_true(last_number(folder, "scale") == 1024 * 16);
        char *stays = losses_with(folder, false, 1024, stage, 2);
        assert_true(last_number(folder, "scale") == 1024);
        const char *a = grows, *b = stays;
        int n = 0;
        for (; *a && *b; n++) {
            double loss[2], norm[2];
            a = read_step(a, &loss[0], &norm[0]);
            b = read_step(b, &loss[1], &norm[1]);
            assert_true(loss[0] > loss[1] * (1 - 1e-4) && loss[0] < loss[1] * (1 + 1e-4));
            assert_true(norm[0] > norm[1] * (1 - 1e-4) && norm[0] < norm[1] * (1 + 1e-4));
        }
        assert_int_equal(n, 6);
        free(grows);
        free(stays);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_every_window),
        cmocka_unit_test(falls_at_every_overflow_without_patience),
        cmocka_unit_test(ends_at_the_minimum),
        cmocka_unit_test(a_minimum_that_is_no_power_of_two),
        cmocka_unit_test(hysteresis_forgives_until_the_scale_grows),
        cmocka_unit_test(an_overflow_starts_the_window_anew),
        cmocka_unit_test(a_static_scale_stays),
        cmocka_unit_test(a_growing_scale_changes_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
