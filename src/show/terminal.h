/* What the terminal that a person looks at can do. */
#ifndef ZN_SHOW_TERMINAL_H
#define ZN_SHOW_TERMINAL_H

#include <stdbool.h>

struct zn_terminal {
    bool is_live;  /* lines can be drawn over; else output is plain lines */
    bool has_color;
    bool has_blocks; /* its characters are UTF-8's */
    int fd;        /* where it is drawn */
    int size_fd;   /* whom to ask how large it is */
};

/* Standard output and standard error are both the terminal, and TERM is not "dumb"; NO_COLOR leaves colours out; the locale
 * says which characters there are. `is_seen`: of a rank, that the process that started it has a terminal, whose path is `tty`. */
void zn_terminal_init(struct zn_terminal *terminal, bool is_seen, const char *tty);
void zn_terminal_fini(struct zn_terminal *terminal);

/* Columns and rows at this moment; 80 and 24 where nobody knows. */
void zn_terminal_size(const struct zn_terminal *terminal, int *columns, int *rows);

#endif
