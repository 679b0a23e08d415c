/* Statements: reading a template from its first token to its last, and what it puts out. */
#include "text/template_run.h"

#include <stdlib.h>
#include <string.h>

#include "text/template.h"

zn_status template_compile(const char *source, struct template **compiled)
{
    size_t n = strlen(source);
    if (n > TEMPLATE_MAX_BYTES)
        return zn_fail(ZN_ERR_INPUT, "chat template: more than %d bytes", TEMPLATE_MAX_BYTES);
    struct template *t = calloc(1, sizeof *t);
    if (!t || !(t->source = malloc(n + 1)) || !(t->strings = malloc(n + 1))) {
        template_destroy(t);
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a chat template");
    }
    size_t to = 0;
    for (size_t i = 0; i < n; i++) { /* line ends become \n, as Jinja makes them */
        bool is_return = source[i] == '\r';
        if (is_return && source[i + 1] == '\n')
            continue;
        t->source[to++] = is_return ? '\n' : source[i];
    }
    if (to > 0 && t->source[to - 1] == '\n') /* one at the end of the file goes */
        to--;
    t->source[to] = '\0';
    zn_status status = template_lex(t);
    if (status != ZN_OK) {
        template_destroy(t);
        return status;
    }
    *compiled = t;
    return ZN_OK;
}

void template_destroy(struct template *compiled)
{
    if (!compiled)
        return;
    free(compiled->tokens);
    free(compiled->strings);
    free(compiled->source);
    free(compiled);
}

bool template_has_generation(const struct template *compiled)
{
    static const char name[] = "generation";
    const struct token *tokens = compiled->tokens;
    for (size_t i = 1; i < compiled->n_tokens; i++)
        if (tokens[i - 1].kind == TOKEN_BLOCK && tokens[i].kind == TOKEN_NAME && tokens[i].n_bytes == strlen(name) &&
            memcmp(tokens[i].text, name, strlen(name)) == 0)
            return true;
    return false;
}

/* ---- Variables ---- */

static zn_status set_named(struct run *r, const char *name, struct value value)
{
    return run_set(r, name, strlen(name), &value);
}

/* ---- Output ---- */

static zn_status put(struct run *r, const struct value *string)
{
    size_t n = string->string.n;
    ZN_TRY(arena_charge(&r->arena, n));
    zn_text_add_bytes(r->text, string->string.data, n);
    if (string->string.marks)
        zn_text_add_bytes(r->marks, string->string.marks, n);
    static const char zeros[256];
    for (size_t done = 0; !string->string.marks && done < n; done += sizeof zeros)
        zn_text_add_bytes(r->marks, zeros, n - done < sizeof zeros ? n - done : sizeof zeros);
    ZN_TRY(zn_text_status(r->text));
    ZN_TRY(zn_text_status(r->marks));
    for (size_t i = r->marks->n_bytes - n; r->n_generations > 0 && i < r->marks->n_bytes; i++)
        r->marks->data[i] |= MARK_GENERATION;
    return ZN_OK;
}

/* ---- Statements. Each is entered after its name and leaves after its last "%}". ---- */

static zn_status run_body(struct run *r, bool live);

static zn_status end_tag(struct run *r, token_kind kind)
{
    const struct token *t = run_token(r);
    if (t->kind != kind)
        return run_fail(r, ZN_ERR_UNSUPPORTED, "'%s' is not expected here", token_shown(t).text);
    r->at++;
    return ZN_OK;
}

/* Takes "{% name" if it is next. */
static bool skip_block(struct run *r, const char *name)
{
    if (run_token(r)->kind != TOKEN_BLOCK)
        return false;
    r->at++;
    if (run_skip_name(r, name))
        return true;
    r->at--;
    return false;
}

static bool is_on(const struct run *r, bool live)
{
    return live && r->jump == JUMP_NONE;
}

static zn_status run_if(struct run *r, bool live)
{
    struct value condition;
    bool taken = false;
    do {
        bool decides = is_on(r, live) && !taken;
        ZN_TRY(run_expression(r, decides, &condition));
        ZN_TRY(end_tag(r, TOKEN_BLOCK_END));
        bool chosen = decides && value_is_true(&condition);
        ZN_TRY(run_body(r, chosen));
        taken = taken || chosen;
    } while (skip_block(r, "elif"));
    if (skip_block(r, "else")) {
        ZN_TRY(end_tag(r, TOKEN_BLOCK_END));
        ZN_TRY(run_body(r, live && !taken));
    }
    if (!skip_block(r, "endif"))
        return run_fail(r, ZN_ERR_INPUT, "expected 'endif'");
    return end_tag(r, TOKEN_BLOCK_END);
}

