/* The person's side of `zinc generate --chat`: messages from a terminal or from lines of standard input, commands among them,
 * and ^C. */
#ifndef ZN_CLI_TALK_H
#define ZN_CLI_TALK_H

#include <stdbool.h>

#include "base/status.h"
#include "zinc/generate.h"

struct talk;

/* Catches SIGINT from now on. The caller closes. */
zn_status talk_open(struct talk **talk);
void talk_close(struct talk *talk);

/* The next message, which lives until the next call; NULL at the end. Commands are obeyed here. Blocks. */
const char *talk_next(struct talk *talk, zn_generator *generator);

/* ^C ends the answer that begins here, and is asked for with the listener's is_stopped. */
void talk_begin_answer(void);
bool talk_is_stopped(void *self);

#endif
