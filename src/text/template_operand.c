/* Operands: what stands alone in an expression, and what follows it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_run.h"

enum { MAX_DEPTH = 100, STEP = 16 };

/* ---- Tokens ---- */

const struct token *run_token(const struct run *r)
{
    return &r->t->tokens[r->at];
}

zn_status run_fail(const struct run *r, zn_status code, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return zn_fail(code, "chat template, line %d: %s", run_token(r)->line, what);
}

static bool is_token(const struct run *r, token_kind kind, const char *text)
{
    const struct token *t = run_token(r);
    return t->kind == kind && t->n_bytes == strlen(text) && memcmp(t->text, text, t->n_bytes) == 0;
}

bool run_is_operator(const struct run *r, const char *op)
{
    return is_token(r, TOKEN_OPERATOR, op);
}

bool run_is_name(const struct run *r, const char *name)
{
    return is_token(r, TOKEN_NAME, name);
}

bool run_skip_operator(struct run *r, const char *op)
{
    bool found = run_is_operator(r, op);
    r->at += found;
    return found;
}

bool run_skip_name(struct run *r, const char *name)
{
    bool found = run_is_name(r, name);
    r->at += found;
    return found;
}

zn_status run_expect(struct run *r, const char *op)
{
    if (run_skip_operator(r, op))
        return ZN_OK;
    return run_fail(r, ZN_ERR_INPUT, "expected '%s'", op);
}

struct zn_shown token_shown(const struct token *token)
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", token->n_bytes < 199 ? (int)token->n_bytes : 199, token->text);
    return zn_shown(text);
}

zn_status run_enter(struct run *r)
{
    if (++r->depth > MAX_DEPTH)
        return run_fail(r, ZN_ERR_INPUT, "nested too deep");
    return ZN_OK;
}

/* ---- What stands alone ---- */

static zn_status find_variable(const struct run *r, const struct token *name, struct value *out)
{
    *out = (struct value){.kind = VALUE_UNDEFINED};
    const struct run_variable *v = run_find(r, name->text, name->n_bytes);
    if (v)
        *out = v->value;
    return ZN_OK;
}

/* Up to the closing operator, which is taken: a, b, name=c. */
static zn_status read_arguments(struct run *r, bool live, struct arguments *args)
{
    args->n = args->n_named = 0;
    while (!run_is_operator(r, ")")) {
        const struct token *name = NULL;
        if (run_token(r)->kind == TOKEN_NAME && r->t->tokens[r->at + 1].kind == TOKEN_OPERATOR &&
            r->t->tokens[r->at + 1].n_bytes == 1 && r->t->tokens[r->at + 1].text[0] == '=') {
            name = run_token(r);
            r->at += 2;
        }
        if (args->n == MAX_ARGUMENTS || args->n_named == MAX_ARGUMENTS)
            return run_fail(r, ZN_ERR_UNSUPPORTED, "more than %d arguments", MAX_ARGUMENTS);
        struct value *to = name ? &args->named[args->n_named] : &args->values[args->n];
        ZN_TRY(run_expression(r, live, to));
        if (name)
            args->names[args->n_named++] = name;
        else
            args->n++;
        if (!run_skip_operator(r, ","))
            break;
    }
    return run_expect(r, ")");
}

