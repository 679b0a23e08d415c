/* Finding the object of flags in a configuration file, and telling whose file it is if it has none. */
#include "cli/config.h"

#include <string.h>

#include "base/options_json.h"
#include "base/text.h"

enum { CONFIG_BYTES = 1024 * 1024 };

static const char *const SECTION = "zinc";

/* Keys by which a file of DeepSpeed's is known. */
static bool is_deepspeed(const char *key)
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

static zn_status check_keys(const zn_json *root, const char *path)
{
    const char *first = zn_json_first_key(root);
    for (const char *key = first; key; key = zn_json_next_key(root, key))
        if (is_deepspeed(key))
            return zn_fail(ZN_ERR_USAGE, "--config %s: has '%s': DeepSpeed configuration: not in this build", path, key);
    for (const char *key = first; key; key = zn_json_next_key(root, key))
        if (strcmp(key, SECTION) != 0)
            return zn_fail(ZN_ERR_USAGE, "--config %s: unknown key '%s': flags go into an object '%s'", path,
                           zn_shown(key).text, SECTION);
    return ZN_OK;
}

static zn_status set_flags(struct zn_options *options, void *target, zn_json *root, const char *path)
{
    zn_json *flags;
    if (zn_json_type_of(root) != ZN_JSON_OBJECT || zn_json_n_keys(root) == 0)
        return zn_fail(ZN_ERR_USAGE, "--config %s: expected an object {\"%s\": {\"FLAG\": value, …}}", path, SECTION);
    ZN_TRY(check_keys(root, path));
    if (zn_json_type_at(root, SECTION) != ZN_JSON_OBJECT)
        return zn_fail(ZN_ERR_USAGE, "--config %s: '%s' is an object of flags and their values", path, SECTION);
    ZN_TRY(zn_json_get_object(root, SECTION, &flags));
    return zn_options_set(options, target, flags, path, SECTION);
}

zn_status zn_config_load(struct zn_options *options, void *target, const char *path)
{
    zn_json *root = NULL;
    zn_status status = zn_json_load_file(path, CONFIG_BYTES, &root);
    if (status == ZN_OK)
        status = set_flags(options, target, root, path);
    zn_json_destroy(root);
    return status == ZN_OK || status == ZN_ERR_MEMORY ? status : zn_fail_text(ZN_ERR_USAGE, zn_error_message());
}
