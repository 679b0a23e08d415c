/* The functions, methods, filters and tests that templates may call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_run.h"

static bool is_named(const struct token *name, const char *text)
{
    return name->n_bytes == strlen(text) && memcmp(name->text, text, name->n_bytes) == 0;
}

static zn_status fail_unknown(const struct run *r, const char *what, const struct token *name)
{
    return run_fail(r, ZN_ERR_UNSUPPORTED, "%s '%s' is not supported", what, token_shown(name).text);
}

static zn_status want(const struct run *r, const struct token *name, const struct value *value, value_kind kind)
{
    struct value example = {.kind = kind};
    if (value->kind == kind)
        return ZN_OK;
    return run_fail(r, ZN_ERR_INPUT, "'%s' expects %s, found %s", token_shown(name).text, value_kind_name(&example),
                    value_kind_name(value));
}

static zn_status want_arguments(const struct run *r, const struct token *name, const struct arguments *args,
                                size_t min, size_t max)
{
    if (args->n_named > 0)
        return run_fail(r, ZN_ERR_UNSUPPORTED, "'%s' with '%s='", token_shown(name).text,
                        token_shown(args->names[0]).text);
    if (args->n < min || args->n > max)
        return run_fail(r, ZN_ERR_UNSUPPORTED, "'%s' with %zu arguments", token_shown(name).text, args->n);
    return ZN_OK;
}

/* A list that grows in the arena. */
struct list_maker {
    struct value *items;
    size_t n, capacity;
};

static zn_status add_item(struct run *r, struct list_maker *list, const struct value *item)
{
    if (list->n == list->capacity) {
        size_t capacity = 2 * list->capacity + 4;
        void *memory;
        ZN_TRY(arena_take(&r->arena, capacity * sizeof *item, &memory));
        if (list->n > 0)
            memcpy(memory, list->items, list->n * sizeof *item);
        list->items = memory;
        list->capacity = capacity;
    }
    list->items[list->n++] = *item;
    return ZN_OK;
}

static struct value made_list(const struct list_maker *list)
{
    return (struct value){.kind = VALUE_LIST, .list = {.items = list->items, .n = list->n}};
}

/* ---- Functions ---- */

static zn_status make_range(struct run *r, const struct token *name, const struct arguments *args, struct value *out)
{
    ZN_TRY(want_arguments(r, name, args, 1, 3));
    for (size_t i = 0; i < args->n; i++)
        ZN_TRY(want(r, name, &args->values[i], VALUE_INTEGER));
    int64_t from = args->n > 1 ? args->values[0].integer : 0, to = args->values[args->n > 1].integer;
    int64_t step = args->n > 2 ? args->values[2].integer : 1;
    if (step == 0)
        return run_fail(r, ZN_ERR_INPUT, "range() with step 0");
    struct list_maker list = {0};
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        struct value item = value_of_integer(i);
        ZN_TRY(add_item(r, &list, &item));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    *out = made_list(&list);
    return ZN_OK;
}

zn_status call_function(struct run *r, const struct token *name, const struct arguments *args, struct value *out)
{
    if (is_named(name, "raise_exception")) {
        ZN_TRY(want_arguments(r, name, args, 1, 1));
        char text[200] = "";
        if (args->values[0].kind == VALUE_STRING)
            snprintf(text, sizeof text, "%.*s", (int)(args->values[0].string.n < 199 ? args->values[0].string.n : 199),
                     args->values[0].string.data);
        return zn_fail(ZN_ERR_INPUT, "the chat template refuses the messages: %s", zn_shown(text).text);
    }
    if (is_named(name, "range"))
        return make_range(r, name, args, out);
    if (is_named(name, "namespace") || is_named(name, "dict")) {
        struct value_map *map;
        if (args->n > 0)
            return run_fail(r, ZN_ERR_UNSUPPORTED, "'%s' with values without names", token_shown(name).text);
        ZN_TRY(map_create(&r->arena, &map));
        for (size_t i = 0; i < args->n_named; i++)
            ZN_TRY(map_put(&r->arena, map, args->names[i]->text, args->names[i]->n_bytes, &args->named[i]));
        *out = (struct value){.kind = is_named(name, "dict") ? VALUE_MAP : VALUE_NAMESPACE, .map = map};
        return ZN_OK;
    }
    return fail_unknown(r, "the function", name);
}

/* ---- Strings ---- */

/* Bytes of the character at the text if it is to be stripped, else 0. */
static size_t strips(const struct value *set, const char *text, size_t n)
{
    if (!set)
        return space_length(text, n);
    return set->string.n > 0 && memchr(set->string.data, *text, set->string.n);
}

