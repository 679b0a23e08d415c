/* Runs that stop and go on: bit for bit where ranks and precision stay, from the same place of the data where they change;
 * broken checkpoints passed over, other runs refused by name. Ranks are threads. */
#include "files.h"

#include <math.h>

#include "checkpoint/contents.h"
#include "checkpoint/folder.h"
#include "zero/ranks.h"

#define GPT2 ZN_TEST_DATA "/parity/gpt2"
#define CALM ZN_TEST_DATA "/parity/gpt2-calm"
#define QWEN3 ZN_TEST_DATA "/parity/qwen3"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};

/* The path of a name in the test's folder that stays as long as the test. */
static const char *kept(const char *name)
{
    static char paths[48][300];
    const char *path = in_folder(name);
    for (size_t i = 0; i < COUNT(paths); i++) {
        if (!paths[i][0])
            snprintf(paths[i], sizeof paths[i], "%s", path);
        if (strcmp(paths[i], path) == 0)
            return paths[i];
    }
    fail_msg("too many paths");
    return NULL;
}

/* What a run was told, and when it is to stop. */
struct watch {
    int n_notes, n_saved, n_asked;
    int stop_after; /* steps; 0: never */
    char notes[4096];
};

static void hear_note(void *self, const char *text)
{
    struct watch *w = self;
    size_t n = strlen(w->notes);
    w->n_notes++;
    snprintf(w->notes + n, sizeof w->notes - n, "%s\n", text);
}

static void hear_saved(void *self, const char *checkpoint, double seconds)
{
    struct watch *w = self;
    assert_true(seconds >= 0);
    assert_true(zn_folder_exists(checkpoint));
    w->n_saved++;
}

/* Of one rank: the first question comes before the first step. */
static int stop(void *self)
{
    struct watch *w = self;
    return w->n_asked++ >= w->stop_after && w->stop_after > 0 ? 15 : 0;
}

static struct zn_train_options new_options(const char *output, struct watch *watch)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, GPT2);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, kept(output));
    ZN_SET(o, steps, 6);
    ZN_SET(o, micro_batch, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, lr, 1e-3);
    ZN_SET(o, weight_decay, 0.1);
    ZN_SET(o, lr_schedule, "cosine");
    ZN_SET(o, warmup, 2);
    ZN_SET(o, precision, "fp32");
    ZN_SET(o, stage, 0);
    ZN_SET(o, threads, 1);
    ZN_SET(o, persist_below, 0);
    ZN_SET(o, save, "all");
    *watch = (struct watch){0};
    o.listener = (struct zn_train_listener){.self = watch, .note = hear_note, .saved = hear_saved};
    return o;
}

/* A run of one rank that is stopped after some steps. */
static void stop_after(struct zn_train_options *o, struct watch *watch, int steps)
{
    o->stop = stop;
    o->stop_self = watch;
    watch->n_asked = 0;
    watch->stop_after = steps;
    FAILS(train_on_ranks(o, 1), ZN_ERR_INTERRUPTED, "stopped by SIGTERM after step", "--resume goes on");
    o->stop = NULL;
}

static char *read_in(const char *name, size_t *n)
{
    char *text = slurp(test_folder, name, n);
    assert_non_null(text);
    return text;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n_a, n_b;
    char *x = read_in(a, &n_a), *y = read_in(b, &n_b);
    assert_int_equal(n_a, n_b);
    if (memcmp(x, y, n_a) != 0)
        fail_msg("%s and %s differ", a, b);
    free(x);
    free(y);
}

/* Losses, norms and weights, and the last checkpoint but for what tells of the run. */
static void assert_same_run(const char *a, const char *b)
{
    static const char *const names[] = {"model.safetensors", "checkpoints/step-00000006/model.safetensors",
                                        "checkpoints/step-00000006/optimizer-00001-of-00001.safetensors"};
    char *x = losses_of(in_folder(a)), *y = losses_of(in_folder(b));
    assert_string_equal(x, y);
    free(x);
    free(y);
    for (size_t i = 0; i < 3; i++) {
        char first[128], second[128];
        snprintf(first, sizeof first, "%s/%s", a, names[i]);
        snprintf(second, sizeof second, "%s/%s", b, names[i]);
        assert_same_file(first, second);
    }
}

static void forget(const char *name)
{
    OK(zn_tree_remove(in_folder(name)));
}

