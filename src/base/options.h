/* The command line of every subcommand, from one table.
 *
 *   --flag value, --flag=value    lists take words until the next flag and may be repeated
 *   --flag[=value]                optional values only with `=`
 *
 * Values go into a struct of the caller by offset. A default that is a plain value is given as
 * text (`initial`) and read like a value from the command line, so that help and behaviour cannot
 * part; one that is decided later is only described (`otherwise`). What is planned but not built
 * is in the table too, and refused by name. What the command line leaves open may come from a file
 * (settings/file.h). */
#ifndef ZN_BASE_OPTIONS_H
#define ZN_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "zinc/words.h"

typedef enum zn_option_kind {                         /* and the type of the field */
                              ZN_OPTION_FLAG,         /* bool; without a value */
                              ZN_OPTION_SWITCH,       /* bool: on or off */
                              ZN_OPTION_INT,          /* int64_t */
                              ZN_OPTION_LEVEL,        /* int64_t, one of `choices` */
                              ZN_OPTION_DOUBLE,       /* double, always finite */
                              ZN_OPTION_SIZE,         /* size_t, bytes */
                              ZN_OPTION_STRING,       /* const char * */
                              ZN_OPTION_CHOICE,       /* const char *, one of `choices` */
                              ZN_OPTION_NUMERIC,      /* const char *, one of `choices` or a number in `range` */
                              ZN_OPTION_OPTIONAL,     /* const char *, NULL when given without a value */
                              ZN_OPTION_OPTIONAL_INT, /* int64_t, `bare` when given without a value */
                              ZN_OPTION_LIST,         /* struct zn_words, freed by zn_options_fini; texts are argv's or `kept` */
} zn_option_kind;

/* Where a value comes from. */
typedef enum zn_given { ZN_NOT_GIVEN, ZN_GIVEN_IN_FILE, ZN_GIVEN_ON_LINE } zn_given;

struct zn_option {
    const char *name; /* with its dashes: "--lr", "-n" */
    zn_option_kind kind;
    size_t offset;         /* of the field in the caller's struct; unused when not_built */
    const char *value;     /* what help calls the value: "DIR", "N" */
    const char *help;      /* one sentence */
    const char *more;      /* what the manual says besides; NULL: nothing */
    const char *initial;   /* default as text, or NULL: the field is left as the caller set it */
    const char *otherwise; /* default in words, where it is decided later */
    const char *range;     /* of numbers, as "[1, inf)" or "[0, 1)"; NULL: any */
    const char *choices;   /* "horizontal vertical" */
    const char *not_yet;   /* choices that are refused as not in this build */
    const char *bare;      /* of an optional number: the value where none is given */
    const char *section;   /* its heading in help; NULL: none */
    bool negates;          /* of a flag: it makes the field false */
    bool required;
    bool may_be_empty; /* of strings: "" is a value */
    bool not_in_file;  /* belongs to the command line alone */
    bool not_built;    /* the whole option is refused as not in this build */
};

enum { ZN_MAX_OPTIONS = 128 };

struct zn_options;

struct zn_command {
    const char *name;    /* "zinc train" */
    const char *summary; /* one line, no full stop */
    const char *usage;   /* what follows the name: "--model DIR --data PATH… [flags]" */
    const char *example; /* one whole command line */
    const struct zn_option *options;
    size_t n_options;
    bool takes_words; /* words that belong to no flag are allowed */
    const char *words; /* what the first of them may be, "list verify"; NULL: anything */
    /* Sets what the command line left open, before required options are missed. May be NULL. */
    zn_status (*fill)(struct zn_options *options, void *target);
    /* What a flag that the table does not have is called here, where other tools have it; NULL: unknown. May be NULL. */
    const char *(*hint)(const struct zn_command *command, const char *unknown);
};

/* How a command explains itself. */
typedef enum zn_help {
    ZN_HELP_NONE,
    ZN_HELP_TEXT,     /* --help, -h */
    ZN_HELP_MAN,      /* --help=man: a page for man(1) */
    ZN_HELP_MARKDOWN, /* --help=markdown: a table for each section */
    ZN_HELP_BASH,     /* --help=bash, --help=zsh: its part of the shell's completion */
    ZN_HELP_ZSH
} zn_help;

/* What the command line held besides the values. */
struct zn_options {
    const struct zn_command *command;
    unsigned char given[ZN_MAX_OPTIONS]; /* zn_given, in the order of the table */
    struct zn_words words;      /* those that belong to no flag */
    struct zn_words kept;       /* texts of values that are not argv's; freed by fini */
    struct zn_words notes;      /* what is to be said about a file, one line each; texts are `kept` */
    zn_help help;               /* was asked for: nothing else was read */
};

/* Reads argv[1 … argc-1] into `target`, a zeroed struct. A failure is always ZN_ERR_USAGE and names
 * the flag. The caller calls zn_options_fini, also after a failure. */
zn_status zn_options_parse(const struct zn_command *command, int argc, char **argv, void *target,
                           struct zn_options *options);
void zn_options_fini(struct zn_options *options, void *target);

/* Whether the command line, or a file, named this flag, so that a default may depend on it. */
bool zn_options_given(const struct zn_options *options, const char *name);

/* Reads a value into its field; of a list, one more word. The text is kept by pointer where the field is one. Messages name the
 * option by its name in the struct. */
zn_status zn_option_read(const struct zn_option *option, const char *text, void *field);

/* The same for an option that is given without a value, and for one that is not given: its default, if it has one. */
zn_status zn_option_read_bare(const struct zn_option *option, void *field);
zn_status zn_option_read_default(const struct zn_option *option, void *field);

/* Adds a word, whose text is not copied, to a list that begins empty; the caller frees the list. */
zn_status zn_words_add(struct zn_words *words, const char *word);
void zn_words_free(struct zn_words *words);

/* What was asked for. As text: usage, example and the aligned table, under headings where options have sections; those of a section
 * stand together. */
void zn_options_help(const struct zn_command *command, zn_help help, FILE *out);

/* The formats of --help by their names; ZN_HELP_NONE: there is none of this name. */
zn_help zn_help_parse(const char *name);

/* The parts of zn_options_help. */
void zn_options_help_text(const struct zn_command *command, FILE *out);
void zn_options_man(const struct zn_command *command, FILE *out);
void zn_options_markdown(const struct zn_command *command, FILE *out);
void zn_options_bash(const struct zn_command *command, FILE *out);
void zn_options_zsh(const struct zn_command *command, FILE *out);

/* An option as usage has it: "--data PATH…". */
void zn_option_usage(const struct zn_option *option, char *text, size_t size);

/* Its default for a person; NULL: there is none to tell. */
const char *zn_option_default(const struct zn_option *option);

/* The name nearest to `word`, or NULL when none is near. `next` gives the i-th name, NULL at the
 * end; `context` is its own. */
const char *zn_nearest_name(const char *word, const char *(*next)(const void *context, size_t i),
                            const void *context);

#endif
