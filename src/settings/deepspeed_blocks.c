/* Precision, clipping and memory: what several keys of DeepSpeed's configuration decide together. */
#include <math.h>
#include <string.h>

#include "settings/deepspeed.h"


/* ---- Precision ---- */

static zn_status read_loss_scale(const struct deepspeed *d, zn_json *fp16)
{
    double value;
    int64_t power;
    if (zn_json_has(fp16, "loss_scale") && !deepspeed_is_auto(fp16, "loss_scale")) {
        ZN_TRY(zn_json_get_number(fp16, "loss_scale", &value));
        ZN_TRY(value == 0 ? deepspeed_give_text(d, "fp16.loss_scale", "loss-scale", "dynamic")
                          : deepspeed_give_number(d, "fp16.loss_scale", "loss-scale", value));
    }
    if (zn_json_has(fp16, "initial_scale_power") && !deepspeed_is_auto(fp16, "initial_scale_power")) {
        ZN_TRY(zn_json_get_int(fp16, "initial_scale_power", 0, 126, &power));
        ZN_TRY(deepspeed_give_number(d, "fp16.initial_scale_power", "loss-scale-init", ldexp(1, (int)power)));
    }
    return ZN_OK;
}

/* What goes between ranks, and what gradients are added up in. `working` is NULL where it is not known yet. */
static zn_status check_types(const struct deepspeed *d, const char *working)
{
    zn_json *types;
    const char *text;
    ZN_TRY(zn_json_get_string_or(d->root, "communication_data_type", NULL, &text));
    if (text && (!working || strcmp(strcmp(text, "bfp16") == 0 ? "bf16" : text, working) != 0))
        return deepspeed_fail(d, "communication_data_type", "gradients go between ranks in the working precision");
    ZN_TRY(zn_json_get_object_or_null(d->root, "data_types", &types));
    if (!types)
        return ZN_OK;
    ZN_TRY(zn_json_get_string_or(types, "grad_accum_dtype", "fp32", &text));
    if (strcmp(text, "fp32") != 0 && strcmp(text, "auto") != 0)
        return deepspeed_fail(d, "data_types.grad_accum_dtype", "gradients are added up in fp32");
    return ZN_OK;
}

zn_status deepspeed_read_precision(const struct deepspeed *d)
{
    const char *name = zn_json_has(d->root, "bf16") ? "bf16" : "bfloat16", *working;
    const char *bf16_path = strcmp(name, "bf16") == 0 ? "bf16.enabled" : "bfloat16.enabled";
    zn_json *fp16, *bf16;
    bool has_fp16, has_bf16, auto_fp16, auto_bf16;
    ZN_TRY(zn_json_get_object_or_null(d->root, "fp16", &fp16));
    ZN_TRY(zn_json_get_object_or_null(d->root, name, &bf16));
    ZN_TRY(deepspeed_get_switch(d, fp16, "enabled", "fp16.enabled", &has_fp16, &auto_fp16));
    ZN_TRY(deepspeed_get_switch(d, bf16, "enabled", bf16_path, &has_bf16, &auto_bf16));
    if (has_fp16 && has_bf16)
        return deepspeed_fail(d, bf16_path, "fp16 is enabled, too; one of the two is to be");
    if (fp16)
        ZN_TRY(read_loss_scale(d, fp16));
    if (fp16 && !has_fp16 && !auto_fp16 && zn_json_n_keys(fp16) > 1)
        ZN_TRY(deepspeed_note(d, "fp16", "its loss scale has no effect: it is not enabled"));
    if (has_fp16 || has_bf16) {
        working = has_fp16 ? "fp16" : "bf16";
        ZN_TRY(deepspeed_give_text(d, has_fp16 ? "fp16.enabled" : bf16_path, "precision", working));
    } else if (auto_fp16 || auto_bf16) {
        working = NULL;
        ZN_TRY(deepspeed_note_auto(d, auto_bf16 ? bf16_path : "fp16.enabled", "precision"));
    } else {
        working = "fp32";
        ZN_TRY(deepspeed_give_text(d, fp16 ? "fp16.enabled" : bf16 ? bf16_path : "precision", "precision", working));
        ZN_TRY(deepspeed_note(d, "precision", "fp32, as neither fp16 nor bf16 is enabled"));
    }
    return check_types(d, working);
}

