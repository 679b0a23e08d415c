/* Reading of the command line by a table. */
#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/options_private.h"
#include "base/size.h"
#include "base/text.h"

struct reader {
    const struct zn_command *command;
    struct zn_options *options;
    char *target;
    char **argv;
    int argc;
    int at; /* the next word */
};

static const char *option_name(const void *context, size_t i)
{
    const struct zn_command *command = context;
    return i < command->n_options ? command->options[i].name : NULL;
}

/* "-1" is a value, "-n" and "--lr" are flags. */
static bool is_flag(const char *word)
{
    if (word[0] != '-' || word[1] == '\0')
        return false;
    return !(word[1] == '.' || (word[1] >= '0' && word[1] <= '9'));
}

zn_status options_add_word(struct zn_words *words, const char *word)
{
    const char **grown = realloc(words->word, (words->n + 1) * sizeof *grown);
    if (!grown)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the command line");
    words->word = grown;
    words->word[words->n++] = word;
    return ZN_OK;
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
static zn_status check_range(const struct zn_option *option, const char *text, double value)
{
    if (!option->range)
        return ZN_OK;
    char *end;
    double low = strtod(option->range + 1, &end);
    assert(*end == ',');
    double high = strtod(end + 1, &end);
    assert(*end == ')' || *end == ']');
    bool in = (option->range[0] == '[' ? value >= low : value > low) &&
              (*end == ']' ? value <= high : value < high);
    return in ? ZN_OK
              : zn_fail(ZN_ERR_USAGE, "%s: %s is not in %s", option->name, text, option->range);
}

static zn_status read_int(const struct zn_option *option, const char *text, void *field)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || text[0] == ' ' || text[0] == '+')
        return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not a whole number", option->name, zn_shown(text).text);
    ZN_TRY(check_range(option, text, (double)value));
    *(int64_t *)field = value;
    return ZN_OK;
}

static zn_status read_double(const struct zn_option *option, const char *text, void *field)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || text[0] == ' ' || !isfinite(value))
        return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not a finite number", option->name, zn_shown(text).text);
    ZN_TRY(check_range(option, text, value));
    *(double *)field = value;
    return ZN_OK;
}

static zn_status read_size(const struct zn_option *option, const char *text, void *field)
{
    size_t n_bytes;
    ZN_TRY(zn_size_parse(text, option->name, &n_bytes));
    ZN_TRY(check_range(option, text, (double)n_bytes));
    *(size_t *)field = n_bytes;
    return ZN_OK;
}

static zn_status read_choice(const struct zn_option *option, const char *text, void *field)
{
    if (list_holds(option->not_yet, text))
        return zn_fail(ZN_ERR_USAGE, "`%s %s`: not in this build", option->name, text);
    if (!list_holds(option->choices, text))
        return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not one of: %s", option->name,
                       zn_shown(text).text, option->choices);
    *(const char **)field = text;
    return ZN_OK;
}

zn_status options_read_value(const struct zn_option *option, const char *text, void *field)
{
    switch (option->kind) {
    case ZN_OPTION_INT:
        return read_int(option, text, field);
    case ZN_OPTION_DOUBLE:
        return read_double(option, text, field);
    case ZN_OPTION_SIZE:
        return read_size(option, text, field);
    case ZN_OPTION_CHOICE:
        return read_choice(option, text, field);
    case ZN_OPTION_STRING:
    case ZN_OPTION_OPTIONAL:
    case ZN_OPTION_LIST:
        if (!*text && !option->may_be_empty)
            return zn_fail(ZN_ERR_USAGE, "%s: the value is empty", option->name);
        if (option->kind == ZN_OPTION_LIST)
            return options_add_word(field, text);
        *(const char **)field = text;
        return ZN_OK;
    case ZN_OPTION_FLAG:
        break;
    }
    return zn_fail(ZN_ERR_USAGE, "%s takes no value", option->name);
}

static zn_status read_list(struct reader *r, const struct zn_option *option, const char *attached)
{
    void *words = r->target + option->offset;
    size_t n = 0;
    if (attached) {
        ZN_TRY(options_read_value(option, attached, words));
        n++;
    }
    for (; r->at < r->argc && !is_flag(r->argv[r->at]); r->at++, n++)
        ZN_TRY(options_read_value(option, r->argv[r->at], words));
    return n ? ZN_OK : zn_fail(ZN_ERR_USAGE, "%s needs at least one value", option->name);
}

