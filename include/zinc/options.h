/* Options by name: those of a command, set from texts or from a file, and read back. */
#ifndef ZINC_OPTIONS_H
#define ZINC_OPTIONS_H

#include <stddef.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_options_handle zn_options;

/* The options of a command with their defaults: "train", "eval", "generate" or "plan". `zinc COMMAND --help` has their names, with dashes that
 * may be left out here. Not collective. The caller destroys. */
ZN_API zn_status zn_options_create(const char *command, zn_options **options);

/* Forgets them; engines that were made with them keep their own copies. Not collective; NULL is legal. */
ZN_API void zn_options_destroy(zn_options *options);

/* Sets an option to a value as on the command line: "2e-5", "4GiB", "on". A flag, or an option that needs no value, takes NULL; a list
 * gets one more word. A value that is out of range or no choice fails and changes nothing. The text is copied. Not collective. */
ZN_API zn_status zn_options_set(zn_options *options, const char *name, const char *value);

/* Takes a value back: the default, or none. Not collective. */
ZN_API zn_status zn_options_unset(zn_options *options, const char *name);

/* Reads a configuration file as --config does: YAML or JSON by the names of options, or DeepSpeed's ds_config.json. What was set
 * before stands. Not collective; blocks. */
ZN_API zn_status zn_options_load(zn_options *options, const char *path);

/* The value of an option as text, the words of a list one a line; *text is NULL where it has none yet, since the run decides it. The
 * caller frees the text with zn_free. Not collective. */
ZN_API zn_status zn_options_get(const zn_options *options, const char *name, char **text);

/* All of them as a configuration file in YAML, with where each value comes from, as --print-config prints it; not those of plan. The
 * caller frees the text with zn_free. Not collective. */
ZN_API zn_status zn_options_print(const zn_options *options, char **text);

#ifdef __cplusplus
}
#endif
#endif
