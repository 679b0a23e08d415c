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
#include "formats/tokenizer_regex.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "formats/tokenizer_unicode.h"

#define SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACE                                                                                  \
    "\\x00-\\x08\\x0e-\\x1f!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"           \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* With what Unicode 16 counts as alphabetic and PCRE2 not yet. */
#define ALPHABETIC "\\p{Alphabetic}\\x{363}-\\x{36f}\\x{c04}\\x{f82}\\x{f83}\\x{1dd3}-\\x{1de6}"
#define HEX "0-9A-Fa-f"

enum { MAX_GROUPS = 200 };

struct translation {
    const char *at; /* what is to be read */
    const char *begin;
    zn_text out;
    bool recent;
    size_t atom; /* where the last thing that can be repeated begins in `out`; SIZE_MAX: none */
    size_t group[MAX_GROUPS];
    size_t n_groups;
    bool any_case; /* an option i was seen */
    char *error;
};

static bool refuse(struct translation *t, const char *format, ...) ZN_PRINTF(2, 3);

static bool refuse(struct translation *t, const char *format, ...)
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

/* ---- Classes: what stands between brackets ---- */

static void add_recent(struct translation *t, const char *category)
{
    size_t n = strlen(category);
    if (!t->recent)
        return;
    for (size_t i = 0; i < unicode_n_recent; i++)
        if (strncmp(unicode_recent[i].category, category, n) == 0)
            zn_text_add(&t->out, "\\x{%x}-\\x{%x}", unicode_recent[i].first, unicode_recent[i].last);
}

static void add_category(struct translation *t, const char *category)
{
    zn_text_add(&t->out, "\\p{%s}", category);
    add_recent(t, category);
}

static void add_word(struct translation *t)
{
    zn_text_add(&t->out, WORD);
    add_recent(t, "L");
    add_recent(t, "M");
    add_recent(t, "Nd");
}

/* Oniguruma's \w has Latin-1's superscripts and fractions where it does not stand in a class. */
static void add_word_class(struct translation *t, bool negated)
{
    zn_text_add(&t->out, negated ? "[^" : "[");
    add_word(t);
    zn_text_add(&t->out, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]");
}

/* Names of classes that are not categories of one or two letters. */
static bool add_named(struct translation *t, const char *name)
{
    static const char *const categories[][2] = {
        {"letter", "L"},           {"mark", "M"},  {"number", "N"},           {"punctuation", "P"},
        {"symbol", "S"},           {"other", "C"}, {"separator", "Z"},        {"decimalnumber", "Nd"},
        {"uppercaseletter", "Lu"}, {"digit", "Nd"}, {"lowercaseletter", "Ll"}, {"cntrl", "Cc"},
    };
    static const char *const properties[] = {"Uppercase", "Lowercase", "Emoji", "Emoji_Presentation",
                                             "Extended_Pictographic", "Ideographic"};
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        if (strcasecmp(name, categories[i][0]) == 0)
            return add_category(t, categories[i][1]), true;
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++)
        if (strcasecmp(name, properties[i]) == 0)
            return zn_text_add(&t->out, "\\p{%s}", properties[i]), true;
    if (strcasecmp(name, "alpha") == 0 || strcasecmp(name, "alphabetic") == 0) {
        zn_text_add(&t->out, ALPHABETIC);
        add_recent(t, "L");
    } else if (strcasecmp(name, "alnum") == 0) {
        zn_text_add(&t->out, ALPHABETIC);
        add_recent(t, "L");
        add_category(t, "Nd");
    } else if (strcasecmp(name, "space") == 0 || strcasecmp(name, "white_space") == 0) {
        zn_text_add(&t->out, SPACE);
    } else if (strcasecmp(name, "punct") == 0) {
        add_category(t, "P");
        add_category(t, "S");
    } else if (strcasecmp(name, "word") == 0) {
        add_word(t);
    } else if (strcasecmp(name, "xdigit") == 0) {
        zn_text_add(&t->out, HEX);
    } else if (strcasecmp(name, "upper") == 0) {
        zn_text_add(&t->out, "\\p{Uppercase}");
    } else if (strcasecmp(name, "lower") == 0) {
        zn_text_add(&t->out, "\\p{Lowercase}");
    } else if (strcasecmp(name, "blank") == 0) {
        zn_text_add(&t->out, "\\t\\p{Zs}");
    } else {
        return false;
    }
    return true;
}