/* All states of the run there; NULL: where the plan has them. */
static void offload(struct zn_train_options *o, const char *tier)
{
    ZN_SET(*o, allow_buffered_swap, true);
    ZN_UNSET(*o, offload_optimizer);
    ZN_UNSET(*o, offload_gradients);
    ZN_UNSET(*o, offload_param);
    if (!tier)
        return;
    ZN_SET(*o, offload_optimizer, tier);
    ZN_SET(*o, offload_gradients, tier);
    if (o->settings.stage == 3)
        ZN_SET(*o, offload_param, tier);
}

/* A run of 6 steps, and one that ended at 3 and went on. --steps is the total, so the schedule must not depend on where
 * it ended: constant here. */
static void compare(const char *precision, int n_ranks, int stage, const char *tier, bool async)
{
    struct watch watch;
    struct zn_train_options o = new_options("whole", &watch);
    ZN_SET(o, precision, precision);
    ZN_SET(o, model, strcmp(precision, "fp16") == 0 ? CALM : GPT2);
    ZN_SET(o, stage, stage);
    offload(&o, tier);
    ZN_SET(o, lr_schedule, "constant");
    ZN_SET(o, accumulate, 2);
    OK(train_on_ranks(&o, n_ranks));
    ZN_SET(o, output, kept("parts"));
    ZN_SET(o, steps, 3);
    ZN_SET(o, checkpoint_async, async);
    ZN_SET(o, checkpoint_every, 2);
    OK(train_on_ranks(&o, n_ranks));
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 6);
    OK(train_on_ranks(&o, n_ranks));
    assert_non_null(strstr(watch.notes, "goes on from"));
    assert_same_run("whole", "parts");
    forget("whole");
    forget("parts");
}

/* Updates that are applied a step late: the one that waits is saved. */
static void compare_delayed(const char *precision, int n_ranks, int stage, const char *tier)
{
    struct watch watch;
    size_t n = 0;
    struct zn_train_options o = new_options("whole", &watch);
    ZN_SET(o, precision, precision);
    ZN_SET(o, stage, stage);
    offload(&o, tier);
    ZN_SET(o, lr_schedule, "constant");
    ZN_SET(o, delayed_update, 1);
    OK(train_on_ranks(&o, n_ranks));
    ZN_SET(o, output, kept("parts"));
    ZN_SET(o, steps, 4);
    ZN_SET(o, checkpoint_every, 3);
    OK(train_on_ranks(&o, n_ranks));
    char *text = read_in("parts/checkpoints/step-00000004/state.json", &n);
    assert_non_null(strstr(text, "\"pending\": {\"lr\": "));
    free(text);
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 6);
    ZN_SET(o, checkpoint_every, 0);
    OK(train_on_ranks(&o, n_ranks));
    assert_same_run("whole", "parts");
    ZN_SET(o, steps, 7);
    ZN_UNSET(o, delayed_update);
    FAILS(train_on_ranks(&o, n_ranks), ZN_ERR_USAGE, "has an update of --delayed-update pending", "");
    forget("whole");
    forget("parts");
}

static void a_pending_update_goes_on(void **state)
{
    (void)state;
    compare_delayed("fp32", 1, 0, NULL);
    compare_delayed("bf16", 3, 1, NULL);
    compare_delayed("bf16", 3, 3, "nvme");
    if (IS_SANITIZED)
        return;
    compare_delayed("bf16", 2, 0, NULL);
    compare_delayed("fp32", 3, 3, NULL);
    compare_delayed("bf16", 1, 3, "nvme");
}

static void a_resumed_run_equals_the_uninterrupted(void **state)
{
    (void)state;
    compare("bf16", 1, 0, NULL, true);
    compare("bf16", 2, 1, NULL, false);
    compare("fp16", 4, 2, NULL, true);
    compare("fp32", 3, 3, "nvme", false);
    compare("bf16", 2, 2, "cpu", false);
    if (IS_SANITIZED)
        return;
    compare("fp32", 1, 0, NULL, false);
    compare("fp16", 1, 0, NULL, false);
    compare("fp32", 3, 3, NULL, true);
    compare("bf16", 3, 3, NULL, false);
    compare("bf16", 3, 0, NULL, true);
    compare("bf16", 1, 3, "nvme", false);
    compare("bf16", 3, 3, "nvme", true);
}

