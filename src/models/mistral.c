/* Mistral: Llama with an optional sliding window on every layer. */
#include <string.h>

#include "models/llama.h"

/* The hub's own default is a window of 4096; an explicit null is none. */
static bool names_window(const zn_json *config)
{
    for (const char *k = zn_json_first_key(config); k; k = zn_json_next_key(config, k)) {
        if (strcmp(k, "sliding_window") == 0)
            return true;
    }
    return false;
}

zn_status mistral_read(zn_json *config, struct llama_config *c)
{
    int64_t window;
    ZN_TRY(llama_config_common(config, 0, c));
    ZN_TRY(llama_config_rope(config, 10000, &c->rope));
    ZN_TRY(config_size_or(config, "sliding_window", names_window(config) ? 0 : 4096, &window));
    return llama_config_windows(config, window, window ? 0 : c->layers, c);
}