/* \p{Name}, \P{Name}, \p{^Name}, from the brace on. */
static bool add_property(struct translation *t, bool negated, bool in_class)
{
    char name[40];
    size_t n = 0;
    if (*t->at != '{')
        return refuse(t, "\\p without a brace");
    t->at++;
    if (*t->at == '^') {
        negated = !negated;
        t->at++;
    }
    while (n + 1 < sizeof name && (isalnum((unsigned char)*t->at) || *t->at == '_'))
        name[n++] = *t->at++;
    name[n] = '\0';
    if (n == 0 || *t->at != '}')
        return refuse(t, "a property that is not a plain name");
    t->at++;
    if (in_class && negated) {
        /* The complement of a class cannot be put into another; of a category PCRE2 knows it. */
        if (n > 2)
            return refuse(t, "\\P{%s} in a class", name);
        zn_text_add(&t->out, "\\P{%s}", name);
        return true;
    }
    if (!in_class && strcasecmp(name, "word") == 0) {
        add_word_class(t, negated);
        return true;
    }
    if (!in_class)
        zn_text_add(&t->out, negated ? "[^" : "[");
    if (n <= 2) {
        add_category(t, name);
    } else if (!add_named(t, name)) {
        zn_text_add(&t->out, "\\p{sc:%s}", name);
        if (t->recent && strcasecmp(name, "han") == 0)
            zn_text_add(&t->out, "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}");
    }
    if (!in_class)
        zn_text_add(&t->out, "]");
    return true;
}

/* \x{…}, \x41, \u00e9: a character by its number, from behind the letter on. */
static bool add_number(struct translation *t, char kind)
{
    char digits[9] = "";
    size_t n = 0, most = kind == 'u' ? 4 : 2;
    bool braces = kind == 'x' && *t->at == '{';
    if (braces) {
        t->at++;
        most = 8;
    }
    while (n < most && isxdigit((unsigned char)*t->at))
        digits[n++] = *t->at++;
    unsigned long value = strtoul(digits, NULL, 16);
    if (n == 0 || (kind == 'u' && n != 4) || (braces && *t->at != '}') || value > 0x10ffff)
        return refuse(t, "a wrong character number");
    if (!braces && kind == 'x' && value >= 0x80)
        return refuse(t, "the byte \\x%s, which is no character", digits);
    t->at += braces;
    zn_text_add(&t->out, "\\x{%lx}", value);
    return true;
}

/* Escapes that mean one character, in a class and outside; `c` is behind the backslash. */
static bool add_escaped(struct translation *t, char c)
{
    if (c == 'x' || c == 'u')
        return add_number(t, c);
    if (c == 'v') {
        zn_text_add(&t->out, "\\x0b");
    } else if (c == '0' && !isdigit((unsigned char)*t->at)) {
        zn_text_add(&t->out, "\\x00");
    } else if (c != '\0' && strchr("nrtfae", c)) {
        zn_text_add(&t->out, "\\%c", c);
    } else if (c != '\0' && !isalnum((unsigned char)c)) {
        zn_text_add(&t->out, (unsigned char)c < 0x80 ? "\\%c" : "%c", c);
    } else {
        return refuse(t, "the escape \\%c", c);
    }
    return true;
}

static bool class_escape(struct translation *t)
{
    char c = *t->at;
    if (c == '\0')
        return refuse(t, "a backslash at its end");
    t->at++;
    switch (c) {
    case 's':
        zn_text_add(&t->out, SPACE);
        return true;
    case 'S':
        zn_text_add(&t->out, NOT_SPACE);
        return true;
    case 'w':
        add_word(t);
        return true;
    case 'd':
        add_category(t, "Nd");
        return true;
    case 'D':
        zn_text_add(&t->out, "\\P{Nd}");
        return true;
    case 'h':
        zn_text_add(&t->out, HEX);
        return true;
    case 'p':
    case 'P':
        return add_property(t, c == 'P', true);
    case 'b':
        zn_text_add(&t->out, "\\x08");
        return true;
    default:
        return add_escaped(t, c);
    }
}

