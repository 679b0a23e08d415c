/* The classes of patterns: what stands between brackets, and what stands for a class. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text/tokenizer_regex_private.h"
#include "text/tokenizer_unicode.h"

#define NOT_SPACE                                                                                  \
    "\\x00-\\x08\\x0e-\\x1f!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"           \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* With what Unicode 16 counts as alphabetic and PCRE2 not yet. */
#define ALPHABETIC "\\p{Alphabetic}\\x{363}-\\x{36f}\\x{c04}\\x{f82}\\x{f83}\\x{1dd3}-\\x{1de6}"

static void add_recent(struct translation *t, const char *category)
{
    size_t n = strlen(category);
    if (!t->recent)
        return;
    for (size_t i = 0; i < unicode_n_recent; i++)
        if (strncmp(unicode_recent[i].category, category, n) == 0)
            zn_text_add(&t->out, "\\x{%x}-\\x{%x}", unicode_recent[i].first, unicode_recent[i].last);
}

void regex_add_category(struct translation *t, const char *category)
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
void regex_add_word(struct translation *t, bool negated)
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
            return regex_add_category(t, categories[i][1]), true;
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++)
        if (strcasecmp(name, properties[i]) == 0)
            return zn_text_add(&t->out, "\\p{%s}", properties[i]), true;
    if (strcasecmp(name, "alpha") == 0 || strcasecmp(name, "alphabetic") == 0) {
        zn_text_add(&t->out, ALPHABETIC);
        add_recent(t, "L");
    } else if (strcasecmp(name, "alnum") == 0) {
        zn_text_add(&t->out, ALPHABETIC);
        add_recent(t, "L");
        regex_add_category(t, "Nd");
    } else if (strcasecmp(name, "space") == 0 || strcasecmp(name, "white_space") == 0) {
        zn_text_add(&t->out, REGEX_SPACE);
    } else if (strcasecmp(name, "punct") == 0) {
        regex_add_category(t, "P");
        regex_add_category(t, "S");
    } else if (strcasecmp(name, "word") == 0) {
        add_word(t);
    } else if (strcasecmp(name, "xdigit") == 0) {
        zn_text_add(&t->out, REGEX_HEX);
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
bool regex_add_property(struct translation *t, bool negated, bool in_class)
{
    char name[40];
    size_t n = 0;
    if (*t->at != '{')
        return regex_refuse(t, "\\p without a brace");
    t->at++;
    if (*t->at == '^') {
        negated = !negated;
        t->at++;
    }
    while (n + 1 < sizeof name && (isalnum((unsigned char)*t->at) || *t->at == '_'))
        name[n++] = *t->at++;
    name[n] = '\0';
    if (n == 0 || *t->at != '}')
        return regex_refuse(t, "a property that is not a plain name");
    t->at++;
    if (in_class && negated) {
        /* The complement of a class cannot be put into another; of a category PCRE2 knows it. */
        if (n > 2)
            return regex_refuse(t, "\\P{%s} in a class", name);
        zn_text_add(&t->out, "\\P{%s}", name);
        return true;
    }
    if (!in_class && strcasecmp(name, "word") == 0) {
        regex_add_word(t, negated);
        return true;
    }
    if (!in_class)
        zn_text_add(&t->out, negated ? "[^" : "[");
    if (n <= 2) {
        regex_add_category(t, name);
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
        return regex_refuse(t, "a wrong character number");
    if (!braces && kind == 'x' && value >= 0x80)
        return regex_refuse(t, "the byte \\x%s, which is no character", digits);
    t->at += braces;
    zn_text_add(&t->out, "\\x{%lx}", value);
    return true;
}

/* Escapes that mean one character, in a class and outside; `c` is behind the backslash. */
bool regex_add_escaped(struct translation *t, char c)
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
        return regex_refuse(t, "the escape \\%c", c);
    }
    return true;
}

static bool class_escape(struct translation *t)
{
    char c = *t->at;
    if (c == '\0')
        return regex_refuse(t, "a backslash at its end");
    t->at++;
    switch (c) {
    case 's':
        zn_text_add(&t->out, REGEX_SPACE);
        return true;
    case 'S':
        zn_text_add(&t->out, NOT_SPACE);
        return true;
    case 'w':
        add_word(t);
        return true;
    case 'd':
        regex_add_category(t, "Nd");
        return true;
    case 'D':
        zn_text_add(&t->out, "\\P{Nd}");
        return true;
    case 'h':
        zn_text_add(&t->out, REGEX_HEX);
        return true;
    case 'p':
    case 'P':
        return regex_add_property(t, c == 'P', true);
    case 'b':
        zn_text_add(&t->out, "\\x08");
        return true;
    default:
        return regex_add_escaped(t, c);
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
        return regex_refuse(t, "an unknown [:class:]");
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
            return regex_refuse(t, "a class without an end");
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
                return regex_refuse(t, "a negated class in a class");
            if (!class_body(t, depth + 1))
                return false;
        } else if (c == '&' && *t->at == '&') {
            return regex_refuse(t, "an intersection of classes");
        } else {
            zn_text_add(&t->out, c == ']' ? "\\%c" : "%c", c);
        }
    }
}

bool regex_add_class(struct translation *t)
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