/* `attached` is what follows `=`, or NULL. */
static zn_status read_option(struct reader *r, size_t index, const char *attached)
{
    const struct zn_option *option = &r->command->options[index];
    void *field = r->target + option->offset;
    if (option->not_built)
        return zn_fail(ZN_ERR_USAGE, "`%s`: not in this build", option->name);
    if (r->options->given[index] && option->kind != ZN_OPTION_LIST)
        return zn_fail(ZN_ERR_USAGE, "%s is given twice", option->name);
    r->options->given[index] = true;

    if (option->kind == ZN_OPTION_LIST)
        return read_list(r, option, attached);
    if (attached)
        return options_read_value(option, attached, field);
    if (option->kind == ZN_OPTION_FLAG) {
        *(bool *)field = true;
        return ZN_OK;
    }
    if (option->kind == ZN_OPTION_OPTIONAL)
        return ZN_OK;
    if (r->at == r->argc || is_flag(r->argv[r->at]))
        return zn_fail(ZN_ERR_USAGE, "%s needs a value (%s)", option->name, option->value);
    return options_read_value(option, r->argv[r->at++], field);
}

static zn_status unknown_flag(const struct reader *r, const char *name)
{
    const char *hint = r->command->hint ? r->command->hint(r->command, name) : NULL;
    if (hint)
        return zn_fail(ZN_ERR_USAGE, "unknown flag %s; in zinc it is %s; `%s --help` lists them", name, hint, r->command->name);
    const char *near = zn_nearest_name(name, option_name, r->command);
    return zn_fail(ZN_ERR_USAGE, "unknown flag %s%s%s; `%s --help` lists them", name,
                   near ? ", did you mean " : "", near ? near : "", r->command->name);
}

static zn_status read_flag(struct reader *r)
{
    const char *word = r->argv[r->at++];
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < r->command->n_options; i++) {
        const char *name = r->command->options[i].name;
        if (strlen(name) == length && memcmp(name, word, length) == 0)
            return read_option(r, i, word[length] ? word + length + 1 : NULL);
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), word);
    return unknown_flag(r, name);
}

static zn_status read_words(struct reader *r)
{
    bool only_words = false;
    while (r->at < r->argc) {
        const char *word = r->argv[r->at];
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
            r->at++;
        } else if (!only_words && is_flag(word)) {
            ZN_TRY(read_flag(r));
        } else if (r->command->takes_words) {
            ZN_TRY(options_add_word(&r->options->words, word));
            r->at++;
        } else {
            return zn_fail(ZN_ERR_USAGE, "'%s' belongs to no flag; `%s --help` lists them", word,
                           r->command->name);
        }
    }
    return ZN_OK;
}

static zn_status set_defaults(const struct zn_command *command, char *target)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->initial && !option->not_built)
            ZN_TRY(options_read_value(option, option->initial, target + option->offset));
    }
    return ZN_OK;
}

static zn_status check_required(const struct zn_options *options)
{
    for (size_t i = 0; i < options->command->n_options; i++) {
        const struct zn_option *option = &options->command->options[i];
        if (option->required && !options->given[i])
            return zn_fail(ZN_ERR_USAGE, "%s %s is required; `%s --help` shows an example",
                           option->name, option->value, options->command->name);
    }
    return ZN_OK;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

zn_status zn_options_parse(const struct zn_command *command, int argc, char **argv, void *target,
                           struct zn_options *options)
{
    assert(command->n_options <= ZN_MAX_OPTIONS);
    *options = (struct zn_options){.command = command, .help = asks_for_help(argc, argv)};
    if (options->help)
        return ZN_OK;
    struct reader r = {.command = command,
                       .options = options,
                       .target = target,
                       .argv = argv,
                       .argc = argc,
                       .at = 1};
    ZN_TRY(set_defaults(command, target));
    ZN_TRY(read_words(&r));
    if (command->fill)
        ZN_TRY(command->fill(options, target));
    return check_required(options);
}

void zn_options_fini(struct zn_options *options, void *target)
{
    const struct zn_command *command = options->command;
    free(options->words.word);
    options->words = (struct zn_words){0};
    for (size_t i = 0; i < options->kept.n; i++)
        free((char *)(uintptr_t)options->kept.word[i]);
    free(options->kept.word);
    options->kept = (struct zn_words){0};
    for (size_t i = 0; command && i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->kind == ZN_OPTION_LIST && !option->not_built) {
            struct zn_words *words = (struct zn_words *)(void *)((char *)target + option->offset);
            free(words->word);
            *words = (struct zn_words){0};
        }
    }
}

bool zn_options_given(const struct zn_options *options, const char *name)
{
    for (size_t i = 0; i < options->command->n_options; i++)
        if (strcmp(options->command->options[i].name, name) == 0)
            return options->given[i];
    assert(false && "a flag that is not in the table");
    return false;
}