/* [:alpha:] in a class, from the colon on. */
static bool posix_class(struct translation *t)
{
    char name[16];
    size_t n = 0;
    const char *from = ++t->at;
    while (n + 1 < sizeof name && isalpha((unsigned char)*t->at))
        name[n++] = *t->at++;
    name[n] = '\0';
    if (strncmp(t->at, ":]", 2) != 0 || !add_named(t, name)) {
        t->at = from;
        return refuse(t, "an unknown [:class:]");
    }
    t->at += 2;
    return true;
}

/* A class from behind its bracket on; an inner one is a part of the outer one. */
static bool class_body(struct translation *t, int depth)
{
    bool first = true;
    for (;; first = false) {
        char c = *t->at;
        if (c == '\0')
            return refuse(t, "a class without an end");
        t->at++;
        if (c == ']' && !first)
            return true;
        if (c == '\\') {
            if (!class_escape(t))
                return false;
        } else if (c == '[' && *t->at == ':') {
            if (!posix_class(t))
                return false;
        } else if (c == '[') {
            if (*t->at == '^' || depth == 8)
                return refuse(t, "a negated class in a class");
            if (!class_body(t, depth + 1))
                return false;
        } else if (c == '&' && *t->at == '&') {
            return refuse(t, "an intersection of classes");
        } else {
            zn_text_add(&t->out, c == ']' ? "\\%c" : "%c", c);
        }
    }
}

static bool add_class(struct translation *t)
{
    zn_text_add(&t->out, "[");
    if (*t->at == '^') {
        zn_text_add(&t->out, "^");
        t->at++;
    }
    if (!class_body(t, 0))
        return false;
    zn_text_add(&t->out, "]");
    return true;
}

/* ---- Outside of classes ---- */

static void add_in_brackets(struct translation *t, bool negated, const char *set)
{
    zn_text_add(&t->out, "[%s%s]", negated ? "^" : "", set);
}

/* \b is a change between word and not word, \B none. */
static void add_word_border(struct translation *t, bool is_border)
{
    for (int before = 0; before < 2; before++) {
        zn_text_add(&t->out, before ? "|(?<=" : "(?:(?<!");
        add_word_class(t, false);
        zn_text_add(&t->out, (before == 0) == is_border ? ")(?=" : ")(?!");
        add_word_class(t, false);
        zn_text_add(&t->out, ")");
    }
    zn_text_add(&t->out, ")");
}

static bool add_escape(struct translation *t)
{
    char c = *t->at;
    if (c == '\0')
        return refuse(t, "a backslash at its end");
    t->at++;
    switch (c) {
    case 's':
    case 'S':
        add_in_brackets(t, c == 'S', SPACE);
        return true;
    case 'h':
    case 'H':
        add_in_brackets(t, c == 'H', HEX);
        return true;
    case 'w':
    case 'W':
        add_word_class(t, c == 'W');
        return true;
    case 'd':
    case 'D':
        zn_text_add(&t->out, c == 'D' ? "[^" : "[");
        add_category(t, "Nd");
        zn_text_add(&t->out, "]");
        return true;
    case 'p':
    case 'P':
        return add_property(t, c == 'P', false);
    case 'b':
    case 'B':
        add_word_border(t, c == 'b');
        return true;
    default:
        if (strchr("AzZGRX123456789", c)) {
            zn_text_add(&t->out, "\\%c", c);
            return true;
        }
        return add_escaped(t, c);
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
            return refuse(t, "an option that is not at its begin");
        t->n_groups--;
    } else if (*t->at != ':') {
        return refuse(t, "the group (?%c", *t->at);
    }
    zn_text_add(&t->out, "%c", *t->at++);
    return true;
}

static bool open_group(struct translation *t)
{
    static const char *const plain[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
    if (t->n_groups == MAX_GROUPS)
        return refuse(t, "more than %d groups in each other", (int)MAX_GROUPS);
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
        return refuse(t, "a verb (*");
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
        return refuse(t, "a wrong count of repetitions");
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
        return refuse(t, "'%.2s' in any case", t->at);
    if (c == '{')
        return add_counts(t);
    t->at++;
    switch (c) {
    case '\\':
        t->atom = here;
        return add_escape(t);
    case '[':
        t->atom = here;
        return add_class(t);
    case '(':
        t->atom = SIZE_MAX;
        return open_group(t);
    case ')':
        if (t->n_groups == 0)
            return refuse(t, "a ) without (");
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
