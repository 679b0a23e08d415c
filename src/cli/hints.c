/* What flags of other tools are called here. */
#include "cli/commands.h"

#include <string.h>

/* Several rows of one name: the first whose flag the command has. */
static const struct {
    const char *names; /* without dashes before, words separated by single spaces */
    const char *flag;  /* ours, perhaps with its value */
} hints[] = {
    {"batch-size train-batch-size micro-batch-size per-device-batch-size per-device-train-batch-size "
     "per-device-eval-batch-size eval-batch-size train-micro-batch-size-per-gpu bs", "--micro-batch"},
    {"max-length max-len max-seq-length max-seq-len seq-length sequence-length sequence-len block-size context-length "
     "model-max-length cutoff-len n-ctx ctx-size", "--seq-len"},
    {"learning-rate", "--lr"},
    {"min-learning-rate lr-end", "--min-lr"},
    {"max-grad-norm gradient-clipping grad-clip clip-grad clip-grad-norm gradient-clip-val", "--clip"},
    {"gradient-accumulation-steps gradient-accumulation grad-accum grad-accum-steps grad-accumulation-steps "
     "accumulate-grad-batches", "--accumulate"},
    {"num-train-epochs num-epochs n-epochs max-epochs", "--epochs"},
    {"max-steps num-steps max-train-steps max-iters train-iters", "--steps"},
    {"lr-scheduler-type lr-scheduler scheduler lr-decay-style", "--lr-schedule"},
    {"warmup-steps num-warmup-steps lr-warmup-steps warmup-iters lr-warmup-iters warmup-ratio", "--warmup STEPS"},
    {"adam-beta1", "--beta1"},
    {"adam-beta2", "--beta2"},
    {"adam-epsilon adam-eps epsilon", "--eps"},
    {"wd", "--weight-decay"},
    {"optim", "--optimizer"},
    {"bf16", "--precision bf16"},
    {"fp16", "--precision fp16"},
    {"mixed-precision dtype torch-dtype", "--precision"},
    {"global-batch-size", "--global-batch"},
    {"zero-stage zero", "--stage"},
    {"deepspeed deepspeed-config", "--config"},
    {"fsdp", "--stage with --offload-optimizer and --offload-param"},
    {"cpu-offload offload", "--offload-optimizer cpu"},
    {"nvme-offload-path offload-dir offload-folder", "--nvme-path"},
    {"gradient-checkpointing activation-checkpointing checkpoint-activations recompute-activations", "--recompute on"},
    {"lora-r lora-dim lora-rank-dim", "--lora-rank"},
    {"model-name-or-path model-name model-path model-id pretrained-model base-model pretrained", "--model"},
    {"train-file train-data train-data-path data-path dataset dataset-path dataset-name input-data", "--data"},
    {"validation-file eval-file eval-dataset validation-data valid-data valid-file", "--eval-data"},
    {"eval-steps eval-interval evaluation-steps", "--eval-every"},
    {"output-dir out-dir save-dir save-path outfile", "--output"},
    {"outtype", "--gguf"},
    {"overwrite-output-dir", "--overwrite"},
    {"save-steps save-interval save-every checkpoint-steps checkpoint-interval", "--checkpoint-every"},
    {"save-total-limit", "--keep"},
    {"resume-from-checkpoint", "--resume"},
    {"random-seed", "--seed"},
    {"nproc-per-node num-processes num-gpus n-gpus world-size np", "-n RANKS"},
    {"nproc-per-node num-processes num-gpus n-gpus world-size np", "--ranks"},
    {"temp", "--temperature"},
    {"stop-strings stop-sequences stop-sequence reverse-prompt", "--stop"},
    {"repeat-penalty", "--repetition-penalty"},
    {"system-prompt system-message", "--system"},
    {"prompt-file prompts-file file input-file", "--prompts"},
    {"interactive conversation interactive-first cnv", "--chat"},
    {"max-new-tokens n-predict num-predict max-length max-len", "--max-tokens"},
};

/* Whether a word stands in a list; '_' of the word is '-' there. */
static bool list_has(const char *list, const char *word)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " "), i = 0;
        while (i < n && (word[i] == p[i] || (word[i] == '_' && p[i] == '-')))
            i++;
        if (i == n && word[n] == '\0')
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static bool has_flag(const struct zn_command *command, const char *flag)
{
    size_t n = strcspn(flag, " ");
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (!option->not_built && strlen(option->name) == n && memcmp(option->name, flag, n) == 0)
            return true;
    }
    return false;
}

const char *zn_cli_hint(const struct zn_command *command, const char *unknown)
{
    const char *word = unknown + strspn(unknown, "-");
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (list_has(hints[i].names, word) && has_flag(command, hints[i].flag))
            return hints[i].flag;
    return NULL;
}
