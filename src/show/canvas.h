/* Rows of items for a terminal of some width: an item that does not fit a row goes to the next, one that fits none is cut. */
#ifndef ZN_SHOW_CANVAS_H
#define ZN_SHOW_CANVAS_H

#include "base/text.h"

enum { ZN_CANVAS_ROWS = 32, ZN_CANVAS_INDENT = 8 };

typedef enum zn_style { ZN_STYLE_PLAIN, ZN_STYLE_BOLD, ZN_STYLE_DIM, ZN_STYLE_GOOD, ZN_STYLE_WARN, ZN_N_STYLES } zn_style;

struct zn_canvas {
    zn_text text; /* rows, each with its line end */
    int width, height; /* of the terminal */
    bool has_color, has_blocks;
    int n_rows, column;        /* of the present row: columns in use */
    int used[ZN_CANVAS_ROWS];  /* columns of each row */
};

/* The caller calls fini. */
void zn_canvas_init(struct zn_canvas *canvas, int width, int height, bool has_color, bool has_blocks);
void zn_canvas_fini(struct zn_canvas *canvas);

/* Begins a row with its name; "" for none. */
void zn_canvas_row(struct zn_canvas *canvas, const char *name);
void zn_canvas_end(struct zn_canvas *canvas); /* of the last row */

/* Text of one line, in UTF-8 where there are blocks. */
void zn_canvas_item(struct zn_canvas *canvas, zn_style style, const char *text);

/* Columns that an item may still have in this row. */
int zn_canvas_left(const struct zn_canvas *canvas);

/* A bar of `width` columns that is filled to `share` (0 … 1). */
void zn_canvas_bar(struct zn_canvas *canvas, double share, int width);

/* Values as columns of their height, the last `width` of them. */
void zn_canvas_curve(struct zn_canvas *canvas, const double *values, int n, int width);

/* Columns that a text takes. */
int zn_text_columns(const char *text);

/* Adds whole lines, those wider than `width` broken between words and gone on with an indent. A word that fits no line stays whole: the
 * terminal breaks it. */
void zn_text_add_wrapped(zn_text *text, const char *lines, size_t n_bytes, int width);

#endif
