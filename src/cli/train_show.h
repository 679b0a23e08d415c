/* What `zinc train` shows: plain lines, and on a terminal a panel below them. */
#ifndef ZN_CLI_TRAIN_SHOW_H
#define ZN_CLI_TRAIN_SHOW_H

#include "base/options.h"
#include "zinc/train.h"

typedef struct train_screen train_screen;

/* The notes, about the file of --config, are told once, before anything else is; they outlive the screen. The caller destroys it
 * after the run, which writes out what is left. */
zn_status train_screen_create(const struct zn_words *notes, bool is_quiet, bool is_verbose, train_screen **screen);
void train_screen_destroy(train_screen *screen);

/* What the run calls, as long as the screen lives. */
struct zn_train_listener train_screen_listener(train_screen *screen);

/* A failure was told, here or by another rank. */
bool train_screen_has_failed(const train_screen *screen);

#endif