/* Strips white space, or the characters of `set`, from the sides. */
static zn_status strip(struct run *r, const struct value *self, const struct value *set, bool left, bool right,
                       struct value *out)
{
    size_t begin = 0, end = self->string.n;
    for (size_t i = 0; set && i < set->string.n; i++)
        if ((unsigned char)set->string.data[i] >= 0x80)
            return run_fail(r, ZN_ERR_UNSUPPORTED, "stripping a character outside of ASCII");
    const char *s = self->string.data;
    while (left && begin < end) {
        size_t n = strips(set, s + begin, end - begin);
        if (n == 0)
            break;
        begin += n;
    }
    while (right && end > begin) {
        size_t last = end - 1; /* where the last character begins */
        while (last > begin && ((unsigned char)s[last] & 0xc0) == 0x80)
            last--;
        if (strips(set, s + last, end - last) == 0)
            break;
        end = last;
    }
    *out = value_slice(self, begin, end);
    return ZN_OK;
}

/* split() at white space, or split(separator). */
static zn_status split(struct run *r, const struct value *self, const struct value *separator, struct value *out)
{
    struct list_maker list = {0};
    size_t at = 0, n = self->string.n;
    while (!separator && at < n) {
        size_t space = space_length(self->string.data + at, n - at), end = at;
        if (space > 0) {
            at += space;
            continue;
        }
        while (end < n && space_length(self->string.data + end, n - end) == 0)
            end++;
        struct value part = value_slice(self, at, end);
        ZN_TRY(add_item(r, &list, &part));
        at = end;
    }
    if (separator && separator->string.n == 0)
        return run_fail(r, ZN_ERR_INPUT, "'split' at an empty string");
    while (separator) {
        ptrdiff_t found = string_find(self, separator, at);
        struct value part = value_slice(self, at, found < 0 ? n : (size_t)found);
        ZN_TRY(add_item(r, &list, &part));
        if (found < 0)
            break;
        at = (size_t)found + separator->string.n;
    }
    *out = made_list(&list);
    return ZN_OK;
}

static zn_status replace(struct run *r, const struct value *self, const struct value *from, const struct value *to,
                         struct value *out)
{
    if (from->string.n == 0)
        return run_fail(r, ZN_ERR_UNSUPPORTED, "'replace' of an empty string");
    struct value made = value_of_text("");
    size_t at = 0;
    for (;;) {
        ptrdiff_t found = string_find(self, from, at);
        struct value part = value_slice(self, at, found < 0 ? self->string.n : (size_t)found);
        ZN_TRY(value_concat(&r->arena, &made, &part, &made));
        if (found < 0)
            break;
        ZN_TRY(value_concat(&r->arena, &made, to, &made));
        ZN_TRY(arena_charge(&r->arena, made.string.n));
        at = (size_t)found + from->string.n;
    }
    *out = made;
    return ZN_OK;
}

static zn_status change_case(struct run *r, const struct value *self, bool upper, struct value *out)
{
    void *memory;
    ZN_TRY(arena_take(&r->arena, self->string.n + 1, &memory));
    char *data = memory;
    for (size_t i = 0; i < self->string.n; i++) {
        char c = self->string.data[i];
        if ((unsigned char)c >= 0x80)
            return run_fail(r, ZN_ERR_UNSUPPORTED, "upper and lower case outside of ASCII");
        if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
            c = (char)(c ^ 0x20);
        data[i] = c;
    }
    *out = *self;
    out->string.data = data;
    return ZN_OK;
}

static zn_status call_string(struct run *r, const struct value *self, const struct token *name,
                             const struct arguments *args, struct value *out)
{
    const struct value *a = args->values;
    ZN_TRY(arena_charge(&r->arena, self->string.n));
    for (size_t i = 0; i < args->n; i++)
        ZN_TRY(want(r, name, &a[i], VALUE_STRING));
    bool left = is_named(name, "lstrip"), right = is_named(name, "rstrip");
    if (left || right || is_named(name, "strip")) {
        ZN_TRY(want_arguments(r, name, args, 0, 1));
        return strip(r, self, args->n ? &a[0] : NULL, !right, !left, out);
    }
    if (is_named(name, "upper") || is_named(name, "lower")) {
        ZN_TRY(want_arguments(r, name, args, 0, 0));
        return change_case(r, self, is_named(name, "upper"), out);
    }
    if (is_named(name, "split")) {
        ZN_TRY(want_arguments(r, name, args, 0, 1));
        return split(r, self, args->n ? &a[0] : NULL, out);
    }
    if (is_named(name, "replace")) {
        ZN_TRY(want_arguments(r, name, args, 2, 2));
        return replace(r, self, &a[0], &a[1], out);
    }
    bool starts = is_named(name, "startswith");
    if (starts || is_named(name, "endswith")) {
        ZN_TRY(want_arguments(r, name, args, 1, 1));
        size_t n = a[0].string.n;
        struct value part = a[0];
        if (n <= self->string.n)
            part = starts ? value_slice(self, 0, n) : value_slice(self, self->string.n - n, self->string.n);
        *out = value_of_bool(n <= self->string.n && value_equal(&part, &a[0]));
        return ZN_OK;
    }
    return fail_unknown(r, "the method", name);
}

