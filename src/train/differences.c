/* Comparing two configurations of run.json. */
#include "train/differences.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const struct {
    const char *key, *name; /* in run.json, and as people know it */
} settings[] = {
    {"precision", "--precision"},
    {"output_dtype", "--output-dtype"},
    {"steps", "--steps"},
    {"micro_batch", "--micro-batch"},
    {"accumulate", "--accumulate"},
    {"lr", "--lr"},
    {"beta1", "--beta1"},
    {"beta2", "--beta2"},
    {"eps", "--eps"},
    {"momentum", "--momentum"},
    {"weight_decay", "--weight-decay"},
    {"lr_schedule", "--lr-schedule"},
    {"warmup", "--warmup"},
    {"min_lr", "--min-lr"},
    {"clip", "--clip"},
    {"loss_scale", "--loss-scale"},
    {"loss_scale_init", "--loss-scale-init"},
    {"loss_scale_window", "--loss-scale-window"},
    {"hysteresis", "--hysteresis"},
    {"loss_scale_min", "--loss-scale-min"},
    {"freeze", "--freeze"},
    {"delayed_update", "--delayed-update"},
    {"optimizer_in_backward", "--optimizer-in-backward"},
    {"reduce", "--reduce"},
    {"ranks", "ranks"},
    {"isa", "instruction set"},
};

/* The shortest decimal that reads back as the number. */
static void add_number(zn_text *text, const char *key, double number)
{
    char digits[64];
    int n = 6;
    if (strcmp(key, "delayed_update") == 0 && number < 0) {
        zn_text_add(text, "off");
        return;
    }
    do
        snprintf(digits, sizeof digits, "%.*g", n, number);
    while (strtod(digits, NULL) != number && ++n <= 17);
    zn_text_add(text, "%s", digits);
}

static zn_status add_words(zn_text *text, zn_json *array)
{
    size_t n = zn_json_n_items(array);
    for (size_t i = 0; i < n; i++) {
        const char *word;
        ZN_TRY(zn_json_item_string(array, i, &word));
        zn_text_add(text, "%s%s", i ? " " : "", zn_shown(word).text);
    }
    if (n == 0)
        zn_text_add(text, "none");
    return ZN_OK;
}

/* The value as a person would write it. */
static zn_status add_value(zn_text *text, zn_json *object, const char *key)
{
    const char *string;
    double number;
    bool is_on;
    zn_json *array;
    switch (zn_json_type_at(object, key)) {
    case ZN_JSON_STRING:
        ZN_TRY(zn_json_get_string(object, key, &string));
        zn_text_add(text, "%s", zn_shown(string).text);
        return ZN_OK;
    case ZN_JSON_NUMBER:
        ZN_TRY(zn_json_get_number(object, key, &number));
        add_number(text, key, number);
        return ZN_OK;
    case ZN_JSON_BOOL:
        ZN_TRY(zn_json_get_bool(object, key, &is_on));
        zn_text_add(text, is_on ? "on" : "off");
        return ZN_OK;
    case ZN_JSON_ARRAY:
        ZN_TRY(zn_json_get_array(object, key, &array));
        return add_words(text, array);
    case ZN_JSON_NULL:
        zn_text_add(text, "not given");
        return ZN_OK;
    case ZN_JSON_OBJECT:
        break;
    }
    return zn_json_fail(object, "'%s' is neither a value nor a list", key);
}

/* Also with null, which is a value that was not given. */
static bool is_listed(const zn_json *object, const char *key)
{
    const char *at = zn_json_first_key(object);
    while (at && strcmp(at, key) != 0)
        at = zn_json_next_key(object, at);
    return at != NULL;
}

static zn_status note(const struct zn_run *run, zn_json *saved, zn_json *now, const char *key, const char *name)
{
    zn_text was, is;
    if (!is_listed(saved, key) || !is_listed(now, key))
        return ZN_OK;
    zn_text_init(&was);
    zn_text_init(&is);
    zn_status status = add_value(&was, saved, key);
    if (status == ZN_OK)
        status = add_value(&is, now, key);
    if (status == ZN_OK)
        status = zn_text_status(&was);
    if (status == ZN_OK)
        status = zn_text_status(&is);
    if (status == ZN_OK && strcmp(was.data, is.data) != 0)
        zn_run_note(run, "--resume: %s changed since the checkpoint: %s → %s", name, was.data, is.data);
    zn_text_fini(&is);
    zn_text_fini(&was);
    return status;
}

zn_status zn_differences_note(const struct zn_run *run, zn_json *saved, zn_json *now)
{
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        ZN_TRY(note(run, saved, now, settings[i].key, settings[i].name));
    return ZN_OK;
}
