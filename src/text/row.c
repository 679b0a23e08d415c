/* Which kind a row is, and its values. */
#include "text/row.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MAX_KEYS_SHOWN = 6 };

/* The kinds by their keys; a row with the first of them is of this kind. */
static const struct kind {
    zn_row_kind kind;
    const char *keys[3];
} kinds[] = {
    {ZN_ROW_TEXT, {"text"}},
    {ZN_ROW_COMPLETION, {"completion", "prompt"}},
    {ZN_ROW_MESSAGES, {"messages"}},
    {ZN_ROW_MESSAGES, {"conversations"}},
    {ZN_ROW_INSTRUCTION, {"instruction", "input", "output"}},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const char known_keys[] = "text, prompt, completion, messages, conversations, instruction, input, output, system, chosen, "
                                 "rejected";

/* ---- The map ---- */

/* The key of the file that is read as `key`; NULL: the map does not name it. */
static const char *mapped(const struct zn_row_options *options, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; options && i < options->n_map; i++)
        if (strncmp(options->map[i], key, n) == 0 && options->map[i][n] == '=')
            return options->map[i] + n + 1;
    return NULL;
}

static const char *key_of(const struct zn_row_options *options, const char *key)
{
    const char *old = mapped(options, key);
    return old ? old : key;
}

static bool is_known(const char *key, size_t n)
{
    for (const char *at = known_keys; *at; at += strcspn(at, ", "), at += strspn(at, ", "))
        if (strcspn(at, ",") == n && memcmp(at, key, n) == 0)
            return true;
    return false;
}

zn_status zn_row_options_check(const struct zn_row_options *options)
{
    for (size_t i = 0; i < options->n_map; i++) {
        const char *word = options->map[i], *equals = strchr(word, '=');
        if (!equals || equals[1] == '\0')
            return zn_fail(ZN_ERR_USAGE, "--map: '%s' is not NEW=OLD, OLD being the key in the file",
                           zn_shown(word).text);
        size_t n = (size_t)(equals - word);
        if (!is_known(word, n))
            return zn_fail(ZN_ERR_USAGE, "--map: '%s': a row has no key '%.*s'; its keys are %s", zn_shown(word).text,
                           n < 40 ? (int)n : 40, word, known_keys);
        for (size_t k = 0; k < i; k++)
            if (strncmp(options->map[k], word, n + 1) == 0)
                return zn_fail(ZN_ERR_USAGE, "--map: '%.*s' is given twice", (int)n, word);
    }
    return ZN_OK;
}

/* ---- The kind ---- */

static bool is_named(const struct zn_row_options *options, const struct kind *kind)
{
    for (size_t i = 0; i < 3 && kind->keys[i]; i++)
        if (mapped(options, kind->keys[i]))
            return true;
    return false;
}

static zn_status fail_none(zn_json *object, const struct zn_row_options *options)
{
    if (zn_json_has(object, "chosen") && zn_json_has(object, "rejected"))
        return zn_json_fail(object, "the row is a preference pair ('chosen' and 'rejected'), which `zinc train --objective dpo` "
                            "takes; '--map completion=chosen' or '--map messages=chosen' takes the chosen answer alone");
    zn_text keys;
    size_t n = 0;
    zn_text_init(&keys);
    for (const char *k = zn_json_first_key(object); k && n < MAX_KEYS_SHOWN; k = zn_json_next_key(object, k), n++)
        zn_text_add(&keys, "%s'%.40s'", n > 0 ? ", " : "", zn_shown(k).text);
    zn_status status = zn_json_fail(
        object, "the row has none of 'text', 'prompt' with 'completion', 'messages', 'conversations' and 'instruction' "
        "with 'output'%s (--map NEW=OLD gives other keys these names); it has %s%s",
        options && options->n_map > 0 ? " as --map names them" : "", keys.data ? keys.data : "no key",
        n < zn_json_n_keys(object) ? " and more" : "");
    zn_text_fini(&keys);
    return status;
}

