/* Text to ids and back for byte-level models; the tokenizer has tests of its own. */
#include "files.h"

#include "infer/codec.h"

static zn_codec *open_bytes(int64_t vocabulary)
{
    zn_codec *codec;
    OK(zn_codec_open(test_folder, vocabulary, vocabulary > 257, &codec));
    return codec;
}

static void bytes_are_ids(void **state)
{
    (void)state;
    zn_codec *codec = open_bytes(257);
    int32_t *ids;
    size_t n;
    OK(zn_codec_encode(codec, "a\xc3\xa9", &ids, &n));
    assert_int_equal(n, 3);
    assert_true(ids[0] == 'a' && ids[1] == 0xc3 && ids[2] == 0xa9);
    free(ids);
    zn_codec_close(codec);
}

static void check_decode(const int32_t *ids, size_t n, const char *want, size_t n_want)
{
    zn_codec *codec = open_bytes(300);
    char *text;
    size_t n_bytes;
    OK(zn_codec_decode(codec, ids, n, &text, &n_bytes));
    assert_int_equal(n_bytes, n_want);
    assert_memory_equal(text, want, n_want + 1);
    free(text);
    zn_codec_close(codec);
}

static void what_is_no_character_becomes_the_replacement(void **state)
{
    (void)state;
    check_decode((int32_t[]){'a', 0xc3, 0xa9}, 3, "a\xc3\xa9", 3);
    check_decode((int32_t[]){'a', 0xc3}, 2, "a\xef\xbf\xbd", 4);
    check_decode((int32_t[]){0xe2, 0x82, 'x'}, 3, "\xef\xbf\xbdx", 4);
    check_decode((int32_t[]){0, 256, 299}, 3, "\0", 1); /* ids beyond the bytes are no text */
    check_decode(NULL, 0, "", 0);
}

static void the_end_of_text_is_there_when_the_vocabulary_has_it(void **state)
{
    (void)state;
    zn_codec *with = open_bytes(257), *without = open_bytes(256);
    assert_int_equal(zn_codec_end(with), 256);
    assert_int_equal(zn_codec_end(without), -1);
    zn_codec_close(with);
    zn_codec_close(without);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    zn_codec *codec;
    int32_t *ids;
    size_t n;
    FAILS(zn_codec_open(test_folder, 255, true, &codec), ZN_ERR_USAGE, test_folder, "255");
    FAILS(zn_codec_open(test_folder, 255, false, &codec), ZN_ERR_INPUT, test_folder, "255");
    FAILS(zn_codec_open(test_folder, 50257, false, &codec), ZN_ERR_INPUT, test_folder, "--byte-tokenizer");
    codec = open_bytes(256);
    FAILS(zn_codec_encode_chat(codec, &(struct zn_chat_message){.role = "user", .content = "x"}, 1, &ids, &n), ZN_ERR_USAGE, "--chat", "tokenizer");
    zn_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_ids),
        cmocka_unit_test(what_is_no_character_becomes_the_replacement),
        cmocka_unit_test(the_end_of_text_is_there_when_the_vocabulary_has_it),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