/* ---- Mappings ---- */

static zn_status map_items(struct run *r, const struct value_map *map, struct value *out)
{
    struct list_maker list = {0};
    for (const struct map_entry *e = map->first; e; e = e->next) {
        struct list_maker pair = {0};
        struct value key = {.kind = VALUE_STRING, .string = {.data = e->key, .n = e->key_bytes}};
        ZN_TRY(add_item(r, &pair, &key));
        ZN_TRY(add_item(r, &pair, &e->value));
        struct value item = made_list(&pair);
        ZN_TRY(add_item(r, &list, &item));
    }
    *out = made_list(&list);
    return ZN_OK;
}

zn_status call_method(struct run *r, const struct value *self, const struct token *name,
                      const struct arguments *args, struct value *out)
{
    bool is_map = self->kind == VALUE_MAP || self->kind == VALUE_NAMESPACE;
    if (self->kind == VALUE_STRING)
        return call_string(r, self, name, args, out);
    if (is_map && is_named(name, "get")) {
        ZN_TRY(want_arguments(r, name, args, 1, 2));
        ZN_TRY(want(r, name, &args->values[0], VALUE_STRING));
        const struct value *found = map_get(self->map, args->values[0].string.data, args->values[0].string.n);
        *out = found ? *found : args->n == 2 ? args->values[1] : (struct value){.kind = VALUE_NONE};
        return ZN_OK;
    }
    if (is_map && is_named(name, "items")) {
        ZN_TRY(want_arguments(r, name, args, 0, 0));
        return map_items(r, self->map, out);
    }
    if (self->kind == VALUE_UNDEFINED)
        return run_fail(r, ZN_ERR_INPUT, "'%s' of something undefined", token_shown(name).text);
    return fail_unknown(r, "the method", name);
}

/* ---- Filters ---- */

/* selectattr("role", "equalto", "user") and its kin. */
static zn_status select_items(struct run *r, const struct value *self, const struct token *name,
                              const struct arguments *args, struct value *out)
{
    bool wanted = is_named(name, "selectattr");
    ZN_TRY(want_arguments(r, name, args, 1, 3));
    ZN_TRY(want(r, name, self, VALUE_LIST));
    ZN_TRY(want(r, name, &args->values[0], VALUE_STRING));
    const struct value *test = &args->values[1];
    bool is_equal = args->n == 3 && (value_is_string(test, "equalto") || value_is_string(test, "eq") ||
                                     value_is_string(test, "=="));
    if (args->n > 1 && !is_equal)
        return run_fail(r, ZN_ERR_UNSUPPORTED, "'%s' with a test other than equalto", token_shown(name).text);
    struct list_maker list = {0};
    for (size_t i = 0; i < self->list.n; i++) {
        const struct value *item = &self->list.items[i], *found = NULL;
        if (item->kind == VALUE_MAP || item->kind == VALUE_NAMESPACE)
            found = map_get(item->map, args->values[0].string.data, args->values[0].string.n);
        bool is_so = found && (args->n == 3 ? value_equal(found, &args->values[2]) : value_is_true(found));
        if (is_so == wanted)
            ZN_TRY(add_item(r, &list, item));
    }
    *out = made_list(&list);
    return ZN_OK;
}

static zn_status join(struct run *r, const struct value *self, const struct token *name, const struct arguments *args,
                      struct value *out)
{
    ZN_TRY(want_arguments(r, name, args, 0, 1));
    ZN_TRY(want(r, name, self, VALUE_LIST));
    struct value made = value_of_text("");
    for (size_t i = 0; i < self->list.n; i++) {
        struct value part;
        if (i > 0 && args->n == 1) {
            ZN_TRY(want(r, name, &args->values[0], VALUE_STRING));
            ZN_TRY(value_concat(&r->arena, &made, &args->values[0], &made));
        }
        ZN_TRY(value_to_string(&r->arena, &self->list.items[i], &part));
        ZN_TRY(value_concat(&r->arena, &made, &part, &made));
        ZN_TRY(arena_charge(&r->arena, made.string.n));
    }
    *out = made;
    return ZN_OK;
}

