/* Values of a template while it runs. Everything lies in one arena that is freed at the end, so values
 * are copied freely and never freed one by one. Strings know for each byte where it came from. */
#ifndef ZN_TEXT_TEMPLATE_VALUE_H
#define ZN_TEXT_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_MAP,
    VALUE_NAMESPACE /* a map that `set` may change */
} value_kind;

struct value_map;

struct value {
    value_kind kind;
    union {
        bool boolean;
        int64_t integer;
        struct {
            const char *data; /* UTF-8, not NUL-terminated */
            size_t n;
            const unsigned char *marks; /* n bytes; NULL: all MARK_TEMPLATE */
        } string;
        struct {
            const struct value *items;
            size_t n;
        } list;
        struct value_map *map;
    };
};

struct value_map {
    struct map_entry {
        const char *key;
        size_t key_bytes;
        struct value value;
        struct map_entry *next;
    } *first, *last;
};

/* Memory of one run, with limits on all that it gives out and on the work of the run. */
struct value_arena {
    struct arena_block *blocks;
    size_t left; /* in the newest block */
    size_t n_bytes, max_bytes;
    size_t work, max_work;
};
void arena_fini(struct value_arena *arena);

/* Counts work of about n bytes of memory touched; fails at the limit. */
zn_status arena_charge(struct value_arena *arena, size_t n_bytes);

/* 16-byte aligned; a failure is recorded. */
zn_status arena_take(struct value_arena *arena, size_t n_bytes, void **memory);

struct value value_of_text(const char *text);
struct value value_of_bool(bool boolean);
struct value value_of_integer(int64_t integer);

const char *value_kind_name(const struct value *value); /* for messages */
bool value_is_true(const struct value *value);

/* Of lists and mappings the items are compared; lists and mappings in them are equal when they are the same. */
bool value_equal(const struct value *a, const struct value *b);
size_t value_size(const struct value *value); /* work of looking at it */
bool value_is_string(const struct value *value, const char *text);

/* A part of a string; bytes begin … end. */
struct value value_slice(const struct value *string, size_t begin, size_t end);
zn_status value_concat(struct value_arena *arena, const struct value *a, const struct value *b, struct value *out);

/* As Python's str(). Lists and mappings have none here. */
zn_status value_to_string(struct value_arena *arena, const struct value *value, struct value *out);

/* Characters of a string; the byte where character i begins (n: the end). */
size_t string_length(const struct value *string);
size_t string_offset(const struct value *string, size_t i);

/* -1: it comes not in it, from byte `from` on. */
ptrdiff_t string_find(const struct value *string, const struct value *part, size_t from);

/* Bytes of white space at the text, as Python's str.strip takes it; 0: none. */
size_t space_length(const char *text, size_t n);

const struct value *map_get(const struct value_map *map, const char *key, size_t key_bytes);
zn_status map_put(struct value_arena *arena, struct value_map *map, const char *key, size_t key_bytes,
                  const struct value *value);
zn_status map_create(struct value_arena *arena, struct value_map **map);

#endif
