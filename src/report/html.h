/* Texts and numbers in a page. The page is HTML that is well-formed XML too. */
#ifndef ZN_REPORT_HTML_H
#define ZN_REPORT_HTML_H

#include "base/text.h"

/* A text from outside, for elements and attributes: what has a meaning in HTML is escaped, what is not
 * UTF-8 or may not be in a page (control characters) becomes U+FFFD. */
void html_add(zn_text *page, const char *string);

/* 1234567 as "1,234,567"; rounded, at least 0. */
void html_add_count(zn_text *page, double count);

/* "1.50 GiB". */
void html_add_size(zn_text *page, double n_bytes);

/* "41.3 s", "1 min 2 s", "3 h 12 min", "2 d 4 h". */
void html_add_duration(zn_text *page, double seconds);

/* "494 M", "1.54 B": three digits. */
void html_add_large(zn_text *page, double count);

/* The fewest digits, from six on, that read back as the same number: "0.0003", "1e-8". */
void html_add_number(zn_text *page, double number);

/* The first five digits that count: "1.6473", "2e-5". */
void html_add_short(zn_text *page, double number);

enum { HTML_TICK_TEXT = 48 };

/* The mark of an axis at `value`, with as many digits as marks `step` apart need; `greatest` is the
 * largest of the axis: "0.25", "12k", "3e-4". Returns `text`. */
const char *html_tick_text(double value, double step, double greatest, char text[HTML_TICK_TEXT]);

#endif
