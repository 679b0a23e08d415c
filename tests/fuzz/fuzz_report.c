/* A log and a run.json of any bytes become a page that is well-formed, with no element and no attribute but the page's
 * own, or are refused with one line. */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Whether the name at `text` is one of the words; *n is its length. */
static bool is_one_of(const char *words, const char *text, size_t *n)
{
    *n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    for (const char *w = words; *w; w += strcspn(w, " "), w += strspn(w, " "))
        if (strcspn(w, " ") == *n && strncmp(w, text, *n) == 0)
            return true;
    return false;
}

/* name="value" …, up to the end of the tag. */
static const char *check_attributes(const char *c, bool *closes)
{
    static const char known[] = "lang charset http-equiv content name class viewBox role aria-hidden d x y cx cy r";
    size_t n;
    while (*c == ' ' && c[1] != '/') {
        must(is_one_of(known, c + 1, &n) && c[1 + n] == '=' && c[2 + n] == '"');
        c = strchr(c + 3 + n, '"');
        must(c != NULL);
        c++;
    }
    *closes = strncmp(c, " />", 3) == 0;
    must(*closes || *c == '>');
    return c + (*closes ? 3 : 1);
}

static void check_page(const char *page)
{
    static const char known[] = "html head meta title style body main h1 h2 h3 p span dl div dt dd small figure figcaption "
                                "svg text path circle table thead tbody tfoot tr th td footer";
    const char *open[32];
    size_t depth = 0, n;
    bool closes;
    must(strncmp(page, "<!DOCTYPE html>", 15) == 0);
    for (const char *c = page + 15; *c;) {
        must((unsigned char)*c >= 0x20 || *c == '\n' || *c == '\t');
        must(*c != '&' || strncmp(c, "&lt;", 4) == 0 || strncmp(c, "&gt;", 4) == 0 || strncmp(c, "&amp;", 5) == 0 ||
             strncmp(c, "&quot;", 6) == 0 || strncmp(c, "&#39;", 5) == 0);
        if (*c != '<') {
            c++;
        } else if (c[1] == '/') {
            must(depth-- > 0 && is_one_of(known, c + 2, &n) && strncmp(open[depth], c + 2, n) == 0 && c[2 + n] == '>');
            c += 3 + n;
        } else {
            must(is_one_of(known, c + 1, &n) && depth < 32);
            open[depth++] = c + 1;
            c = check_attributes(c + 1 + n, &closes);
            depth -= closes;
        }
    }
    must(depth == 0);
}

static void make_page(const struct zn_report_log *log, zn_json *run)
{
    zn_text page;
    zn_text_init(&page);
    zn_report_page(&page, &(struct zn_report_facts){.folder = "folder", .run = run, .steps = 3, .log = log});
    must(!page.failed);
    check_page(page.data);
    zn_text_fini(&page);
}

/* The first line is run.json, the others are the log. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("log", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t n_run = end ? (size_t)(end - data) : size, n_log = end ? size - n_run - 1 : 0;
    must(fd >= 0 && ftruncate(fd, 0) == 0);
    must(n_log == 0 || pwrite(fd, end + 1, n_log, 0) == (ssize_t)n_log);
    struct zn_report_log *log;
    zn_json *run = NULL;
    if (zn_report_log_read(path, &log) != ZN_OK) {
        for (const char *c = zn_error_message(); *c; c++)
            must((unsigned char)*c >= 0x20);
        return 0;
    }
    bool is_run = n_run > 0 && zn_json_load_buffer(data, n_run, "run.json", &run) == ZN_OK &&
                  zn_json_type_of(run) == ZN_JSON_OBJECT;
    make_page(log, is_run ? run : NULL);
    zn_json_destroy(run);
    free(log);
    return 0;
}
