/* For tests of tokenizers as GGUF metadata: a folder with a tokenizer of given parts, and checks of arrays. */
#ifndef ZN_TESTS_TEXT_GGUF_FOLDER_H
#define ZN_TESTS_TEXT_GGUF_FOLDER_H

#include "files.h"

#include "gguf_file.h"
#include "text/gguf_tokenizer.h"

/* A token of the list added_tokens: its id is that of the vocabulary, or the next one behind it. */
#define ADDED(id, content, special, rest)                                                                                \
    "{\"id\":" #id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":" rest ",\"rstrip\":false,\"normalized\":" \
    "false,\"special\":" special "}"

static char folder[256];
static char notes[2048];

static inline void keep_note(void *self, const char *text)
{
    (void)self;
    strncat(notes, text, sizeof notes - strlen(notes) - 1);
}

/* tokenizer.json of the parts; each stands in the place of its key's value. */
static inline void make_json(const char *normalizer, const char *pre_tokenizer, const char *post_processor, const char *added,
                      const char *model)
{
    char *text;
    assert_true(asprintf(&text, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[%s],"
                         "\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":null,\"model\":%s}", added,
                         normalizer, pre_tokenizer, post_processor, model) > 0);
    make_text("hub/tokenizer.json", text);
    free(text);
}

static inline void make_config(const char *text)
{
    make_text("hub/tokenizer_config.json", text);
}

/* What the folder's tokenizer becomes; the caller calls zn_gguf_metadata_fini. */
static inline zn_status describe(int64_t n_tokens, const char *pre, const char *config, zn_gguf_metadata *metadata)
{
    zn_tokenizer *tokenizer;
    struct zn_gguf_vocabulary how = {.folder = folder, .n_tokens = n_tokens, .pre = pre, .note = keep_note};
    notes[0] = '\0';
    zn_gguf_metadata_init(metadata);
    OK(zn_json_load_buffer(config, strlen(config), "config.json", &how.config));
    OK(zn_tokenizer_open(folder, &tokenizer));
    zn_status status = zn_gguf_add_tokenizer(tokenizer, &how, metadata);
    zn_tokenizer_close(tokenizer);
    zn_json_destroy(how.config);
    return status;
}

static inline void has_strings(const zn_gguf_metadata *metadata, const char *key, const char *const *wanted, uint64_t n_wanted)
{
    struct gguf_at at = {0};
    uint64_t n = 0;
    assert_true(find_pair(metadata, key, ZN_GGUF_STRING, &n, &at));
    assert_int_equal(n, n_wanted);
    for (uint64_t i = 0; i < n; i++) {
        char *text = take_text(&at);
        assert_string_equal(text, wanted[i]);
        free(text);
    }
}

static inline void has_numbers(const zn_gguf_metadata *metadata, const char *key, zn_gguf_value type, const void *wanted,
                        uint64_t n_wanted)
{
    struct gguf_at at = {0};
    uint64_t n = 0;
    assert_true(find_pair(metadata, key, type, &n, &at));
    assert_int_equal(n, n_wanted);
    assert_memory_equal(take_bytes(&at, 4 * n), wanted, 4 * n);
}

static inline int make_hub(void **state)
{
    if (make_test_folder(state) != 0)
        return -1;
    snprintf(folder, sizeof folder, "%s", in_folder("hub"));
    return zn_folder_create(folder) == ZN_OK ? 0 : -1;
}

#endif
