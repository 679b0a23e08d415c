/* Values of options: from text into fields, held to their range or choices. */
#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* The n letters of `choice` are the word, or end in "=N" or ":N" where the word has a whole number. */
static bool is_choice(const char *choice, size_t n, const char *word)
{
    size_t length = strlen(word);
    if (n == length && memcmp(choice, word, n) == 0)
        return true;
    if (n < 2 || (memcmp(choice + n - 2, "=N", 2) != 0 && memcmp(choice + n - 2, ":N", 2) != 0) || strncmp(choice, word, n - 1) != 0)
        return false;
    size_t digits = strspn(word + n - 1, "0123456789");
    return digits > 0 && digits < 10 && word[n - 1 + digits] == '\0';
}

/* Whether `word` is one of the words of a list that is separated by single spaces. */
static bool list_holds(const char *list, const char *word)
{
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, " ");
        if (is_choice(p, n, word))
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

/* "at least 0 and below 1" */
static const char *range_words(const char *range, char *words, size_t n_bytes)
{
    int n_low = (int)strcspn(range + 1, ","), n_high = (int)strcspn(range + n_low + 3, ")]");
    const char *high = range + n_low + 3, *close = high + n_high;
    int n = snprintf(words, n_bytes, "%s %.*s", range[0] == '[' ? "at least" : "above", n_low, range + 1);
    if (strncmp(high, "inf", 3) != 0 && n > 0 && (size_t)n < n_bytes)
        snprintf(words + n, n_bytes - (size_t)n, " and %s %.*s", *close == ']' ? "at most" : "below", n_high, high);
    return words;
}

static zn_status check_range(const struct zn_option *option, const char *text, double value)
{
    char words[96];
    return is_in_range(option->range, value) ? ZN_OK
                                             : zn_fail(ZN_ERR_USAGE, "%s: %s is not in %s: it must be %s", option->name, text,
                                                       option->range, range_words(option->range, words, sizeof words));
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
        return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not a finite number%s", option->name, zn_shown(text).text,
                       strchr(text, ',') ? "; it has a point, no comma" : "");
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

/* What other tools call a choice, or the same in other letters; NULL: it is not known. */
static const char *meant_choice(const struct zn_option *option, const char *text)
{
    static const char *const pairs[][2] = {
        {"float32", "fp32"}, {"float", "fp32"}, {"f32", "fp32"}, {"float16", "fp16"}, {"half", "fp16"}, {"f16", "fp16"},
        {"bfloat16", "bf16"}, {"fp32", "f32"}, {"fp16", "f16"}, {"q8", "q8_0"}, {"int8", "q8_0"}, {"ssd", "nvme"}, {"disk", "nvme"},
        {"ram", "cpu"}, {"host", "cpu"}, {"gpu", "none"}, {"device", "none"}, {"adamw_torch", "adamw"}, {"fused_adam", "adamw"},
        {"true", "on"}, {"false", "off"}, {"1", "on"}, {"0", "off"}, {"yes", "on"}, {"no", "off"}};
    static const char *const plain[] = {"fp32", "fp16", "bf16", "adamw", "adam", "sgd", "cosine", "linear", "constant", "nvme", "cpu", "none"};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (strcasecmp(text, pairs[i][0]) == 0 && list_holds(option->choices, pairs[i][1]) && !list_holds(option->not_yet, pairs[i][1]))
            return pairs[i][1];
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcasecmp(text, plain[i]) == 0 && list_holds(option->choices, plain[i]))
            return plain[i];
    return NULL;
}

/* Those of this build. */
static void add_choices(const struct zn_option *option, zn_text *text)
{
    for (const char *p = option->choices; *p;) {
        char word[64];
        size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (!list_holds(option->not_yet, word))
            zn_text_add(text, "%s%s", text->n_bytes ? " " : "", word);
        p += n + (p[n] == ' ');
    }
}

static zn_status check_choice(const struct zn_option *option, const char *text)
{
    if (list_holds(option->not_yet, text))
        return zn_fail(ZN_ERR_USAGE, "`%s %s`: not in this build", option->name, text);
    if (list_holds(option->choices, text))
        return ZN_OK;
    const char *meant = meant_choice(option, text);
    zn_text choices;
    zn_text_init(&choices);
    add_choices(option, &choices);
    zn_status status = zn_fail(ZN_ERR_USAGE, "%s: '%s' is not one of: %s%s%s", option->name, zn_shown(text).text,
                               choices.data ? choices.data : option->choices, meant ? "; did you mean " : "", meant ? meant : "");
    zn_text_fini(&choices);
    return status;
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
