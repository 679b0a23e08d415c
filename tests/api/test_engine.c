/* Engines of the public API: the same bits as `zinc train`, several in one process, values, checkpoints and folders. */
#include "api/engines.h"

static zn_context *context;

static int set_up(void **state)
{
    return zn_context_create(NULL, &context) == ZN_OK ? make_test_folder(state) : -1;
}

static int tear_down(void **state)
{
    zn_context_destroy(context);
    return remove_test_folder(state);
}

/* ---- The command's bits ---- */

struct heard {
    struct pair steps[STEPS];
    int n_steps, n_plans, n_ends;
};

static void hear_step(void *self, const struct zn_step_report *step)
{
    struct heard *heard = self;
    heard->steps[heard->n_steps++] = (struct pair){step->loss, step->grad_norm};
}

static void hear_plan(void *self, const struct zn_plan_report *plan)
{
    (void)plan;
    ((struct heard *)self)->n_plans++;
}

static void hear_end(void *self, const char *output)
{
    (void)output;
    ((struct heard *)self)->n_ends++;
}

/* What the blocking call gives, which is the command. */
static void train(const char *model, const char *output, struct heard *heard)
{
    static const char *const data[] = {TOKENS};
    struct zn_train_options o;
    zn_train_options_init(&o);
    ZN_SET(o, model, model);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, steps, STEPS);
    ZN_SET(o, micro_batch, 2);
    ZN_SET(o, accumulate, 2);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, threads, 1);
    ZN_SET(o, lr, 1e-3);
    o.listener = (struct zn_train_listener){.self = heard, .step = hear_step};
    OK(zn_train(&o));
}

static void steps_are_those_of_the_command(void **state)
{
    (void)state;
    struct heard heard = {0};
    train(GPT2, in_folder("command"), &heard);
    zn_options *options = usual_options(GPT2);
    zn_engine *engine = new_engine(context, options);
    zn_options_destroy(options); /* the engine has its own */
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(zn_engine_is_done(engine), 0);
        struct pair step = next(engine);
        assert_memory_equal(&step, &heard.steps[i], sizeof step);
    }
    assert_int_equal(zn_engine_is_done(engine), 1);
    FAILS(zn_engine_step(engine, NULL), ZN_ERR_USAGE, "all 4 steps", "steps");
    OK(zn_engine_finish(engine));
    OK(zn_engine_export(engine, in_folder("exported")));
    FAILS(zn_engine_export(engine, in_folder("exported")), ZN_ERR_USAGE, "exported", "");
    zn_engine_destroy(engine);
    same_files(in_folder("command/model.safetensors"), in_folder("exported/model.safetensors"));
    same_files(in_folder("command/config.json"), in_folder("exported/config.json"));
}

static void an_output_folder_is_written_as_by_the_command(void **state)
{
    (void)state;
    struct heard heard = {0}, told = {0};
    train(GPT2, in_folder("command-2"), &heard);
    zn_options *options = usual_options(GPT2);
    OK(zn_options_set(options, "output", in_folder("engine")));
    const struct zn_train_listener listener = {.self = &told, .step = hear_step, .plan = hear_plan, .end = hear_end};
    const struct zn_engine_setup setup = {.size = sizeof setup, .context = context, .options = options, .listener = &listener};
    zn_engine *engine;
    OK(zn_engine_create(&setup, &engine));
    FAILS(zn_engine_finish(engine), ZN_ERR_USAGE, "0 of 4 steps", "");
    while (!zn_engine_is_done(engine))
        OK(zn_engine_step(engine, NULL));
    OK(zn_engine_finish(engine));
    zn_engine_destroy(engine);
    zn_options_destroy(options);
    assert_memory_equal(told.steps, heard.steps, sizeof told.steps);
    assert_int_equal(told.n_plans, 1);
    assert_int_equal(told.n_ends, 1);
    same_files(in_folder("command-2/model.safetensors"), in_folder("engine/model.safetensors"));
    assert_int_equal(access(in_folder("engine/metrics.jsonl"), F_OK), 0);
}

/* ---- Several ---- */

static void run_alone(const char *model, struct pair *steps)
{
    zn_options *options = usual_options(model);
    zn_engine *engine = new_engine(context, options);
    for (int i = 0; i < STEPS; i++)
        steps[i] = next(engine);
    zn_engine_destroy(engine);
    zn_options_destroy(options);
}

static void two_engines_in_turns_leave_each_other_alone(void **state)
{
    (void)state;
    struct pair alone[2][STEPS], turns[2][STEPS];
    const char *const models[] = {GPT2, LLAMA};
    zn_engine *engines[2];
    for (int m = 0; m < 2; m++)
        run_alone(models[m], alone[m]);
    for (int m = 0; m < 2; m++) {
        zn_options *options = usual_options(models[m]);
        engines[m] = new_engine(context, options);
        zn_options_destroy(options);
    }
    for (int i = 0; i < STEPS; i++)
        for (int m = 0; m < 2; m++)
            turns[m][i] = next(engines[m]);
    zn_engine_destroy(engines[0]);
    zn_engine_destroy(engines[1]);
    assert_memory_equal(alone, turns, sizeof alone);
    assert_memory_not_equal(alone[0], alone[1], sizeof alone[0]);
}

