/* What a run leaves at its end, how --resume takes a finished one, and which checkpoints stay when steps are skipped. Ranks are
 * threads. */
#include "files.h"

#include "checkpoint/folder.h"
#include "zero/ranks.h"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static char notes[4096];

static void hear_note(void *self, const char *text)
{
    (void)self;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", text);
}

static struct zn_train_options new_options(const char *output)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, ZN_TEST_DATA "/parity/gpt2");
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, steps, 3);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, precision, "fp32");
    ZN_SET(o, threads, 1);
    o.listener.note = hear_note;
    notes[0] = '\0';
    return o;
}

static bool has_checkpoint(const char *output, int64_t step)
{
    char path[600], name[ZN_CHECKPOINT_NAME];
    snprintf(path, sizeof path, "%s/checkpoints/%s", output, zn_checkpoint_name(step, name));
    return zn_folder_exists(path);
}

/* A path in the test's folder that outlives the next question. */
static const char *output_named(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s", in_folder(name));
    return path;
}

static void the_default_leaves_the_model_alone(void **state)
{
    (void)state;
    struct zn_train_options o = new_options(output_named("alone"));
    OK(train_on_ranks(&o, 2));
    assert_true(zn_file_exists(in_folder("alone/model.safetensors")));
    assert_false(zn_folder_exists(in_folder("alone/checkpoints")));
    size_t n;
    char *run = slurp(o.settings.output, "run.json", &n);
    assert_non_null(strstr(run, "\"finished\": true"));
    assert_non_null(strstr(run, "\"save\": \"model\""));
    free(run);
    ZN_SET(o, overwrite, true);
    ZN_SET(o, save, "all");
    OK(train_on_ranks(&o, 2));
    assert_true(has_checkpoint(o.settings.output, 3));
    OK(zn_tree_remove(o.settings.output));
}

static void one_that_is_due_at_the_end_is_made(void **state)
{
    (void)state;
    struct zn_train_options o = new_options(output_named("due"));
    ZN_SET(o, steps, 4);
    ZN_SET(o, checkpoint_every, 2);
    OK(train_on_ranks(&o, 1));
    assert_true(has_checkpoint(o.settings.output, 2) && has_checkpoint(o.settings.output, 4));
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 3);
    OK(train_on_ranks(&o, 1));
    assert_true(has_checkpoint(o.settings.output, 2) && !has_checkpoint(o.settings.output, 3));
    OK(zn_tree_remove(o.settings.output));
}

/* Nothing is done, refused, or begun: by what the folder has. */
static void a_finished_model_is_not_gone_on_from(void **state)
{
    (void)state;
    size_t n, n_again;
    struct zn_train_options o = new_options(output_named("finished"));
    OK(train_on_ranks(&o, 1));
    char *log = slurp(o.settings.output, "metrics.jsonl", &n);
    ZN_SET(o, resume, NULL);
    OK(train_on_ranks(&o, 2));
    assert_non_null(strstr(notes, "holds the finished model of 3 steps: nothing is left to do"));
    char *again = slurp(o.settings.output, "metrics.jsonl", &n_again);
    assert_int_equal(n, n_again);
    assert_memory_equal(log, again, n);
    free(log);
    free(again);
    ZN_SET(o, steps, 5);
    FAILS(train_on_ranks(&o, 2), ZN_ERR_USAGE, "holds a finished model and no whole checkpoint", "--model ");
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "--save all", "another --output");
    /* A model that nothing tells of is no less a model. */
    ZN_SET(o, steps, 3);
    assert_int_equal(remove(in_folder("finished/run.json")), 0);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "holds a finished model and no whole checkpoint", "--model ");
    assert_int_equal(remove(in_folder("finished/model.safetensors")), 0);
    OK(train_on_ranks(&o, 1));
    assert_non_null(strstr(notes, "holds no checkpoint to go on from: starting at the beginning"));
    OK(zn_tree_remove(o.settings.output));
}

/* Steps 2 and 3 are good; step 4 breaks the weights, and after ten skipped ones the run ends with step 14. */
static void checkpoints_of_skipped_steps_push_out_no_good_ones(void **state)
{
    (void)state;
    struct zn_train_options o = new_options(output_named("skipped"));
    int64_t *steps;
    size_t n_steps;
    ZN_SET(o, checkpoint_every, 1);
    OK(train_on_ranks(&o, 1));
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 40);
    ZN_SET(o, lr, 1e38);
    ZN_SET(o, clip, 0);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_NUMERIC, "10 steps in a row were skipped, the last (14)", "a checkpoint is saved");
    OK(zn_checkpoints_list(in_folder("skipped/checkpoints"), &steps, &n_steps));
    assert_int_equal(n_steps, 3);
    assert_int_equal(steps[0], 14);
    assert_int_equal(steps[1], 4);
    assert_int_equal(steps[2], 3);
    free(steps);
    OK(zn_tree_remove(o.settings.output));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_leaves_the_model_alone),
        cmocka_unit_test(one_that_is_due_at_the_end_is_made),
        cmocka_unit_test(a_finished_model_is_not_gone_on_from),
        cmocka_unit_test(checkpoints_of_skipped_steps_push_out_no_good_ones),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
