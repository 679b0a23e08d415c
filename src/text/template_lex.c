/* Cutting a template into tokens, with Jinja's rules for the white space around tags. */
#include "text/template_lex.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct lexer {
    struct template *t;
    const char *at, *end;
    int line;
    char *string_at; /* where the next string's value goes */
    bool trim;       /* the tag that ended last takes the white space after it */
};

static zn_status add_token(struct lexer *l, token_kind kind, const char *text, size_t n_bytes)
{
    struct template *t = l->t;
    if (t->n_tokens == t->capacity) {
        size_t capacity = 2 * t->capacity + 64;
        struct token *larger = realloc(t->tokens, capacity * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for a chat template of %zu tokens", capacity);
        t->tokens = larger;
        t->capacity = capacity;
    }
    t->tokens[t->n_tokens++] = (struct token){.kind = kind, .line = l->line, .text = text, .n_bytes = n_bytes};
    return ZN_OK;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void skip_to(struct lexer *l, const char *to)
{
    for (; l->at < to; l->at++)
        l->line += *l->at == '\n';
}

static bool looking_at(const struct lexer *l, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(l->end - l->at) >= n && memcmp(l->at, what, n) == 0;
}

/* ---- Outside of tags ---- */

static const char *find_tag(const struct lexer *l)
{
    for (const char *c = l->at; c + 1 < l->end; c++)
        if (c[0] == '{' && (c[1] == '{' || c[1] == '%' || c[1] == '#'))
            return c;
    return l->end;
}

/* Where the text before the tag ends: "{%-" takes all white space before it; a block or comment that
 * begins its line takes the white space of the line. */
static const char *text_end(const struct lexer *l, const char *tag)
{
    const char *to = tag;
    char sign = tag + 2 < l->end ? tag[2] : '\0';
    if (sign == '-') {
        while (to > l->at && is_space(to[-1]))
            to--;
        return to;
    }
    if (sign == '+' || tag[1] == '{')
        return tag;
    while (to > l->at && is_space(to[-1]) && to[-1] != '\n')
        to--;
    bool begins_line = to > l->t->source ? to[-1] == '\n' : true;
    return begins_line ? to : tag;
}

static zn_status lex_text(struct lexer *l)
{
    if (l->trim) {
        const char *to = l->at;
        while (to < l->end && is_space(*to))
            to++;
        skip_to(l, to);
        l->trim = false;
    }
    const char *tag = find_tag(l), *to = tag < l->end ? text_end(l, tag) : tag;
    if (to > l->at)
        ZN_TRY(add_token(l, TOKEN_TEXT, l->at, (size_t)(to - l->at)));
    skip_to(l, tag);
    return ZN_OK;
}

/* After "%}" and "#}" a line end goes with the tag. */
static void after_block(struct lexer *l, char sign)
{
    if (sign == '-')
        l->trim = true;
    else if (sign != '+' && l->at < l->end && *l->at == '\n')
        skip_to(l, l->at + 1);
}

static zn_status lex_comment(struct lexer *l)
{
    for (const char *c = l->at + 2; c + 1 < l->end; c++) {
        if (c[0] != '#' || c[1] != '}')
            continue;
        char sign = c > l->at + 2 ? c[-1] : '\0';
        skip_to(l, c + 2);
        after_block(l, sign);
        return ZN_OK;
    }
    return zn_fail(ZN_ERR_INPUT, "chat template, line %d: a comment without end", l->line);
}

/* ---- Inside of tags ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal digits of \x and \u; -1 when they are not there. */
static long hex_value(const char *at, const char *end, int n_digits)
{
    long value = 0;
    for (int i = 0; i < n_digits; i++) {
        int digit = at + i < end ? hex_digit(at[i]) : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

static void put_utf8(struct lexer *l, long c)
{
    if (c < 0x80) {
        *l->string_at++ = (char)c;
    } else if (c < 0x800) {
        *l->string_at++ = (char)(0xc0 | c >> 6);
        *l->string_at++ = (char)(0x80 | (c & 0x3f));
    } else {
        *l->string_at++ = (char)(0xe0 | c >> 12);
        *l->string_at++ = (char)(0x80 | (c >> 6 & 0x3f));
        *l->string_at++ = (char)(0x80 | (c & 0x3f));
    }
}

/* The escape at l->at, after the backslash, as Python reads it. A value is never longer than what
 * is written in the source. */
static zn_status lex_escape(struct lexer *l)
{
    static const char from[] = "ntrabfv\\'\"", to[] = "\n\t\r\a\b\f\v\\'\"";
    char c = *l->at;
    const char *known = memchr(from, c, sizeof from - 1);
    if (known) {
        *l->string_at++ = to[known - from];
        l->at++;
    } else if (c == 'x' || c == 'u') {
        int n_digits = c == 'x' ? 2 : 4;
        long value = hex_value(l->at + 1, l->end, n_digits);
        if (value <= 0 || (value >= 0xd800 && value < 0xe000))
            return zn_fail(ZN_ERR_UNSUPPORTED, "chat template, line %d: the escape \\%c that is not a character",
                           l->line, c);
        put_utf8(l, value);
        l->at += 1 + n_digits;
    } else if (c == '\n') {
        skip_to(l, l->at + 1);
    } else if ((c >= '0' && c <= '7') || c == 'N' || c == 'U') {
        return zn_fail(ZN_ERR_UNSUPPORTED, "chat template, line %d: the escape \\%c", l->line, c);
    } else {
        *l->string_at++ = '\\';
    }
    return ZN_OK;
}

static zn_status lex_string(struct lexer *l)
{
    char quote = *l->at++;
    char *value = l->string_at;
    int line = l->line;
    while (l->at < l->end && *l->at != quote) {
        if (*l->at != '\\') {
            *l->string_at++ = *l->at;
            skip_to(l, l->at + 1);
            continue;
        }
        l->at++;
        if (l->at < l->end)
            ZN_TRY(lex_escape(l));
    }
    if (l->at == l->end)
        return zn_fail(ZN_ERR_INPUT, "chat template, line %d: a string without end", line);
    l->at++;
    return add_token(l, TOKEN_STRING, value, (size_t)(l->string_at - value));
}

static zn_status lex_number(struct lexer *l)
{
    const char *begin = l->at;
    int64_t value = 0;
    for (; l->at < l->end && is_word(*l->at); l->at++)
        if (*l->at < '0' || *l->at > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *l->at - '0', &value))
            return zn_fail(ZN_ERR_UNSUPPORTED, "chat template, line %d: a number that is not a small integer", l->line);
    if (l->at + 1 < l->end && l->at[0] == '.' && l->at[1] >= '0' && l->at[1] <= '9')
        return zn_fail(ZN_ERR_UNSUPPORTED, "chat template, line %d: a number with a fraction", l->line);
    ZN_TRY(add_token(l, TOKEN_INTEGER, begin, (size_t)(l->at - begin)));
    l->t->tokens[l->t->n_tokens - 1].integer = value;
    return ZN_OK;
}

static zn_status lex_operator(struct lexer *l)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "<",
                                            ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!looking_at(l, operators[i]))
            continue;
        size_t n = strlen(operators[i]);
        l->at += n;
        return add_token(l, TOKEN_OPERATOR, operators[i], n);
    }
    char shown[2] = {*l->at, '\0'};
    return zn_fail(ZN_ERR_INPUT, "chat template, line %d: the character '%s' in a tag", l->line,
                   zn_shown(shown).text);
}

