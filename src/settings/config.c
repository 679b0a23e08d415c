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
        free(entry->path);
    }
    free(config->entries);
    for (size_t i = 0; i < config->notes.n; i++)
        free((char *)(uintptr_t)config->notes.word[i]);
    zn_words_free(&config->notes);
    *config = (struct config){0};
}
