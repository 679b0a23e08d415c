/* tokenizer_config.json with the keys and values that families of the hub ship: each folder opens, its special tokens are
 * found and its chat template runs. The templates in tests/data/tokenizer_config are our own. */
#include "files.h"

#include "text/chat.h"

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t n;
    OK(zn_file_read(from, 1 << 24, &data, &n));
    OK(zn_file_write(to, data, n));
    free(data);
}

/* A folder with the family's configuration beside a tokenizer of its kind. */
static zn_tokenizer *open_family(const char *family, const char *kind)
{
    char folder[256], from[512], to[512];
    zn_tokenizer *tokenizer = NULL;
    snprintf(folder, sizeof folder, "%s", in_folder(family));
    OK(zn_folder_create(folder));
    snprintf(from, sizeof from, "%s/chat/%s/tokenizer.json", ZN_TEST_DATA, kind);
    snprintf(to, sizeof to, "%s/tokenizer.json", folder);
    copy_file(from, to);
    snprintf(from, sizeof from, "%s/tokenizer_config/%s.json", ZN_TEST_DATA, family);
    snprintf(to, sizeof to, "%s/tokenizer_config.json", folder);
    copy_file(from, to);
    OK(zn_tokenizer_open(folder, &tokenizer));
    return tokenizer;
}

static void check_family(const char *family, const char *kind, const char *bos, const char *eos, const char *expected)
{
    const struct zn_chat_message messages[] = {{"user", "Hi"}, {"assistant", "Yes."}};
    zn_tokenizer *tokenizer = open_family(family, kind);
    char *text = NULL;
    assert_int_equal(zn_tokenizer_bos(tokenizer), bos ? zn_tokenizer_id(tokenizer, bos) : -1);
    assert_int_equal(zn_tokenizer_eos(tokenizer), zn_tokenizer_id(tokenizer, eos));
    assert_true(zn_tokenizer_eos(tokenizer) >= 0);
    if (expected) {
        OK(zn_chat_render(tokenizer, messages, 2, false, &text));
        assert_string_equal(text, expected);
    } else {
        FAILS(zn_chat_render(tokenizer, messages, 2, false, &text), ZN_ERR_INPUT, "no chat template", "");
    }
    free(text);
    zn_tokenizer_close(tokenizer);
}

static void llama2(void **state)
{
    (void)state;
    check_family("llama2", "pieces", "<s>", "</s>", "<s>[INST] Hi [/INST] Yes. </s>");
}

static void tinyllama(void **state)
{
    (void)state;
    check_family("tinyllama", "pieces", "<s>", "</s>", "<|user|>\nHi</s>\n<|assistant|>\nYes.</s>\n");
}

static void mistral(void **state)
{
    (void)state;
    check_family("mistral", "pieces", "<s>", "</s>", "<s>[INST] Hi [/INST]Yes.</s>");
}

static void qwen25(void **state)
{
    (void)state;
    check_family("qwen2.5", "bytes", NULL, "<|im_end|>",
                 "<|im_start|>system\nYou are a test.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                 "<|im_start|>assistant\nYes.<|im_end|>\n");
}

static void smollm2(void **state)
{
    (void)state;
    check_family("smollm2", "bytes", "<|im_start|>", "<|im_end|>",
                 "<|im_start|>system\nYou are a test.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                 "<|im_start|>assistant\nYes.<|im_end|>\n");
}

static void gpt2(void **state)
{
    (void)state;
    check_family("gpt2", "bytes", "<|endoftext|>", "<|endoftext|>", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama2), cmocka_unit_test(tinyllama), cmocka_unit_test(mistral),
        cmocka_unit_test(qwen25), cmocka_unit_test(smollm2),   cmocka_unit_test(gpt2),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
