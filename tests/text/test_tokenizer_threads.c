/* One tokenizer, many threads that encode and decode at once: each gets what one alone gets. One text, several threads:
 * every component of tests/data/tokenizer gives the ids that it gives on one. */
#include "files.h"

#include <pthread.h>

#include "base/json.h"
#include "text/tokenizer.h"
#include "sanitized.h"

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

/* ---- One text ---- */

enum { EVERY = IS_SANITIZED ? 8 : 1 }; /* components that are tried: one of so many */

/* Long enough to be shared: the texts of the cases in no order, a run of digits and one of letters. */
static char *long_text(zn_json *pieces, size_t n)
{
    char *text = malloc(n + 4096);
    size_t at = 0;
    uint32_t random = 1;
    assert_non_null(text);
    for (; at < n; at += strlen(text + at)) {
        const char *piece;
        random = random * 1664525 + 1013904223;
        OK(zn_json_item_string(pieces, (random >> 16) % zn_json_n_items(pieces), &piece));
        snprintf(text + at, 2048, "%s%s", strlen(piece) < 1500 ? piece : "", random >> 30 ? " " : "");
    }
    memset(text + n / 2, '7', 5000);
    memset(text + n / 4, 'a', 5000);
    return text;
}

static zn_tokenizer *load_variant(zn_json *variant)
{
    const char *parts, *model;
    char path[512], *rest, *whole;
    size_t n;
    zn_tokenizer *tokenizer;
    OK(zn_json_get_string(variant, "json", &parts));
    OK(zn_json_get_string(variant, "model", &model));
    snprintf(path, sizeof path, ZN_TEST_DATA "/tokenizer/%s.json", model);
    OK(zn_file_read(path, 1 << 20, &rest, &n));
    whole = malloc(strlen(parts) + n + 2);
    assert_non_null(whole);
    sprintf(whole, "%s%s}", parts, rest);
    OK(zn_tokenizer_load(whole, strlen(whole), "tokenizer.json", &tokenizer));
    free(whole);
    free(rest);
    return tokenizer;
}

static void check_variant(zn_json *variant, const char *text)
{
    zn_tokenizer *tokenizer = load_variant(variant);
    struct zn_ids one = {0}, more = {0};
    const char *parts;
    OK(zn_json_get_string(variant, "json", &parts));
    zn_status expected = zn_tokenizer_encode(tokenizer, text, strlen(text), true, &one);
    for (int n = 2; n <= 3; n++) {
        zn_tokenizer_set_threads(tokenizer, n);
        more.n = 0;
        assert_int_equal(zn_tokenizer_encode(tokenizer, text, strlen(text), true, &more), expected);
        if (more.n != one.n || (one.n > 0 && memcmp(more.id, one.id, one.n * sizeof one.id[0]) != 0))
            fail_msg("%s: %zu ids on one thread, %zu on %d, or others", parts, one.n, more.n, n);
    }
    zn_ids_fini(&one);
    zn_ids_fini(&more);
    zn_tokenizer_close(tokenizer);
}

static void every_component_on_several_threads(void **state)
{
    (void)state;
    zn_json *cases, *pieces, *variants, *variant;
    OK(zn_json_load_file(ZN_TEST_DATA "/tokenizer/cases.json", 1 << 22, &cases));
    OK(zn_json_get_array(cases, "texts", &pieces));
    OK(zn_json_get_array(cases, "variants", &variants));
    char *text = long_text(pieces, 300000);
    for (size_t i = 0; i < zn_json_n_items(variants); i += EVERY) {
        OK(zn_json_item_object(variants, i, &variant));
        check_variant(variant, text);
    }
    free(text);
    zn_json_destroy(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_at_once),
        cmocka_unit_test(every_component_on_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
