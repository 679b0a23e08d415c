/* Lines by libedit. Characters are read here, since libedit would go on after a signal. */
#include "cli/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/text.h"

enum { N_KEPT = 1000 /* lines of history */, WAIT_MS = 100 };

struct line_editor {
    EditLine *line;
    History *history;
    bool (*is_interrupted)(void *self);
    char *text; /* given last */
};

static char *prompt(EditLine *line)
{
    static char text[] = "> ";
    (void)line;
    return text;
}

/* A byte; 1 there is one, 0 the end, -1 an error or a signal that counts. A signal may come while nobody waits: so no wait is long. */
static int read_byte(EditLine *line, struct line_editor *editor, char *byte)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!editor->is_interrupted(NULL)) {
        int n_ready = poll(&input, 1, WAIT_MS);
        ssize_t n = n_ready > 0 ? read(STDIN_FILENO, byte, 1) : n_ready;
        if (n > 0 && *byte == '\0')
            *byte = '\004'; /* ^D typed before the terminal was in raw mode */
        if (n_ready > 0 && n >= 0)
            return (int)n;
        if (n_ready == 0)
            continue;
        if (errno != EINTR)
            return -1;
        el_resize(line); /* the window may have another size, or the process was stopped for a while */
        el_set(line, EL_REFRESH);
    }
    return -1;
}

/* A character of one byte or several; invalid ones are dropped. */
static int read_character(EditLine *line, wchar_t *character)
{
    struct line_editor *editor;
    mbstate_t state = {0};
    el_get(line, EL_CLIENTDATA, &editor);
    for (;;) {
        char byte;
        int got = read_byte(line, editor, &byte);
        if (got != 1)
            return got;
        size_t n = mbrtowc(character, &byte, 1, &state);
        if (n == (size_t)-1)
            memset(&state, 0, sizeof state);
        else if (n != (size_t)-2)
            return 1;
    }
}

/* Pasted text up to its end mark comes in as it is: its newlines do not end the line. */
static unsigned char paste(EditLine *line, int key)
{
    static const char end[] = "\033[201~";
    size_t n_matched = 0;
    wchar_t c;
    (void)key;
    while (end[n_matched] && read_character(line, &c) == 1) {
        if (c == (wchar_t)end[n_matched]) {
            n_matched++;
            continue;
        }
        n_matched = 0;
        const wchar_t text[2] = {c == L'\r' ? L'\n' : c, 0};
        if (c != L'\033' && el_winsertstr(line, text) != 0)
            return CC_ERROR;
    }
    return CC_REFRESH;
}

/* Locales other than UTF-8 would make questions marks of what is typed. */
static void use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static void bind_keys(EditLine *line)
{
    el_set(line, EL_ADDFN, "paste", "Insert pasted text", paste);
    el_set(line, EL_BIND, "\033[200~", "paste", NULL);
    el_set(line, EL_BIND, "\033[H", "ed-move-to-beg", NULL);
    el_set(line, EL_BIND, "\033[F", "ed-move-to-end", NULL);
    el_set(line, EL_BIND, "\033[1~", "ed-move-to-beg", NULL);
    el_set(line, EL_BIND, "\033[4~", "ed-move-to-end", NULL);
    el_set(line, EL_BIND, "\033[3~", "ed-delete-next-char", NULL);
    el_set(line, EL_BIND, "\033[1;5C", "em-next-word", NULL);
    el_set(line, EL_BIND, "\033[1;5D", "ed-prev-word", NULL);
}

zn_status line_editor_open(struct line_editor **editor)
{
    HistEvent event;
    struct line_editor *e = calloc(1, sizeof *e);
    use_utf8();
    if (e) {
        e->line = el_init("zinc", stdin, stdout, stderr);
        e->history = history_init();
    }
    if (!e || !e->line || !e->history) {
        line_editor_close(e);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a line");
    }
    history(e->history, &event, H_SETSIZE, N_KEPT);
    history(e->history, &event, H_SETUNIQUE, 1);
    el_set(e->line, EL_CLIENTDATA, e);
    el_set(e->line, EL_PROMPT, prompt);
    el_set(e->line, EL_EDITOR, "emacs");
    el_set(e->line, EL_SIGNAL, 1);
    el_set(e->line, EL_HIST, history, e->history);
    el_set(e->line, EL_GETCFN, read_character);
    bind_keys(e->line);
    *editor = e;
    return ZN_OK;
}

void line_editor_close(struct line_editor *e)
{
    if (!e)
        return;
    if (e->history)
        history_end(e->history);
    if (e->line)
        el_end(e->line);
    free(e->text);
    free(e);
}

const char *line_editor_read(struct line_editor *e, bool (*is_interrupted)(void *self))
{
    HistEvent event;
    int n = 0;
    e->is_interrupted = is_interrupted;
    fputs("\033[?2004h", stdout); /* pastes are marked */
    fflush(stdout);
    el_set(e->line, EL_PREP_TERM, 1); /* before the prompt asks for keys: libedit would do it after */
    const char *line = el_gets(e->line, &n);
    fputs("\033[?2004l", stdout);
    if (!line || n <= 0)
        putchar('\n');
    fflush(stdout);
    free(e->text);
    e->text = NULL;
    if ((!line || n <= 0) && !is_interrupted(NULL))
        return NULL;
    e->text = strdup(!line || n <= 0 ? "" : line);
    if (!e->text)
        return NULL;
    size_t length = strlen(e->text);
    if (length > 0 && e->text[length - 1] == '\n')
        e->text[--length] = '\0';
    if (length > 0)
        history(e->history, &event, H_ENTER, e->text);
    return e->text;
}
