/* Sizes as text, and overflow-checked products of file input. */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

zn_status zn_size_parse(const char *text, const char *what, size_t *n_bytes)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {
        {"", 1},          {"B", 1},
        {"kB", 1e3},      {"KB", 1e3},  {"KiB", 1024.0}, {"K", 1024.0},
        {"MB", 1e6},      {"MiB", 0x1p20}, {"M", 0x1p20},
        {"GB", 1e9},      {"GiB", 0x1p30}, {"G", 0x1p30},
        {"TB", 1e12},     {"TiB", 0x1p40}, {"T", 0x1p40},
    };
    /* strtod would also take hexadecimal numbers, where "B" is a digit. */
    if (!isdigit((unsigned char)text[0]) || strpbrk(text, "xX"))
        goto wrong;
    char *end;
    errno = 0;
    unsigned long long whole = strtoull(text, &end, 10);
    if (*end == '\0' && errno == 0 && whole <= (unsigned long long)INT64_MAX) {
        *n_bytes = (size_t)whole;
        return ZN_OK;
    }
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double bytes = value * units[i].factor;
        if (strcasecmp(end, units[i].suffix) == 0 && bytes < 0x1p63) {
            *n_bytes = (size_t)llround(bytes);
            return ZN_OK;
        }
    }
wrong:
    return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not a size (examples: 512MiB, 4GiB, 1GB, 1048576)%s", what, zn_shown(text).text,
                   strchr(text, ' ') ? "; it has no spaces" : "");
}

const char *zn_size_text(size_t n_bytes, char text[ZN_SIZE_TEXT])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)n_bytes;
    size_t i = 0;
    while (value >= 1024 && i + 1 < sizeof names / sizeof names[0]) {
        value /= 1024;
        i++;
    }
    if (i == 0)
        snprintf(text, ZN_SIZE_TEXT, "%zu B", n_bytes);
    else
        snprintf(text, ZN_SIZE_TEXT, "%.2f %s", value, names[i]);
    return text;
}

bool zn_mul_size(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

bool zn_add_size(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

bool zn_mul_count(int64_t a, int64_t b, int64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}