/* A kind that the map names goes before those that it does not. */
static zn_status find_kind(zn_json *object, const struct zn_row_options *options, const struct kind **kind)
{
    const struct kind *found[N_KINDS];
    size_t n = 0, n_named = 0;
    for (size_t i = 0; i < N_KINDS; i++) {
        if (!zn_json_has(object, key_of(options, kinds[i].keys[0])))
            continue;
        bool named = is_named(options, &kinds[i]);
        if (named && n_named == 0)
            n = 0;
        if (named || n_named == 0)
            found[n++] = &kinds[i];
        n_named += named;
    }
    if (n == 0)
        return fail_none(object, options);
    if (n > 1) {
        const char *a = found[0]->keys[0], *b = found[1]->keys[0];
        const char *file_a = key_of(options, a), *file_b = key_of(options, b);
        return zn_json_fail(object, "the row has both '%s' and '%s'; '--map %s=%s' takes the one, '--map %s=%s' the other",
                            file_a, file_b, a, file_a, b, file_b);
    }
    *kind = found[0];
    return ZN_OK;
}

/* ---- Values ---- */

void row_memory_fini(struct row_memory *memory)
{
    for (size_t i = 0; i < memory->n_texts; i++)
        free(memory->texts[i]);
    free(memory->texts);
    free(memory->messages);
    *memory = (struct row_memory){0};
}

/* A system prompt beside the rest of the row; NULL: none, or an empty one. */
static zn_status read_system(zn_json *object, const struct zn_row_options *options, const char **system)
{
    ZN_TRY(zn_json_get_string_or(object, key_of(options, "system"), NULL, system));
    if (*system && **system == '\0')
        *system = NULL;
    return ZN_OK;
}

static zn_status read_instruction(zn_json *object, const struct zn_row_options *options, struct zn_row *row)
{
    zn_json *history;
    if (zn_json_type_at(object, "history") == ZN_JSON_ARRAY) {
        ZN_TRY(zn_json_get_array(object, "history", &history));
        if (zn_json_n_items(history) > 0)
            return zn_json_fail(history, "earlier turns beside 'instruction' are not supported; write the row as 'messages'");
    }
    ZN_TRY(read_system(object, options, &row->system));
    ZN_TRY(zn_json_get_string(object, key_of(options, "instruction"), &row->instruction));
    ZN_TRY(zn_json_get_string_or(object, key_of(options, "input"), "", &row->input));
    return zn_json_get_string(object, key_of(options, "output"), &row->output);
}

static zn_status read_conversation(zn_json *object, const struct zn_row_options *options, const char *key,
                                   struct row_memory *memory, struct zn_row *row)
{
    zn_json *array;
    const char *system;
    ZN_TRY(zn_json_get_array(object, key_of(options, key), &array));
    ZN_TRY(read_system(object, options, &system));
    return row_read_messages(array, system, memory, row);
}

zn_status row_read(zn_json *object, const struct zn_row_options *options, struct row_memory *memory,
                   struct zn_row *row)
{
    const struct kind *kind = NULL;
    for (size_t i = 0; i < memory->n_texts; i++)
        free(memory->texts[i]);
    memory->n_texts = 0;
    if (zn_json_type_of(object) != ZN_JSON_OBJECT)
        return zn_json_fail(object, "a row is an object");
    if (options && options->pairs) {
        const struct row_pair_keys keys = {key_of(options, "prompt"), key_of(options, "chosen"), key_of(options, "rejected"),
                                           key_of(options, "system")};
        return row_read_pair(object, &keys, memory, row);
    }
    ZN_TRY(find_kind(object, options, &kind));
    *row = (struct zn_row){.kind = kind->kind};
    switch (kind->kind) {
    case ZN_ROW_TEXT:
        return zn_json_get_string(object, key_of(options, "text"), &row->text);
    case ZN_ROW_COMPLETION:
        if (zn_json_type_at(object, key_of(options, "completion")) == ZN_JSON_ARRAY)
            return zn_json_fail(object, "'%s' is a list; a prompt and its completion as messages belong in one list, "
                                "'messages'", key_of(options, "completion"));
        ZN_TRY(zn_json_get_string(object, key_of(options, "prompt"), &row->prompt));
        return zn_json_get_string(object, key_of(options, "completion"), &row->completion);
    case ZN_ROW_INSTRUCTION:
        return read_instruction(object, options, row);
    case ZN_ROW_MESSAGES:
    case ZN_ROW_PAIR:
        break;
    }
    return read_conversation(object, options, kind->keys[0], memory, row);
}
