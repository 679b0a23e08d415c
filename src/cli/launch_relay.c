/* Standard output as it comes; lines and paragraphs of mpirun's standard error. Open MPI puts what it has to say between two lines of dashes. */
#include "cli/launch_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

enum { PIECE = 4096, LOOK_MS = 200, RULE = 60 };

struct relay {
    zn_text line, paragraph;
    zn_text held;   /* paragraphs that are not passed on */
    bool is_inside; /* of a paragraph */
    bool heard;     /* a rank has said something */
    void (*unread)(void); /* NULL once it was called */
    bool is_live;   /* rank 0 draws over its last lines */
    zn_text above;  /* lines of standard error that wait until those are cleared */
    int n_waits;    /* looks since the first of them came */
};

static void put_bytes(struct relay *r, FILE *out, const char *bytes, size_t n_bytes)
{
    if ((fwrite(bytes, 1, n_bytes, out) == n_bytes && fflush(out) == 0) || errno != EPIPE || !r->unread)
        return;
    void (*unread)(void) = r->unread;
    r->unread = NULL;
    unread();
}

static void clear(zn_text *text)
{
    zn_text_fini(text);
    zn_text_init(text);
}

static void put(struct relay *r, const zn_text *text)
{
    if (text->n_bytes == 0)
        return;
    if (r->is_live)
        zn_text_add_bytes(&r->above, text->data, text->n_bytes);
    else
        put_bytes(r, stderr, text->data, text->n_bytes);
}

static void put_above(struct relay *r)
{
    if (r->above.n_bytes > 0)
        put_bytes(r, stderr, r->above.data, r->above.n_bytes);
    clear(&r->above);
    r->n_waits = 0;
}

static bool is_rule(const char *line)
{
    size_t n = strspn(line, "-");
    return n >= RULE && strcmp(line + n, "\n") == 0;
}

/* Of what ranks ended with. Zinc's ranks say it themselves. */
static bool is_about_ranks(const char *paragraph)
{
    static const char *const signs[] = {"returned\na non-zero exit code", "MPI_ABORT was invoked on rank",
                                        "processes exited with non-zero status", "mpirun noticed that process rank"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strstr(paragraph, signs[i]))
            return true;
    return false;
}

static void end_paragraph(struct relay *r)
{
    if (r->paragraph.data && is_about_ranks(r->paragraph.data))
        zn_text_add_bytes(&r->held, r->paragraph.data, r->paragraph.n_bytes);
    else
        put(r, &r->paragraph);
    clear(&r->paragraph);
    r->is_inside = false;
}

/* Open MPI tells which signal it passes on, which nobody sent who reads this. */
static bool is_about_signals(const char *line)
{
    return strstr(line, "Forwarding signal ") != NULL;
}

static void take_line(struct relay *r)
{
    const char *line = r->line.data;
    if (is_about_signals(line)) {
        clear(&r->line);
        return;
    }
    bool is_ours = strstr(line, "zinc train: ") != NULL, rule = is_rule(line);
    r->heard |= is_ours;
    if (is_ours || (!rule && !r->is_inside)) {
        put(r, &r->line);
    } else {
        zn_text_add_bytes(&r->paragraph, line, r->line.n_bytes);
        if (rule && r->is_inside)
            end_paragraph(r);
        else
            r->is_inside = true;
    }
    clear(&r->line);
}

static void take(struct relay *r, const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        const char *end = memchr(bytes, '\n', n_bytes);
        size_t n = end ? (size_t)(end - bytes) + 1 : n_bytes;
        zn_text_add_bytes(&r->line, bytes, n);
        if (end && r->line.data)
            take_line(r);
        bytes += n;
        n_bytes -= n;
    }
}

/* Lines of standard error go where the rows of rank 0 were just cleared. */
static void take_output(struct relay *r, const char *bytes, size_t n_bytes)
{
    static const char cleared[] = "\033[J";
    const char *at = r->above.n_bytes > 0 ? memmem(bytes, n_bytes, cleared, 3) : NULL;
    r->heard |= memmem(bytes, n_bytes, "zinc train: ", 12) != NULL;
    if (at) {
        size_t n = (size_t)(at - bytes) + 3;
        put_bytes(r, stdout, bytes, n);
        put_above(r);
        bytes += n;
        n_bytes -= n;
    }
    if (n_bytes > 0)
        put_bytes(r, stdout, bytes, n_bytes);
}

/* Rank 0 draws several times a second; where it does not, it will not. */
static void look_after_lines(struct relay *r)
{
    enum { MOST_WAITS = 10 };
    if (r->above.n_bytes > 0 && ++r->n_waits > MOST_WAITS)
        put_above(r);
}

/* A pipe from mpirun, and what becomes of its bytes. */
struct source {
    int fd;
    void (*take)(struct relay *r, const char *bytes, size_t n_bytes);
};

/* False at the end. The pipe has its end when the last process that has it is gone; nobody waits for that. */
static bool read_some(struct relay *r, const struct source *source)
{
    char piece[PIECE];
    ssize_t n = read(source->fd, piece, sizeof piece);
    if (n > 0)
        source->take(r, piece, (size_t)n);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Waits so long for one of them to have something. False where none had. */
static bool read_both(struct relay *r, const struct source sources[2], struct pollfd wanted[2], int wait_ms)
{
    if (poll(wanted, 2, wait_ms) <= 0)
        return false;
    for (int i = 0; i < 2; i++)
        if (wanted[i].revents != 0 && !read_some(r, &sources[i]))
            wanted[i].fd = -1;
    return true;
}

int zn_launch_relay(pid_t mpirun, int output, int errors, bool is_live, void (*unread)(void))
{
    struct relay r = {.unread = unread, .is_live = is_live};
    const struct source sources[2] = {{output, take_output}, {errors, take}};
    struct pollfd wanted[2] = {{.fd = output, .events = POLLIN}, {.fd = errors, .events = POLLIN}};
    int status = 0;
    bool runs = true;
    fcntl(output, F_SETFL, O_NONBLOCK);
    fcntl(errors, F_SETFL, O_NONBLOCK);
    while (runs) {
        if (!read_both(&r, sources, wanted, LOOK_MS))
            look_after_lines(&r);
        pid_t ended = waitpid(mpirun, &status, WNOHANG);
        runs = ended == 0 || (ended < 0 && errno == EINTR);
    }
    while (read_both(&r, sources, wanted, 0)) /* what it left behind */
        ;
    put(&r, &r.line);
    if (!r.heard)
        put(&r, &r.held);
    put(&r, &r.paragraph);
    put_above(&r);
    zn_text_fini(&r.above);
    zn_text_fini(&r.line);
    zn_text_fini(&r.held);
    zn_text_fini(&r.paragraph);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