/* ---- Memory ---- */

static zn_status is_on_nvme(zn_json *block, bool *is)
{
    const char *device = NULL;
    if (block)
        ZN_TRY(zn_json_get_string_or(block, "device", NULL, &device));
    *is = device && strcmp(device, "nvme") == 0;
    return ZN_OK;
}

/* All states share the folders: one that both name counts once. */
static zn_status read_paths(const struct deepspeed *d, zn_json *zero)
{
    static const char *const blocks[] = {"offload_param", "offload_optimizer"};
    static const char *const paths[] = {"zero_optimization.offload_param.nvme_path", "zero_optimization.offload_optimizer.nvme_path"};
    const char *first = NULL;
    for (int i = 0; i < 2; i++) {
        zn_json *block;
        bool is_used;
        const char *path = NULL;
        ZN_TRY(zn_json_get_object_or_null(zero, blocks[i], &block));
        ZN_TRY(is_on_nvme(block, &is_used));
        if (block)
            ZN_TRY(zn_json_get_string_or(block, "nvme_path", NULL, &path));
        if (path && !is_used)
            ZN_TRY(deepspeed_note(d, paths[i], "has no effect: its device is not nvme"));
        if (!path || !is_used || (first && strcmp(first, path) == 0))
            continue;
        if (!first) {
            ZN_TRY(deepspeed_give_text(d, paths[i], "nvme-path", path));
            first = path;
            continue;
        }
        ZN_TRY(config_add_text(&d->config->entries[d->config->n_entries - 1], path, strlen(path)));
        d->config->entries[d->config->n_entries - 1].type = CONFIG_LIST;
        ZN_TRY(deepspeed_note(d, paths[i], "all states use both folders at once"));
    }
    return ZN_OK;
}

/* Keys of the first versions, which stand for an offload block. */
static zn_status read_old_offload(const struct deepspeed *d, zn_json *zero, const char *member, const char *path, const char *block,
                                  const char *flag)
{
    bool is_on, is_auto;
    ZN_TRY(deepspeed_get_switch(d, zero, member, path, &is_on, &is_auto));
    if (is_on && zn_json_has(zero, block))
        return deepspeed_fail(d, path, "%s is there, too; give one of the two", block);
    return is_on ? deepspeed_give_text(d, path, flag, "cpu") : ZN_OK;
}

static zn_status read_clip(const struct deepspeed *d)
{
    if (zn_json_has(d->root, "gradient_clipping") || deepspeed_line_has(d, "--clip"))
        return ZN_OK;
    ZN_TRY(deepspeed_give_number(d, "gradient_clipping", "clip", 0));
    return deepspeed_note(d, "gradient_clipping", "is not there: off, as in DeepSpeed");
}

zn_status deepspeed_read_memory(const struct deepspeed *d)
{
    zn_json *zero, *checkpointing;
    bool is_on, is_auto;
    ZN_TRY(read_clip(d));
    ZN_TRY(zn_json_get_object_or_null(d->root, "zero_optimization", &zero));
    if (zero) {
        ZN_TRY(read_paths(d, zero));
        ZN_TRY(read_old_offload(d, zero, "cpu_offload", "zero_optimization.cpu_offload", "offload_optimizer", "offload-optimizer"));
        ZN_TRY(read_old_offload(d, zero, "cpu_offload_param", "zero_optimization.cpu_offload_param", "offload_param", "offload-param"));
    }
    ZN_TRY(zn_json_get_object_or_null(d->root, "activation_checkpointing", &checkpointing));
    const char *path = "activation_checkpointing.cpu_checkpointing";
    ZN_TRY(deepspeed_get_switch(d, checkpointing, "cpu_checkpointing", path, &is_on, &is_auto));
    if (is_on) {
        ZN_TRY(deepspeed_give_text(d, path, "recompute", "on"));
        ZN_TRY(deepspeed_give_text(d, path, "offload-activations", "cpu"));
    }
    return ZN_OK;
}
