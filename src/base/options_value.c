/* Values of options: from text into fields, held to their range or choices. */
#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

zn_status zn_words_add(struct zn_words *words, const char *word)
{
    const char **grown = realloc((void *)(uintptr_t)words->word, (words->n + 1) * sizeof *grown);
    if (!grown)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the command line");
    grown[words->n++] = word;
    words->word = grown;
    return ZN_OK;
}

void zn_words_free(struct zn_words *words)
{
    free((void *)(uintptr_t)words->word);
    *words = (struct zn_words){0};
}

/* Whether `word` is one of the words of a list that is separated by single spaces. */
static bool list_holds(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, " ");
        if (n == length && memcmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* range is "[1, inf)"; round brackets leave the end out. */
static bool is_in_range(const char *range, double value)
{
    if (!range)
        return true;
    char *end;
    double low = strtod(range + 1, &end);
    assert(*end == ',');
    double high = strtod(end + 1, &end);
    assert(*end == ')' || *end == ']');
    return (range[0] == '[' ? value >= low : value > low) && (*end == ']' ? value <= high : value < high);
}

static zn_status check_range(const struct zn_option *option, const char *text, double value)
{
    return is_in_range(option->range, value)
               ? ZN_OK
               : zn_fail(ZN_ERR_USAGE, "%s: %s is not in %s", option->name, text, option->range);
}

static zn_status read_int(const struct zn_option *option, const char *text, int64_t *field)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || text[0] == ' ' || text[0] == '+')
        return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not a whole number", option->name, zn_shown(text).text);
    ZN_TRY(check_range(option, text, (double)value));
    *field = value;
    return ZN_OK;
}

static bool is_number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && text[0] != ' ' && isfinite(*value);
}

static zn_status read_double(const struct zn_option *option, const char *text, double *field)
{
    double value;
    if (!is_number(text, &value))
        return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not a finite number", option->name, zn_shown(text).text);
    ZN_TRY(check_range(option, text, value));
    *field = value;
    return ZN_OK;
}

static zn_status read_size(const struct zn_option *option, const char *text, size_t *field)
{
    size_t n_bytes;
    ZN_TRY(zn_size_parse(text, option->name, &n_bytes));
    ZN_TRY(check_range(option, text, (double)n_bytes));
    *field = n_bytes;
    return ZN_OK;
}

static zn_status check_choice(const struct zn_option *option, const char *text)
{
    if (list_holds(option->not_yet, text))
        return zn_fail(ZN_ERR_USAGE, "`%s %s`: not in this build", option->name, text);
    if (list_holds(option->choices, text))
        return ZN_OK;
    return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not one of: %s", option->name, zn_shown(text).text, option->choices);
}

static zn_status read_text(const struct zn_option *option, const char *text, void *field)
{
    if (!*text && !option->may_be_empty)
        return zn_fail(ZN_ERR_USAGE, "%s: the value is empty", option->name);
    if (option->kind == ZN_OPTION_LIST)
        return zn_words_add(field, text);
    *(const char **)field = text;
    return ZN_OK;
}

static zn_status check_numeric(const struct zn_option *option, const char *text)
{
    double value;
    if (list_holds(option->choices, text) || (is_number(text, &value) && is_in_range(option->range, value)))
        return ZN_OK;
    return zn_fail(ZN_ERR_USAGE, "%s: '%s' is neither %s nor a number in %s", option->name, zn_shown(text).text,
                   option->choices, option->range);
}

zn_status zn_option_read(const struct zn_option *option, const char *text, void *field)
{
    switch (option->kind) {
    case ZN_OPTION_INT:
        return read_int(option, text, field);
    case ZN_OPTION_OPTIONAL_INT:
        return *text ? read_int(option, text, field)
                     : zn_fail(ZN_ERR_USAGE, "%s: the value is empty", option->name);
    case ZN_OPTION_DOUBLE:
        return read_double(option, text, field);
    case ZN_OPTION_SIZE:
        return read_size(option, text, field);
    case ZN_OPTION_LEVEL:
        ZN_TRY(check_choice(option, text));
        return read_int(option, text, field);
    case ZN_OPTION_SWITCH:
        ZN_TRY(check_choice(option, text));
        *(bool *)field = strcmp(text, "on") == 0;
        return ZN_OK;
    case ZN_OPTION_CHOICE:
        ZN_TRY(check_choice(option, text));
        *(const char **)field = text;
        return ZN_OK;
    case ZN_OPTION_NUMERIC:
        ZN_TRY(check_numeric(option, text));
        *(const char **)field = text;
        return ZN_OK;
    case ZN_OPTION_STRING:
    case ZN_OPTION_OPTIONAL:
    case ZN_OPTION_LIST:
        return read_text(option, text, field);
    case ZN_OPTION_FLAG:
        break;
    }
    return zn_fail(ZN_ERR_USAGE, "%s takes no value", option->name);
}

zn_status zn_option_read_bare(const struct zn_option *option, void *field)
{
    if (option->kind == ZN_OPTION_FLAG)
        *(bool *)field = !option->negates;
    if (option->kind == ZN_OPTION_OPTIONAL_INT)
        return zn_option_read(option, option->bare, field);
    return ZN_OK;
}

zn_status zn_option_read_default(const struct zn_option *option, void *field)
{
    if (option->kind == ZN_OPTION_FLAG)
        *(bool *)field = option->negates;
    return option->initial ? zn_option_read(option, option->initial, field) : ZN_OK;
}
