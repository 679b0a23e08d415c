/* Fine-tunes a hub folder step by step, with a loop of one's own. Under mpirun its ranks share the work.
 *
 *     cc step_by_step.c $(pkg-config --cflags --libs zinc) -o step_by_step
 *     ./step_by_step MODEL_FOLDER TEXT STEPS OUTPUT_FOLDER [OPTION VALUE]…
 */
#include <stdio.h>
#include <zinc/zinc.h>

static zn_status train(zn_engine *engine, int rank, const char *output)
{
    struct zn_step_result step = {.size = sizeof step};
    zn_status status = ZN_OK;
    while (status == ZN_OK && !zn_engine_is_done(engine)) {
        status = zn_engine_step(engine, &step);
        if (status == ZN_OK && rank == 0)
            printf("step %lld of %lld: loss %.17g\n", (long long)step.step, (long long)step.steps, step.loss);
    }
    return status == ZN_OK ? zn_engine_export(engine, output) : status;
}

int main(int argc, char **argv)
{
    zn_context *context = NULL;
    zn_options *options = NULL;
    zn_model *model = NULL;
    zn_data *data = NULL;
    zn_engine *engine = NULL;
    if (argc < 5 || argc % 2 == 0) {
        fprintf(stderr, "usage: step_by_step MODEL_FOLDER TEXT STEPS OUTPUT_FOLDER [OPTION VALUE]...\n");
        return 2;
    }
    zn_status status = zn_context_create(NULL, &context);
    if (status == ZN_OK)
        status = zn_options_create("train", &options);
    if (status == ZN_OK)
        status = zn_options_set(options, "steps", argv[3]);
    for (int i = 5; i < argc && status == ZN_OK; i += 2)
        status = zn_options_set(options, argv[i], argv[i + 1]);
    if (status == ZN_OK)
        status = zn_model_open(argv[1], &model);
    if (status == ZN_OK)
        status = zn_data_create(&data);
    if (status == ZN_OK)
        status = zn_data_add_path(data, argv[2]);
    const struct zn_engine_setup setup = {
        .size = sizeof setup, .context = context, .options = options, .model = model, .data = data};
    if (status == ZN_OK)
        status = zn_engine_create(&setup, &engine);
    if (status == ZN_OK)
        status = train(engine, zn_context_rank(context), argv[4]);
    if (status != ZN_OK)
        fprintf(stderr, "step_by_step: %s\n", zn_error_message());
    zn_engine_destroy(engine);
    zn_data_destroy(data);
    zn_model_close(model);
    zn_options_destroy(options);
    zn_context_destroy(context);
    return status != ZN_OK;
}
