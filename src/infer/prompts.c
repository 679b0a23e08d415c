/* Prompts from the command line, standard input, lines and rows. */
#include "infer/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

enum {
    FILE_BYTES = 256 * 1024 * 1024,
    BLOCK = 4092, /* of standard input, sent at once: an exchange takes 4096 bytes */
};

zn_status zn_prompt_add(struct zn_prompt *p, const char *role, const char *content)
{
    struct zn_chat_message *grown = realloc(p->messages, (p->n_messages + 1) * sizeof *grown);
    if (grown)
        p->messages = grown;
    char *r = strdup(role), *c = strdup(content);
    if (!grown || !r || !c) {
        free(r);
        free(c);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a message");
    }
    p->messages[p->n_messages++] = (struct zn_chat_message){.role = r, .content = c};
    return ZN_OK;
}

void zn_prompt_cut(struct zn_prompt *p, size_t n_messages)
{
    while (p->n_messages > n_messages) {
        p->n_messages--;
        free((void *)(uintptr_t)p->messages[p->n_messages].role);
        free((void *)(uintptr_t)p->messages[p->n_messages].content);
    }
}

void zn_prompt_fini(struct zn_prompt *p)
{
    zn_prompt_cut(p, 0);
    free(p->messages);
    *p = (struct zn_prompt){0};
}

void zn_prompts_fini(struct zn_prompts *prompts)
{
    for (size_t i = 0; i < prompts->n; i++)
        zn_prompt_fini(&prompts->prompt[i]);
    free(prompts->prompt);
    *prompts = (struct zn_prompts){0};
}

/* One more prompt, with the system message where there is one. */
static zn_status add_prompt(const struct zn_settings *s, struct zn_prompts *all, struct zn_prompt **added)
{
    struct zn_prompt *grown = realloc(all->prompt, (all->n + 1) * sizeof *grown);
    if (!grown)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %zu prompts", all->n + 1);
    all->prompt = grown;
    *added = &grown[all->n++];
    **added = (struct zn_prompt){0};
    return s->system && s->system[0] ? zn_prompt_add(*added, "system", s->system) : ZN_OK;
}

static zn_status add_text(const struct zn_settings *s, const char *text, struct zn_prompts *all)
{
    struct zn_prompt *prompt = NULL;
    ZN_TRY(add_prompt(s, all, &prompt));
    return zn_prompt_add(prompt, "user", text);
}

/* ---- Standard input ---- */

struct block {
    int32_t n_bytes; /* 0: the end; -1: it cannot be read */
    char bytes[BLOCK];
};

static void read_block(struct block *block)
{
    size_t n = fread(block->bytes, 1, sizeof block->bytes, stdin);
    block->n_bytes = ferror(stdin) ? -1 : (int32_t)n;
}

/* Rank 0's standard input, on all ranks. */
static zn_status read_input(zn_comm *comm, zn_text *text)
{
    size_t n_ranks = (size_t)zn_comm_n_ranks(comm);
    struct block *mine = calloc(1 + n_ranks, sizeof *mine);
    zn_status status = mine ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for the prompt");
    status = zn_comm_agree(comm, status);
    while (status == ZN_OK) {
        if (zn_comm_rank(comm) == 0)
            read_block(mine);
        status = zn_comm_exchange(comm, mine, sizeof *mine, mine + 1);
        if (status != ZN_OK || mine[1].n_bytes == 0)
            break;
        if (mine[1].n_bytes < 0)
            status = zn_fail(ZN_ERR_IO, "--prompt -: standard input cannot be read");
        else if (memchr(mine[1].bytes, 0, (size_t)mine[1].n_bytes))
            status = zn_fail(ZN_ERR_INPUT, "--prompt -: standard input has a NUL byte: it is no text");
        else if (text->n_bytes > FILE_BYTES)
            status = zn_fail(ZN_ERR_INPUT, "--prompt -: standard input has more than %d bytes", FILE_BYTES);
        else
            zn_text_add_bytes(text, mine[1].bytes, (size_t)mine[1].n_bytes);
    }
    free(mine);
    return status == ZN_OK ? zn_text_status(text) : status;
}

static zn_status add_input(const struct zn_settings *s, zn_comm *comm, struct zn_prompts *all)
{
    zn_text text;
    zn_text_init(&text);
    zn_status status = read_input(comm, &text);
    /* The newline with which echo and editors end a file is not meant. */
    if (status == ZN_OK && text.n_bytes > 0 && text.data[text.n_bytes - 1] == '\n')
        text.data[--text.n_bytes] = '\0';
    if (status == ZN_OK)
        status = add_text(s, text.data ? text.data : "", all);
    zn_text_fini(&text);
    return status;
}

