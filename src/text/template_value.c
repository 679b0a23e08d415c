/* Values, their memory and their strings. */
#include "text/template_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

enum { ARENA_BLOCK = 64 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t n_bytes;
    _Alignas(16) char data[];
};

void arena_fini(struct value_arena *arena)
{
    for (struct arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    arena->blocks = NULL;
}

zn_status arena_charge(struct value_arena *arena, size_t n_bytes)
{
    if (n_bytes > arena->max_work - arena->work)
        return zn_fail(ZN_ERR_INPUT, "chat template: does not come to an end");
    arena->work += n_bytes;
    return ZN_OK;
}

zn_status arena_take(struct value_arena *arena, size_t n_bytes, void **memory)
{
    if (n_bytes > arena->max_bytes - arena->n_bytes)
        return zn_fail(ZN_ERR_INPUT, "chat template: takes more than %zu bytes of memory", arena->max_bytes);
    n_bytes = (n_bytes + 15) & ~(size_t)15;
    if (!arena->blocks || n_bytes > arena->left) {
        size_t size = n_bytes > ARENA_BLOCK ? n_bytes : ARENA_BLOCK;
        struct arena_block *block = malloc(sizeof *block + size);
        if (!block)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for a chat template");
        block->next = arena->blocks;
        block->n_bytes = size;
        arena->blocks = block;
        arena->left = size;
    }
    *memory = arena->blocks->data + (arena->blocks->n_bytes - arena->left);
    arena->left -= n_bytes;
    arena->n_bytes = n_bytes > arena->max_bytes - arena->n_bytes ? arena->max_bytes : arena->n_bytes + n_bytes;
    return ZN_OK;
}

/* ---- Values ---- */

struct value value_of_text(const char *text)
{
    return (struct value){.kind = VALUE_STRING, .string = {.data = text, .n = strlen(text)}};
}

struct value value_of_bool(bool boolean)
{
    return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

struct value value_of_integer(int64_t integer)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = integer};
}

const char *value_kind_name(const struct value *value)
{
    static const char *const names[] = {
        [VALUE_UNDEFINED] = "something undefined", [VALUE_NONE] = "none",      [VALUE_BOOL] = "a truth value",
        [VALUE_INTEGER] = "an integer",            [VALUE_STRING] = "a string", [VALUE_LIST] = "a list",
        [VALUE_MAP] = "a mapping",                 [VALUE_NAMESPACE] = "a namespace"};
    return names[value->kind];
}

bool value_is_true(const struct value *value)
{
    switch (value->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return value->boolean;
    case VALUE_INTEGER:
        return value->integer != 0;
    case VALUE_STRING:
        return value->string.n > 0;
    case VALUE_LIST:
        return value->list.n > 0;
    case VALUE_MAP:
        return value->map->first != NULL;
    case VALUE_NAMESPACE:
        return true;
    }
    return false;
}

static bool is_number(const struct value *v)
{
    return v->kind == VALUE_BOOL || v->kind == VALUE_INTEGER;
}

static bool is_container(const struct value *v)
{
    return v->kind == VALUE_LIST || v->kind == VALUE_MAP || v->kind == VALUE_NAMESPACE;
}

/* Values that are no containers, and containers that are the same. */
static bool flat_equal(const struct value *a, const struct value *b)
{
    if (is_number(a) && is_number(b)) /* True == 1, as in Python */
        return (a->kind == VALUE_BOOL ? a->boolean : a->integer) == (b->kind == VALUE_BOOL ? b->boolean : b->integer);
    if (a->kind != b->kind)
        return false;
    if (a->kind == VALUE_STRING)
        return a->string.n == b->string.n &&
               (a->string.n == 0 || memcmp(a->string.data, b->string.data, a->string.n) == 0);
    if (a->kind == VALUE_LIST)
        return a->list.n == b->list.n && (a->list.n == 0 || a->list.items == b->list.items);
    return !is_container(a) || a->map == b->map;
}

bool value_equal(const struct value *a, const struct value *b)
{
    if (a->kind != b->kind || !is_container(a) || a->kind == VALUE_NAMESPACE)
        return flat_equal(a, b);
    if (a->kind == VALUE_LIST) {
        bool equal = a->list.n == b->list.n;
        for (size_t i = 0; equal && i < a->list.n; i++)
            equal = flat_equal(&a->list.items[i], &b->list.items[i]);
        return equal;
    }
    size_t n_left = 0;
    for (const struct map_entry *e = b->map->first; e; e = e->next)
        n_left++;
    for (const struct map_entry *e = a->map->first; e; e = e->next, n_left--) {
        const struct value *other = map_get(b->map, e->key, e->key_bytes);
        if (!other || !flat_equal(&e->value, other))
            return false;
    }
    return n_left == 0;
}

size_t value_size(const struct value *value)
{
    if (value->kind == VALUE_STRING)
        return value->string.n;
    return value->kind == VALUE_LIST ? sizeof *value * value->list.n : 0;
}

bool value_is_string(const struct value *value, const char *text)
{
    struct value other = value_of_text(text);
    return value_equal(value, &other);
}