static void a_stopped_run_goes_on_with_its_schedule(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("cosine", &watch);
    OK(train_on_ranks(&o, 1));
    for (int at = 1; at <= 5; at += 2) {
        o = new_options("stopped", &watch);
        stop_after(&o, &watch, at);
        assert_false(zn_file_exists(in_folder("stopped/model.safetensors")));
        ZN_SET(o, resume, NULL);
        OK(train_on_ranks(&o, 1));
        assert_same_run("cosine", "stopped");
        forget("stopped");
    }
    /* Told to stop in the last step, it is done. */
    o = new_options("stopped", &watch);
    o.stop = stop;
    o.stop_self = &watch;
    watch.stop_after = 6;
    OK(train_on_ranks(&o, 1));
    assert_same_run("cosine", "stopped");
    forget("stopped");
    forget("cosine");
}

/* Overflows on both sides of the stop: the scale, its patience and its count go on. */
static void the_loss_scale_goes_on(void **state)
{
    (void)state;
    struct watch watch;
    for (int at = 0; at <= 40; at += IS_SANITIZED ? 20 : 8) {
        struct zn_train_options o = new_options(at ? "scale-parts" : "scale", &watch);
        ZN_SET(o, model, CALM);
        ZN_SET(o, precision, "fp16");
        ZN_SET(o, steps, 60);
        ZN_SET(o, loss_scale_init, 1e15);
        ZN_SET(o, loss_scale_window, 4);
        ZN_SET(o, keep, 1);
        if (at > 0) {
            stop_after(&o, &watch, at);
            ZN_SET(o, resume, NULL);
        }
        OK(train_on_ranks(&o, 1));
        if (at == 0)
            continue;
        size_t n = 0;
        char *a = losses_of(in_folder("scale")), *b = losses_of(in_folder("scale-parts"));
        assert_string_equal(a, b);
        assert_non_null(strstr(a, "\"skipped\":true"));
        free(a);
        free(b);
        a = read_in("scale-parts/checkpoints/step-00000060/state.json", &n);
        b = read_in("scale/checkpoints/step-00000060/state.json", &n);
        const char *x = strstr(a, "\"loss_scale\""), *y = strstr(b, "\"loss_scale\"");
        assert_memory_equal(x, y, (size_t)(strchr(x, '\n') - x));
        free(a);
        free(b);
        forget("scale-parts");
    }
}

/* Ten skipped in a row end a run, wherever it stopped in between. The first update ruins the weights. */
static void skipped_steps_go_on_being_counted(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("skipped", &watch);
    ZN_SET(o, steps, 40);
    ZN_SET(o, lr, 1e38);
    ZN_SET(o, lr_schedule, "constant");
    ZN_SET(o, warmup, 0);
    stop_after(&o, &watch, 5);
    ZN_SET(o, resume, NULL);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_NUMERIC, "10 steps in a row were skipped", "the last (11)");
    forget("skipped");
}

/* The loss of a step as the log has it. */
static double loss_at(const char *output, int step)
{
    char pattern[48], *log = losses_of(in_folder(output));
    snprintf(pattern, sizeof pattern, "{\"step\":%d,\"loss\":", step);
    const char *found = strstr(log, pattern);
    assert_non_null(found);
    double loss = atof(found + strlen(pattern));
    free(log);
    return loss;
}

/* Saved on `from` ranks, gone on with `to`, a step having as many windows: the same data, so the first loss is the same
 * but for the order of sums. In 16 bits products of as many rows, too, or roundings of activations would differ. */
static void change_ranks(int from, int from_stage, const char *from_tier, int to, int stage, const char *tier,
                         const char *precision)
{
    bool by_rows = strcmp(precision, "fp32") == 0;
    struct watch watch;
    char copy[700];
    struct zn_train_options o = new_options("many", &watch);
    ZN_SET(o, precision, precision);
    ZN_SET(o, lr_schedule, "constant");
    ZN_SET(o, micro_batch, by_rows ? 12 / from : 1);
    ZN_SET(o, accumulate, by_rows ? 1 : 12 / from);
    ZN_SET(o, stage, from_stage);
    offload(&o, from_tier);
    ZN_SET(o, steps, 3);
    OK(train_on_ranks(&o, from));
    snprintf(copy, sizeof copy, "cp -r '%s' '%s'", in_folder("many"), in_folder("other"));
    assert_int_equal(system(copy), 0);
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 4);
    OK(train_on_ranks(&o, from));
    ZN_SET(o, output, kept("other"));
    ZN_SET(o, micro_batch, by_rows ? 12 / to : 1);
    ZN_SET(o, accumulate, by_rows ? 1 : 12 / to);
    ZN_SET(o, stage, stage);
    offload(&o, tier);
    OK(train_on_ranks(&o, to));
    double want = loss_at("many", 4), got = loss_at("other", 4);
    if (!(fabs(want - got) <= 1e-6 * want))
        fail_msg("%d to %d ranks, stage %d: loss %.9g, not %.9g", from, to, stage, got, want);
    forget("many");
    forget("other");
}

