/* For tests of the public API: options and engines on the small models of tests/data. */
#ifndef ZN_TESTS_API_ENGINES_H
#define ZN_TESTS_API_ENGINES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zinc/zinc.h"

#define TOKENS ZN_TEST_DATA "/parity/tokens.bin"
#define GPT2 ZN_TEST_DATA "/parity/gpt2"
#define LLAMA ZN_TEST_DATA "/parity/llama2"

enum { STEPS = 4 };

/* Fails the test with the recorded text. */
#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != ZN_OK)                                                                 \
            fail_msg("%s: %s", #expression, zn_error_message());                                   \
    } while (0)

/* The expression fails with this code and a text that holds both. */
#define FAILS(expression, code, first, second)                                                     \
    do {                                                                                           \
        assert_int_equal(expression, code);                                                        \
        if (!strstr(zn_error_message(), first) || !strstr(zn_error_message(), second))             \
            fail_msg("'%s' should hold '%s' and '%s'", zn_error_message(), first, second);         \
    } while (0)

static char test_folder[64];

static inline int make_test_folder(void **state)
{
    (void)state;
    strcpy(test_folder, "/tmp/zinc-test-XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_test_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", test_folder);
    return system(command);
}

static inline const char *in_folder(const char *name)
{
    static char paths[16][256];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

/* The bytes of a file, which the caller frees. */
static inline char *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is not there", path);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*n + 1);
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    data[*n] = '\0';
    return data;
}

static inline void same_files(const char *a, const char *b)
{
    size_t n, m;
    char *x = file_bytes(a, &n), *y = file_bytes(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* Options of training with these texts: name, value, …, NULL. */
static inline zn_options *new_options(const char *first, ...)
{
    zn_options *o;
    va_list args;
    OK(zn_options_create("train", &o));
    va_start(args, first);
    for (const char *name = first; name; name = va_arg(args, const char *))
        OK(zn_options_set(o, name, va_arg(args, const char *)));
    va_end(args);
    return o;
}

/* As most tests have them. */
static inline zn_options *usual_options(const char *model)
{
    return new_options("model", model, "data", TOKENS, "steps", "4", "micro-batch", "2", "accumulate", "2", "seq-len", "16", "threads", "1",
                       "lr", "1e-3", NULL);
}

static inline zn_engine *new_engine(zn_context *context, const zn_options *options)
{
    zn_engine *engine;
    const struct zn_engine_setup setup = {.size = sizeof setup, .context = context, .options = options};
    OK(zn_engine_create(&setup, &engine));
    return engine;
}

/* The loss and norm of the next step. */
struct pair {
    double loss, norm;
};

static inline struct pair next(zn_engine *engine)
{
    struct zn_step_result step = {.size = sizeof step};
    OK(zn_engine_step(engine, &step));
    return (struct pair){step.loss, step.grad_norm};
}

#endif