/* ---- Values and checkpoints ---- */

static float *read_values(zn_engine *engine, const char *name, const char *state, int64_t *n)
{
    struct zn_parameter_info info = {.size = sizeof info};
    size_t i = 0;
    for (; i < zn_engine_n_parameters(engine); i++) {
        OK(zn_engine_parameter(engine, i, &info));
        if (strcmp(info.name, name) == 0)
            break;
    }
    assert_true(i < zn_engine_n_parameters(engine));
    *n = info.n_elements;
    float *values = malloc((size_t)*n * sizeof *values);
    OK(zn_engine_read(engine, name, state, values, *n));
    return values;
}

static void states_have_names_and_values(void **state)
{
    (void)state;
    static const char name[] = "transformer.h.0.mlp.c_fc.weight";
    zn_options *options = usual_options(GPT2);
    zn_engine *engine = new_engine(context, options);
    int64_t n;
    float *before = read_values(engine, name, NULL, &n), *mean = read_values(engine, name, "exp_avg", &n);
    assert_string_equal(zn_engine_state(engine, 0), "master");
    assert_string_equal(zn_engine_state(engine, 1), "exp_avg");
    assert_string_equal(zn_engine_state(engine, 2), "exp_avg_sq");
    assert_null(zn_engine_state(engine, 3));
    for (int64_t i = 0; i < n; i++)
        assert_true(mean[i] == 0.0f);
    next(engine);
    float *after = read_values(engine, name, "master", &n), *moved = read_values(engine, name, "exp_avg", &n);
    int64_t n_changed = 0;
    for (int64_t i = 0; i < n; i++) /* the first update of Adam is against the sign of the gradient, of which exp_avg is a tenth */
        n_changed += (after[i] < before[i]) == (moved[i] > 0) && after[i] != before[i];
    assert_true(n_changed > n * 9 / 10);
    FAILS(zn_engine_read(engine, "nobody", NULL, after, n), ZN_ERR_USAGE, "nobody", "transformer");
    FAILS(zn_engine_read(engine, name, "momentum", after, n), ZN_ERR_USAGE, name, "momentum");
    FAILS(zn_engine_read(engine, name, NULL, after, n - 1), ZN_ERR_USAGE, name, "values");
    free(before);
    free(mean);
    free(after);
    free(moved);
    zn_engine_destroy(engine);
    zn_options_destroy(options);
}

static void collect(void *self, const char *path)
{
    snprintf(self, 256, "%s", path);
}

static void hear_damage(void *self, const char *file, const char *tensor, const char *what)
{
    (void)tensor;
    assert_true(what[0] != '\0');
    snprintf(self, 256, "%s", file);
}

static void a_checkpoint_is_gone_on_from(void **state)
{
    (void)state;
    zn_options *options = usual_options(GPT2), *other = usual_options(LLAMA);
    zn_engine *engine = new_engine(context, options), *fresh = new_engine(context, options), *foreign = new_engine(context, other);
    struct pair steps[STEPS];
    for (int i = 0; i < STEPS; i++) {
        if (i == 2)
            OK(zn_engine_save(engine, in_folder("saved")));
        steps[i] = next(engine);
    }
    zn_engine *both[] = {engine, fresh}; /* one that is further on, and one that is new */
    for (int k = 0; k < 2; k++) {
        OK(zn_engine_load(both[k], in_folder("saved")));
        for (int i = 2; i < STEPS; i++) {
            struct pair step = next(both[k]);
            assert_memory_equal(&step, &steps[i], sizeof step);
        }
    }
    FAILS(zn_engine_load(foreign, in_folder("saved")), ZN_ERR_USAGE, "step-00000002", "config.json");
    FAILS(zn_engine_load(fresh, in_folder("nothing")), ZN_ERR_INPUT, "nothing", "");
    OK(zn_engine_step(foreign, NULL)); /* what was refused has changed nothing */
    zn_engine_destroy(engine);
    zn_engine_destroy(fresh);
    zn_engine_destroy(foreign);
    zn_options_destroy(options);
    zn_options_destroy(other);

    char path[256] = "";
    zn_checkpoint *checkpoint;
    struct zn_checkpoint_info info = {.size = sizeof info};
    OK(zn_checkpoint_list(in_folder("saved"), collect, path));
    assert_non_null(strstr(path, "step-00000002"));
    OK(zn_checkpoint_open(path, &checkpoint));
    OK(zn_checkpoint_info(checkpoint, &info));
    assert_int_equal(info.step, 2);
    assert_string_equal(info.optimizer, "adamw");
    OK(zn_checkpoint_verify(path, NULL, NULL, NULL));
    OK(zn_checkpoint_export(checkpoint, in_folder("bf16"), "bf16"));
    FAILS(zn_checkpoint_export(checkpoint, in_folder("int8"), "int8"), ZN_ERR_USAGE, "int8", "");

    char weights[300], told[256] = "";
    snprintf(weights, sizeof weights, "%s/model.safetensors", path);
    FILE *file = fopen(weights, "r+");
    fseek(file, -8, SEEK_END);
    fputc('!', file);
    fclose(file);
    struct zn_verified verified = {.size = sizeof verified};
    FAILS(zn_checkpoint_verify(path, hear_damage, told, &verified), ZN_ERR_INPUT, "1 damage", "model.safetensors");
    assert_int_equal(verified.n_damages, 1);
    assert_string_equal(told, "model.safetensors");
    zn_checkpoint_close(checkpoint);
}