static void ranks_and_stage_may_change(void **state)
{
    (void)state;
    static const char *const tiers[] = {NULL, "cpu", "nvme"};
    for (int stage = 0; stage <= 3; stage++) {
        for (int to = 1; to <= 4; to += to == 2 ? 2 : 1) /* gradients on NVMe: only where a rank keeps its own alone */
            if (!IS_SANITIZED || to == (stage == 3 ? 4 : 1 + stage % 2))
                change_ranks(3, 3, "nvme", to, stage, tiers[(stage + to) % (stage < 2 && to > 1 ? 2 : 3)], "fp32");
    }
    change_ranks(2, 1, NULL, 3, 3, "nvme", "fp32");
    change_ranks(1, 0, NULL, 4, 2, NULL, "bf16");
    if (IS_SANITIZED)
        return;
    change_ranks(3, 3, NULL, 2, 3, "nvme", "fp32");
    change_ranks(1, 0, NULL, 3, 3, "nvme", "fp32");
    change_ranks(4, 2, "nvme", 3, 3, NULL, "fp32");
    change_ranks(3, 3, "nvme", 2, 3, NULL, "bf16");
    change_ranks(3, 3, NULL, 1, 0, "nvme", "bf16");
}

/* With another batch the data go on where they were: consumed 3·12 windows, then 2·5. */
static void the_data_go_on_where_they_were(void **state)
{
    (void)state;
    struct watch watch;
    size_t n = 0;
    struct zn_train_options o = new_options("data", &watch);
    ZN_SET(o, lr_schedule, "constant");
    ZN_SET(o, micro_batch, 4);
    ZN_SET(o, steps, 3);
    OK(train_on_ranks(&o, 3));
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 5);
    ZN_SET(o, micro_batch, 5);
    ZN_SET(o, stage, 0);
    OK(train_on_ranks(&o, 1));
    char *text = read_in("data/checkpoints/step-00000005/state.json", &n);
    assert_non_null(strstr(text, "\"consumed\": 46,"));
    assert_non_null(strstr(watch.notes, "--micro-batch changed since the checkpoint: 4 → 5"));
    assert_non_null(strstr(watch.notes, "ranks changed since the checkpoint: 3 → 1"));
    free(text);
    /* One epoch is 137 windows: (137 - 46) / 7 steps are left. */
    ZN_UNSET(o, steps);
    ZN_SET(o, micro_batch, 7);
    OK(train_on_ranks(&o, 1));
    assert_true(zn_folder_exists(in_folder("data/checkpoints/step-00000018")));
    forget("data");
}

static void only_the_newest_are_kept(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("keep", &watch);
    ZN_SET(o, checkpoint_every, 1);
    ZN_SET(o, keep, 3);
    OK(train_on_ranks(&o, 2));
    assert_int_equal(watch.n_saved, 6);
    assert_int_equal(n_entries(in_folder("keep/checkpoints")), 3);
    assert_true(zn_folder_exists(in_folder("keep/checkpoints/step-00000004")));
    /* A run that is replaced leaves nothing that a later --resume could take. */
    ZN_SET(o, overwrite, true);
    ZN_SET(o, steps, 2);
    ZN_SET(o, checkpoint_every, 0);
    OK(train_on_ranks(&o, 1));
    assert_int_equal(n_entries(in_folder("keep/checkpoints")), 1);
    ZN_SET(o, keep, 0);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "--save all", "--keep 0");
    ZN_SET(o, save, "model");
    OK(train_on_ranks(&o, 1));
    assert_int_equal(n_entries(in_folder("keep/checkpoints")), 0);
    forget("keep");
}

