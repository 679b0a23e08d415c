/* Writing adapter_config.json. The keys are those that peft writes for a plain LoRA of a causal language model. */
#include <stdlib.h>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/peft.h"

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void add_config(zn_text *t, const zn_model *model, const struct zn_adapter_record *record)
{
    const struct zn_adapter_options *o = &record->options;
    zn_text_add(t, "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n  \"base_model_name_or_path\": ");
    zn_text_add_quoted(t, record->base_name);
    zn_text_add(t, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n"
                "  \"init_lora_weights\": true,\n  \"lora_alpha\": ", truth(model->is_in_out));
    zn_text_add_shortest(t, o->alpha);
    zn_text_add(t, ",\n  \"lora_dropout\": 0.0,\n  \"modules_to_save\": null,\n  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n"
                "  \"rank_pattern\": {},\n  \"revision\": null,\n  \"target_modules\": ", (long long)o->rank);
    zn_adapter_add_targets(t, model);
    zn_text_add(t, ",\n  \"task_type\": \"CAUSAL_LM\",\n  \"use_dora\": false,\n  \"use_rslora\": %s\n}\n",
                truth(o->is_rank_stabilised));
}

zn_status zn_peft_write_config(const char *folder, const zn_model *model, const struct zn_adapter_record *record)
{
    zn_text text;
    char *path = NULL;
    zn_text_init(&text);
    add_config(&text, model, record);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_path_join(folder, ZN_PEFT_CONFIG, &path);
    if (status == ZN_OK)
        status = zn_file_write(path, text.data, text.n_bytes);
    free(path);
    zn_text_fini(&text);
    return status;
}