static zn_status run_set_statement(struct run *r, bool live)
{
    const struct token *name = run_token(r), *attribute = NULL;
    struct value value;
    if (name->kind != TOKEN_NAME)
        return run_fail(r, ZN_ERR_INPUT, "expected a name after 'set'");
    r->at++;
    if (run_skip_operator(r, ".")) {
        attribute = run_token(r);
        if (attribute->kind != TOKEN_NAME)
            return run_fail(r, ZN_ERR_INPUT, "expected a name after '.'");
        r->at++;
    }
    if (!run_skip_operator(r, "="))
        return run_fail(r, ZN_ERR_UNSUPPORTED, "'set' of another form than name = value");
    ZN_TRY(run_expression(r, is_on(r, live), &value));
    if (is_on(r, live) && !attribute)
        ZN_TRY(run_set(r, name->text, name->n_bytes, &value));
    if (is_on(r, live) && attribute) {
        const struct run_variable *v = run_find(r, name->text, name->n_bytes);
        if (!v || v->value.kind != VALUE_NAMESPACE)
            return run_fail(r, ZN_ERR_INPUT, "'set' of an attribute of what is no namespace");
        ZN_TRY(map_put(&r->arena, v->value.map, attribute->text, attribute->n_bytes, &value));
    }
    return end_tag(r, TOKEN_BLOCK_END);
}

/* ---- Loops ---- */

struct loop {
    const struct token *names[2];
    size_t n_names;
    const struct value *items;
    size_t n_items;
    size_t filter, body; /* tokens; filter 0: none */
    struct value_map *about; /* what the body sees as `loop` */
};

static zn_status set_item(struct run *r, const struct loop *loop, const struct value *item)
{
    if (loop->n_names == 1)
        return run_set(r, loop->names[0]->text, loop->names[0]->n_bytes, item);
    if (item->kind != VALUE_LIST || item->list.n != 2)
        return run_fail(r, ZN_ERR_INPUT, "two names for what is no pair");
    for (size_t i = 0; i < 2; i++)
        ZN_TRY(run_set(r, loop->names[i]->text, loop->names[i]->n_bytes, &item->list.items[i]));
    return ZN_OK;
}

static zn_status get_items(struct run *r, const struct value *iterable, struct loop *loop)
{
    switch (iterable->kind) {
    case VALUE_UNDEFINED:
        return ZN_OK;
    case VALUE_LIST:
        loop->items = iterable->list.items;
        loop->n_items = iterable->list.n;
        return ZN_OK;
    default:
        return run_fail(r, ZN_ERR_UNSUPPORTED, "a loop over %s", value_kind_name(iterable));
    }
}

/* Keeps the items for which the condition of "for … if …" holds. */
static zn_status filter_items(struct run *r, struct loop *loop)
{
    void *memory;
    size_t n = 0, kept_frame = r->frame;
    ZN_TRY(arena_take(&r->arena, loop->n_items * sizeof(struct value) + 1, &memory));
    struct value *items = memory;
    for (size_t i = 0; i < loop->n_items; i++) {
        struct value holds;
        r->frame = r->n_variables;
        ZN_TRY(set_item(r, loop, &loop->items[i]));
        r->at = loop->filter;
        ZN_TRY(run_expression(r, true, &holds));
        if (value_is_true(&holds))
            items[n++] = loop->items[i];
        run_forget(r);
        r->frame = kept_frame;
    }
    loop->items = items;
    loop->n_items = n;
    return ZN_OK;
}

static zn_status tell_about(struct run *r, const struct loop *loop, size_t i)
{
    int64_t n = (int64_t)loop->n_items, k = (int64_t)i;
    const struct value nothing = {.kind = VALUE_UNDEFINED};
    const struct {
        const char *name;
        struct value value;
    } facts[] = {
        {"index", value_of_integer(k + 1)},   {"index0", value_of_integer(k)},
        {"first", value_of_bool(k == 0)},     {"last", value_of_bool(k == n - 1)},
        {"length", value_of_integer(n)},      {"revindex", value_of_integer(n - k)},
        {"revindex0", value_of_integer(n - k - 1)},
        {"previtem", k > 0 ? loop->items[i - 1] : nothing},
        {"nextitem", k < n - 1 ? loop->items[i + 1] : nothing},
    };
    for (size_t f = 0; f < sizeof facts / sizeof facts[0]; f++)
        ZN_TRY(map_put(&r->arena, loop->about, facts[f].name, strlen(facts[f].name), &facts[f].value));
    return ZN_OK;
}