static void without_a_checkpoint_it_starts_fresh_and_says_so(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("fresh", &watch);
    ZN_SET(o, resume, NULL);
    OK(train_on_ranks(&o, 2));
    assert_non_null(strstr(watch.notes, "holds no checkpoint to go on from"));
    /* Now there is one, and nothing is left to do. */
    OK(train_on_ranks(&o, 2));
    assert_non_null(strstr(watch.notes, "after step 6"));
    assert_int_equal(watch.n_saved, 1);
    ZN_SET(o, resume, kept("nowhere"));
    FAILS(train_on_ranks(&o, 1), ZN_ERR_INPUT, "--resume=", "no whole checkpoint");
    forget("fresh");
}

/* ---- Damage ---- */

static void flip_in(const char *name, long at)
{
    FILE *f = fopen(in_folder(name), "r+b");
    assert_non_null(f);
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    int byte = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(byte ^ 1, f);
    fclose(f);
}

#define AT_6 "broken/checkpoints/step-00000006/"

static void flip_weights(void)
{
    flip_in(AT_6 "model.safetensors", -5);
}

static void flip_moments(void)
{
    flip_in(AT_6 "optimizer-00001-of-00001.safetensors", 20000);
}

static void flip_header(void)
{
    flip_in(AT_6 "optimizer-00001-of-00001.safetensors", 3);
}

static void flip_state(void)
{
    flip_in(AT_6 "state.json", 40);
}

static void flip_list(void)
{
    flip_in(AT_6 "manifest.json", 200);
}

static void cut(void)
{
    assert_int_equal(truncate(in_folder(AT_6 "optimizer-00001-of-00001.safetensors"), 5000), 0);
}

static void lose_list(void)
{
    assert_int_equal(unlink(in_folder(AT_6 "manifest.json")), 0);
}

static void lose_weights(void)
{
    assert_int_equal(unlink(in_folder(AT_6 "model.safetensors")), 0);
}

/* Of the same names, shapes and size, from the step before. */
static void swap_in_older(void)
{
    size_t n = 0;
    char *older = read_in("broken/checkpoints/step-00000004/model.safetensors", &n);
    make_file(AT_6 "model.safetensors", older, n);
    free(older);
}

static void broken_checkpoints_are_passed_over_by_name(void **state)
{
    (void)state;
    static const struct {
        void (*damage)(void);
        const char *file, *what;
    } cases[] = {{flip_weights, "model.safetensors: damaged: tensor '", "ln_f.bias"},
                 {flip_moments, "optimizer-00001-of-00001.safetensors: damaged: tensor '", ".exp_avg'"},
                 {flip_header, "optimizer-00001-of-00001.safetensors: damaged: its header", ""},
                 {flip_state, "state.json: damaged", ""},
                 {flip_list, "manifest.json: damaged", ""},
                 {cut, "optimizer-00001-of-00001.safetensors: has 5000 bytes", "manifest.json says"},
                 {lose_list, "manifest.json: cannot open", ""},
                 {lose_weights, "model.safetensors: cannot open", ""},
                 {swap_in_older, "model.safetensors: damaged: tensor '", "wte.weight"}};
    struct watch watch;
    struct zn_train_options o = new_options("good", &watch);
    ZN_SET(o, steps, 8);
    ZN_SET(o, keep, 5);
    ZN_SET(o, checkpoint_every, 2);
    OK(train_on_ranks(&o, 1));
    for (size_t i = 0; i < COUNT(cases); i++) {
        o = new_options("broken", &watch);
        ZN_SET(o, steps, 8);
        ZN_SET(o, checkpoint_every, 2);
        stop_after(&o, &watch, 6);
        cases[i].damage();
        ZN_SET(o, resume, NULL);
        OK(train_on_ranks(&o, 1));
        if (!strstr(watch.notes, cases[i].file) || !strstr(watch.notes, cases[i].what) ||
            !strstr(watch.notes, "passed over a broken checkpoint") || !strstr(watch.notes, "after step 4"))
            fail_msg("damage %zu: '%s' should hold '%s' and '%s'", i, watch.notes, cases[i].file, cases[i].what);
        char *a = losses_of(in_folder("good")), *b = losses_of(in_folder("broken"));
        assert_string_equal(a, b);
        free(a);
        free(b);
        assert_same_file("good/model.safetensors", "broken/model.safetensors");
        forget("broken");
    }
    forget("good");
}

