/* From Oniguruma's syntax (Ruby's, in UTF-8) to PCRE2's. Where the two read a text alike it is
 * copied; where they do not it is put in other words:
 *
 *   \s \w \d \b [[:alpha:]]   Oniguruma's classes follow Unicode's definitions, PCRE2's \w and \s do not quite
 *   \h \v \u00e9              a hexadecimal digit, a vertical tab, a character
 *   \p{Han}                   the script; PCRE2 means the script's extensions
 *   ^ $                       of a line
 *   (?m:…)                    the dot matches a newline
 *   X{2}+ X{2}?               X{2} repeated, X{2} or nothing
 *   X{,3} [a[bc]]             X{0,3}, [abc]
 *
 * What is left (calls, callouts, absence, class intersections …) is refused by name. */
#include "text/tokenizer_regex.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text/tokenizer_regex_private.h"

bool regex_refuse(struct translation *t, const char *format, ...)
{
    char what[96];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(t->error, TOK_REGEX_ERROR, "the pattern has %s at byte %zu, which is not supported",
             zn_shown(what).text, (size_t)(t->at - t->begin));
    return false;
}

static void add_in_brackets(struct translation *t, bool negated, const char *set)
{
    zn_text_add(&t->out, "[%s%s]", negated ? "^" : "", set);
}

/* \b is a change between word and not word, \B none. */
static void add_word_border(struct translation *t, bool is_border)
{
    for (int before = 0; before < 2; before++) {
        zn_text_add(&t->out, before ? "|(?<=" : "(?:(?<!");
        regex_add_word(t, false);
        zn_text_add(&t->out, (before == 0) == is_border ? ")(?=" : ")(?!");
        regex_add_word(t, false);
        zn_text_add(&t->out, ")");
    }
    zn_text_add(&t->out, ")");
}

static bool add_escape(struct translation *t)
{
    char c = *t->at;
    if (c == '\0')
        return regex_refuse(t, "a backslash at its end");
    t->at++;
    switch (c) {
    case 's':
    case 'S':
        add_in_brackets(t, c == 'S', REGEX_SPACE);
        return true;
    case 'h':
    case 'H':
        add_in_brackets(t, c == 'H', REGEX_HEX);
        return true;
    case 'w':
    case 'W':
        regex_add_word(t, c == 'W');
        return true;
    case 'd':
    case 'D':
        zn_text_add(&t->out, c == 'D' ? "[^" : "[");
        regex_add_category(t, "Nd");
        zn_text_add(&t->out, "]");
        return true;
    case 'p':
    case 'P':
        return regex_add_property(t, c == 'P', false);
    case 'b':
    case 'B':
        add_word_border(t, c == 'b');
        return true;
    default:
        if (strchr("AzZGRX123456789", c)) {
            zn_text_add(&t->out, "\\%c", c);
            return true;
        }
        return regex_add_escaped(t, c);
    }
}

/* (?imx-imx) and (?imx-imx:, from the first letter on. */
static bool add_options(struct translation *t)
{
    const char *from = t->at - 2;
    for (; *t->at && strchr("imx-", *t->at); t->at++) {
        t->any_case = t->any_case || *t->at == 'i';
        zn_text_add(&t->out, "%c", *t->at == 'm' ? 's' : *t->at);
    }
    if (*t->at == ')') {
        /* Inside the pattern it would hold for other alternatives than PCRE2 thinks. */
        if (from != t->begin)
            return regex_refuse(t, "an option that is not at its begin");
        t->n_groups--;
    } else if (*t->at != ':') {
        return regex_refuse(t, "the group (?%c", *t->at);
    }
    zn_text_add(&t->out, "%c", *t->at++);
    return true;
}

static bool open_group(struct translation *t)
{
    static const char *const plain[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
    if (t->n_groups == REGEX_MAX_GROUPS)
        return regex_refuse(t, "more than %d groups in each other", (int)REGEX_MAX_GROUPS);
    t->group[t->n_groups++] = t->out.n_bytes;
    zn_text_add(&t->out, "(");
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        size_t n = strlen(plain[i]);
        if (strncmp(t->at, plain[i], n) == 0) {
            zn_text_add(&t->out, "%s", plain[i]);
            t->at += n;
            return true;
        }
    }
    if (*t->at == '*')
        return regex_refuse(t, "a verb (*");
    if (*t->at != '?')
        return true;
    t->at++;
    zn_text_add(&t->out, "?");
    return add_options(t);
}

