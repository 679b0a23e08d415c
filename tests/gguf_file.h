/* For tests of what is written as GGUF: a plain reader of metadata and tensors, after files.h. */
#ifndef ZN_TESTS_GGUF_FILE_H
#define ZN_TESTS_GGUF_FILE_H

#include "formats/gguf.h"

/* Where reading stands. */
struct gguf_at {
    const unsigned char *data;
    size_t n;
};

static inline const unsigned char *take_bytes(struct gguf_at *at, size_t n)
{
    if (n > at->n)
        fail_msg("the file ends %zu bytes short", n - at->n);
    const unsigned char *data = at->data;
    at->data += n;
    at->n -= n;
    return data;
}

static inline uint64_t take_u64(struct gguf_at *at)
{
    uint64_t value;
    memcpy(&value, take_bytes(at, 8), 8);
    return value;
}

static inline uint32_t take_u32(struct gguf_at *at)
{
    uint32_t value;
    memcpy(&value, take_bytes(at, 4), 4);
    return value;
}

/* The caller frees it. */
static inline char *take_text(struct gguf_at *at)
{
    size_t n = take_u64(at);
    char *text = strndup((const char *)take_bytes(at, n), n);
    assert_non_null(text);
    return text;
}

static inline void pass_value(struct gguf_at *at, uint32_t type)
{
    if (type == ZN_GGUF_STRING)
        free(take_text(at));
    else
        take_bytes(at, type == ZN_GGUF_BOOL ? 1 : 4);
}

/* Leaves `at` behind the pairs. True: *value stands at the value of the key, which has this type, and is there once; for an
 * array at its items, of which there are *n. */
static inline bool find_value(struct gguf_at *at, uint64_t n_pairs, const char *key, zn_gguf_value wanted, uint64_t *n,
                              struct gguf_at *value)
{
    bool found = false;
    for (uint64_t i = 0; i < n_pairs; i++) {
        char *name = take_text(at);
        uint32_t type = take_u32(at);
        uint64_t n_items = 1;
        bool is_array = type == ZN_GGUF_ARRAY, is_it = strcmp(name, key) == 0;
        if (is_array) {
            type = take_u32(at);
            n_items = take_u64(at);
        }
        if (is_it) {
            assert_false(found);
            assert_int_equal(type, wanted);
            assert_int_equal(is_array, n != NULL);
            if (n)
                *n = n_items;
            *value = *at;
            found = true;
        }
        free(name);
        for (uint64_t k = 0; k < n_items; k++)
            pass_value(at, type);
    }
    return found;
}

static inline bool find_pair(const zn_gguf_metadata *metadata, const char *key, zn_gguf_value wanted, uint64_t *n,
                             struct gguf_at *value)
{
    struct gguf_at at = {(const unsigned char *)metadata->bytes.data, metadata->bytes.n_bytes};
    OK(zn_text_status(&metadata->bytes));
    bool found = find_value(&at, metadata->n_pairs, key, wanted, n, value);
    assert_int_equal(at.n, 0);
    return found;
}

static inline void has_u32(const zn_gguf_metadata *metadata, const char *key, uint32_t wanted)
{
    struct gguf_at at = {0};
    if (!find_pair(metadata, key, ZN_GGUF_UINT32, NULL, &at))
        fail_msg("no %s", key);
    assert_int_equal(take_u32(&at), wanted);
}

static inline void has_f32(const zn_gguf_metadata *metadata, const char *key, float wanted)
{
    struct gguf_at at = {0};
    float value;
    if (!find_pair(metadata, key, ZN_GGUF_FLOAT32, NULL, &at))
        fail_msg("no %s", key);
    memcpy(&value, take_bytes(&at, 4), 4);
    assert_true(value == wanted);
}

static inline void has_bool(const zn_gguf_metadata *metadata, const char *key, bool wanted)
{
    struct gguf_at at = {0};
    if (!find_pair(metadata, key, ZN_GGUF_BOOL, NULL, &at))
        fail_msg("no %s", key);
    assert_int_equal(*take_bytes(&at, 1), wanted);
}

static inline void has_string(const zn_gguf_metadata *metadata, const char *key, const char *wanted)
{
    struct gguf_at at = {0};
    if (!find_pair(metadata, key, ZN_GGUF_STRING, NULL, &at))
        fail_msg("no %s", key);
    char *text = take_text(&at);
    assert_string_equal(text, wanted);
    free(text);
}

static inline void has_no(const zn_gguf_metadata *metadata, const char *key)
{
    struct gguf_at at = {(const unsigned char *)metadata->bytes.data, metadata->bytes.n_bytes};
    for (uint64_t i = 0; i < metadata->n_pairs; i++) {
        char *name = take_text(&at);
        uint32_t type = take_u32(&at);
        bool is_array = type == ZN_GGUF_ARRAY;
        type = is_array ? take_u32(&at) : type;
        for (uint64_t n = is_array ? take_u64(&at) : 1; n > 0; n--)
            pass_value(&at, type);
        assert_string_not_equal(name, key);
        free(name);
    }
}

#endif
