/* A pair of answers to one prompt: texts, or lists of messages. */
#include <string.h>

#include "text/row.h"

/* Appends the messages of a list; *n counts those that are there. */
static zn_status add_list(zn_json *object, const char *key, struct row_memory *memory, size_t *n)
{
    zn_json *array;
    ZN_TRY(zn_json_get_array(object, key, &array));
    if (zn_json_n_items(array) == 0)
        return zn_json_fail(array, "has no message");
    for (size_t i = 0; i < zn_json_n_items(array); i++)
        ZN_TRY(row_add_message(array, i, memory, (*n)++));
    return ZN_OK;
}

static bool is_same(const struct zn_chat_message *a, const struct zn_chat_message *b)
{
    return strcmp(a->role, b->role) == 0 && strcmp(a->content, b->content) == 0;
}

/* What both begin with is the prompt; each has an answer behind it. */
static zn_status find_prompt(zn_json *object, const struct row_pair_keys *keys, struct zn_row *row)
{
    const struct zn_row_answer *a = &row->chosen, *b = &row->rejected;
    size_t n = 0;
    while (n < a->n_messages && n < b->n_messages && is_same(&a->messages[n], &b->messages[n]))
        n++;
    if (n == 0 || n == a->n_messages || n == b->n_messages)
        return zn_json_fail(object, "the row has no '%s', and '%s' and '%s' do not begin with the same messages and go on with "
                            "others", keys->prompt, keys->chosen, keys->rejected);
    row->n_prompt = n;
    return ZN_OK;
}

/* The memory has the prompt, the chosen answer, the prompt again, and the rejected answer. */
static zn_status read_lists(zn_json *object, const struct row_pair_keys *keys, struct row_memory *memory, struct zn_row *row)
{
    const char *system;
    size_t n = 0, n_chosen;
    bool has_prompt = zn_json_has(object, keys->prompt);
    ZN_TRY(zn_json_get_string_or(object, keys->system, "", &system));
    if (*system)
        return zn_json_fail(object, "'%s' beside lists of messages: it belongs among those of '%s'", keys->system, keys->prompt);
    if (has_prompt)
        ZN_TRY(add_list(object, keys->prompt, memory, &n));
    row->n_prompt = n;
    ZN_TRY(add_list(object, keys->chosen, memory, &n));
    n_chosen = n;
    if (has_prompt)
        ZN_TRY(add_list(object, keys->prompt, memory, &n));
    ZN_TRY(add_list(object, keys->rejected, memory, &n));
    row->chosen = (struct zn_row_answer){.messages = memory->messages, .n_messages = n_chosen};
    row->rejected = (struct zn_row_answer){.messages = memory->messages + n_chosen, .n_messages = n - n_chosen};
    return has_prompt ? ZN_OK : find_prompt(object, keys, row);
}

zn_status row_read_pair(zn_json *object, const struct row_pair_keys *keys, struct row_memory *memory, struct zn_row *row)
{
    *row = (struct zn_row){.kind = ZN_ROW_PAIR};
    if (!zn_json_has(object, keys->chosen) || !zn_json_has(object, keys->rejected))
        return zn_json_fail(object, "the row has no '%s': --objective dpo takes rows with 'prompt', 'chosen' and 'rejected' (--map "
                            "NEW=OLD gives other keys these names)", zn_json_has(object, keys->chosen) ? keys->rejected : keys->chosen);
    bool is_list = zn_json_type_at(object, keys->chosen) == ZN_JSON_ARRAY;
    if (is_list != (zn_json_type_at(object, keys->rejected) == ZN_JSON_ARRAY) ||
        (zn_json_has(object, keys->prompt) && is_list != (zn_json_type_at(object, keys->prompt) == ZN_JSON_ARRAY)))
        return zn_json_fail(object, "'%s', '%s' and '%s' are all texts, or all lists of messages", keys->prompt, keys->chosen,
                            keys->rejected);
    if (is_list)
        return read_lists(object, keys, memory, row);
    ZN_TRY(zn_json_get_string(object, keys->prompt, &row->prompt));
    ZN_TRY(zn_json_get_string(object, keys->chosen, &row->chosen.text));
    return zn_json_get_string(object, keys->rejected, &row->rejected.text);
}
