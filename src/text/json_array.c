/* Following an array byte by byte. */
#include "text/json_array.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Of the byte order mark that some editors write at the begin of a file. */
static bool is_of_mark(char c)
{
    return c == '\xef' || c == '\xbb' || c == '\xbf';
}

bool json_array_begins(const char *data, size_t n)
{
    size_t i = n >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < n && is_space(data[i]))
        i++;
    return i < n && data[i] == '[';
}

/* A byte between rows; false: it cannot stand here. */
static bool step_between(struct json_array *a, char c)
{
    bool wants_row = a->state == JSON_ARRAY_FIRST || a->state == JSON_ARRAY_NEXT;
    bool may_end = a->state == JSON_ARRAY_FIRST || a->state == JSON_ARRAY_AFTER;
    if (is_space(c) || (a->state == JSON_ARRAY_BEFORE && is_of_mark(c)))
        return true;
    if (a->state == JSON_ARRAY_BEFORE && c == '[')
        a->state = JSON_ARRAY_FIRST;
    else if (wants_row && c == '{')
        *a = (struct json_array){JSON_ARRAY_ROW, 1};
    else if (a->state == JSON_ARRAY_AFTER && c == ',')
        a->state = JSON_ARRAY_NEXT;
    else if (may_end && c == ']')
        a->state = JSON_ARRAY_END;
    else
        return false;
    return true;
}

static void step_in_row(struct json_array *a, char c)
{
    if (a->state == JSON_ARRAY_ESCAPE)
        a->state = JSON_ARRAY_STRING;
    else if (a->state == JSON_ARRAY_STRING)
        a->state = c == '"' ? JSON_ARRAY_ROW : c == '\\' ? JSON_ARRAY_ESCAPE : JSON_ARRAY_STRING;
    else if (c == '"')
        a->state = JSON_ARRAY_STRING;
    else if (c == '{' || c == '[')
        a->depth++;
    else if ((c == '}' || c == ']') && --a->depth == 0)
        a->state = JSON_ARRAY_AFTER;
}

static bool is_in_row(const struct json_array *a)
{
    return a->state >= JSON_ARRAY_ROW && a->state <= JSON_ARRAY_ESCAPE;
}

bool json_array_next(struct json_array *array, const char *data, size_t n, size_t *n_skipped, size_t *n_taken,
                     bool *is_whole)
{
    size_t begin = 0, end;
    bool goes_on = is_in_row(array);
    *n_taken = 0;
    *is_whole = false;
    for (; begin < n && !is_in_row(array); begin++) {
        *n_skipped = begin;
        if (!step_between(array, data[begin]))
            return false;
    }
    if (!goes_on && is_in_row(array))
        begin--; /* its bracket */
    *n_skipped = begin;
    if (!is_in_row(array))
        return true;
    for (end = goes_on ? 0 : begin + 1; end < n && is_in_row(array); end++)
        step_in_row(array, data[end]);
    *n_taken = end - begin;
    *is_whole = !is_in_row(array);
    return true;
}
