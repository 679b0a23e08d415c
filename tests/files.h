/* For tests of what reads and writes files: a folder of the test's own, files in it, and checks of
 * the text of a failure. */
#ifndef ZN_TESTS_FILES_H
#define ZN_TESTS_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Fails the test with the recorded text. */
#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != ZN_OK)                                                                 \
            fail_msg("%s: %s", #expression, zn_error_message());                                   \
    } while (0)

/* The expression fails with this code, and the text is one line that holds each of the two. */
#define FAILS(expression, code, first, second)                                                     \
    do {                                                                                           \
        zn_fail_text(ZN_OK, "");                                                                   \
        assert_int_equal(expression, code);                                                        \
        check_message(first, second);                                                              \
    } while (0)

static inline void check_message(const char *first, const char *second)
{
    const char *text = zn_error_message();
    if (!strstr(text, first) || !strstr(text, second))
        fail_msg("'%s' should hold '%s' and '%s'", text, first, second);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20)
            fail_msg("'%s' is not one line", text);
}

static char test_folder[64];

static inline int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

/* Group set-up and tear-down. */
static inline int make_test_folder(void **state)
{
    (void)state;
    strcpy(test_folder, "/tmp/zinc-test-XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_test_folder(void **state)
{
    (void)state;
    return nftw(test_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path of a name in the test's folder; sixteen can be used at once. */
static inline const char *in_folder(const char *name)
{
    static char paths[16][256];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

/* Entries of a folder, hidden ones too: what a temporary file would add to. */
static inline size_t n_entries(const char *path)
{
    size_t n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n - 2;
}

static inline const char *make_file(const char *name, const void *data, size_t n_bytes)
{
    const char *path = in_folder(name);
    OK(zn_file_write(path, data, n_bytes));
    return path;
}

static inline const char *make_text(const char *name, const char *text)
{
    return make_file(name, text, strlen(text));
}

/* A safetensors file: the header's length, the header, n_data bytes 0, 1, 2 … */
static inline const char *make_safetensors(const char *name, const char *header, size_t n_data)
{
    uint64_t n = strlen(header);
    unsigned char *bytes = malloc(8 + n + n_data);
    assert_non_null(bytes);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + n + i] = (unsigned char)i;
    const char *path = make_file(name, bytes, 8 + n + n_data);
    free(bytes);
    return path;
}

#endif
