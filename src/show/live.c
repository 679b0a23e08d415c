/* Everything that goes to a live terminal is one write: the old rows are cleared, lines are printed, the new rows drawn. */
#include "show/live.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "show/words.h"

static const double DRAW_SECONDS = 0.1, TELL_SECONDS = 30;
enum { STACK_BYTES = 256 * 1024 };

struct zn_live {
    struct zn_live_options options;
    pthread_mutex_t lock; /* guards all below, and what `draw` reads */
    pthread_cond_t wake;
    pthread_t thread;
    bool ends, has_said_stopping;
    zn_clock clock;
    zn_text lines;             /* printed, not yet written */
    int n_rows;                /* on the terminal */
    int used[ZN_CANVAS_ROWS];  /* columns of each */
    double drawn, told;        /* when */
    uint64_t n_told;           /* things that ended, and what is under way, that were told */
};

/* ---- Writing ---- */

/* A terminal that is gone brings a signal; there is nobody to tell. */
static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return;
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
}

/* A terminal that became narrower has broken rows that were wider. */
static int rows_on_screen(const zn_live *l, int width)
{
    int n = 0;
    for (int i = 0; i < l->n_rows; i++)
        n += l->used[i] > width ? (l->used[i] + width - 1) / width : 1;
    return n;
}

static void draw_rows(zn_live *l, struct zn_canvas *canvas)
{
    struct zn_progress_view view;
    zn_progress_read(l->options.progress, &view);
    if (l->options.draw)
        l->options.draw(l->options.self, canvas, &view);
    else if (view.now.what)
        zn_live_draw_progress(canvas, &view.now);
    if (l->has_said_stopping) {
        zn_canvas_row(canvas, "");
        zn_canvas_item(canvas, ZN_STYLE_WARN, ZN_LIVE_STOPPING);
    }
    zn_canvas_end(canvas);
}

static void draw(zn_live *l, bool is_last)
{
    if (is_last && l->n_rows == 0 && l->lines.n_bytes == 0)
        return;
    struct zn_canvas canvas;
    zn_text out;
    int width, height;
    zn_terminal_size(l->options.terminal, &width, &height);
    zn_canvas_init(&canvas, width, height, l->options.terminal->has_color, l->options.terminal->has_blocks);
    zn_text_init(&out);
    int up = rows_on_screen(l, width);
    if (up > 0)
        zn_text_add(&out, "\033[%dA", up < height ? up : height);
    zn_text_add(&out, "\r\033[J");
    if (l->lines.n_bytes > 0)
        zn_text_add_wrapped(&out, l->lines.data, l->lines.n_bytes, width);
    if (!is_last && !l->options.is_quiet)
        draw_rows(l, &canvas);
    if (canvas.text.n_bytes > 0)
        zn_text_add_bytes(&out, canvas.text.data, canvas.text.n_bytes);
    if (zn_text_status(&out) == ZN_OK && zn_text_status(&canvas.text) == ZN_OK) {
        write_all(l->options.terminal->fd, out.data, out.n_bytes);
        int most = height - 2 < ZN_CANVAS_ROWS ? height - 2 : ZN_CANVAS_ROWS;
        l->n_rows = canvas.n_rows < most ? canvas.n_rows : most > 0 ? most : 0;
        memcpy(l->used, canvas.used, sizeof l->used);
        zn_text_fini(&l->lines);
        zn_text_init(&l->lines);
    }
    l->drawn = zn_clock_now(&l->clock);
    zn_canvas_fini(&canvas);
    zn_text_fini(&out);
}

void zn_live_draw_progress(struct zn_canvas *c, const struct zn_activity *a)
{
    char text[ZN_WORDS], left[ZN_WORDS + 8];
    zn_canvas_row(c, "");
    zn_canvas_item(c, ZN_STYLE_PLAIN, a->what);
    if (a->total <= 0) {
        zn_canvas_item(c, ZN_STYLE_DIM, zn_words_seconds(a->seconds, text));
        return;
    }
    double share = (double)a->done / (double)a->total;
    zn_canvas_bar(c, share, c->width < 80 ? 12 : 24);
    zn_canvas_item(c, ZN_STYLE_PLAIN, zn_words_done(a, text));
    if (a->seconds < 2 || share <= 0 || share >= 1)
        return;
    snprintf(left, sizeof left, "%s left", zn_words_seconds(a->seconds / share * (1 - share), text));
    zn_canvas_item(c, ZN_STYLE_DIM, left);
}

/* A rank whose run tells nothing draws nothing. */
static bool has_begun(zn_live *l)
{
    struct zn_progress_view view;
    zn_progress_read(l->options.progress, &view);
    return view.now.what || view.n_ended > 0;
}