/* ---- Strings ---- */

struct value value_slice(const struct value *string, size_t begin, size_t end)
{
    struct value part = *string;
    part.string.data += begin;
    part.string.n = end > begin ? end - begin : 0;
    if (part.string.marks)
        part.string.marks += begin;
    return part;
}

zn_status value_concat(struct value_arena *arena, const struct value *a, const struct value *b, struct value *out)
{
    size_t n = a->string.n + b->string.n;
    bool marked = a->string.marks || b->string.marks;
    void *memory = NULL;
    ZN_TRY(arena_take(arena, marked ? 2 * n : n, &memory));
    char *data = memory;
    unsigned char *marks = marked ? (unsigned char *)data + n : NULL;
    size_t at = 0;
    for (int k = 0; k < 2; k++) {
        const struct value *part = k == 0 ? a : b;
        if (part->string.n == 0)
            continue;
        memcpy(data + at, part->string.data, part->string.n);
        if (marks && part->string.marks)
            memcpy(marks + at, part->string.marks, part->string.n);
        else if (marks)
            memset(marks + at, 0, part->string.n);
        at += part->string.n;
    }
    *out = (struct value){.kind = VALUE_STRING, .string = {.data = data, .n = n, .marks = marks}};
    return ZN_OK;
}

zn_status value_to_string(struct value_arena *arena, const struct value *value, struct value *out)
{
    void *memory = NULL;
    switch (value->kind) {
    case VALUE_STRING:
        *out = *value;
        return ZN_OK;
    case VALUE_UNDEFINED:
        *out = value_of_text("");
        return ZN_OK;
    case VALUE_NONE:
        *out = value_of_text("None");
        return ZN_OK;
    case VALUE_BOOL:
        *out = value_of_text(value->boolean ? "True" : "False");
        return ZN_OK;
    case VALUE_INTEGER:
        ZN_TRY(arena_take(arena, 24, &memory));
        snprintf(memory, 24, "%lld", (long long)value->integer);
        *out = value_of_text(memory);
        return ZN_OK;
    default:
        return zn_fail(ZN_ERR_UNSUPPORTED, "%s as text", value_kind_name(value));
    }
}

size_t string_length(const struct value *string)
{
    size_t n = 0;
    for (size_t i = 0; i < string->string.n; i++)
        n += ((unsigned char)string->string.data[i] & 0xc0) != 0x80;
    return n;
}

size_t string_offset(const struct value *string, size_t i)
{
    size_t at = 0;
    for (; at < string->string.n; at++) {
        if (((unsigned char)string->string.data[at] & 0xc0) == 0x80)
            continue;
        if (i-- == 0)
            break;
    }
    return at;
}

ptrdiff_t string_find(const struct value *string, const struct value *part, size_t from)
{
    if (from > string->string.n)
        return -1;
    if (part->string.n == 0)
        return (ptrdiff_t)from;
    const char *found = memmem(string->string.data + from, string->string.n - from, part->string.data, part->string.n);
    return found ? found - string->string.data : -1;
}

size_t space_length(const char *text, size_t n)
{
    size_t n_bad, length = utf8_length(text, n, &n_bad);
    const unsigned char *s = (const unsigned char *)text;
    if (length == 1)
        return (s[0] >= 0x09 && s[0] <= 0x0d) || (s[0] >= 0x1c && s[0] <= 0x20);
    if (length == 2)
        return s[0] == 0xc2 && (s[1] == 0x85 || s[1] == 0xa0) ? 2 : 0;
    if (length != 3)
        return 0;
    unsigned c = (unsigned)(s[0] & 0x0f) << 12 | (unsigned)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
    bool is_space = c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
                    c == 0x205f || c == 0x3000;
    return is_space ? 3 : 0;
}

/* ---- Mappings ---- */

static struct map_entry *find_entry(const struct value_map *map, const char *key, size_t key_bytes)
{
    struct map_entry *e = map->first;
    while (e && (e->key_bytes != key_bytes || memcmp(e->key, key, key_bytes) != 0))
        e = e->next;
    return e;
}

const struct value *map_get(const struct value_map *map, const char *key, size_t key_bytes)
{
    const struct map_entry *e = find_entry(map, key, key_bytes);
    return e ? &e->value : NULL;
}

zn_status map_put(struct value_arena *arena, struct value_map *map, const char *key, size_t key_bytes,
                  const struct value *value)
{
    struct map_entry *e = find_entry(map, key, key_bytes);
    if (e) {
        e->value = *value;
        return ZN_OK;
    }
    void *memory = NULL;
    ZN_TRY(arena_take(arena, sizeof *e, &memory));
    e = memory;
    *e = (struct map_entry){.key = key, .key_bytes = key_bytes, .value = *value};
    if (map->last)
        map->last->next = e;
    else
        map->first = e;
    map->last = e;
    return ZN_OK;
}

zn_status map_create(struct value_arena *arena, struct value_map **map)
{
    void *memory = NULL;
    ZN_TRY(arena_take(arena, sizeof **map, &memory));
    *map = memory;
    **map = (struct value_map){0};
    return ZN_OK;
}