static zn_status run_items(struct run *r, struct loop *loop)
{
    size_t kept_frame = r->frame;
    ZN_TRY(map_create(&r->arena, &loop->about));
    for (size_t i = 0; i < loop->n_items; i++) {
        r->frame = r->n_variables;
        ZN_TRY(arena_charge(&r->arena, 256));
        ZN_TRY(tell_about(r, loop, i));
        ZN_TRY(set_named(r, "loop", (struct value){.kind = VALUE_MAP, .map = loop->about}));
        ZN_TRY(set_item(r, loop, &loop->items[i]));
        r->at = loop->body;
        ZN_TRY(run_body(r, true));
        run_forget(r);
        r->frame = kept_frame;
        run_jump jump = r->jump;
        r->jump = JUMP_NONE;
        if (jump == JUMP_BREAK)
            break;
    }
    return ZN_OK;
}

/* "for a in b if c %}" */
static zn_status read_for(struct run *r, bool on, struct loop *loop)
{
    struct value iterable, ignored;
    do {
        if (run_token(r)->kind != TOKEN_NAME || loop->n_names == 2)
            return run_fail(r, ZN_ERR_UNSUPPORTED, "a loop with other than one or two names");
        loop->names[loop->n_names++] = run_token(r);
        r->at++;
    } while (run_skip_operator(r, ","));
    if (!run_skip_name(r, "in"))
        return run_fail(r, ZN_ERR_INPUT, "expected 'in'");
    ZN_TRY(run_expression_without_if(r, on, &iterable));
    if (on)
        ZN_TRY(get_items(r, &iterable, loop));
    if (run_skip_name(r, "if")) {
        loop->filter = r->at;
        ZN_TRY(run_expression(r, false, &ignored));
    }
    ZN_TRY(end_tag(r, TOKEN_BLOCK_END));
    loop->body = r->at;
    if (on && loop->filter)
        ZN_TRY(filter_items(r, loop));
    r->at = loop->body;
    return ZN_OK;
}

static zn_status run_for(struct run *r, bool live)
{
    struct loop loop = {0};
    bool on = is_on(r, live);
    ZN_TRY(read_for(r, on, &loop));
    if (loop.n_items > 0)
        ZN_TRY(run_items(r, &loop));
    else
        ZN_TRY(run_body(r, false));
    if (skip_block(r, "else")) {
        ZN_TRY(end_tag(r, TOKEN_BLOCK_END));
        ZN_TRY(run_body(r, on && loop.n_items == 0));
    }
    if (!skip_block(r, "endfor"))
        return run_fail(r, ZN_ERR_INPUT, "expected 'endfor'");
    return end_tag(r, TOKEN_BLOCK_END);
}

/* ---- Bodies ---- */

static zn_status run_print(struct run *r, bool live)
{
    struct value value;
    bool on = is_on(r, live);
    r->at++;
    ZN_TRY(run_expression(r, on, &value));
    if (on) {
        ZN_TRY(value_to_string(&r->arena, &value, &value));
        ZN_TRY(put(r, &value));
    }
    return end_tag(r, TOKEN_PRINT_END);
}

