/* Fine-tunes a hub folder on a text from a C program.
 *
 *     cc finetune.c $(pkg-config --cflags --libs --static zinc) -o finetune
 *     ./finetune MODEL_FOLDER TEXT OUTPUT_FOLDER
 */
#include <stdio.h>
#include <zinc/train.h>

static void show_step(void *self, const struct zn_step_report *step)
{
    (void)self;
    printf("step %lld of %lld: loss %.4f\n", (long long)step->step, (long long)step->steps, step->loss);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: finetune MODEL_FOLDER TEXT OUTPUT_FOLDER\n");
        return 2;
    }
    const char *data[] = {argv[2]};
    struct zn_train_options options;
    zn_train_options_init(&options);
    ZN_SET(options, model, argv[1]);
    ZN_SET_WORDS(options, data, data, 1);
    ZN_SET(options, output, argv[3]);
    ZN_SET(options, steps, 10);
    ZN_SET(options, seq_len, 128);
    options.listener.step = show_step;
    if (zn_train(&options) != ZN_OK) {
        fprintf(stderr, "finetune: %s\n", zn_error_message());
        return 1;
    }
    return 0;
}
