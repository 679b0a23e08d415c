/* A configuration file as it was written: keys and values, before any of them is read as a setting. */
#ifndef ZN_SETTINGS_CONFIG_H
#define ZN_SETTINGS_CONFIG_H

#include "base/json.h"
#include "base/status.h"
#include "zinc/words.h"

#include <stdbool.h>

typedef enum config_type {
    CONFIG_NOTHING, /* null */
    CONFIG_BOOL,
    CONFIG_NUMBER,
    CONFIG_TEXT,
    CONFIG_LIST,  /* of texts */
    CONFIG_OTHER, /* nested, or a list that holds something else */
} config_type;

struct config_entry {
    char *key;
    config_type type;
    bool is_true;          /* of a bool */
    bool is_whole;         /* of a number: within 64 bits, and its text has digits and a sign alone */
    struct zn_words texts; /* of a number or text one; of a list its items */
    int line, column;      /* in the file, from 1; 0: not known */
    char *path;            /* what messages call the key; NULL: the section and the key */
};

struct config {
    const char *section; /* the object of the entries, for messages: "zinc."; "": the file itself */
    struct config_entry *entries;
    size_t n_entries;
    struct zn_words notes; /* what is to be said about the file, one line each */
};

struct zn_options;

/* Both read a whole document; the path is for messages. A failure is one of the file, or of memory. The caller calls
 * config_fini, also after a failure. Of what the command line gave to `target`, DeepSpeed's files depend. */
zn_status config_read_json(const char *path, const char *data, size_t n_bytes, const struct zn_options *line, const void *target,
                           struct config *config);
zn_status config_read_yaml(const char *path, const char *data, size_t n_bytes, struct config *config);
void config_fini(struct config *config);

/* ---- For the readers ---- */

/* Adds an entry; the key is copied. */
zn_status config_add(struct config *config, const char *key, size_t n_bytes, struct config_entry **entry);

/* Adds a text to the entry; it is copied. */
zn_status config_add_text(struct config_entry *entry, const char *text, size_t n_bytes);

/* Sets an entry to the value that a key of a JSON object has. */
zn_status config_set_json(struct config_entry *entry, zn_json *object, const char *key);

/* Reads DeepSpeed's configuration (settings/deepspeed.h) from its document. */
zn_status config_read_deepspeed(const char *path, const char *data, size_t n_bytes, zn_json *root, const struct zn_options *line,
                                const void *target, struct config *config);

/* Whether files of DeepSpeed's have this key. */
bool config_is_deepspeed(const char *key);

#endif
