/* Asks the environment and the terminal. The size is asked at every drawing, so that no signal need be caught for it. */
#include "show/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The locale of characters, as setlocale would choose it; a program that never calls that has "C". */
static bool is_utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0])
            return strstr(value, "UTF-8") || strstr(value, "utf-8") || strstr(value, "UTF8") || strstr(value, "utf8");
    }
    return false;
}

void zn_terminal_init(struct zn_terminal *t, bool is_seen, const char *tty)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    *t = (struct zn_terminal){.fd = STDOUT_FILENO, .size_fd = STDOUT_FILENO, .has_blocks = is_utf8_locale()};
    t->is_live = is_seen && term && term[0] && strcmp(term, "dumb") != 0;
    t->has_color = t->is_live && !(no_color && no_color[0]);
    if (!t->is_live || !tty)
        return;
    int fd = open(tty, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0)
        t->size_fd = fd;
}

void zn_terminal_fini(struct zn_terminal *t)
{
    if (t->size_fd != t->fd)
        close(t->size_fd);
    t->size_fd = t->fd;
}

void zn_terminal_size(const struct zn_terminal *t, int *columns, int *rows)
{
    struct winsize size;
    bool is_known = ioctl(t->size_fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *columns = is_known ? size.ws_col : 80;
    *rows = is_known ? size.ws_row : 24;
}
