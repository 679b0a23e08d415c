/* Laying out rows. The last column stays empty: a terminal that has written it may or may not be on the next line. */
#include "show/canvas.h"

#include <math.h>
#include <string.h>

static const char *const styles[ZN_N_STYLES] = {"", "\033[1m", "\033[2m", "\033[32m", "\033[33m"};

/* Eighths of a block, and the letters that stand for them where there is no UTF-8. */
static const char *const across[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
static const char *const upward[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char ascii_upward[] = "__.-=+*#";

void zn_canvas_init(struct zn_canvas *c, int width, int height, bool has_color, bool has_blocks)
{
    *c = (struct zn_canvas){.width = width, .height = height, .has_color = has_color, .has_blocks = has_blocks};
    zn_text_init(&c->text);
}

void zn_canvas_fini(struct zn_canvas *c)
{
    zn_text_fini(&c->text);
}

static bool is_continued(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

int zn_text_columns(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += !is_continued(*text);
    return n;
}

static int count_spaces(const char *line, size_t n)
{
    int i = 0;
    while ((size_t)i < n && i < 2 * ZN_CANVAS_INDENT && line[i] == ' ')
        i++;
    return i;
}

/* Where a line of n bytes is broken: at the last space that leaves at most `columns`, but not in its indent; n: nowhere. */
static size_t find_break(const char *line, size_t n, int columns)
{
    size_t at = n, begin = (size_t)count_spaces(line, n);
    int column = 0;
    for (size_t i = 0; i < n; i++) {
        if (line[i] == ' ' && i > begin && line[i - 1] != ' ' && column <= columns)
            at = i;
        column += !is_continued(line[i]);
    }
    return column <= columns ? n : at;
}

void zn_text_add_wrapped(zn_text *t, const char *lines, size_t n_bytes, int width)
{
    for (size_t at = 0; at < n_bytes;) {
        const char *line = lines + at, *end = memchr(line, '\n', n_bytes - at);
        size_t n = end ? (size_t)(end - line) : n_bytes - at;
        int indent = 0, own = count_spaces(line, n);
        at += n + (end ? 1 : 0);
        for (size_t part; n > 0; line += part, n -= part) {
            part = find_break(line, n, width - indent);
            zn_text_add(t, "%*s", indent, "");
            zn_text_add_bytes(t, line, part);
            if (part == n)
                continue;
            while (part < n && line[part] == ' ')
                part++;
            zn_text_add(t, "\n");
            indent = width < 4 * ZN_CANVAS_INDENT ? 0 : own < ZN_CANVAS_INDENT ? own + ZN_CANVAS_INDENT : own;
        }
        if (end)
            zn_text_add(t, "\n");
    }
}

/* Rows beyond the terminal's are left out: what scrolled away could not be drawn over. */
static bool has_room(const struct zn_canvas *c)
{
    return c->n_rows <= ZN_CANVAS_ROWS && c->n_rows <= c->height - 2;
}

/* As many columns of the text as fit. */
static void put(struct zn_canvas *c, zn_style style, const char *text, int columns)
{
    int n = 0;
    const char *end = text;
    if (!has_room(c) || c->n_rows == 0)
        return;
    for (; *end && (n < columns || is_continued(*end)); end++)
        n += !is_continued(*end);
    bool is_styled = c->has_color && styles[style][0];
    zn_text_add(&c->text, "%s%.*s%s", is_styled ? styles[style] : "", (int)(end - text), text, is_styled ? "\033[0m" : "");
    c->column += n;
    c->used[c->n_rows - 1] = c->column;
}

static void next_row(struct zn_canvas *c)
{
    zn_canvas_end(c);
    c->n_rows++;
    c->column = 0;
    if (has_room(c))
        c->used[c->n_rows - 1] = 0;
}

void zn_canvas_end(struct zn_canvas *c)
{
    if (c->n_rows > 0 && has_room(c))
        zn_text_add(&c->text, "\n");
}

int zn_canvas_left(const struct zn_canvas *c)
{
    return c->width - 1 - c->column - (c->column > ZN_CANVAS_INDENT ? 2 : 0);
}

static void put_space(struct zn_canvas *c, int n)
{
    char space[16];
    memset(space, ' ', sizeof space);
    space[n < 15 ? n : 15] = '\0';
    put(c, ZN_STYLE_PLAIN, space, c->width - 1 - c->column);
}

void zn_canvas_row(struct zn_canvas *c, const char *name)
{
    next_row(c);
    if (!name[0])
        return;
    put(c, ZN_STYLE_DIM, name, c->width - 1);
    if (c->column < ZN_CANVAS_INDENT)
        put_space(c, ZN_CANVAS_INDENT - c->column);
}

void zn_canvas_item(struct zn_canvas *c, zn_style style, const char *text)
{
    int columns = zn_text_columns(text);
    if (columns > zn_canvas_left(c) && c->column > ZN_CANVAS_INDENT) {
        next_row(c);
        put_space(c, ZN_CANVAS_INDENT);
    } else if (c->column > ZN_CANVAS_INDENT) {
        put_space(c, 2);
    }
    put(c, style, text, c->width - 1 - c->column);
}

void zn_canvas_bar(struct zn_canvas *c, double share, int width)
{
    enum { MOST = 64 };
    char bar[MOST * 4 + 3] = "";
    size_t n = 0;
    if (width > MOST)
        width = MOST;
    share = share < 0 || isnan(share) ? 0 : share > 1 ? 1 : share;
    int eighths = (int)(share * 8 * width);
    for (int i = 0; i < width; i++) {
        int part = eighths - 8 * i;
        const char *mark = c->has_blocks ? (part <= 0 ? "░" : across[part < 8 ? part : 8]) : part >= 4 ? "#" : ".";
        size_t bytes = strlen(mark);
        memcpy(bar + n, mark, bytes + 1);
        n += bytes;
    }
    zn_canvas_item(c, ZN_STYLE_GOOD, bar);
}

void zn_canvas_curve(struct zn_canvas *c, const double *values, int n, int width)
{
    enum { MOST = 128 };
    char curve[MOST * 3 + 1] = "";
    size_t bytes = 0;
    double low = INFINITY, high = -INFINITY;
    int first = n > width ? n - width : 0;
    if (n - first > MOST)
        first = n - MOST;
    for (int i = first; i < n; i++) {
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    for (int i = first; i < n; i++) {
        int level = high > low ? (int)lround((values[i] - low) / (high - low) * 7) : 3;
        const char *mark = c->has_blocks ? upward[level] : (char[]){ascii_upward[level], '\0'};
        size_t size = strlen(mark);
        memcpy(curve + bytes, mark, size + 1);
        bytes += size;
    }
    if (bytes > 0)
        zn_canvas_item(c, ZN_STYLE_GOOD, curve);
}
