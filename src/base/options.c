/* Reading of the command line by a table. */
#include "base/options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static zn_status read_list(struct reader *r, const struct zn_option *option, const char *attached)
{
    void *words = r->target + option->offset;
    size_t n = 0;
    if (attached) {
        ZN_TRY(zn_option_read(option, attached, words));
        n++;
    }
    for (; r->at < r->argc && !is_flag(r->argv[r->at]); r->at++, n++)
        ZN_TRY(zn_option_read(option, r->argv[r->at], words));
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
    r->options->given[index] = ZN_GIVEN_ON_LINE;

    if (option->kind == ZN_OPTION_LIST)
        return read_list(r, option, attached);
    if (attached)
        return zn_option_read(option, attached, field);
    if (option->kind == ZN_OPTION_FLAG || option->kind == ZN_OPTION_OPTIONAL || option->kind == ZN_OPTION_OPTIONAL_INT)
        return zn_option_read_bare(option, field);
    if (r->at == r->argc || is_flag(r->argv[r->at]))
        return zn_fail(ZN_ERR_USAGE, "%s needs a value (%s)", option->name, option->value);
    return zn_option_read(option, r->argv[r->at++], field);
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

/* A flag whose value needs the equal sign, or a value that was not quoted. */
static zn_status stray_word(const struct reader *r, const char *word)
{
    const char *before = r->at > 1 ? r->argv[r->at - 1] : "";
    for (size_t i = 0; i < r->command->n_options; i++) {
        const struct zn_option *option = &r->command->options[i];
        bool is_optional = option->kind == ZN_OPTION_OPTIONAL || option->kind == ZN_OPTION_OPTIONAL_INT;
        if (is_optional && strcmp(option->name, before) == 0)
            return zn_fail(ZN_ERR_USAGE, "'%s' belongs to no flag: a value of %s follows an equal sign: %s=%s", word, before, before,
                           word);
    }
    return zn_fail(ZN_ERR_USAGE, "'%s' belongs to no flag (a value with spaces is put in quotes); `%s --help` lists them", word,
                   r->command->name);
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
            ZN_TRY(zn_words_add(&r->options->words, word));
            r->at++;
        } else {
            return stray_word(r, word);
        }
    }
    return ZN_OK;
}

static zn_status set_defaults(const struct zn_command *command, char *target)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (!option->not_built)
            ZN_TRY(zn_option_read_default(option, target + option->offset));
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

static zn_help asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return ZN_HELP_TEXT;
        if (strncmp(argv[i], "--help=", 7) == 0)
            return zn_help_parse(argv[i] + 7);
    }
    return ZN_HELP_NONE;
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
    zn_words_free(&options->words);
    for (size_t i = 0; i < options->kept.n; i++)
        free((char *)(uintptr_t)options->kept.word[i]);
    zn_words_free(&options->kept);
    zn_words_free(&options->notes);
    for (size_t i = 0; command && i < command->n_options; i++) {
        const struct zn_option *option = &command->options[i];
        if (option->kind == ZN_OPTION_LIST && !option->not_built)
            zn_words_free((struct zn_words *)(void *)((char *)target + option->offset));
    }
}

bool zn_options_given(const struct zn_options *options, const char *name)
{
    for (size_t i = 0; i < options->command->n_options; i++)
        if (strcmp(options->command->options[i].name, name) == 0)
            return options->given[i] != ZN_NOT_GIVEN;
    assert(false && "a flag that is not in the table");
    return false;
}