/* Whether the tag ends here; a '}' that closes a mapping does not end it. */
static bool at_tag_end(const struct lexer *l, bool is_print, int depth, char *sign)
{
    const char *c = l->at;
    char first = is_print ? '}' : '%';
    *sign = '\0';
    if (depth > 0 && is_print)
        return false;
    if (c < l->end && (*c == '-' || (*c == '+' && !is_print)))
        *sign = *c++;
    return l->end - c >= 2 && c[0] == first && c[1] == '}';
}

static zn_status lex_inside(struct lexer *l, bool is_print)
{
    int begin = l->line, depth = 0;
    char sign;
    for (;;) {
        while (l->at < l->end && is_space(*l->at))
            skip_to(l, l->at + 1);
        if (l->at == l->end)
            return zn_fail(ZN_ERR_INPUT, "chat template, line %d: a tag without end", begin);
        if (at_tag_end(l, is_print, depth, &sign))
            break;
        depth += *l->at == '{' ? 1 : *l->at == '}' ? -1 : 0;
        if (*l->at == '\'' || *l->at == '"') {
            ZN_TRY(lex_string(l));
        } else if (*l->at >= '0' && *l->at <= '9') {
            ZN_TRY(lex_number(l));
        } else if (is_word(*l->at)) {
            const char *name = l->at;
            while (l->at < l->end && is_word(*l->at))
                l->at++;
            ZN_TRY(add_token(l, TOKEN_NAME, name, (size_t)(l->at - name)));
        } else {
            ZN_TRY(lex_operator(l));
        }
    }
    ZN_TRY(add_token(l, is_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, l->at, 2));
    l->at += 2 + (sign != '\0');
    if (is_print)
        l->trim = sign == '-';
    else
        after_block(l, sign);
    return ZN_OK;
}

static zn_status lex_tag(struct lexer *l)
{
    if (l->at[1] == '#')
        return lex_comment(l);
    bool is_print = l->at[1] == '{';
    ZN_TRY(add_token(l, is_print ? TOKEN_PRINT : TOKEN_BLOCK, l->at, 2));
    l->at += 2;
    if (l->at < l->end && (*l->at == '-' || *l->at == '+'))
        l->at++;
    return lex_inside(l, is_print);
}

zn_status template_lex(struct template *compiled)
{
    size_t n = strlen(compiled->source);
    struct lexer l = {.t = compiled, .at = compiled->source, .end = compiled->source + n, .line = 1,
                      .string_at = compiled->strings};
    while (l.at < l.end) {
        ZN_TRY(lex_text(&l));
        if (l.at < l.end)
            ZN_TRY(lex_tag(&l));
    }
    return add_token(&l, TOKEN_END, l.end, 0);
}
