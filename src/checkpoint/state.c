/* Writing and reading of state.json. */
#include "checkpoint/state.h"

#include <stdlib.h>
#include <string.h>

zn_state zn_run_state_find(const struct zn_run_state *s, const char *name)
{
    int k = 0;
    while (k < ZN_N_STATES && (!s->states[k] || strcmp(s->states[k], name) != 0))
        k++;
    return (zn_state)k;
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void print_base(const struct zn_run_state *s, zn_text *t)
{
    char *config;
    if (zn_json_print(s->base_config, &config) != ZN_OK) {
        t->failed = true;
        return;
    }
    zn_text_add(t, ",\n  \"base\": {\"name\": ");
    zn_text_add_quoted(t, s->base_name);
    zn_text_add(t, ", \"hash\": \"%016llx\", \"config\": %s}", (unsigned long long)s->base_hash, config);
    free(config);
}

void zn_run_state_print(const struct zn_run_state *s, const char *configuration, zn_text *t)
{
    zn_text_add(t, "{\n  \"format\": %d,\n  \"zinc\": \"%s\",\n  \"step\": %lld,\n  \"updates\": %lld,\n"
                "  \"skipped_in_a_row\": %lld",
                ZN_STATE_FORMAT, zn_version(), (long long)s->step, (long long)s->updates, (long long)s->n_skipped);
    zn_text_add(t, ",\n  \"data\": {\"windows\": %lld, \"consumed\": %lld, \"seq_len\": %lld, \"seed\": %llu, "
                "\"shuffle\": %s, \"packing\": \"%s\", \"truncate_rows\": %s, \"hash\": \"%016llx\"",
                (long long)s->n_windows, (long long)s->consumed, (long long)s->seq_len, (unsigned long long)s->seed,
                truth(s->shuffle), s->packing, truth(s->truncate_rows), (unsigned long long)s->data_hash);
    if (s->eval_split > 0)
        zn_text_add(t, ", \"eval_split\": %.17g", s->eval_split);
    zn_text_add(t, "}");
    if (s->best.step >= 0 || s->best.n_worse > 0)
        zn_text_add(t, ",\n  \"best\": {\"step\": %lld, \"loss\": %.17g, \"evaluations_since\": %lld}", (long long)s->best.step,
                    s->best.loss, (long long)s->best.n_worse);
    zn_text_add(t, ",\n  \"loss_scale\": {\"scale\": %.17g, \"step\": %lld, \"last_overflow\": %lld, "
                "\"patience\": %lld}",
                s->scale, (long long)s->scale_step, (long long)s->last_overflow, (long long)s->patience);
    zn_text_add(t, ",\n  \"optimizer\": \"%s\",\n  \"precision\": \"%s\",\n  \"dtype\": \"%s\"", s->optimizer,
                s->precision, zn_dtype_name(s->dtype));
    if (s->pending.is_there)
        zn_text_add(t, ",\n  \"pending\": {\"lr\": %.17g, \"grad_scale\": %.17g}", s->pending.lr, s->pending.grad_scale);
    zn_text_add(t, ",\n  \"masters\": \"%s\",\n  \"states\": [", s->masters_in_model ? "model" : "optimizer");
    const char *separator = "";
    for (int i = 0; i < ZN_N_STATES; i++) {
        if (!s->states[i])
            continue;
        zn_text_add(t, "%s\"%s\"", separator, s->states[i]);
        separator = ", ";
    }
    zn_text_add(t, "]");
    if (s->base_config)
        print_base(s, t);
    zn_text_add(t, ",\n  \"configuration\": %s\n}\n", configuration);
}

static zn_status parse_hash(zn_json *object, uint64_t *hash)
{
    const char *text;
    char *end;
    ZN_TRY(zn_json_get_string(object, "hash", &text));
    *hash = strtoull(text, &end, 16);
    return strlen(text) == 16 && *end == '\0' ? ZN_OK : zn_json_fail(object, "the hash is \"%s\"", zn_shown(text).text);
}

static zn_status parse_base(zn_json *root, struct zn_run_state *s)
{
    zn_json *base, *config;
    if (!zn_json_has(root, "base"))
        return ZN_OK;
    ZN_TRY(zn_json_get_object(root, "base", &base));
    ZN_TRY(zn_json_get_string(base, "name", &s->base_name));
    ZN_TRY(zn_json_get_object(base, "config", &config));
    s->base_config = config;
    return parse_hash(base, &s->base_hash);
}

static zn_status parse_data(zn_json *root, struct zn_run_state *s)
{
    zn_json *data;
    int64_t seed;
    ZN_TRY(zn_json_get_object(root, "data", &data));
    ZN_TRY(zn_json_get_int(data, "windows", 1, INT64_MAX, &s->n_windows));
    ZN_TRY(zn_json_get_int(data, "consumed", 0, INT64_MAX / 2, &s->consumed));
    ZN_TRY(zn_json_get_int(data, "seq_len", 1, INT32_MAX, &s->seq_len));
    ZN_TRY(zn_json_get_int(data, "seed", 0, INT64_MAX, &seed));
    s->seed = (uint64_t)seed;
    ZN_TRY(parse_hash(data, &s->data_hash));
    ZN_TRY(zn_json_get_string(data, "packing", &s->packing));
    ZN_TRY(zn_json_get_bool(data, "truncate_rows", &s->truncate_rows));
    if (zn_json_has(data, "eval_split"))
        ZN_TRY(zn_json_get_number(data, "eval_split", &s->eval_split));
    return zn_json_get_bool(data, "shuffle", &s->shuffle);
}

static zn_status parse_scale(zn_json *root, struct zn_run_state *s)
{
    zn_json *scale;
    ZN_TRY(zn_json_get_object(root, "loss_scale", &scale));
    ZN_TRY(zn_json_get_number(scale, "scale", &s->scale));
    if (!(s->scale > 0))
        return zn_json_fail(scale, "a scale of %g", s->scale);
    ZN_TRY(zn_json_get_int(scale, "step", 0, INT64_MAX / 2, &s->scale_step));
    ZN_TRY(zn_json_get_int(scale, "last_overflow", -1, INT64_MAX / 2, &s->last_overflow));
    return zn_json_get_int(scale, "patience", 0, INT64_MAX, &s->patience);
}

/* Checkpoints of runs that do not stop early have none. */
static zn_status parse_best(zn_json *root, struct zn_run_state *s)
{
    zn_json *best;
    s->best.step = -1;
    if (!zn_json_has(root, "best"))
        return ZN_OK;
    ZN_TRY(zn_json_get_object(root, "best", &best));
    ZN_TRY(zn_json_get_int(best, "step", -1, s->step, &s->best.step));
    ZN_TRY(zn_json_get_number(best, "loss", &s->best.loss));
    return zn_json_get_int(best, "evaluations_since", 0, INT64_MAX, &s->best.n_worse);
}

/* Whose scales have this name; -1: nobody's. */
static int find_scaled(const struct zn_run_state *s, const char *name)
{
    for (int i = 0; i < ZN_MAX_OPTIMIZER_STATES; i++) {
        const char *state = s->states[ZN_STATE_OPTIMIZER + i];
        size_t length = state ? strlen(state) : 0;
        if (state && strncmp(name, state, length) == 0 && strcmp(name + length, ZN_SCALES_SUFFIX) == 0)
            return i;
    }
    return -1;
}

/* What is neither the master nor pending is the optimizer's: its states are in their order, and scales come after them. */
static zn_status add_state(zn_json *list, const char *name, struct zn_run_state *s)
{
    int k = ZN_STATE_OPTIMIZER;
    if (zn_run_state_find(s, name) != ZN_N_STATES)
        return zn_json_fail(list, "state '%s' is there twice", zn_shown(name).text);
    while (k < ZN_STATE_PENDING && s->states[k])
        k++;
    if (strcmp(name, "master") == 0)
        k = ZN_STATE_MASTER;
    else if (strcmp(name, "pending") == 0)
        k = ZN_STATE_PENDING;
    else if (find_scaled(s, name) >= 0)
        k = ZN_STATE_SCALES + find_scaled(s, name);
    else if (k == ZN_STATE_PENDING)
        return zn_json_fail(list, "state '%s' is one too many", zn_shown(name).text);
    s->states[k] = name;
    return ZN_OK;
}

static zn_status parse_states(zn_json *root, struct zn_run_state *s)
{
    zn_json *list;
    const char *masters, *name;
    ZN_TRY(zn_json_get_string(root, "masters", &masters));
    s->masters_in_model = strcmp(masters, "model") == 0;
    if (!s->masters_in_model && strcmp(masters, "optimizer") != 0)
        return zn_json_fail(root, "masters are in '%s', neither model nor optimizer", zn_shown(masters).text);
    ZN_TRY(zn_json_get_array(root, "states", &list));
    for (size_t i = 0; i < zn_json_n_items(list); i++) {
        ZN_TRY(zn_json_item_string(list, i, &name));
        ZN_TRY(add_state(list, name, s));
    }
    if (s->masters_in_model == (s->states[ZN_STATE_MASTER] != NULL))
        return zn_json_fail(root, "masters must be in the model or in the optimizer's files");
    return ZN_OK;
}

/* An update that is delayed has its gradients among the states. */
static zn_status parse_pending(zn_json *root, struct zn_run_state *s)
{
    zn_json *pending;
    s->pending.is_there = zn_json_has(root, "pending");
    if (s->pending.is_there != (s->states[ZN_STATE_PENDING] != NULL))
        return zn_json_fail(root, "a pending update is told of without its gradients, or the other way round");
    if (!s->pending.is_there)
        return ZN_OK;
    ZN_TRY(zn_json_get_object(root, "pending", &pending));
    ZN_TRY(zn_json_get_number(pending, "lr", &s->pending.lr));
    return zn_json_get_number(pending, "grad_scale", &s->pending.grad_scale);
}

zn_status zn_run_state_parse(zn_json *root, struct zn_run_state *state)
{
    struct zn_run_state s = {0};
    int64_t format;
    const char *dtype;
    ZN_TRY(zn_json_get_int(root, "format", 1, INT32_MAX, &format));
    if (format != ZN_STATE_FORMAT) {
        zn_json_fail(root, "format %lld; this version reads format %d", (long long)format, ZN_STATE_FORMAT);
        return ZN_ERR_UNSUPPORTED;
    }
    ZN_TRY(zn_json_get_int(root, "step", 0, INT64_MAX / 2, &s.step));
    ZN_TRY(zn_json_get_int(root, "updates", 0, s.step, &s.updates));
    ZN_TRY(zn_json_get_int(root, "skipped_in_a_row", 0, s.step, &s.n_skipped));
    ZN_TRY(parse_data(root, &s));
    ZN_TRY(parse_best(root, &s));
    ZN_TRY(parse_scale(root, &s));
    ZN_TRY(zn_json_get_string(root, "optimizer", &s.optimizer));
    ZN_TRY(zn_json_get_string(root, "precision", &s.precision));
    ZN_TRY(zn_json_get_string(root, "dtype", &dtype));
    if (zn_dtype_parse(dtype, "dtype", &s.dtype) != ZN_OK)
        return zn_json_fail(root, "dtype '%s' is not one of fp32, bf16, fp16", zn_shown(dtype).text);
    ZN_TRY(parse_states(root, &s));
    ZN_TRY(parse_pending(root, &s));
    ZN_TRY(parse_base(root, &s));
    if (s.masters_in_model && s.dtype != ZN_F32)
        return zn_json_fail(root, "masters are said to be in a model of %s", dtype);
    *state = s;
    return ZN_OK;
}