static zn_status count(struct run *r, const struct value *self, const struct token *name, struct value *out)
{
    size_t n = 0;
    if (self->kind == VALUE_STRING)
        n = string_length(self);
    else if (self->kind == VALUE_LIST)
        n = self->list.n;
    else if (self->kind == VALUE_MAP)
        for (const struct map_entry *e = self->map->first; e; e = e->next)
            n++;
    else if (self->kind != VALUE_UNDEFINED)
        return run_fail(r, ZN_ERR_INPUT, "'%s' of %s", token_shown(name).text, value_kind_name(self));
    *out = value_of_integer((int64_t)n);
    return ZN_OK;
}

zn_status call_filter(struct run *r, const struct value *self, const struct token *name,
                      const struct arguments *args, struct value *out)
{
    ZN_TRY(arena_charge(&r->arena, value_size(self)));
    if (is_named(name, "trim")) {
        struct value text;
        ZN_TRY(want_arguments(r, name, args, 0, 0));
        ZN_TRY(value_to_string(&r->arena, self, &text));
        return strip(r, &text, NULL, true, true, out);
    }
    if (is_named(name, "length") || is_named(name, "count"))
        return count(r, self, name, out);
    if (is_named(name, "first") || is_named(name, "last")) {
        ZN_TRY(want(r, name, self, VALUE_LIST));
        *out = (struct value){.kind = VALUE_UNDEFINED};
        if (self->list.n > 0)
            *out = self->list.items[is_named(name, "first") ? 0 : self->list.n - 1];
        return ZN_OK;
    }
    if (is_named(name, "default") || is_named(name, "d")) {
        ZN_TRY(want_arguments(r, name, args, 1, 2));
        bool also_false = args->n == 2 && value_is_true(&args->values[1]);
        bool takes = self->kind == VALUE_UNDEFINED || (also_false && !value_is_true(self));
        *out = takes ? args->values[0] : *self;
        return ZN_OK;
    }
    if (is_named(name, "selectattr") || is_named(name, "rejectattr"))
        return select_items(r, self, name, args, out);
    if (is_named(name, "join"))
        return join(r, self, name, args, out);
    if (is_named(name, "list") && self->kind == VALUE_LIST) {
        *out = *self;
        return ZN_OK;
    }
    if (is_named(name, "items") && self->kind == VALUE_MAP)
        return map_items(r, self->map, out);
    if (is_named(name, "string") || is_named(name, "safe"))
        return value_to_string(&r->arena, self, out);
    if ((is_named(name, "upper") || is_named(name, "lower") || is_named(name, "replace")) && self->kind == VALUE_STRING)
        return call_string(r, self, name, args, out);
    return fail_unknown(r, "the filter", name);
}

/* ---- Tests ---- */

static zn_status test_equal(struct run *r, const struct value *self, const struct token *name,
                            const struct arguments *args, bool *out)
{
    ZN_TRY(want_arguments(r, name, args, 1, 1));
    ZN_TRY(arena_charge(&r->arena, value_size(self)));
    *out = value_equal(self, &args->values[0]);
    return ZN_OK;
}

zn_status call_test(struct run *r, const struct value *self, const struct token *name,
                    const struct arguments *args, bool *out)
{
    value_kind k = self->kind;
    bool is_map = k == VALUE_MAP, is_sequence = k == VALUE_LIST || k == VALUE_STRING || k == VALUE_MAP;
    const struct {
        const char *name;
        bool is_so;
    } tests[] = {
        {"defined", k != VALUE_UNDEFINED},
        {"undefined", k == VALUE_UNDEFINED},
        {"none", k == VALUE_NONE},
        {"string", k == VALUE_STRING},
        {"mapping", is_map},
        {"sequence", is_sequence || k == VALUE_UNDEFINED},
        {"iterable", is_sequence || k == VALUE_UNDEFINED},
        {"boolean", k == VALUE_BOOL},
        {"true", k == VALUE_BOOL && self->boolean},
        {"false", k == VALUE_BOOL && !self->boolean},
        {"integer", k == VALUE_INTEGER},
        {"number", k == VALUE_INTEGER || k == VALUE_BOOL},
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (is_named(name, tests[i].name)) {
            *out = tests[i].is_so;
            return ZN_OK;
        }
    }
    if (is_named(name, "equalto") || is_named(name, "eq"))
        return test_equal(r, self, name, args, out);
    return fail_unknown(r, "the test", name);
}
