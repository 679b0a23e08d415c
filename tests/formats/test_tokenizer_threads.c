/* One tokenizer, many threads that encode and decode at once: each gets what one alone gets. */
#include "files.h"

#include <pthread.h>

#include "formats/tokenizer.h"

enum { THREADS = 4, ROUNDS = 200, TEXTS = 4 };

static const char *const texts[TEXTS] = {"ab abba, \xc3\xa9\n12 ab", "", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "[A] a\xffz"};

static const char json[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"[A]\",\"single_word\":true,\"lstrip\":true,\"rstrip\":true,\"normalized\":true,"
    "\"special\":true}],\"normalizer\":{\"type\":\"NFC\"},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"ba\":3,\"bb\":4,\"\xc4\xa0\":5,\"\xc4\xa0""a\":6,\",\":7,\"bbbb\":8},"
    "\"merges\":[\"a b\",\"b b\",\"b a\",\"\xc4\xa0 a\",\"bb bb\"]}}";

struct work {
    const zn_tokenizer *tokenizer;
    const struct zn_ids *expected; /* of each text */
    int n_wrong;
};

static void *encode_all(void *self)
{
    struct work *w = self;
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t k = 0; k < TEXTS; k++) {
            struct zn_ids ids = {0};
            char *text = NULL;
            size_t n;
            if (zn_tokenizer_encode(w->tokenizer, texts[k], strlen(texts[k]), false, &ids) != ZN_OK ||
                ids.n != w->expected[k].n ||
                (ids.n > 0 && memcmp(ids.id, w->expected[k].id, ids.n * sizeof ids.id[0]) != 0) ||
                zn_tokenizer_decode(w->tokenizer, ids.id, ids.n, true, &text, &n) != ZN_OK)
                w->n_wrong++;
            free(text);
            zn_ids_fini(&ids);
        }
    }
    return NULL;
}

static void many_threads_at_once(void **state)
{
    (void)state;
    zn_tokenizer *tokenizer;
    struct zn_ids expected[TEXTS] = {{0}};
    pthread_t thread[THREADS];
    struct work work[THREADS];
    OK(zn_tokenizer_load(json, strlen(json), "tokenizer.json", &tokenizer));
    for (size_t k = 0; k < TEXTS; k++)
        OK(zn_tokenizer_encode(tokenizer, texts[k], strlen(texts[k]), false, &expected[k]));
    assert_true(expected[0].n > 5 && expected[2].n == 11);
    for (int i = 0; i < THREADS; i++) {
        work[i] = (struct work){.tokenizer = tokenizer, .expected = expected};
        assert_int_equal(pthread_create(&thread[i], NULL, encode_all, &work[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(work[i].n_wrong, 0);
    }
    for (size_t k = 0; k < TEXTS; k++)
        zn_ids_fini(&expected[k]);
    zn_tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
