/* Two values of every setting, made from its row, so that loops over the table test a new row without a line of their own. */
#ifndef ZN_TESTS_SETTINGS_ROWS_H
#define ZN_TESTS_SETTINGS_ROWS_H

#include "files.h"

#include "settings/file.h"
#include "settings/write.h"

enum { MAX_WORDS = 4 };

/* The k-th word of a list that is separated by single spaces, in storage that stays; NULL: there is none. */
static inline const char *word_at(const char *list, int k)
{
    static char words[128][32];
    for (; list && *list; k--) {
        size_t n = strcspn(list, " "), i = 0;
        while (k == 0 && words[i][0] && (strncmp(words[i], list, n) != 0 || words[i][n]))
            i++;
        if (k == 0) {
            assert_true(i < COUNT(words) - 1);
            snprintf(words[i], sizeof words[i], "%.*s", (int)n, list);
            return words[i];
        }
        list += n + (list[n] == ' ');
    }
    return NULL;
}

static inline int n_words(const char *list)
{
    int n = 0;
    while (word_at(list, n))
        n++;
    return n;
}

/* Words of the command line for value `which` (0 or 1) of a setting; no word for a flag. How many there are; -1: the setting has
 * no such value. */
static inline int words_of(const struct zn_setting *s, int which, const char *words[MAX_WORDS])
{
    static char number[2][32];
    int n_choices = n_words(s->choices) - n_words(s->not_yet);
    switch (s->kind) {
    case ZN_OPTION_FLAG:
        return which == 0 ? 0 : -1; /* the other value is that of the default */
    case ZN_OPTION_INT:
    case ZN_OPTION_OPTIONAL_INT:
        snprintf(number[which], sizeof number[which], "%d", 7 + which);
        words[0] = number[which];
        return 1;
    case ZN_OPTION_DOUBLE:
        words[0] = which ? "0.30000000000000004" : "0.25";
        return 1;
    case ZN_OPTION_SIZE:
        words[0] = which ? "8192" : "4096";
        return 1;
    case ZN_OPTION_SWITCH:
    case ZN_OPTION_LEVEL:
    case ZN_OPTION_CHOICE:
        if (which && n_choices < 2)
            return -1;
        words[0] = word_at(s->choices, which ? n_choices - 1 : 0);
        return 1;
    case ZN_OPTION_NUMERIC:
        words[0] = which ? "0.5" : word_at(s->choices, 0);
        return 1;
    case ZN_OPTION_STRING:
    case ZN_OPTION_OPTIONAL:
        words[0] = which ? "another text" : "text: \"ä\" #1";
        return 1;
    case ZN_OPTION_LIST:
        words[0] = "text=a b";
        words[1] = which ? "*.bias" : "[x]";
        return 2;
    }
    return -1;
}

/* The value in a configuration file; JSON is YAML, too. */
static inline void add_file_value(zn_text *text, const struct zn_setting *s, int which)
{
    const char *words[MAX_WORDS];
    int n = words_of(s, which, words);
    bool is_plain = s->kind == ZN_OPTION_INT || s->kind == ZN_OPTION_OPTIONAL_INT || s->kind == ZN_OPTION_DOUBLE ||
                    s->kind == ZN_OPTION_SIZE || s->kind == ZN_OPTION_LEVEL;
    if (n == 0)
        zn_text_add(text, "true");
    if (s->kind == ZN_OPTION_LIST)
        zn_text_add(text, "[");
    for (int i = 0; i < n; i++) {
        zn_text_add(text, i ? ", " : "");
        if (is_plain)
            zn_text_add(text, "%s", words[i]);
        else
            zn_text_add_quoted(text, words[i]);
    }
    if (s->kind == ZN_OPTION_LIST)
        zn_text_add(text, "]");
}

/* Sets the value in settings that the caller has; the words are static. */
static inline void set_row(struct zn_settings *settings, size_t i, int which)
{
    static struct zn_words kept[ZN_N_SETTINGS][2]; /* lists of earlier calls, which settings may still have */
    const struct zn_option option = zn_settings_option(i, ZN_FOR_TRAIN);
    const char *words[MAX_WORDS];
    int n = words_of(&zn_settings_table[i], which, words);
    void *field = zn_settings_at(settings, i);
    if (n == 0)
        OK(zn_option_read_bare(&option, field));
    if (option.kind == ZN_OPTION_LIST) {
        for (int k = 0; k < n && kept[i][which].n < (size_t)n; k++)
            OK(zn_words_add(&kept[i][which], words[k]));
        *(struct zn_words *)field = kept[i][which];
    } else if (n > 0) {
        OK(zn_option_read(&option, words[0], field));
    }
    ((unsigned char *)&settings->origin)[i] = ZN_ORIGIN_LINE;
}

/* The commands in turn: ZN_FOR_TRAIN, ZN_FOR_EVAL, ZN_FOR_GENERATE. */
#define FOR_EACH_COMMAND(command) for (unsigned command = ZN_FOR_TRAIN; command <= ZN_FOR_GENERATE; command *= 2)

#endif
