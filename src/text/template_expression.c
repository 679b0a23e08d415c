/* Expressions, evaluated as they are read: a template runs once for each conversation, and a tree would be
 * walked as often as it was built. */
#include <string.h>

#include "text/template_run.h"

static zn_status arithmetic(struct run *r, const char *op, const struct value *a, const struct value *b,
                            struct value *out)
{
    int64_t x = a->integer, y = b->integer, result = 0;
    bool bad = false;
    if (strcmp(op, "+") == 0)
        bad = __builtin_add_overflow(x, y, &result);
    else if (strcmp(op, "-") == 0)
        bad = __builtin_sub_overflow(x, y, &result);
    else if (strcmp(op, "*") == 0)
        bad = __builtin_mul_overflow(x, y, &result);
    else if (y == 0 || y == -1) /* the one quotient that overflows has -1 */
        bad = y == 0 || x == INT64_MIN;
    if (bad)
        return run_fail(r, ZN_ERR_INPUT, "'%s' of these numbers", op);
    if (strcmp(op, "//") == 0)
        result = x / y - (x % y != 0 && (x < 0) != (y < 0));
    else if (strcmp(op, "%") == 0)
        result = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
    *out = value_of_integer(result);
    return ZN_OK;
}

static zn_status list_concat(struct run *r, const struct value *a, const struct value *b, struct value *out)
{
    void *memory;
    size_t n = a->list.n + b->list.n;
    ZN_TRY(arena_take(&r->arena, n * sizeof(struct value) + 1, &memory));
    struct value *items = memory;
    for (size_t i = 0; i < n; i++)
        items[i] = i < a->list.n ? a->list.items[i] : b->list.items[i - a->list.n];
    *out = (struct value){.kind = VALUE_LIST, .list = {.items = items, .n = n}};
    return ZN_OK;
}

static zn_status operate(struct run *r, const char *op, struct value a, struct value b, struct value *out)
{
    ZN_TRY(arena_charge(&r->arena, value_size(&a) + value_size(&b)));
    if (strcmp(op, "~") == 0) {
        ZN_TRY(value_to_string(&r->arena, &a, &a));
        ZN_TRY(value_to_string(&r->arena, &b, &b));
        return value_concat(&r->arena, &a, &b, out);
    }
    if (a.kind == VALUE_INTEGER && b.kind == VALUE_INTEGER && strcmp(op, "/") != 0)
        return arithmetic(r, op, &a, &b, out);
    if (strcmp(op, "+") == 0 && a.kind == VALUE_STRING && b.kind == VALUE_STRING)
        return value_concat(&r->arena, &a, &b, out);
    if (strcmp(op, "+") == 0 && a.kind == VALUE_LIST && b.kind == VALUE_LIST)
        return list_concat(r, &a, &b, out);
    return run_fail(r, ZN_ERR_INPUT, "'%s' of %s and %s", op, value_kind_name(&a), value_kind_name(&b));
}

/* Three levels of operators from the weakest: + -, then ~, then * / // %. */
static zn_status read_binary(struct run *r, bool live, int level, struct value *out)
{
    static const char *const operators[3][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}};
    ZN_TRY(level == 2 ? run_operand(r, live, true, out) : read_binary(r, live, level + 1, out));
    for (;;) {
        const char *op = NULL;
        for (const char *const *o = operators[level]; *o && !op; o++)
            if (run_skip_operator(r, *o))
                op = *o;
        if (!op)
            return ZN_OK;
        struct value left = *out, right;
        ZN_TRY(level == 2 ? run_operand(r, live, true, &right) : read_binary(r, live, level + 1, &right));
        if (live)
            ZN_TRY(operate(r, op, left, right, out));
    }
}

static zn_status contains(struct run *r, const struct value *item, const struct value *in, bool *out)
{
    *out = false;
    if (in->kind == VALUE_STRING && item->kind == VALUE_STRING)
        *out = string_find(in, item, 0) >= 0;
    else if (in->kind == VALUE_LIST)
        for (size_t i = 0; i < in->list.n && !*out; i++)
            *out = value_equal(&in->list.items[i], item);
    else if ((in->kind == VALUE_MAP || in->kind == VALUE_NAMESPACE) && item->kind == VALUE_STRING)
        *out = map_get(in->map, item->string.data, item->string.n) != NULL;
    else if (in->kind != VALUE_UNDEFINED)
        return run_fail(r, ZN_ERR_INPUT, "%s in %s", value_kind_name(item), value_kind_name(in));
    return ZN_OK;
}

