/* Options from a configuration file, by the names of flags without their dashes.
 *
 *   .yaml, .yml    a mapping:   stage: 3
 *   else JSON      an object:   {"zinc": {"stage": 3}}; or DeepSpeed's configuration, as settings/deepspeed.h says
 *
 * Both take numbers (those of sizes are bytes), text as on the command line ("4GiB"), lists of texts or one text, and true
 * or false for flags and for optional values that are left out. Every option of a command's table can be set so. */
#ifndef ZN_SETTINGS_FILE_H
#define ZN_SETTINGS_FILE_H

#include "base/options.h"

/* Sets what the command line left open: what was given there stands, though the file is checked in full. Messages name the file
 * and the key, of YAML and DeepSpeed's also line and column; what is to be said about a file becomes options->notes. Every failure but that of memory is ZN_ERR_USAGE. Blocks. */
zn_status zn_settings_load(struct zn_options *options, void *target, const char *path);

/* The same of a file's text; `path` decides what it is. */
zn_status zn_settings_load_text(struct zn_options *options, void *target, const char *path, const char *data, size_t n_bytes);

#endif