static bool is_drawn(zn_live *l)
{
    return l->options.terminal->is_live && has_begun(l);
}

/* ---- Plain lines ---- */

static void tell_long(zn_live *l)
{
    struct zn_progress_view view;
    char text[2 * ZN_WORDS];
    double now = zn_clock_now(&l->clock);
    zn_progress_read(l->options.progress, &view);
    if (!view.now.what || view.now.seconds < TELL_SECONDS || now - l->told < TELL_SECONDS || l->options.is_quiet)
        return;
    l->told = now;
    fprintf(stderr, "%s: %s\n", l->options.command, zn_words_progress(&view, text));
}

static void put_note(zn_live *l, const char *text)
{
    if (is_drawn(l))
        zn_text_add(&l->lines, "%s: %s\n", l->options.command, text);
    else
        fprintf(stderr, "%s: %s\n", l->options.command, text);
}

static void tell_ended(zn_live *l)
{
    struct zn_progress_view view;
    struct zn_activity a;
    char n[ZN_WORDS], took[ZN_WORDS], line[3 * ZN_WORDS];
    zn_progress_read(l->options.progress, &view);
    for (; l->n_told < view.n_ended; l->n_told++) {
        if (!zn_progress_ended(l->options.progress, l->n_told, &a) || strcmp(a.what, "step") == 0)
            continue;
        zn_words_amount(&a, n);
        zn_words_seconds(a.seconds, took);
        snprintf(line, sizeof line, "%s: %s%s%s", a.what, n, n[0] ? " in " : "", took);
        put_note(l, line);
    }
}

/* ---- The thread ---- */

static void look(zn_live *l)
{
    if (!has_begun(l))
        return;
    if (l->options.is_verbose && !l->options.is_quiet)
        tell_ended(l);
    if (l->options.is_stopping && !l->has_said_stopping && l->options.is_stopping(l->options.self)) {
        l->has_said_stopping = true;
        if (!l->options.terminal->is_live)
            put_note(l, ZN_LIVE_STOPPING);
    }
    if (l->options.terminal->is_live)
        draw(l, false);
    else
        tell_long(l);
}

static void *run(void *self)
{
    zn_live *l = self;
    pthread_mutex_lock(&l->lock);
    while (!l->ends) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(DRAW_SECONDS * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&l->wake, &l->lock, &until);
        if (!l->ends)
            look(l);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Signals are the other threads'. */
static int start_thread(zn_live *l)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&l->thread, &attributes, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return code;
}

zn_status zn_live_create(const struct zn_live_options *options, zn_live **live)
{
    pthread_condattr_t monotonic;
    zn_live *l = calloc(1, sizeof *l);
    if (!l)
        return zn_fail(ZN_ERR_MEMORY, "no memory to show progress");
    l->options = *options;
    zn_clock_init_real(&l->clock);
    zn_text_init(&l->lines);
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int code = start_thread(l);
    if (code == 0) {
        *live = l;
        return ZN_OK;
    }
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
    return zn_fail(ZN_ERR_MEMORY, "cannot start a thread to show progress: %s", strerror(code));
}

void zn_live_destroy(zn_live *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->ends = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    if (l->options.is_verbose && !l->options.is_quiet)
        tell_ended(l);
    if (l->options.terminal->is_live)
        draw(l, true);
    zn_text_fini(&l->lines);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- Printing ---- */

static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    return vasprintf(&text, format, args) < 0 ? NULL : text;
}

void zn_live_print(zn_live *l, const char *format, ...)
{
    va_list args;
    if (l->options.is_quiet)
        return;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    if (!text)
        return;
    pthread_mutex_lock(&l->lock);
    if (l->options.terminal->is_live) {
        zn_text_add(&l->lines, "%s", text);
        if (zn_clock_now(&l->clock) - l->drawn >= DRAW_SECONDS)
            draw(l, false);
    } else {
        fputs(text, stdout);
        if (l->options.flush)
            l->options.flush(l->options.self, stdout);
    }
    pthread_mutex_unlock(&l->lock);
    free(text);
}

void zn_live_note(zn_live *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    if (!text)
        return;
    pthread_mutex_lock(&l->lock);
    put_note(l, text);
    if (is_drawn(l))
        draw(l, false);
    else if (l->options.flush)
        l->options.flush(l->options.self, stderr);
    pthread_mutex_unlock(&l->lock);
    free(text);
}

void zn_live_lock(zn_live *l)
{
    pthread_mutex_lock(&l->lock);
}

void zn_live_unlock(zn_live *l)
{
    pthread_mutex_unlock(&l->lock);
}