/* ---- Data ---- */

static void tokens_in_memory_are_those_of_a_file(void **state)
{
    (void)state;
    struct pair from_file[STEPS];
    run_alone(GPT2, from_file);
    size_t n;
    char *bytes = file_bytes(TOKENS, &n); /* 1024 bytes of header, then 16 bits each */
    size_t n_ids = (n - 1024) / 2;
    int32_t *ids = malloc(n_ids * sizeof *ids);
    for (size_t i = 0; i < n_ids; i++)
        ids[i] = ((uint16_t *)(void *)(bytes + 1024))[i];
    zn_options *options = usual_options(GPT2);
    OK(zn_options_unset(options, "data"));
    zn_data *data;
    zn_model *model;
    OK(zn_data_create(&data));
    OK(zn_data_add_tokens(data, ids, n_ids));
    OK(zn_model_open(GPT2, &model));
    const struct zn_engine_setup setup = {
        .size = sizeof setup, .context = context, .options = options, .model = model, .data = data, .eval_data = data};
    zn_engine *engine;
    OK(zn_engine_create(&setup, &engine));
    zn_data_destroy(data);
    zn_model_close(model);
    struct zn_step_result step = {.size = sizeof step};
    for (int i = 0; i < STEPS; i++) {
        OK(zn_engine_step(engine, &step));
        assert_memory_equal(&step.loss, &from_file[i].loss, sizeof step.loss);
    }
    struct zn_evaluation evaluation = {.size = sizeof evaluation};
    OK(zn_engine_evaluate(engine, &evaluation));
    assert_int_equal(step.evaluated, 1);
    assert_memory_equal(&evaluation.loss, &step.eval_loss, sizeof step.eval_loss);
    assert_int_equal(evaluation.windows, (n_ids - 1) / 16);
    zn_engine_destroy(engine);
    zn_options_destroy(options);
    free(ids);
    free(bytes);
}

static void what_an_engine_is_told_can_be_asked(void **state)
{
    (void)state;
    zn_options *options = usual_options(GPT2);
    zn_engine *engine = new_engine(context, options);
    char *text;
    OK(zn_engine_get(engine, "stage", &text));
    assert_string_equal(text, "0");
    zn_free(text);
    OK(zn_engine_get(engine, "precision", &text)); /* not given: the run decided it */
    assert_string_equal(text, "fp32");
    zn_free(text);
    OK(zn_engine_program(engine, &text));
    assert_non_null(strstr(text, "update"));
    zn_free(text);
    FAILS(zn_engine_evaluate(engine, &(struct zn_evaluation){.size = sizeof(struct zn_evaluation)}), ZN_ERR_USAGE, "eval-data", "");
    zn_engine_destroy(engine);
    zn_options_destroy(options);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    zn_engine *engine = NULL;
    zn_options *options = usual_options(GPT2), *eval;
    struct zn_engine_setup setup = {.size = 8, .context = context, .options = options};
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_USAGE, "size", "sizeof");
    OK(zn_options_create("eval", &eval));
    setup = (struct zn_engine_setup){.size = sizeof setup, .context = context, .options = eval};
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_USAGE, "options of train", "");
    setup.options = options;
    OK(zn_options_set(options, "checkpoint-every", "2"));
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_USAGE, "--checkpoint-every", "--output");
    OK(zn_options_unset(options, "checkpoint-every"));
    OK(zn_options_unset(options, "model"));
    FAILS(zn_engine_create(&setup, &engine), ZN_ERR_USAGE, "--model", "required");
    assert_null(engine);
    zn_options_destroy(options);
    zn_options_destroy(eval);
    zn_engine_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_command),
        cmocka_unit_test(an_output_folder_is_written_as_by_the_command),
        cmocka_unit_test(two_engines_in_turns_leave_each_other_alone),
        cmocka_unit_test(states_have_names_and_values),
        cmocka_unit_test(a_checkpoint_is_gone_on_from),
        cmocka_unit_test(tokens_in_memory_are_those_of_a_file),
        cmocka_unit_test(what_an_engine_is_told_can_be_asked),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
