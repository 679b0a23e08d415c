/* Configuration files: flags of a command in JSON, `{"zinc": {"stage": 3, …}}`, as `zinc plan --fit` writes them. */
#ifndef ZN_CLI_CONFIG_H
#define ZN_CLI_CONFIG_H

#include "base/options.h"

/* Sets what the command line left open. Every failure but that of memory is ZN_ERR_USAGE. */
zn_status zn_config_load(struct zn_options *options, void *target, const char *path);

#endif
