/* Growing text and printable copies. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zn_text_init(zn_text *text)
{
    *text = (zn_text){0};
}

void zn_text_fini(zn_text *text)
{
    free(text->data);
    *text = (zn_text){0};
}

/* Room for n more bytes and the NUL. */
static bool make_room(zn_text *text, size_t n)
{
    if (text->failed)
        return false;
    if (text->capacity - text->n_bytes > n)
        return true;
    size_t capacity = 2 * (text->n_bytes + n) + 64;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void zn_text_add(zn_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0)
        text->failed = true;
    else if (make_room(text, (size_t)n)) {
        vsnprintf(text->data + text->n_bytes, (size_t)n + 1, format, again);
        text->n_bytes += (size_t)n;
    }
    va_end(again);
}

void zn_text_add_bytes(zn_text *text, const void *bytes, size_t n_bytes)
{
    if (!make_room(text, n_bytes))
        return;
    if (n_bytes > 0)
        memcpy(text->data + text->n_bytes, bytes, n_bytes);
    text->n_bytes += n_bytes;
    text->data[text->n_bytes] = '\0';
}

void zn_text_add_quoted(zn_text *text, const char *string)
{
    /* A byte becomes six characters at most: \u001f. */
    size_t n = strlen(string);
    if (!make_room(text, 6 * n + 2))
        return;
    char *out = text->data + text->n_bytes;
    *out++ = '"';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)string[i];
        if (c < 0x20) {
            out += sprintf(out, "\\u%04x", c);
        } else {
            if (c == '"' || c == '\\')
                *out++ = '\\';
            *out++ = (char)c;
        }
    }
    *out++ = '"';
    *out = '\0';
    text->n_bytes = (size_t)(out - text->data);
}

void zn_text_add_shortest(zn_text *text, double number)
{
    char digits[64];
    int n = 6;
    do
        snprintf(digits, sizeof digits, "%.*g", n, number);
    while (strtod(digits, NULL) != number && ++n <= 17);
    zn_text_add(text, "%s", digits);
}

zn_status zn_text_status(const zn_text *text)
{
    if (text->failed)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for a text of more than %zu bytes", text->n_bytes);
    return ZN_OK;
}

struct zn_shown zn_shown(const char *string)
{
    struct zn_shown shown;
    static const char cut[] = "...";
    size_t room = sizeof shown.text - 1, n = strnlen(string, room + 1);
    bool is_cut = n > room;
    if (is_cut) {
        n = room - strlen(cut);
        while (n > 0 && ((unsigned char)string[n] & 0xc0) == 0x80) /* not inside a character */
            n--;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)string[i];
        shown.text[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    strcpy(shown.text + n, is_cut ? cut : "");
    return shown;
}
