/* Rows of any bytes, in lines and in arrays, with and without a map: each row is whole, or the reading ends with one line that
 * names the file and a line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "text/jsonl.h"
#include "text/utf8.h"

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

static void check_messages(const struct zn_chat_message *messages, size_t n)
{
    if (n == 0)
        abort();
    for (size_t i = 0; i < n; i++) {
        check_text(messages[i].role);
        check_text(messages[i].content);
    }
}

static void check_answer(const struct zn_row_answer *answer)
{
    if (answer->text)
        check_text(answer->text);
    else
        check_messages(answer->messages, answer->n_messages);
}

static void check_row(const struct zn_row *row)
{
    switch (row->kind) {
    case ZN_ROW_TEXT:
        check_text(row->text);
        break;
    case ZN_ROW_COMPLETION:
        check_text(row->prompt);
        check_text(row->completion);
        break;
    case ZN_ROW_INSTRUCTION:
        check_text(row->system ? row->system : "");
        check_text(row->instruction);
        check_text(row->input);
        check_text(row->output);
        break;
    case ZN_ROW_MESSAGES:
        check_messages(row->messages, row->n_messages);
        break;
    case ZN_ROW_PAIR:
        check_answer(&row->chosen);
        check_answer(&row->rejected);
    }
}

static void check_failure(const char *path)
{
    const char *text = zn_error_message();
    size_t n = strlen(path);
    if (strncmp(text, path, n) != 0 || text[n] != ':' || text[n + 1] < '1' || text[n + 1] > '9')
        abort();
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            abort();
}

/* Reads to the end; how many rows there are. */
static int64_t read_rows(zn_jsonl *rows, const char *path, zn_status *status)
{
    const struct zn_row *row;
    int64_t n = 0;
    while ((*status = zn_jsonl_next(rows, &row)) == ZN_OK && row) {
        check_row(row);
        n++;
    }
    if (*status != ZN_OK)
        check_failure(path);
    zn_jsonl_close(rows);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const map[] = {"messages=dialog", "completion=answer", "text=text"};
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("jsonl", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    const struct zn_row_options options = {.map = map, .n_map = size % 2 ? 3 : 0, .pairs = size % 3 == 0};
    zn_jsonl *rows;
    zn_status from_file, from_memory;
    if (zn_jsonl_open(path, &options, &rows) != ZN_OK)
        abort();
    int64_t n = read_rows(rows, path, &from_file);
    /* The same in memory. */
    struct zn_jsonl_part part = {.path = path, .first_line = 1, .data = (const char *)data, .n_bytes = size, .is_last = true};
    part.array.state = json_array_begins(part.data, size) ? JSON_ARRAY_BEFORE : JSON_ARRAY_NONE;
    if (zn_jsonl_open_part(&part, &options, &rows) != ZN_OK)
        abort();
    if (read_rows(rows, path, &from_memory) != n || from_file != from_memory)
        abort();
    return 0;
}
