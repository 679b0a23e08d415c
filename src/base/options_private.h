/* What the readers of options share: of the command line and of files. */
#ifndef ZN_BASE_OPTIONS_PRIVATE_H
#define ZN_BASE_OPTIONS_PRIVATE_H

#include "base/options.h"

/* Reads a value into its field; of a list, one more word. The text is kept by pointer where the field is
 * one. Messages name the option by its name in the struct. */
zn_status options_read_value(const struct zn_option *option, const char *text, void *field);

zn_status options_add_word(struct zn_words *words, const char *word);

#endif
