/* Messages, commands and ^C of a conversation. */
#include "cli/talk.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/line_editor.h"
#include "cli/settings.h"

struct talk {
    struct line_editor *editor; /* NULL: plain lines */
    char *line;                 /* of getline */
    size_t capacity;
    struct sigaction before;
};

static volatile sig_atomic_t n_interrupts;

/* A second ^C before the first was answered ends the process. */
static void interrupt(int number)
{
    n_interrupts = n_interrupts + 1;
    if (n_interrupts < 2)
        return;
    signal(number, SIG_DFL);
    raise(number);
}

void talk_begin_answer(void)
{
    n_interrupts = 0;
}

bool talk_is_stopped(void *self)
{
    (void)self;
    return n_interrupts > 0;
}

zn_status talk_open(struct talk **talk)
{
    struct talk *t = calloc(1, sizeof *t);
    if (!t)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a conversation");
    if (zn_cli_has_terminal(STDIN_FILENO) && zn_cli_has_terminal(STDOUT_FILENO)) {
        zn_status status = line_editor_open(&t->editor);
        if (status != ZN_OK) {
            free(t);
            return status;
        }
        fprintf(stderr, "/help lists the commands; ^C stops an answer, ^D ends.\n");
    }
    sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, &t->before); /* without SA_RESTART: it ends a read */
    *talk = t;
    return ZN_OK;
}

void talk_close(struct talk *t)
{
    sigaction(SIGINT, &t->before, NULL);
    line_editor_close(t->editor);
    free(t->line);
    free(t);
}

static const char *read_line(struct talk *t)
{
    n_interrupts = 0;
    if (t->editor)
        return line_editor_read(t->editor, talk_is_stopped);
    ssize_t n = getline(&t->line, &t->capacity, stdin);
    while (n > 0 && (t->line[n - 1] == '\n' || t->line[n - 1] == '\r'))
        t->line[--n] = '\0';
    return n < 0 ? NULL : t->line;
}

/* Whether a line is the command, and what follows it. */
static bool is_command(const char *line, const char *name, const char **rest)
{
    size_t n = strlen(name);
    if (strncmp(line, name, n) != 0 || (line[n] && !isspace((unsigned char)line[n])))
        return false;
    *rest = line + n + strspn(line + n, " \t");
    return true;
}

static void help(void)
{
    fprintf(stderr, "/reset          begin anew; the system message stays\n"
                    "/system TEXT    begin anew with this system message; without TEXT: with none\n"
                    "/help           this\n"
                    "/quit           end, as ^D does\n"
                    "^C stops an answer; what there is of it stays in the conversation. A message that begins with / is given with a\n"
                    "space before it. Up and down go through what was typed.\n");
}

static void say_failure(zn_status status, const char *done)
{
    fprintf(stderr, "zinc generate: %s\n", status == ZN_OK ? done : zn_error_message());
}

/* Words like "/reset": a path or a fraction is a message. */
static bool looks_like_command(const char *line)
{
    size_t n = line[0] == '/' ? 1 : 0;
    while (n > 0 && isalpha((unsigned char)line[n]))
        n++;
    return n > 1 && (line[n] == '\0' || isspace((unsigned char)line[n]));
}

/* Obeys the line; true where it ends the conversation. */
static bool obey(const char *line, zn_generator *generator)
{
    const char *rest;
    if (is_command(line, "/quit", &rest) || is_command(line, "/exit", &rest) || is_command(line, "/bye", &rest))
        return true;
    if (is_command(line, "/reset", &rest) || is_command(line, "/clear", &rest))
        say_failure(zn_generator_reset(generator, NULL), "the conversation begins anew");
    else if (is_command(line, "/system", &rest))
        say_failure(zn_generator_reset(generator, rest),
                    *rest ? "the conversation begins anew with this system message" : "the conversation begins anew without a system message");
    else if (is_command(line, "/help", &rest))
        help();
    else
        fprintf(stderr, "zinc generate: there is no such command; /help lists them\n");
    return false;
}

const char *talk_next(struct talk *t, zn_generator *generator)
{
    for (const char *line; (line = read_line(t));) {
        if (looks_like_command(line)) {
            if (obey(line, generator))
                return NULL;
        } else if (line[strspn(line, " \t\n")])
            return line + (line[0] == ' ' && line[1] == '/');
    }
    return NULL;
}