/* A run that began anew there would lose them. */
static void broken_checkpoints_alone_are_not_begun_over(void **state)
{
    (void)state;
    struct watch watch;
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        struct zn_train_options o = new_options("broken", &watch);
        ZN_SET(o, steps, 8);
        ZN_SET(o, checkpoint_every, 6);
        stop_after(&o, &watch, 6);
        lose_list();
        ZN_SET(o, resume, NULL);
        FAILS(train_on_ranks(&o, n_ranks), ZN_ERR_INPUT, "none of the 1 checkpoints in", "--overwrite");
        assert_non_null(strstr(watch.notes, "manifest.json: cannot open"));
        ZN_UNSET(o, resume);
        ZN_SET(o, overwrite, true);
        OK(train_on_ranks(&o, n_ranks));
        forget("broken");
    }
}

static void a_later_format_is_refused(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("later", &watch);
    OK(train_on_ranks(&o, 1));
    size_t n = 0;
    zn_contents c;
    char *text = read_in("later/checkpoints/step-00000006/state.json", &n);
    strstr(text, "\"format\": 2")[10] = '9';
    make_file("later/checkpoints/step-00000006/state.json", text, n);
    free(text);
    OK(zn_contents_read(in_folder("later/checkpoints/step-00000006/manifest.json"), &c));
    for (size_t i = 0; i < c.n_files; i++) {
        if (strcmp(c.files[i].name, "state.json") != 0)
            continue;
        contents_file_fini(&c.files[i]);
        c.files[i] = c.files[--c.n_files];
    }
    OK(zn_contents_add(&c, in_folder("later/checkpoints/step-00000006"), "state.json"));
    OK(zn_contents_write(&c, in_folder("later/checkpoints/step-00000006"), "manifest.json"));
    zn_contents_fini(&c);
    ZN_SET(o, resume, NULL);
    FAILS(train_on_ranks(&o, 2), ZN_ERR_UNSUPPORTED, "state.json", "format 9; this version reads format 2");
    forget("later");
}

/* ---- Another run ---- */

static void what_must_match_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const other_data[] = {ZN_TEST_DATA "/parity/tokens.bin", ZN_TEST_DATA "/parity/tokens.bin"};
    struct watch watch;
    struct zn_train_options good = new_options("match", &watch), o;
    OK(train_on_ranks(&good, 1));
    ZN_SET(good, resume, NULL);
    ZN_SET(good, steps, 8);
    o = good;
    ZN_SET(o, seed, 2);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "was made with --seed 1", "this run has 2");
    o = good;
    ZN_SET(o, seq_len, 8);
    FAILS(train_on_ranks(&o, 2), ZN_ERR_USAGE, "was made with --seq-len 16", "this run has 8");
    o = good;
    ZN_SET(o, shuffle, false);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "was made with shuffled data", "");
    o = good;
    ZN_SET(o, optimizer, "sgd");
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "--optimizer adamw", "sgd");
    o = good;
    ZN_SET(o, model, QWEN3);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "is of another model than --model", "it has \"");
    o = good;
    ZN_SET_WORDS(o, data, other_data, 2);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "the data have 274 windows", "had 137");
    size_t n = 0;
    char *tokens = slurp(ZN_TEST_DATA "/parity", "tokens.bin", &n);
    tokens[1024 + 2 * 3] ^= 1;
    const char *const changed[] = {make_file("changed.bin", tokens, n)};
    free(tokens);
    o = good;
    ZN_SET_WORDS(o, data, changed, 1);
    FAILS(train_on_ranks(&o, 2), ZN_ERR_USAGE, "the data are as many as those of", "but not the same");
    o = good;
    ZN_SET(o, steps, 5);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "--steps 5", "has 6 behind it");
    o = good;
    ZN_SET(o, overwrite, true);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "--resume and --overwrite", "");
    OK(train_on_ranks(&good, 1));
    forget("match");
}

static void going_back_needs_another_folder(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("forth", &watch);
    ZN_SET(o, checkpoint_every, 2);
    OK(train_on_ranks(&o, 1));
    ZN_SET(o, resume, NULL);
    ZN_SET(o, resume, kept("forth/checkpoints/step-00000004"));
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "holds a later checkpoint, step-00000006", "give another folder");
    ZN_SET(o, output, kept("back"));
    OK(train_on_ranks(&o, 1));
    assert_same_file("forth/model.safetensors", "back/model.safetensors");
    /* A run's folder stands for its newest. */
    ZN_SET(o, output, kept("third"));
    ZN_SET(o, resume, kept("forth"));
    OK(train_on_ranks(&o, 2));
    assert_same_file("forth/model.safetensors", "third/model.safetensors");
    forget("forth");
    forget("back");
    forget("third");
}

