/* A line with editing and history, from a terminal; by libedit. Pasted lines stay one text (bracketed paste). */
#ifndef ZN_CLI_LINE_EDITOR_H
#define ZN_CLI_LINE_EDITOR_H

#include <stdbool.h>

#include "base/status.h"

struct line_editor;

/* The caller closes. */
zn_status line_editor_open(struct line_editor **editor);
void line_editor_close(struct line_editor *editor); /* NULL is legal */

/* The next line without its newline, NULL at the end (^D). It lives until the next call. Where a signal has come and
 * is_interrupted says so, what was typed is dropped and "" is the line. Blocks. */
const char *line_editor_read(struct line_editor *editor, bool (*is_interrupted)(void *self));

#endif