static zn_status read_name(struct run *r, bool live, struct value *out)
{
    const struct token *name = run_token(r);
    static const struct {
        const char *name;
        struct value value;
    } constants[] = {
        {"true", {.kind = VALUE_BOOL, .boolean = true}},   {"True", {.kind = VALUE_BOOL, .boolean = true}},
        {"false", {.kind = VALUE_BOOL, .boolean = false}}, {"False", {.kind = VALUE_BOOL, .boolean = false}},
        {"none", {.kind = VALUE_NONE}},                    {"None", {.kind = VALUE_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (run_skip_name(r, constants[i].name)) {
            *out = constants[i].value;
            return ZN_OK;
        }
    }
    r->at++;
    if (run_skip_operator(r, "(")) {
        struct arguments args;
        ZN_TRY(read_arguments(r, live, &args));
        return live ? call_function(r, name, &args, out) : ZN_OK;
    }
    return live ? find_variable(r, name, out) : ZN_OK;
}

static zn_status read_string(struct run *r, bool live, struct value *out)
{
    *out = (struct value){.kind = VALUE_STRING, .string = {.data = run_token(r)->text, .n = run_token(r)->n_bytes}};
    r->at++;
    while (run_token(r)->kind == TOKEN_STRING) { /* "a" "b" is one string */
        struct value left = *out, right = {.kind = VALUE_STRING,
                                           .string = {.data = run_token(r)->text, .n = run_token(r)->n_bytes}};
        r->at++;
        if (live)
            ZN_TRY(value_concat(&r->arena, &left, &right, out));
    }
    return ZN_OK;
}

/* Items up to the closing operator, which is taken, the first one given when it was read already. */
static zn_status read_items(struct run *r, bool live, const char *close, const struct value *first, struct value *out)
{
    struct value *items = NULL;
    size_t n = 0, capacity = 0;
    void *memory;
    if (first) {
        ZN_TRY(arena_take(&r->arena, sizeof *items, &memory));
        items = memory;
        items[n++] = *first;
        capacity = 1;
    }
    while (!run_is_operator(r, close)) {
        struct value item;
        ZN_TRY(run_expression(r, live, &item));
        if (live && n == capacity) {
            capacity = 2 * capacity + 4;
            ZN_TRY(arena_take(&r->arena, capacity * sizeof *items, &memory));
            if (n > 0)
                memcpy(memory, items, n * sizeof *items);
            items = memory;
        }
        if (live)
            items[n++] = item;
        if (!run_skip_operator(r, ","))
            break;
    }
    if (live)
        *out = (struct value){.kind = VALUE_LIST, .list = {.items = items, .n = n}};
    return run_expect(r, close);
}

static zn_status read_map(struct run *r, bool live, struct value *out)
{
    struct value_map *map = NULL;
    if (live)
        ZN_TRY(map_create(&r->arena, &map));
    while (!run_is_operator(r, "}")) {
        struct value key, value;
        ZN_TRY(run_expression(r, live, &key));
        ZN_TRY(run_expect(r, ":"));
        ZN_TRY(run_expression(r, live, &value));
        if (live && key.kind != VALUE_STRING)
            return run_fail(r, ZN_ERR_UNSUPPORTED, "%s as a key", value_kind_name(&key));
        if (live)
            ZN_TRY(map_put(&r->arena, map, key.string.data, key.string.n, &value));
        if (!run_skip_operator(r, ","))
            break;
    }
    if (live)
        *out = (struct value){.kind = VALUE_MAP, .map = map};
    return run_expect(r, "}");
}

static zn_status read_primary(struct run *r, bool live, struct value *out)
{
    const struct token *t = run_token(r);
    *out = (struct value){.kind = VALUE_UNDEFINED};
    ZN_TRY(arena_charge(&r->arena, STEP));
    if (t->kind == TOKEN_NAME)
        return read_name(r, live, out);
    if (t->kind == TOKEN_STRING)
        return read_string(r, live, out);
    if (t->kind == TOKEN_INTEGER) {
        *out = value_of_integer(t->integer);
        r->at++;
        return ZN_OK;
    }
    if (run_skip_operator(r, "["))
        return read_items(r, live, "]", NULL, out);
    if (run_skip_operator(r, "{"))
        return read_map(r, live, out);
    if (run_skip_operator(r, "(")) {
        if (run_is_operator(r, ")"))
            return read_items(r, live, ")", NULL, out);
        ZN_TRY(run_expression(r, live, out));
        if (!run_skip_operator(r, ","))
            return run_expect(r, ")");
        struct value first = *out;
        return read_items(r, live, ")", live ? &first : NULL, out);
    }
    return run_fail(r, ZN_ERR_INPUT, "expected a value, found '%s'", token_shown(t).text);
}

/* ---- What follows it: .name, [index], |filter, is test ---- */

static zn_status get_attribute(struct run *r, const struct value *self, const char *name, size_t n, struct value *out)
{
    const struct value *found = NULL;
    if (self->kind == VALUE_UNDEFINED)
        return run_fail(r, ZN_ERR_INPUT, "'%s' of something undefined",
                        token_shown(&(struct token){.text = name, .n_bytes = n}).text);
    if (self->kind == VALUE_MAP || self->kind == VALUE_NAMESPACE)
        found = map_get(self->map, name, n);
    *out = found ? *found : (struct value){.kind = VALUE_UNDEFINED};
    return ZN_OK;
}

/* Python's index from the end. */
static bool place_index(int64_t i, size_t n, size_t *place)
{
    if (i < 0 && __builtin_add_overflow(i, (int64_t)n, &i))
        return false;
    *place = (size_t)i;
    return i >= 0 && (uint64_t)i < n;
}

static zn_status get_item(struct run *r, const struct value *self, const struct value *key, struct value *out)
{
    if (key->kind == VALUE_STRING)
        return get_attribute(r, self, key->string.data, key->string.n, out);
    size_t i;
    *out = (struct value){.kind = VALUE_UNDEFINED};
    if (self->kind == VALUE_UNDEFINED)
        return run_fail(r, ZN_ERR_INPUT, "an item of something undefined");
    if (key->kind != VALUE_INTEGER)
        return run_fail(r, ZN_ERR_UNSUPPORTED, "%s as an index", value_kind_name(key));
    if (self->kind == VALUE_LIST && place_index(key->integer, self->list.n, &i)) {
        *out = self->list.items[i];
    } else if (self->kind == VALUE_STRING) {
        ZN_TRY(arena_charge(&r->arena, value_size(self)));
        if (place_index(key->integer, string_length(self), &i))
            *out = value_slice(self, string_offset(self, i), string_offset(self, i + 1));
    }
    return ZN_OK;
}

/* A bound of a slice, as Python takes it. */
static zn_status slice_bound(struct run *r, const struct value *bound, size_t n, size_t fallback, size_t *place)
{
    *place = fallback;
    if (bound->kind == VALUE_NONE)
        return ZN_OK;
    if (bound->kind != VALUE_INTEGER)
        return run_fail(r, ZN_ERR_UNSUPPORTED, "%s as a bound", value_kind_name(bound));
    int64_t i = bound->integer;
    if (i < 0)
        i = i < -(int64_t)n ? 0 : i + (int64_t)n;
    *place = (uint64_t)i > n ? n : (size_t)i;
    return ZN_OK;
}

static zn_status get_reversed(struct run *r, const struct value *self, struct value *out)
{
    void *memory;
    ZN_TRY(arena_take(&r->arena, self->list.n * sizeof(struct value) + 1, &memory));
    struct value *items = memory;
    for (size_t i = 0; i < self->list.n; i++)
        items[i] = self->list.items[self->list.n - 1 - i];
    *out = (struct value){.kind = VALUE_LIST, .list = {.items = items, .n = self->list.n}};
    return ZN_OK;
}

static zn_status get_slice(struct run *r, const struct value *self, const struct value bounds[3], struct value *out)
{
    if (self->kind != VALUE_LIST && self->kind != VALUE_STRING)
        return run_fail(r, ZN_ERR_INPUT, "a slice of %s", value_kind_name(self));
    bool is_list = self->kind == VALUE_LIST;
    if (bounds[2].kind == VALUE_INTEGER && bounds[2].integer == -1 && bounds[0].kind == VALUE_NONE &&
        bounds[1].kind == VALUE_NONE && is_list)
        return get_reversed(r, self, out);
    if (bounds[2].kind != VALUE_NONE && !(bounds[2].kind == VALUE_INTEGER && bounds[2].integer == 1))
        return run_fail(r, ZN_ERR_UNSUPPORTED, "a slice with a step");
    size_t begin, end;
    ZN_TRY(arena_charge(&r->arena, is_list ? 0 : value_size(self)));
    size_t n = is_list ? self->list.n : string_length(self);
    ZN_TRY(slice_bound(r, &bounds[0], n, 0, &begin));
    ZN_TRY(slice_bound(r, &bounds[1], n, n, &end));
    if (end < begin)
        end = begin;
    if (is_list)
        *out = (struct value){.kind = VALUE_LIST,
                              .list = {.items = end > begin ? self->list.items + begin : NULL, .n = end - begin}};
    else
        *out = value_slice(self, string_offset(self, begin), string_offset(self, end));
    return ZN_OK;
}

static zn_status read_subscript(struct run *r, bool live, const struct value *self, struct value *out)
{
    struct value bounds[3] = {{.kind = VALUE_NONE}, {.kind = VALUE_NONE}, {.kind = VALUE_NONE}};
    int n_colons = 0;
    while (!run_is_operator(r, "]")) {
        if (run_skip_operator(r, ":")) {
            if (++n_colons > 2)
                return run_fail(r, ZN_ERR_INPUT, "a slice with too many bounds");
        } else {
            ZN_TRY(run_expression(r, live, &bounds[n_colons]));
            if (!run_is_operator(r, ":"))
                break;
        }
    }
    ZN_TRY(run_expect(r, "]"));
    if (!live)
        return ZN_OK;
    struct value base = *self;
    return n_colons > 0 ? get_slice(r, &base, bounds, out) : get_item(r, &base, &bounds[0], out);
}

static zn_status read_member(struct run *r, bool live, struct value *value)
{
    const struct token *name = run_token(r);
    struct value self = *value;
    r->at++;
    if (name->kind == TOKEN_INTEGER) {
        struct value key = value_of_integer(name->integer);
        return live ? get_item(r, &self, &key, value) : ZN_OK;
    }
    if (name->kind != TOKEN_NAME) {
        r->at--;
        return run_fail(r, ZN_ERR_INPUT, "expected a name after '.'");
    }
    if (run_skip_operator(r, "(")) {
        struct arguments args;
        ZN_TRY(read_arguments(r, live, &args));
        return live ? call_method(r, &self, name, &args, value) : ZN_OK;
    }
    return live ? get_attribute(r, &self, name->text, name->n_bytes, value) : ZN_OK;
}

static zn_status read_filter(struct run *r, bool live, struct value *value)
{
    const struct token *name = run_token(r);
    struct arguments args = {.n = 0};
    struct value self = *value;
    if (name->kind != TOKEN_NAME)
        return run_fail(r, ZN_ERR_INPUT, "expected the name of a filter");
    r->at++;
    if (run_skip_operator(r, "("))
        ZN_TRY(read_arguments(r, live, &args));
    return live ? call_filter(r, &self, name, &args, value) : ZN_OK;
}

static zn_status read_test(struct run *r, bool live, struct value *value)
{
    bool is_not = run_skip_name(r, "not"), is_so = false;
    const struct token *name = run_token(r);
    struct arguments args = {.n = 0};
    if (name->kind != TOKEN_NAME)
        return run_fail(r, ZN_ERR_INPUT, "expected the name of a test");
    r->at++;
    token_kind next = run_token(r)->kind;
    if (run_skip_operator(r, "(")) {
        ZN_TRY(read_arguments(r, live, &args));
    } else if (next == TOKEN_STRING || next == TOKEN_INTEGER || run_is_operator(r, "[")) { /* is equalto "x" */
        ZN_TRY(run_operand(r, live, false, &args.values[0]));
        args.n = 1;
    }
    if (!live)
        return ZN_OK;
    ZN_TRY(call_test(r, value, name, &args, &is_so));
    *value = value_of_bool(is_so != is_not);
    return ZN_OK;
}

zn_status run_operand(struct run *r, bool live, bool with_filter, struct value *out)
{
    bool negative = run_is_operator(r, "-");
    ZN_TRY(run_enter(r));
    if (negative || run_is_operator(r, "+")) {
        r->at++;
        ZN_TRY(run_operand(r, live, false, out));
        bool bad = live && out->kind != VALUE_INTEGER;
        if (live && !bad && negative)
            bad = __builtin_sub_overflow(0, out->integer, &out->integer);
        if (bad)
            return run_fail(r, ZN_ERR_INPUT, "a sign before %s", value_kind_name(out));
    } else {
        ZN_TRY(read_primary(r, live, out));
        for (;;) {
            if (run_skip_operator(r, "."))
                ZN_TRY(read_member(r, live, out));
            else if (run_skip_operator(r, "["))
                ZN_TRY(read_subscript(r, live, out, out));
            else if (run_is_operator(r, "("))
                return run_fail(r, ZN_ERR_UNSUPPORTED, "a call of what is no name");
            else
                break;
        }
    }
    while (with_filter) {
        if (run_skip_operator(r, "|"))
            ZN_TRY(read_filter(r, live, out));
        else if (run_skip_name(r, "is"))
            ZN_TRY(read_test(r, live, out));
        else
            break;
    }
    r->depth--;
    return ZN_OK;
}