static void two_runs_in_one_folder_are_refused(void **state)
{
    (void)state;
    struct watch watch;
    int lock;
    bool is_locked;
    struct zn_train_options o = new_options("locked", &watch);
    ZN_SET(o, keep, 1);
    OK(train_on_ranks(&o, 1));
    OK(zn_output_lock(in_folder("locked"), &lock, &is_locked));
    assert_true(is_locked);
    ZN_SET(o, resume, NULL);
    FAILS(train_on_ranks(&o, 2), ZN_ERR_USAGE, "another run is writing to this folder: process ", "locked");
    ZN_UNSET(o, resume);
    ZN_SET(o, overwrite, true);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "another run is writing to this folder: process ", "locked");
    close(lock);
    assert_true(zn_folder_exists(in_folder("locked/checkpoints/step-00000006")));
    /* What a dead run left goes. */
    OK(zn_folder_create(in_folder("locked/checkpoints/.tmp-step-00000009-77")));
    make_text("locked/checkpoints/.tmp-step-00000009-77/model.safetensors", "half");
    make_text("locked/.model.safetensors.77-0.tmp", "half");
    ZN_SET(o, overwrite, false);
    ZN_SET(o, resume, NULL);
    OK(train_on_ranks(&o, 1));
    assert_int_equal(n_entries(in_folder("locked/checkpoints")), 1);
    assert_false(zn_file_exists(in_folder("locked/.model.safetensors.77-0.tmp")));
    forget("locked");
}

static void the_model_of_a_run_is_not_one_of_its_checkpoints(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("own", &watch);
    OK(train_on_ranks(&o, 1));
    ZN_SET(o, model, kept("own/checkpoints/step-00000006"));
    ZN_SET(o, overwrite, true);
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "is a checkpoint of --output", "give another");
    assert_true(zn_folder_exists(o.settings.model));
    ZN_SET(o, output, kept("other"));
    OK(train_on_ranks(&o, 1));
    forget("own");
    forget("other");
}

/* A line that was being written when the run died, and steps after the checkpoint. */
static void the_log_is_cut_back(void **state)
{
    (void)state;
    struct watch watch;
    struct zn_train_options o = new_options("log", &watch);
    stop_after(&o, &watch, 3);
    char *before = losses_of(in_folder("log"));
    FILE *f = fopen(in_folder("log/metrics.jsonl"), "a");
    fputs("{\"step\":4,\"loss\":1,\"grad_norm\":1,\"lr\":0}\n{\"step\":5,\"lo", f);
    fclose(f);
    ZN_SET(o, resume, NULL);
    OK(train_on_ranks(&o, 1));
    char *after = losses_of(in_folder("log"));
    assert_memory_equal(after, before, strlen(before));
    int n_lines = 0;
    for (const char *c = after; *c; c++)
        n_lines += *c == '\n';
    assert_int_equal(n_lines, 6);
    assert_null(strstr(after, "\"loss\":1,"));
    free(before);
    free(after);
    forget("log");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_equals_the_uninterrupted),
        cmocka_unit_test(a_pending_update_goes_on),
        cmocka_unit_test(a_stopped_run_goes_on_with_its_schedule),
        cmocka_unit_test(the_loss_scale_goes_on),
        cmocka_unit_test(skipped_steps_go_on_being_counted),
        cmocka_unit_test(ranks_and_stage_may_change),
        cmocka_unit_test(the_data_go_on_where_they_were),
        cmocka_unit_test(only_the_newest_are_kept),
        cmocka_unit_test(without_a_checkpoint_it_starts_fresh_and_says_so),
        cmocka_unit_test(broken_checkpoints_are_passed_over_by_name),
        cmocka_unit_test(broken_checkpoints_alone_are_not_begun_over),
        cmocka_unit_test(a_later_format_is_refused),
        cmocka_unit_test(what_must_match_is_refused_by_name),
        cmocka_unit_test(going_back_needs_another_folder),
        cmocka_unit_test(two_runs_in_one_folder_are_refused),
        cmocka_unit_test(the_model_of_a_run_is_not_one_of_its_checkpoints),
        cmocka_unit_test(the_log_is_cut_back),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
