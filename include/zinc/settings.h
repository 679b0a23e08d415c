/* The settings of training, evaluation and generation: the values, and where each comes from.
 *
 *     struct zn_train_options options;
 *     zn_train_options_init(&options);
 *     ZN_SET(options, model, "./gpt2");
 *     ZN_SET_WORDS(options, data, paths, 2);
 *     ZN_SET(options, stage, 3);
 *
 * What is not set has its default, or is decided by the run; no value stands for "not given". The fields, what each may
 * be and its default are the rows of zinc/settings.def. Strings and lists are borrowed. */
#ifndef ZINC_SETTINGS_H
#define ZINC_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zinc/words.h"

typedef enum zn_origin {
    ZN_ORIGIN_NONE,    /* there is no value */
    ZN_ORIGIN_DEFAULT,
    ZN_ORIGIN_CHOSEN,  /* by the run */
    ZN_ORIGIN_FILE,    /* given in a configuration file */
    ZN_ORIGIN_LINE     /* given on the command line, or by the program that calls */
} zn_origin;

#define ZN_FIELD_FLAG bool
#define ZN_FIELD_SWITCH bool
#define ZN_FIELD_INT int64_t
#define ZN_FIELD_LEVEL int64_t
#define ZN_FIELD_DOUBLE double
#define ZN_FIELD_SIZE size_t
#define ZN_FIELD_STRING const char *
#define ZN_FIELD_CHOICE const char *
#define ZN_FIELD_NUMERIC const char *
#define ZN_FIELD_OPTIONAL const char *
#define ZN_FIELD_OPTIONAL_INT int64_t
#define ZN_FIELD_LIST struct zn_words

/* For each setting a byte, zn_origin, in the order of the rows. */
struct zn_origins {
#define ZN_SETTING(kind, field, ...) unsigned char field;
#include "zinc/settings.def"
};

struct zn_settings {
#define ZN_SETTING(kind, field, ...) ZN_FIELD_##kind field;
#include "zinc/settings.def"
    struct zn_origins origin;
};

/* Gives a value to a setting of options for a call (struct zn_train_options and its like), and takes it back. A setting that has
 * a default is not taken back but set again. */
#define ZN_SET(options, field, value)                                                                                         \
    ((options).settings.origin.field = ZN_ORIGIN_LINE, (void)((options).settings.field = (value)))
#define ZN_SET_WORDS(options, field, texts, n_texts)                                                                          \
    ((options).settings.origin.field = ZN_ORIGIN_LINE, (options).settings.field.word = (texts),                               \
     (void)((options).settings.field.n = (n_texts)))
#define ZN_UNSET(options, field)                                                                                              \
    ((options).settings.origin.field = ZN_ORIGIN_NONE,                                                                        \
     (void)memset(&(options).settings.field, 0, sizeof (options).settings.field))

/* Whether a person or a program gave the value, and whether there is one at all. */
#define ZN_GIVEN(settings, field) ((settings)->origin.field >= ZN_ORIGIN_FILE)
#define ZN_HAS(settings, field) ((settings)->origin.field != ZN_ORIGIN_NONE)

#endif