/* ---- Files ---- */

static zn_status add_messages(const struct zn_settings *s, zn_json *row, struct zn_prompts *all)
{
    zn_json *messages, *message;
    struct zn_prompt *prompt = NULL;
    if (!s->chat)
        return zn_json_fail(row, "messages need a chat template: give --chat");
    ZN_TRY(zn_json_get_array(row, "messages", &messages));
    ZN_TRY(add_prompt(s, all, &prompt));
    for (size_t i = 0; i < zn_json_n_items(messages); i++) {
        const char *role, *content;
        ZN_TRY(zn_json_item_object(messages, i, &message));
        ZN_TRY(zn_json_get_string(message, "role", &role));
        ZN_TRY(zn_json_get_string(message, "content", &content));
        if (i == 0 && strcmp(role, "system") == 0)
            zn_prompt_cut(prompt, 0); /* the row's own takes the place of --system */
        ZN_TRY(zn_prompt_add(prompt, role, content));
    }
    return ZN_OK;
}

static zn_status add_row(const struct zn_settings *s, const char *line, size_t n_bytes, int64_t number, struct zn_prompts *all)
{
    zn_json *row;
    int64_t n_replaced;
    const char *text;
    ZN_TRY(zn_json_load_row(line, n_bytes, s->prompts, number, &row, &n_replaced));
    bool has_messages = zn_json_has(row, "messages");
    zn_status status;
    if (zn_json_type_of(row) != ZN_JSON_OBJECT || zn_json_has(row, "prompt") == has_messages)
        status = zn_json_fail(row, "a row of --prompts is an object with \"prompt\" or \"messages\"");
    else if (has_messages)
        status = add_messages(s, row, all);
    else {
        status = zn_json_get_string(row, "prompt", &text);
        if (status == ZN_OK)
            status = add_text(s, text, all);
    }
    zn_json_destroy(row);
    return status;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* `data` ends in NUL and is changed. */
static zn_status add_lines(const struct zn_settings *s, char *data, struct zn_prompts *all)
{
    bool has_rows = ends_in(s->prompts, ".jsonl") || ends_in(s->prompts, ".json");
    int64_t number = 1;
    for (char *line = data; line; number++) {
        char *end = strchr(line, '\n'), *next = end ? end + 1 : NULL;
        size_t n = end ? (size_t)(end - line) : strlen(line);
        while (n > 0 && line[n - 1] == '\r')
            n--;
        line[n] = '\0';
        if (strspn(line, " \t") < n)
            ZN_TRY(has_rows ? add_row(s, line, n, number, all) : add_text(s, line, all));
        line = next;
    }
    return all->n > 0 ? ZN_OK : zn_fail(ZN_ERR_INPUT, "%s: there is no prompt in it", s->prompts);
}

static zn_status add_file(const struct zn_settings *s, struct zn_prompts *all)
{
    char *data;
    size_t n_bytes;
    ZN_TRY(zn_file_read(s->prompts, FILE_BYTES, &data, &n_bytes));
    zn_status status = strlen(data) == n_bytes ? add_lines(s, data, all)
                                               : zn_fail(ZN_ERR_INPUT, "%s has a NUL byte: it is no text", s->prompts);
    free(data);
    return status;
}

static zn_status check(const struct zn_settings *s)
{
    if (s->prompt && s->prompts)
        return zn_fail(ZN_ERR_USAGE, "--prompt and --prompts: give one of them");
    if (s->system && !s->chat)
        return zn_fail(ZN_ERR_USAGE, "--system needs --chat: it is a message of the chat template");
    if (!s->prompt && !s->prompts && !s->chat)
        return zn_fail(ZN_ERR_USAGE, "--prompt TEXT is required (- for standard input, --prompts FILE for several, "
                                     "--chat alone for a conversation)");
    return ZN_OK;
}

zn_status zn_prompts_read(const struct zn_settings *s, zn_comm *comm, struct zn_prompts *all)
{
    ZN_TRY(zn_comm_agree(comm, check(s)));
    if (s->prompt && strcmp(s->prompt, "-") == 0)
        return zn_comm_agree(comm, add_input(s, comm, all));
    if (s->prompt)
        return zn_comm_agree(comm, add_text(s, s->prompt, all));
    return s->prompts ? zn_comm_agree(comm, add_file(s, all)) : ZN_OK;
}
