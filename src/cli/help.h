/* The frames around what each command says of itself: the page of the program, and completion for shells. */
#ifndef ZN_CLI_HELP_H
#define ZN_CLI_HELP_H

#include <stdio.h>

/* The manual page zinc(1). */
void help_man(FILE *out);

/* What goes before and after the commands' own parts. */
void help_bash_begin(FILE *out);
void help_bash_end(FILE *out);
void help_zsh_begin(FILE *out);
void help_zsh_end(FILE *out);

#endif