/* What follows a thing that can be repeated: {2}, {2,}, {2,3}, {,3}; high is -1 without a limit.
 * Returns its length; 0 for a plain brace. */
static size_t read_counts(const char *at, long *low, long *high)
{
    const char *c = at + 1;
    size_t n_low = strspn(c, "0123456789");
    *low = *high = n_low > 0 ? strtol(c, NULL, 10) : 0;
    c += n_low;
    if (*c == ',') {
        size_t n_high = strspn(++c, "0123456789");
        *high = n_high > 0 ? strtol(c, NULL, 10) : -1;
        c += n_high;
        if (n_low + n_high == 0)
            return 0;
    } else if (n_low == 0) {
        return 0;
    }
    return *c == '}' ? (size_t)(c + 1 - at) : 0;
}

/* Puts (?: before the last thing and ) behind it. */
static void wrap_atom(struct translation *t)
{
    char *inner = t->out.failed ? NULL : strdup(t->out.data + t->atom);
    if (!inner) {
        t->out.failed = true;
        return;
    }
    t->out.n_bytes = t->atom;
    zn_text_add(&t->out, "(?:%s)", inner);
    free(inner);
}

static bool add_counts(struct translation *t)
{
    long low, high;
    size_t n = t->atom == SIZE_MAX ? 0 : read_counts(t->at, &low, &high);
    if (n == 0) {
        t->at++;
        t->atom = t->out.n_bytes;
        zn_text_add(&t->out, "\\{");
        return true;
    }
    if (low > 65535 || high > 65535 || (high >= 0 && high < low))
        return regex_refuse(t, "a wrong count of repetitions");
    t->at += n;
    if (high < 0)
        zn_text_add(&t->out, "{%ld,}", low);
    else
        zn_text_add(&t->out, "{%ld,%ld}", low, high);
    /* Neither possessive nor, with a fixed count, lazy: one more repetition. */
    if (*t->at == '+' || (*t->at == '?' && low == high))
        wrap_atom(t);
    return true;
}

/* In any case, these letters are also one character (a ligature, a sharp s) for Oniguruma. */
static bool is_ligature(const char *at)
{
    static const char *const pairs[] = {"ff", "fi", "fl", "ss", "st"};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (strncasecmp(at, pairs[i], 2) == 0)
            return true;
    return false;
}

static bool step(struct translation *t)
{
    size_t here = t->out.n_bytes;
    char c = *t->at;
    if (t->any_case && is_ligature(t->at))
        return regex_refuse(t, "'%.2s' in any case", t->at);
    if (c == '{')
        return add_counts(t);
    t->at++;
    switch (c) {
    case '\\':
        t->atom = here;
        return add_escape(t);
    case '[':
        t->atom = here;
        return regex_add_class(t);
    case '(':
        t->atom = SIZE_MAX;
        return open_group(t);
    case ')':
        if (t->n_groups == 0)
            return regex_refuse(t, "a ) without (");
        t->atom = t->group[--t->n_groups];
        break;
    case '^':
    case '$':
        t->atom = here;
        zn_text_add(&t->out, "(?m:%c)", c);
        return true;
    case '|':
        t->atom = SIZE_MAX;
        break;
    case '*':
    case '+':
    case '?':
        break;
    default:
        if (((unsigned char)c & 0xc0) != 0x80)
            t->atom = here;
    }
    zn_text_add(&t->out, "%c", c);
    return true;
}

char *regex_translate(const char *pattern, bool recent, char error[TOK_REGEX_ERROR])
{
    struct translation t = {.at = pattern, .begin = pattern, .recent = recent, .atom = SIZE_MAX, .error = error};
    zn_text_init(&t.out);
    zn_text_add(&t.out, "%s", "");
    bool good = true;
    while (good && *t.at)
        good = step(&t);
    if (good && zn_text_status(&t.out) == ZN_OK)
        return t.out.data;
    if (good)
        snprintf(error, TOK_REGEX_ERROR, "out of memory");
    zn_text_fini(&t.out);
    return NULL;
}
