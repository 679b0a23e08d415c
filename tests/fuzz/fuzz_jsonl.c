/* JSONL of any bytes: each row is whole, or the reading ends with one line that names the file and a line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/jsonl.h"
#include "formats/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    for (size_t n = strlen(text), i = 0, n_bad; i < n;) {
        size_t length = utf8_length(text + i, n - i, &n_bad);
        if (length == 0)
            abort();
        i += length;
    }
}

static void check_row(const struct zn_row *row)
{
    if (row->kind == ZN_ROW_TEXT)
        check_text(row->text);
    if (row->kind == ZN_ROW_COMPLETION) {
        check_text(row->prompt);
        check_text(row->completion);
    }
    if (row->kind == ZN_ROW_MESSAGES && row->n_messages == 0)
        abort();
    for (size_t i = 0; row->kind == ZN_ROW_MESSAGES && i < row->n_messages; i++) {
        check_text(row->messages[i].role);
        check_text(row->messages[i].content);
    }
}

static void check_failure(const zn_jsonl *rows)
{
    const char *text = zn_error_message(), *place = zn_jsonl_place(rows);
    if (strncmp(text, place, strlen(place)) != 0)
        abort();
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("jsonl", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    zn_jsonl *rows;
    const struct zn_row *row;
    if (zn_jsonl_open(path, NULL, &rows) != ZN_OK)
        abort();
    zn_status status;
    while ((status = zn_jsonl_next(rows, &row)) == ZN_OK && row)
        check_row(row);
    if (status != ZN_OK)
        check_failure(rows);
    zn_jsonl_close(rows);
    return 0;
}
