/* Templates of hub folders, and where in their text the answers are. */
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "text/chat_private.h"

void zn_chat_text_fini(struct zn_chat_text *text)
{
    free(text->text);
    free(text->answers);
    *text = (struct zn_chat_text){0};
}

void zn_chat_close(zn_chat *chat)
{
    if (!chat)
        return;
    template_destroy(chat->template);
    for (size_t i = 0; i < chat->n_special; i++)
        free(chat->special[i]);
    free(chat->special);
    free(chat->bos);
    free(chat->eos);
    free(chat);
}

static bool copy_text(const char *text, char **copy)
{
    *copy = text ? strdup(text) : NULL;
    return !text || *copy;
}

static zn_status fill(zn_chat *chat, const char *source, const char *bos, const char *eos,
                      const char *const *special, size_t n_special)
{
    chat->special = calloc(n_special + 1, sizeof *chat->special);
    if (!chat->special || !copy_text(bos, &chat->bos) || !copy_text(eos, &chat->eos))
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a chat template");
    for (size_t i = 0; i < n_special; i++) {
        bool is_eos = eos && strcmp(eos, special[i]) == 0;
        if (special[i][0] == '\0' || (!is_eos && !strstr(source, special[i])))
            continue;
        if (!copy_text(special[i], &chat->special[chat->n_special]))
            return zn_fail(ZN_ERR_MEMORY, "out of memory for a chat template");
        chat->n_special++;
    }
    return template_compile(source, &chat->template);
}

zn_status zn_chat_open_text(const char *source, const char *bos, const char *eos, const char *const *special,
                            size_t n_special, zn_chat **chat)
{
    zn_chat *c = calloc(1, sizeof *c);
    if (!c)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a chat template");
    zn_status status = fill(c, source, bos, eos, special, n_special);
    if (status != ZN_OK) {
        zn_chat_close(c);
        return status;
    }
    *chat = c;
    return ZN_OK;
}

/* ---- Of a tokenizer ---- */

static zn_status token_text(const zn_tokenizer *tokenizer, int32_t id, char **text)
{
    size_t n_bytes;
    *text = NULL;
    return id < 0 ? ZN_OK : zn_tokenizer_decode(tokenizer, &id, 1, false, text, &n_bytes);
}

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

static zn_status special_texts(const zn_tokenizer *tokenizer, char ***texts, size_t *n_texts)
{
    size_t n = 0, capacity = 0;
    char **list = NULL;
    int64_t n_ids = zn_tokenizer_n_ids(tokenizer);
    zn_status status = ZN_OK;
    for (int64_t id = 0; id < n_ids && status == ZN_OK; id++) {
        if (!zn_tokenizer_is_special(tokenizer, (int32_t)id))
            continue;
        if (n == capacity) {
            char **larger = realloc(list, (capacity = 2 * capacity + 16) * sizeof *list);
            if (!larger) {
                status = zn_fail(ZN_ERR_MEMORY, "out of memory for the special tokens");
                break;
            }
            list = larger;
        }
        status = token_text(tokenizer, (int32_t)id, &list[n]);
        n += status == ZN_OK;
    }
    if (status != ZN_OK) {
        free_texts(list, n);
        return status;
    }
    *texts = list;
    *n_texts = n;
    return ZN_OK;
}

zn_status zn_chat_open(const zn_tokenizer *tokenizer, zn_chat **chat)
{
    const char *source = zn_tokenizer_chat_template(tokenizer);
    if (!source)
        return zn_fail(ZN_ERR_INPUT, "the model's folder has no chat template (chat_template in tokenizer_config.json, or "
                       "chat_template.jinja): take the model's chat or instruct version, or prompts without roles");
    char *bos = NULL, *eos = NULL, **special = NULL;
    size_t n_special = 0;
    zn_status status = token_text(tokenizer, zn_tokenizer_bos(tokenizer), &bos);
    if (status == ZN_OK)
        status = token_text(tokenizer, zn_tokenizer_eos(tokenizer), &eos);
    if (status == ZN_OK)
        status = special_texts(tokenizer, &special, &n_special);
    if (status == ZN_OK)
        status = zn_chat_open_text(source, bos, eos, (const char *const *)special, n_special, chat);
    free_texts(special, n_special);
    free(bos);
    free(eos);
    return status;
}

zn_status zn_chat_apply(const zn_chat *chat, const struct zn_chat_message *messages, size_t n_messages,
                        bool add_generation_prompt, struct zn_chat_text *text)
{
    const struct template_input input = {.messages = messages, .n_messages = n_messages, .bos = chat->bos,
                                         .eos = chat->eos, .add_generation_prompt = add_generation_prompt};
    zn_text bytes, marks;
    zn_text_init(&bytes);
    zn_text_init(&marks);
    struct zn_chat_text made = {0};
    zn_status status = template_render(chat->template, &input, &bytes, &marks);
    if (status == ZN_OK) {
        made.text = bytes.data;
        made.n_bytes = bytes.n_bytes;
        zn_text_init(&bytes);
        status = chat_find_answers(chat, marks.data, &made);
    }
    zn_text_fini(&bytes);
    zn_text_fini(&marks);
    if (status != ZN_OK) {
        zn_chat_text_fini(&made);
        return status;
    }
    *text = made;
    return ZN_OK;
}

zn_status zn_chat_render(const zn_tokenizer *tokenizer, const struct zn_chat_message *messages,
                         size_t n_messages, bool add_generation_prompt, char **text)
{
    zn_chat *chat;
    struct zn_chat_text made;
    ZN_TRY(zn_chat_open(tokenizer, &chat));
    zn_status status = zn_chat_apply(chat, messages, n_messages, add_generation_prompt, &made);
    zn_chat_close(chat);
    if (status != ZN_OK)
        return status;
    *text = made.text;
    made.text = NULL;
    zn_chat_text_fini(&made);
    return ZN_OK;
}
