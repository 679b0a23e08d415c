/* What may have changed when a run goes on: flags, which are said by name, and the text of config.json, where it makes the same
 * model. */
#include "files.h"

#include "base/text.h"
#include "zero/ranks.h"

#define CALM ZN_TEST_DATA "/parity/gpt2-calm"

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static char output[300], model[300], notes[8192];

static void hear_note(void *self, const char *text)
{
    (void)self;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", text);
}

/* Two steps of a model of its own folder, with a checkpoint after the first; later calls go on to more. */
static struct zn_train_options new_options(void)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, model);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, steps, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, precision, "fp16");
    ZN_SET(o, threads, 1);
    ZN_SET(o, checkpoint_every, 1);
    o.listener = (struct zn_train_listener){.note = hear_note};
    return o;
}

static struct zn_train_options more_steps(void)
{
    struct zn_train_options o = new_options();
    notes[0] = '\0';
    ZN_SET(o, resume, NULL);
    ZN_SET(o, steps, 3);
    return o;
}

static void copy(const char *from, const char *name)
{
    size_t n;
    char path[64], *text;
    snprintf(path, sizeof path, "model/%s", name);
    OK(zn_file_read(from, (size_t)1 << 30, &text, &n));
    make_file(path, text, n);
    free(text);
}

static int make_run(void **state)
{
    if (make_test_folder(state) != 0)
        return -1;
    snprintf(output, sizeof output, "%s", in_folder("run"));
    snprintf(model, sizeof model, "%s", in_folder("model"));
    OK(zn_folder_create(model));
    copy(CALM "/config.json", "config.json");
    copy(CALM "/model.safetensors", "model.safetensors");
    struct zn_train_options o = new_options();
    OK(train_on_ranks(&o, 1));
    return 0;
}

/* Replaces a text in a file of the test's folder; both as JSON, and the old one is there once. */
static void replace(const char *name, const char *old, const char *new)
{
    size_t n;
    char *text;
    OK(zn_file_read(in_folder(name), (size_t)1 << 20, &text, &n));
    char *at = strstr(text, old);
    if (!at)
        fail_msg("%s does not hold %s: %s", name, old, text);
    zn_text t;
    zn_text_init(&t);
    zn_text_add(&t, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    OK(zn_text_status(&t));
    make_file(name, t.data, t.n_bytes);
    zn_text_fini(&t);
    free(text);
}

static void heard(const char *text)
{
    if (!strstr(notes, text))
        fail_msg("no note '%s' in:\n%s", text, notes);
}

static void changed_flags_are_said_by_name(void **state)
{
    (void)state;
    static const char *const frozen[] = {"*.bias", "transformer.wte.*"};
    struct zn_train_options o = more_steps();
    OK(train_on_ranks(&o, 1));
    heard("--resume: --steps changed since the checkpoint: 2 → 3\n");
    assert_null(strstr(strstr(notes, "changed since") + 1, "changed since")); /* and nothing else */

    o = more_steps();
    ZN_SET(o, steps, 4);
    ZN_SET_WORDS(o, freeze, frozen, 2);
    ZN_SET(o, delayed_update, 40);
    ZN_SET(o, loss_scale_window, 7);
    ZN_SET(o, hysteresis, 5);
    ZN_SET(o, loss_scale_min, 4);
    ZN_SET(o, output_dtype, "bf16");
    OK(train_on_ranks(&o, 1));
    heard("--resume: --freeze changed since the checkpoint: none → *.bias transformer.wte.*\n");
    heard("--resume: --delayed-update changed since the checkpoint: off → 40\n");
    heard("--resume: --loss-scale-window changed since the checkpoint: 1000 → 7\n");
    heard("--resume: --hysteresis changed since the checkpoint: 2 → 5\n");
    heard("--resume: --loss-scale-min changed since the checkpoint: 1 → 4\n");
    heard("--resume: --output-dtype changed since the checkpoint: fp32 → bf16\n");

    o = more_steps();
    ZN_SET(o, steps, 5);
    ZN_SET(o, delayed_update, 40);
    ZN_SET(o, loss_scale, "512");
    ZN_SET(o, lr, 3e-5);
    ZN_SET(o, min_lr, 0);
    OK(train_on_ranks(&o, 1));
    heard("--resume: --freeze changed since the checkpoint: *.bias transformer.wte.* → none\n");
    heard("--resume: --loss-scale changed since the checkpoint: dynamic → 512\n");
    heard("--resume: --lr changed since the checkpoint: 2e-05 → 3e-05\n");
    heard("--resume: --min-lr changed since the checkpoint: not given → 0\n");
    assert_null(strstr(notes, "--delayed-update changed"));
}

/* Saved again by another version of transformers, or by a person. */
static void another_text_of_the_same_config_goes_on(void **state)
{
    (void)state;
    replace("model/config.json", "\"model_type\": \"gpt2\",",
            "\"transformers_version\": \"9.9\", \"_name_or_path\": \"x\", \"use_cache\": false, \"n_inner\": null,");
    replace("model/config.json", "\"vocab_size\": 101,", "\"vocab_size\": 101.0, \"model_type\": \"gpt2\",");
    replace("model/config.json", "\"torch_dtype\": \"float32\"", "\"dtype\": \"float32\"");
    struct zn_train_options o = more_steps();
    ZN_SET(o, steps, 6);
    OK(train_on_ranks(&o, 2));
    heard("goes on from");
}

static void another_model_is_refused_by_its_first_key(void **state)
{
    (void)state;
    struct zn_train_options o = more_steps();
    ZN_SET(o, steps, 7);
    replace("model/config.json", "\"layer_norm_epsilon\": 1e-05,", "\"layer_norm_epsilon\": 0.001,");
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "is of another model than --model",
          "it has \"layer_norm_epsilon\": 1e-5, the other has 0.001");
    replace("model/config.json", "\"layer_norm_epsilon\": 0.001,", "");
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "\"layer_norm_epsilon\"", "the other has null");
    replace("model/config.json", "\"vocab_size\"", "\"layer_norm_epsilon\": 0.00001, \"scale_attn_weights\": true, \"vocab_size\"");
    FAILS(train_on_ranks(&o, 1), ZN_ERR_USAGE, "it has \"scale_attn_weights\": null", "the other has true");
    replace("model/config.json", "\"scale_attn_weights\": true,", "");
    OK(train_on_ranks(&o, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_flags_are_said_by_name),
        cmocka_unit_test(another_text_of_the_same_config_goes_on),
        cmocka_unit_test(another_model_is_refused_by_its_first_key),
    };
    return cmocka_run_group_tests(tests, make_run, remove_test_folder);
}
