/* Escapes and the writing of numbers. */
#include "report/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "text/utf8.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

static const char *entity_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Characters that XML does not have: controls, and U+FFFE and U+FFFF. */
static bool is_forbidden(const char *c, size_t length)
{
    unsigned char first = (unsigned char)c[0];
    if (length == 1)
        return (first < 0x20 && first != '\t' && first != '\n') || first == 0x7f;
    return length == 3 && memcmp(c, "\xef\xbf", 2) == 0 && (unsigned char)c[2] >= 0xbe;
}

void html_add(zn_text *page, const char *string)
{
    for (size_t n = strlen(string), i = 0; i < n;) {
        size_t n_bad, length = utf8_length(string + i, n - i, &n_bad);
        const char *entity = entity_of(string[i]);
        if (length == 0 || is_forbidden(string + i, length))
            zn_text_add_bytes(page, REPLACEMENT, strlen(REPLACEMENT));
        else if (entity)
            zn_text_add_bytes(page, entity, strlen(entity));
        else
            zn_text_add_bytes(page, string + i, length);
        i += length > 0 ? length : n_bad;
    }
}

void html_add_count(zn_text *page, double count)
{
    char digits[400]; /* a double has at most 309 */
    int n = snprintf(digits, sizeof digits, "%.0f", count > 0 ? count : 0);
    for (int i = 0; i < n; i++)
        zn_text_add(page, "%s%c", i > 0 && (n - i) % 3 == 0 ? "," : "", digits[i]);
}

void html_add_size(zn_text *page, double n_bytes)
{
    char text[ZN_SIZE_TEXT];
    double bytes = fmin(fmax(n_bytes, 0), 0x1p62);
    zn_text_add(page, "%s", zn_size_text((size_t)bytes, text));
}

void html_add_duration(zn_text *page, double seconds)
{
    static const struct {
        double seconds;
        const char *name, *part_name;
        double part;
    } units[] = {{86400, "d", "h", 3600}, {3600, "h", "min", 60}, {60, "min", "s", 1}};
    seconds = fmin(fmax(seconds, 0), 1e15);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        /* In whole parts, so that what is left is never rounded up to a whole unit. */
        double parts = round(seconds / units[i].part), whole_parts = units[i].seconds / units[i].part;
        if (parts < whole_parts)
            continue;
        double whole = floor(parts / whole_parts);
        zn_text_add(page, "%.0f %s %.0f %s", whole, units[i].name, parts - whole * whole_parts, units[i].part_name);
        return;
    }
    zn_text_add(page, "%.3g s", seconds);
}

void html_add_large(zn_text *page, double count)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (count < 0.9995 * units[i].unit) /* what three digits round up to the unit */
            continue;
        double value = count / units[i].unit;
        zn_text_add(page, "%.*f%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[i].name);
        return;
    }
    html_add_count(page, count);
}

/* "1.50e-04" to "1.5e-4": no zeros at the end of the digits, none before the exponent. */
static void tidy_exponent(char *text)
{
    char *e = strchr(text, 'e');
    if (!e)
        return;
    int exponent = atoi(e + 1);
    if (memchr(text, '.', (size_t)(e - text))) {
        while (e[-1] == '0')
            e--;
        if (e[-1] == '.')
            e--;
    }
    sprintf(e, "e%d", exponent);
}

void html_add_number(zn_text *page, double number)
{
    char text[40];
    int digits = 6;
    do
        snprintf(text, sizeof text, "%.*g", digits, number);
    while (strtod(text, NULL) != number && ++digits <= 17);
    tidy_exponent(text);
    zn_text_add(page, "%s", text);
}

void html_add_short(zn_text *page, double number)
{
    char text[40];
    snprintf(text, sizeof text, "%.5g", number);
    tidy_exponent(text);
    zn_text_add(page, "%s", text);
}

/* Digits after the point that tell apart what is `step` apart. */
static int decimals_of(double step)
{
    double n = -floor(log10(step) + 1e-9);
    return n < 0 ? 0 : n > 9 ? 9 : (int)n;
}

const char *html_tick_text(double value, double step, double greatest, char text[HTML_TICK_TEXT])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    if (fabs(value) < step / 2) {
        strcpy(text, "0");
    } else if (greatest < 1e-3 || greatest >= 1e15) {
        double digits = floor(log10(fabs(value)) + 1e-9) - floor(log10(step) + 1e-9);
        snprintf(text, HTML_TICK_TEXT, "%.*e", digits < 0 ? 0 : digits > 9 ? 9 : (int)digits, value);
        tidy_exponent(text);
    } else if (greatest < 1e4) {
        snprintf(text, HTML_TICK_TEXT, "%.*f", decimals_of(step), value);
    } else {
        size_t i = 0;
        while (greatest < units[i].unit)
            i++;
        snprintf(text, HTML_TICK_TEXT, "%.*f%s", decimals_of(step / units[i].unit), value / units[i].unit,
                 units[i].name);
    }
    return text;
}
