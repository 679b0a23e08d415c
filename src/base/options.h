/* The command line of every subcommand, from one table.
 *
 *   --flag value, --flag=value    lists take words until the next flag and may be repeated
 *   --flag[=value]                optional values only with `=`
 *
 * Values go into a struct of the caller by offset. A default that is a plain value is given as
 * text (`initial`) and read like a value from the command line, so that help and behaviour cannot
 * part; one that is decided later is only described (`otherwise`). What is planned but not built
 * is in the table too, and refused by name. What the command line leaves open may come from a file
 * (base/options_json.h). */
#ifndef ZN_BASE_OPTIONS_H
#define ZN_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef enum zn_option_kind {                     /* and the type of the field */
                              ZN_OPTION_FLAG,     /* bool */
                              ZN_OPTION_INT,      /* int64_t */
                              ZN_OPTION_DOUBLE,   /* double, always finite */
                              ZN_OPTION_SIZE,     /* size_t, bytes */
                              ZN_OPTION_STRING,   /* const char * */
                              ZN_OPTION_CHOICE,   /* const char *, one of `choices` */
                              ZN_OPTION_OPTIONAL, /* const char *, NULL when given without a value */
                              ZN_OPTION_LIST,     /* struct zn_words */
} zn_option_kind;

/* Words of a list, in the order given. */
struct zn_words {
    const char **word; /* freed by zn_options_fini; the texts are argv's or `kept` */
    size_t n;
};

struct zn_option {
    const char *name; /* with its dashes: "--lr", "-n" */
    zn_option_kind kind;
    size_t offset;         /* of the field in the caller's struct; unused when not_built */
    const char *value;     /* what help calls the value: "DIR", "N" */
    const char *help;      /* one sentence */
    const char *initial;   /* default as text, or NULL: the field is left as the caller set it */
    const char *otherwise; /* default in words, where it is decided later */
    const char *range;     /* of numbers, as "[1, inf)" or "[0, 1)"; NULL: any */
    const char *choices;   /* "horizontal vertical" */
    const char *not_yet;   /* choices that are refused as not in this build */
    bool required;
    bool may_be_empty; /* of strings: "" is a value */
    bool may_be_number; /* of strings: in a file a number will do */
    bool not_in_file;   /* belongs to the command line alone */
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
    /* Sets what the command line left open, before required options are missed. May be NULL. */
    zn_status (*fill)(struct zn_options *options, void *target);
    /* What a flag that the table does not have is called here, where other tools have it; NULL: unknown. May be NULL. */
    const char *(*hint)(const struct zn_command *command, const char *unknown);
};

/* What the command line held besides the values. */
struct zn_options {
    const struct zn_command *command;
    bool given[ZN_MAX_OPTIONS]; /* in the order of the table */
    struct zn_words words;      /* those that belong to no flag */
    struct zn_words kept;       /* texts of values that are not argv's; freed by fini */
    bool help;                  /* --help or -h was asked for: nothing else was read */
};

/* Reads argv[1 … argc-1] into `target`, a zeroed struct. A failure is always ZN_ERR_USAGE and names
 * the flag. The caller calls zn_options_fini, also after a failure. */
zn_status zn_options_parse(const struct zn_command *command, int argc, char **argv, void *target,
                           struct zn_options *options);
void zn_options_fini(struct zn_options *options, void *target);

/* Whether the command line, or a file, named this flag, so that a default may depend on it. */
bool zn_options_given(const struct zn_options *options, const char *name);

/* Usage, example and the aligned table. */
void zn_options_help(const struct zn_command *command, FILE *out);

/* The name nearest to `word`, or NULL when none is near. `next` gives the i-th name, NULL at the
 * end; `context` is its own. */
const char *zn_nearest_name(const char *word, const char *(*next)(const void *context, size_t i),
                            const void *context);

#endif
