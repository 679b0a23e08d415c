/* zn_train and zn_eval as a program calls them: what the listener hears, and two runs in one
 * process that leave each other alone. */
#include "files.h"

#include <math.h>
#include <pthread.h>

#include "zinc/train.h"

#define MODEL ZN_TEST_DATA "/parity/gpt2"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};

enum { STEPS = 4 };

/* What the listener was told. */
struct heard {
    int n_plans, n_steps, n_notes;
    struct zn_plan_report plan;
    double losses[STEPS], norms[STEPS];
};

static void hear_plan(void *self, const struct zn_plan_report *plan)
{
    struct heard *heard = self;
    assert_int_equal(heard->n_steps, 0);
    heard->n_plans++;
    heard->plan = *plan;
}

static void hear_step(void *self, const struct zn_step_report *step)
{
    struct heard *heard = self;
    assert_int_equal(step->step, heard->n_steps + 1);
    assert_int_equal(step->steps, STEPS);
    heard->losses[heard->n_steps] = step->loss;
    heard->norms[heard->n_steps++] = step->grad_norm;
}

static void hear_note(void *self, const char *text)
{
    struct heard *heard = self;
    assert_non_null(strstr(text, "dropout"));
    heard->n_notes++;
}

static struct zn_train_options new_options(const char *output, struct heard *heard)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, MODEL);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, steps, STEPS);
    ZN_SET(o, micro_batch, 2);
    ZN_SET(o, accumulate, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, threads, 1);
    o.listener = (struct zn_train_listener){.self = heard, .plan = hear_plan, .step = hear_step, .note = hear_note};
    return o;
}

static void the_listener_hears_plan_steps_and_notes(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct zn_train_options o = new_options(in_folder("heard"), &heard);
    OK(zn_train(&o));
    assert_int_equal(heard.n_plans, 1);
    assert_int_equal(heard.n_steps, STEPS);
    assert_int_equal(heard.n_notes, 1);
    assert_int_equal(heard.plan.n_parameters, 29984);
    assert_int_equal(heard.plan.tokens_per_step, 2 * 2 * 16);
    assert_int_equal(heard.plan.bytes[2][0], 2 * heard.plan.bytes[0][0]);
    for (int i = 0; i < STEPS; i++)
        assert_true(heard.losses[i] > 0 && heard.norms[i] > 0);
    assert_true(heard.losses[STEPS - 1] < heard.losses[0]);
}

static void a_listener_may_be_deaf(void **state)
{
    (void)state;
    struct zn_train_options o = new_options(in_folder("deaf"), NULL);
    o.listener = (struct zn_train_listener){0};
    OK(zn_train(&o));
}

static void evaluation_counts_its_windows(void **state)
{
    (void)state;
    struct zn_eval_options o;
    struct zn_eval_result one, three;
    zn_eval_options_init(&o);
    ZN_SET(o, model, MODEL);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, threads, 1);
    OK(zn_eval(&o, &one));
    assert_int_equal(one.windows, (2200 - 1) / 16);
    assert_int_equal(one.tokens, one.windows * 16);
    assert_true(fabs(one.perplexity - exp(one.loss)) <= 1e-12 * one.perplexity);
    ZN_SET(o, micro_batch, 3); /* does not divide the windows: the rest counts for nothing */
    OK(zn_eval(&o, &three));
    assert_int_equal(three.windows, one.windows);
    assert_true(fabs(three.loss - one.loss) <= 1e-6 * one.loss);
}

static void a_failure_leaves_the_text_of_its_cause(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct zn_train_options o = new_options(in_folder("failed"), &heard);
    ZN_SET(o, model, in_folder("nowhere"));
    FAILS(zn_train(&o), ZN_ERR_INPUT, "nowhere", "no such folder");
    ZN_SET(o, model, MODEL);
    ZN_SET(o, optimizer, "lamb");
    FAILS(zn_train(&o), ZN_ERR_USAGE, "--optimizer", "lamb");
    assert_int_equal(heard.n_plans, 0);
}

/* ---- Two at once ---- */

struct job {
    struct zn_train_options options;
    struct heard heard;
    zn_status status;
};

static void *run_job(void *self)
{
    struct job *job = self;
    job->status = zn_train(&job->options);
    return NULL;
}

static void check_same(const struct heard *a, const struct heard *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->norms, b->norms, sizeof a->norms);
}

static void two_runs_in_one_process_leave_each_other_alone(void **state)
{
    (void)state;
    static struct job alone[2], together[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "alone%d", i);
        alone[i].options = new_options(in_folder(name), &alone[i].heard);
        snprintf(name, sizeof name, "together%d", i);
        together[i].options = new_options(in_folder(name), &together[i].heard);
        ZN_SET(alone[i].options, seed, i + 1);
        ZN_SET(together[i].options, seed, i + 1);
        run_job(&alone[i]);
        OK(alone[i].status);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &together[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(together[i].status, ZN_OK);
        check_same(&alone[i].heard, &together[i].heard);
    }
    assert_memory_not_equal(alone[0].heard.losses, alone[1].heard.losses,
                            sizeof alone[0].heard.losses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_listener_hears_plan_steps_and_notes),
        cmocka_unit_test(a_listener_may_be_deaf),
        cmocka_unit_test(evaluation_counts_its_windows),
        cmocka_unit_test(a_failure_leaves_the_text_of_its_cause),
        cmocka_unit_test(two_runs_in_one_process_leave_each_other_alone),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
