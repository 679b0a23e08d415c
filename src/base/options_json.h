/* Options from a file: an object of JSON whose keys are the names of flags without their dashes.
 *
 *   "steps": 10, "lr": 1e-3       numbers; those of sizes are bytes
 *   "memory-limit": "4GiB"        text as on the command line
 *   "data": ["a.txt", "b.txt"]    lists; one text will do
 *   "no-shuffle": true            flags, and optional values that are left out
 *
 * Every flag of a command's table can be set so, without a line of its own. */
#ifndef ZN_BASE_OPTIONS_JSON_H
#define ZN_BASE_OPTIONS_JSON_H

#include "base/json.h"
#include "base/options.h"

/* Sets the options that the keys of `object` name, apart from those that were given already: the
 * command line stands. Their values are checked all the same. `file` and `section`, the object's
 * own key, are for messages: "FILE: SECTION.KEY: what is allowed". A failure is ZN_ERR_USAGE. The
 * object may go when this returns. */
zn_status zn_options_set(struct zn_options *options, void *target, zn_json *object, const char *file,
                         const char *section);

#endif
