/* Messages of a row: {"role", "content"} or ShareGPT's {"from", "value"}; contents as a text or in parts. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/row.h"

/* ---- Contents ---- */

static zn_status keep_text(struct row_memory *memory, zn_text *text)
{
    if (memory->n_texts == memory->text_capacity) {
        size_t capacity = 2 * memory->text_capacity + 8;
        char **larger = realloc(memory->texts, capacity * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for the parts of a message");
        memory->texts = larger;
        memory->text_capacity = capacity;
    }
    memory->texts[memory->n_texts++] = text->data;
    zn_text_init(text);
    return ZN_OK;
}

static zn_status add_part(zn_json *parts, size_t i, zn_text *text)
{
    zn_json *part;
    const char *type, *words;
    ZN_TRY(zn_json_item_object(parts, i, &part));
    ZN_TRY(zn_json_get_string(part, "type", &type));
    if (strcmp(type, "text") != 0)
        return zn_json_fail(part, "a part of the type '%s' cannot be trained on, only 'text' can", zn_shown(type).text);
    ZN_TRY(zn_json_get_string(part, "text", &words));
    zn_text_add(text, "%s%s", i > 0 ? "\n" : "", words);
    return zn_text_status(text);
}

/* [{"type": "text", "text": "…"}, …]: the texts, a line each. */
static zn_status read_parts(zn_json *message, const char *key, struct row_memory *memory, const char **content)
{
    zn_json *parts;
    zn_text text;
    ZN_TRY(zn_json_get_array(message, key, &parts));
    zn_text_init(&text);
    zn_text_add_bytes(&text, "", 0); /* no parts are an empty text */
    zn_status status = zn_text_status(&text);
    for (size_t i = 0; i < zn_json_n_items(parts) && status == ZN_OK; i++)
        status = add_part(parts, i, &text);
    if (status == ZN_OK)
        status = keep_text(memory, &text);
    if (status == ZN_OK)
        *content = memory->texts[memory->n_texts - 1];
    zn_text_fini(&text);
    return status;
}

static zn_status read_content(zn_json *message, const char *key, struct row_memory *memory, const char **content)
{
    if (zn_json_type_at(message, key) == ZN_JSON_ARRAY)
        return read_parts(message, key, memory, content);
    return zn_json_get_string(message, key, content);
}

/* ---- Messages ---- */

/* Who speaks in ShareGPT's form, as chat templates call them. */
static zn_status read_speaker(zn_json *message, const char **role)
{
    static const char *const roles[][2] = {
        {"human", "user"},      {"user", "user"},           {"gpt", "assistant"},  {"assistant", "assistant"},
        {"chatgpt", "assistant"}, {"model", "assistant"}, {"bot", "assistant"}, {"system", "system"},
        {"tool", "tool"},
    };
    const char *from;
    ZN_TRY(zn_json_get_string(message, "from", &from));
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(from, roles[i][0]) == 0) {
            *role = roles[i][1];
            return ZN_OK;
        }
    }
    return zn_json_fail(message, "'from' is '%s'; known are human, user, gpt, assistant, chatgpt, model, bot, system and "
                        "tool", zn_shown(from).text);
}

/* What a message may say besides, and would be left out of the text without a word. */
static zn_status refuse_rest(zn_json *message)
{
    static const char *const keys[] = {"tool_calls", "function_call", "reasoning_content", "thinking"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = "x";
        zn_json *array;
        if (!zn_json_has(message, keys[i]))
            continue;
        if (zn_json_type_at(message, keys[i]) == ZN_JSON_ARRAY) {
            ZN_TRY(zn_json_get_array(message, keys[i], &array));
            text = zn_json_n_items(array) > 0 ? "x" : "";
        } else if (zn_json_type_at(message, keys[i]) == ZN_JSON_STRING) {
            ZN_TRY(zn_json_get_string(message, keys[i], &text));
        }
        if (*text)
            return zn_json_fail(message, "has '%s', which training data cannot have yet; all that is to be learnt "
                                "belongs in the content", keys[i]);
    }
    double weight = 1;
    if (zn_json_type_at(message, "weight") == ZN_JSON_NUMBER)
        ZN_TRY(zn_json_get_number(message, "weight", &weight));
    if (weight != 1)
        return zn_json_fail(message, "has a 'weight' of %g; only messages that count as usual, with 1, are supported",
                            weight);
    return ZN_OK;
}

static zn_status read_message(zn_json *array, size_t i, struct row_memory *memory, struct zn_chat_message *message)
{
    zn_json *object;
    ZN_TRY(zn_json_item_object(array, i, &object));
    bool is_sharegpt = zn_json_has(object, "from");
    if (is_sharegpt)
        ZN_TRY(read_speaker(object, &message->role));
    else
        ZN_TRY(zn_json_get_string(object, "role", &message->role));
    ZN_TRY(refuse_rest(object));
    return read_content(object, is_sharegpt ? "value" : "content", memory, &message->content);
}

zn_status row_add_message(zn_json *array, size_t i, struct row_memory *memory, size_t at)
{
    if (at >= memory->message_capacity) {
        size_t capacity = 2 * at + 8;
        struct zn_chat_message *larger = realloc(memory->messages, capacity * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu messages", capacity);
        memory->messages = larger;
        memory->message_capacity = capacity;
    }
    return read_message(array, i, memory, &memory->messages[at]);
}

zn_status row_read_messages(zn_json *array, const char *system, struct row_memory *memory, struct zn_row *row)
{
    size_t n = zn_json_n_items(array);
    if (n == 0)
        return zn_json_fail(array, "has no message");
    for (size_t i = 0; i < n; i++)
        ZN_TRY(row_add_message(array, i, memory, i + 1));
    struct zn_chat_message *messages = memory->messages;
    bool adds_system = system && strcmp(messages[1].role, "system") != 0;
    if (adds_system)
        messages[0] = (struct zn_chat_message){.role = "system", .content = system};
    row->messages = adds_system ? messages : messages + 1;
    row->n_messages = n + adds_system;
    return ZN_OK;
}