/* Names that end or divide a body: for who began it. */
static bool ends_body(const struct run *r)
{
    static const char *const names[] = {"elif", "else", "endif", "endfor", "endgeneration"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (run_is_name(r, names[i]))
            return true;
    return false;
}

static zn_status run_generation(struct run *r, bool live)
{
    ZN_TRY(end_tag(r, TOKEN_BLOCK_END));
    r->n_generations++;
    ZN_TRY(run_body(r, live));
    r->n_generations--;
    if (!skip_block(r, "endgeneration"))
        return run_fail(r, ZN_ERR_INPUT, "expected 'endgeneration'");
    return end_tag(r, TOKEN_BLOCK_END);
}

static zn_status run_statement(struct run *r, bool live)
{
    if (run_skip_name(r, "if"))
        return run_if(r, live);
    if (run_skip_name(r, "for"))
        return run_for(r, live);
    if (run_skip_name(r, "set"))
        return run_set_statement(r, live);
    if (run_skip_name(r, "generation"))
        return run_generation(r, live);
    run_jump jump = run_skip_name(r, "break") ? JUMP_BREAK : run_skip_name(r, "continue") ? JUMP_CONTINUE : JUMP_NONE;
    if (jump == JUMP_NONE) {
        return run_fail(r, ZN_ERR_UNSUPPORTED, "the statement '%s' is not supported", token_shown(run_token(r)).text);
    }
    if (is_on(r, live))
        r->jump = jump;
    return end_tag(r, TOKEN_BLOCK_END);
}

/* Runs up to "{%" with a name that is not its own, or the end; where not live, reads over it. */
static zn_status run_body(struct run *r, bool live)
{
    ZN_TRY(run_enter(r));
    for (;;) {
        const struct token *t = run_token(r);
        ZN_TRY(arena_charge(&r->arena, 16));
        if (t->kind == TOKEN_TEXT) {
            struct value text = {.kind = VALUE_STRING, .string = {.data = t->text, .n = t->n_bytes}};
            if (is_on(r, live))
                ZN_TRY(put(r, &text));
            r->at++;
        } else if (t->kind == TOKEN_PRINT) {
            ZN_TRY(run_print(r, live));
        } else if (t->kind == TOKEN_BLOCK) {
            r->at++;
            if (ends_body(r)) {
                r->at--;
                break;
            }
            ZN_TRY(run_statement(r, live));
        } else {
            break;
        }
    }
    r->depth--;
    return ZN_OK;
}

/* ---- The whole ---- */

/* The messages as a list of mappings, each byte of a content marked. */
static zn_status make_messages(struct run *r, const struct template_input *input, struct value *out)
{
    size_t longest = 1;
    for (size_t i = 0; i < input->n_messages; i++) {
        size_t n = strlen(input->messages[i].content);
        longest = n > longest ? n : longest;
    }
    void *memory, *other, *assistant;
    ZN_TRY(arena_take(&r->arena, input->n_messages * sizeof(struct value) + 1, &memory));
    ZN_TRY(arena_take(&r->arena, longest, &other));
    ZN_TRY(arena_take(&r->arena, longest, &assistant));
    memset(other, MARK_OTHER, longest);
    memset(assistant, MARK_ASSISTANT, longest);
    struct value *items = memory;
    for (size_t i = 0; i < input->n_messages; i++) {
        const struct zn_chat_message *m = &input->messages[i];
        struct value role = value_of_text(m->role), content = value_of_text(m->content);
        content.string.marks = strcmp(m->role, "assistant") == 0 ? assistant : other;
        struct value_map *map;
        ZN_TRY(map_create(&r->arena, &map));
        ZN_TRY(map_put(&r->arena, map, "role", 4, &role));
        ZN_TRY(map_put(&r->arena, map, "content", 7, &content));
        items[i] = (struct value){.kind = VALUE_MAP, .map = map};
    }
    *out = (struct value){.kind = VALUE_LIST, .list = {.items = items, .n = input->n_messages}};
    return ZN_OK;
}

static zn_status run_all(struct run *r, const struct template_input *input)
{
    struct value messages;
    ZN_TRY(make_messages(r, input, &messages));
    ZN_TRY(set_named(r, "messages", messages));
    ZN_TRY(set_named(r, "add_generation_prompt", value_of_bool(input->add_generation_prompt)));
    ZN_TRY(set_named(r, "tools", (struct value){.kind = VALUE_NONE}));
    ZN_TRY(set_named(r, "documents", (struct value){.kind = VALUE_NONE}));
    if (input->bos)
        ZN_TRY(set_named(r, "bos_token", value_of_text(input->bos)));
    if (input->eos)
        ZN_TRY(set_named(r, "eos_token", value_of_text(input->eos)));
    ZN_TRY(run_body(r, true));
    if (run_token(r)->kind != TOKEN_END)
        return run_fail(r, ZN_ERR_INPUT, "ends what was not begun");
    return ZN_OK;
}

zn_status template_render(const struct template *compiled, const struct template_input *input, zn_text *text,
                          zn_text *marks)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < input->n_messages; i++)
        n_bytes += strlen(input->messages[i].content) + strlen(input->messages[i].role);
    struct run r = {.t = compiled, .text = text, .marks = marks};
    r.arena.max_bytes = ((size_t)256 << 20) + 16 * n_bytes + 1024 * input->n_messages;
    r.arena.max_work = ((size_t)256 << 20) + 64 * n_bytes + 20000 * input->n_messages;
    zn_status status = run_all(&r, input);
    zn_text_add_bytes(text, "", 0); /* an empty text is one, too */
    zn_text_add_bytes(marks, "", 0);
    if (status == ZN_OK)
        status = zn_text_status(text);
    run_variables_fini(&r);
    arena_fini(&r.arena);
    return status;
}
