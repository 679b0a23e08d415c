/* One pass over a document, piece by piece: a piece is taken as it is or has another text in its place. */
#include "base/json_repair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DOUBLE_DIGITS = 308, MAX_REAL = 512 };

struct scanner {
    const char *data;
    size_t n, at;
    json_repair_kind kind;
    bool in_string;
    bool is_big; /* the integer that ends here is beyond 64 bits */
};

struct piece {
    size_t n_in; /* bytes of the document */
    const char *text;
    size_t n_out;
    bool is_replaced; /* a character became U+FFFD */
};

static struct piece as_it_is(const struct scanner *s, size_t n)
{
    return (struct piece){.n_in = n, .text = s->data + s->at, .n_out = n};
}

static struct piece instead(size_t n, const char *text)
{
    return (struct piece){.n_in = n, .text = text, .n_out = strlen(text)};
}

/* ---- Strings ---- */

/* The four hex digits of an escape \uXXXX at byte `at`; -1: there is none. */
static int escaped_unit(const struct scanner *s, size_t at)
{
    int unit = 0;
    if (at > s->n || s->n - at < 6 || s->data[at] != '\\' || s->data[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        char c = s->data[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        unit = 16 * unit + digit;
    }
    return unit;
}

static struct piece next_escape(const struct scanner *s)
{
    int unit = s->kind == JSON_REPAIR_PYTHON ? escaped_unit(s, s->at) : -1;
    if (unit >= 0xd800 && unit <= 0xdbff) {
        int second = escaped_unit(s, s->at + 6);
        if (second >= 0xdc00 && second <= 0xdfff)
            return as_it_is(s, 12);
    }
    if (unit == 0 || (unit >= 0xd800 && unit <= 0xdfff)) {
        struct piece piece = instead(6, "\\ufffd");
        piece.is_replaced = true;
        return piece;
    }
    return as_it_is(s, s->n - s->at < 2 ? 1 : 2);
}

static struct piece next_in_string(struct scanner *s)
{
    const char *begin = s->data + s->at;
    if (*begin == '\\')
        return next_escape(s);
    if (*begin == '"') {
        s->in_string = false;
        return as_it_is(s, 1);
    }
    size_t n = 1;
    while (s->at + n < s->n && begin[n] != '\\' && begin[n] != '"')
        n++;
    return as_it_is(s, n);
}

/* ---- Numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_of_number(char c)
{
    return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* Whether these digits are beyond 64 bits with a sign. */
static bool is_big_integer(const char *digits, size_t n, bool is_negative)
{
    if (n != 19)
        return n > 19;
    return memcmp(digits, is_negative ? "9223372036854775808" : "9223372036854775807", 19) > 0;
}

static bool is_infinite_real(const char *text, size_t n)
{
    char copy[MAX_REAL + 1];
    if (n > MAX_REAL)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return isinf(strtod(copy, NULL));
}

static struct piece next_number(struct scanner *s)
{
    const char *text = s->data + s->at;
    size_t n = 1, n_left = s->n - s->at, n_digits = 0;
    bool is_negative = *text == '-', is_python = s->kind == JSON_REPAIR_PYTHON;
    if (is_python && is_negative && n_left >= 9 && memcmp(text, "-Infinity", 9) == 0)
        return instead(9, "null");
    while (n < n_left && is_of_number(text[n]))
        n++;
    while (is_negative + n_digits < n && is_digit(text[is_negative + n_digits]))
        n_digits++;
    bool is_integer = is_negative + n_digits == n;
    if (is_python && (is_integer ? n_digits > MAX_DOUBLE_DIGITS : is_infinite_real(text, n)))
        return instead(n, "null");
    s->is_big = is_integer && is_big_integer(text + is_negative, n_digits, is_negative);
    return as_it_is(s, n);
}

/* ---- The whole ---- */

static bool begins_number(char c)
{
    return is_digit(c) || c == '-';
}

static struct piece next_outside(struct scanner *s)
{
    const char *begin = s->data + s->at;
    size_t n_left = s->n - s->at, n = 1;
    bool is_python = s->kind == JSON_REPAIR_PYTHON;
    if (*begin == '"') {
        s->in_string = true;
        return as_it_is(s, 1);
    }
    if (begins_number(*begin))
        return next_number(s);
    if (is_python && n_left >= 3 && memcmp(begin, "NaN", 3) == 0)
        return instead(3, "null");
    if (is_python && n_left >= 8 && memcmp(begin, "Infinity", 8) == 0)
        return instead(8, "null");
    while (n < n_left && begin[n] != '"' && !begins_number(begin[n]) && begin[n] != 'N' && begin[n] != 'I')
        n++;
    return as_it_is(s, n);
}

/* The next piece; the scanner is behind it. Something is left. */
static struct piece next_piece(struct scanner *s)
{
    struct piece piece;
    if (s->is_big) {
        s->is_big = false;
        return instead(0, ".0");
    }
    piece = s->in_string ? next_in_string(s) : next_outside(s);
    s->at += piece.n_in;
    return piece;
}

static bool is_left(const struct scanner *s)
{
    return s->at < s->n || s->is_big;
}

zn_status json_repair(const char *data, size_t n_bytes, json_repair_kind kind, zn_text *out, int64_t *n_replaced)
{
    struct scanner s = {.data = data, .n = n_bytes, .kind = kind};
    *n_replaced = 0;
    while (is_left(&s)) {
        struct piece piece = next_piece(&s);
        zn_text_add_bytes(out, piece.text, piece.n_out);
        *n_replaced += piece.is_replaced;
    }
    return zn_text_status(out);
}

size_t json_repair_origin(const char *data, size_t n_bytes, json_repair_kind kind, size_t at)
{
    struct scanner s = {.data = data, .n = n_bytes, .kind = kind};
    size_t n_out = 0;
    while (is_left(&s)) {
        size_t begin = s.at;
        struct piece piece = next_piece(&s);
        if (at < n_out + piece.n_out) {
            size_t inside = at - n_out;
            return begin + (inside < piece.n_in ? inside : piece.n_in);
        }
        n_out += piece.n_out;
    }
    return n_bytes;
}