static zn_status compare(struct run *r, const char *op, const struct value *a, const struct value *b, bool *out)
{
    ZN_TRY(arena_charge(&r->arena, value_size(a) + value_size(b)));
    if (strcmp(op, "in") == 0 || strcmp(op, "not in") == 0) {
        ZN_TRY(contains(r, a, b, out));
        *out = *out == (op[0] == 'i');
        return ZN_OK;
    }
    if (op[0] == '=' || op[0] == '!') {
        *out = value_equal(a, b) == (op[0] == '=');
        return ZN_OK;
    }
    int order;
    if (a->kind == VALUE_INTEGER && b->kind == VALUE_INTEGER) {
        order = a->integer < b->integer ? -1 : a->integer > b->integer;
    } else if (a->kind == VALUE_STRING && b->kind == VALUE_STRING) {
        size_t n = a->string.n < b->string.n ? a->string.n : b->string.n;
        order = n > 0 ? memcmp(a->string.data, b->string.data, n) : 0;
        if (order == 0)
            order = a->string.n < b->string.n ? -1 : a->string.n > b->string.n;
    } else {
        return run_fail(r, ZN_ERR_INPUT, "'%s' of %s and %s", op, value_kind_name(a), value_kind_name(b));
    }
    *out = op[0] == '<' ? order < 0 || (op[1] && order == 0) : order > 0 || (op[1] && order == 0);
    return ZN_OK;
}

static const char *next_comparison(struct run *r)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (run_skip_operator(r, operators[i]))
            return operators[i];
    if (run_skip_name(r, "in"))
        return "in";
    const struct token *next = &r->t->tokens[r->at + (run_token(r)->kind != TOKEN_END)];
    if (run_is_name(r, "not") && next->kind == TOKEN_NAME && next->n_bytes == 2 && memcmp(next->text, "in", 2) == 0) {
        r->at += 2;
        return "not in";
    }
    return NULL;
}

static zn_status read_comparison(struct run *r, bool live, struct value *out)
{
    ZN_TRY(read_binary(r, live, 0, out));
    bool all = true;
    struct value left = *out;
    for (const char *op; (op = next_comparison(r));) { /* a < b < c is a < b and b < c */
        struct value right;
        bool holds = false;
        ZN_TRY(read_binary(r, live && all, 0, &right));
        if (live && all)
            ZN_TRY(compare(r, op, &left, &right, &holds));
        all = all && holds;
        left = right;
        *out = value_of_bool(all);
    }
    return ZN_OK;
}

static zn_status read_not(struct run *r, bool live, struct value *out)
{
    bool negate = false, is_not = false;
    while (run_skip_name(r, "not")) {
        negate = !negate;
        is_not = true;
    }
    ZN_TRY(read_comparison(r, live, out));
    if (is_not)
        *out = value_of_bool(value_is_true(out) != negate);
    return ZN_OK;
}

static zn_status read_and(struct run *r, bool live, struct value *out)
{
    ZN_TRY(read_not(r, live, out));
    while (run_skip_name(r, "and")) {
        struct value right;
        bool is_true = value_is_true(out);
        ZN_TRY(read_not(r, live && is_true, &right));
        if (is_true)
            *out = right;
    }
    return ZN_OK;
}

zn_status run_expression_without_if(struct run *r, bool live, struct value *out)
{
    ZN_TRY(read_and(r, live, out));
    while (run_skip_name(r, "or")) {
        struct value right;
        bool is_true = value_is_true(out);
        ZN_TRY(read_and(r, live && !is_true, &right));
        if (!is_true)
            *out = right;
    }
    return ZN_OK;
}

/* Whether the expression that begins here is "a if b else c": the condition stands after what it decides. */
static bool has_condition(const struct run *r)
{
    int depth = 0;
    for (const struct token *t = run_token(r);; t++) {
        if (t->kind == TOKEN_PRINT_END || t->kind == TOKEN_BLOCK_END || t->kind == TOKEN_END)
            return false;
        if (t->kind == TOKEN_NAME && depth == 0 && t->n_bytes == 2 && memcmp(t->text, "if", 2) == 0)
            return true;
        if (t->kind == TOKEN_NAME && depth == 0 && t->n_bytes == 4 && memcmp(t->text, "else", 4) == 0)
            return false;
        if (t->kind != TOKEN_OPERATOR || t->n_bytes != 1)
            continue;
        char c = t->text[0];
        if (c == '(' || c == '[' || c == '{')
            depth++;
        else if (depth == 0 && strchr(")]},:=", c))
            return false;
        else if (c == ')' || c == ']' || c == '}')
            depth--;
    }
}

static zn_status read_conditional(struct run *r, bool live, struct value *out)
{
    size_t begin = r->at;
    struct value condition, ignored;
    ZN_TRY(run_expression_without_if(r, false, &ignored));
    if (!run_skip_name(r, "if"))
        return run_fail(r, ZN_ERR_INPUT, "expected 'if', found '%s'", token_shown(run_token(r)).text);
    ZN_TRY(run_expression_without_if(r, live, &condition));
    bool chosen = live && value_is_true(&condition);
    size_t after = r->at;
    if (chosen) {
        r->at = begin;
        ZN_TRY(run_expression_without_if(r, true, out));
        r->at = after;
    } else {
        *out = (struct value){.kind = VALUE_UNDEFINED};
    }
    if (!run_skip_name(r, "else"))
        return ZN_OK;
    return run_expression(r, live && !chosen, chosen ? &ignored : out);
}

zn_status run_expression(struct run *r, bool live, struct value *out)
{
    ZN_TRY(run_enter(r));
    ZN_TRY(has_condition(r) ? read_conditional(r, live, out) : run_expression_without_if(r, live, out));
    r->depth--;
    return ZN_OK;
}
