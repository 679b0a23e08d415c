/* What the readers of configuration files share. */
#include "settings/config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

zn_status config_add(struct config *config, const char *key, size_t n_bytes, struct config_entry **entry)
{
    struct config_entry *grown = realloc(config->entries, (config->n_entries + 1) * sizeof *grown);
    char *copy = strndup(key, n_bytes);
    if (grown)
        config->entries = grown;
    if (!grown || !copy) {
        free(copy);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a configuration file");
    }
    *entry = &grown[config->n_entries++];
    **entry = (struct config_entry){.key = copy};
    return ZN_OK;
}

zn_status config_add_text(struct config_entry *entry, const char *text, size_t n_bytes)
{
    char *copy = strndup(text, n_bytes);
    zn_status status = copy ? zn_words_add(&entry->texts, copy) : zn_fail(ZN_ERR_MEMORY, "no memory for a configuration file");
    if (status != ZN_OK)
        free(copy);
    return status;
}

void config_fini(struct config *config)
{
    for (size_t i = 0; i < config->n_entries; i++) {
        struct config_entry *entry = &config->entries[i];
        for (size_t k = 0; k < entry->texts.n; k++)
            free((char *)(uintptr_t)entry->texts.word[k]);
        zn_words_free(&entry->texts);
        free(entry->key);
    }
    free(config->entries);
    *config = (struct config){0};
}

bool config_is_deepspeed(const char *key)
{
    static const char *const keys[] = {
        "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping",
        "zero_optimization", "zero_allow_untested_optimizer", "fp16", "bf16", "optimizer", "scheduler", "aio",
        "activation_checkpointing", "steps_per_print", "wall_clock_breakdown", "tensorboard", "prescale_gradients",
        "communication_data_type", "comms_logger", "flops_profiler", "data_types"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}
