/* A walk over the text of a document: the parser of base/json.h keeps no places. */
#include "settings/json_place.h"

#include <stdbool.h>
#include <string.h>

struct walk {
    const char *at, *end;
};

static bool is_at(const struct walk *w, char c)
{
    return w->at < w->end && *w->at == c;
}

static void skip_space(struct walk *w)
{
    while (w->at < w->end && strchr(" \t\r\n", *w->at) && *w->at)
        w->at++;
}

/* From a quote to behind the one that ends the string. */
static void skip_string(struct walk *w)
{
    w->at++;
    while (w->at < w->end && *w->at != '"')
        w->at += *w->at == '\\' && w->end - w->at > 1 ? 2 : 1;
    w->at += w->at < w->end;
}

static void skip_value(struct walk *w)
{
    int depth = 0;
    do {
        skip_space(w);
        if (is_at(w, '"')) {
            skip_string(w);
            continue;
        }
        depth += is_at(w, '{') || is_at(w, '[');
        depth -= is_at(w, '}') || is_at(w, ']');
        w->at += w->at < w->end;
    } while (w->at < w->end && (depth > 0 || !strchr(",}]", *w->at)));
}

/* At the value of the key of this object: true, and *key is where the key stands. */
static bool enter(struct walk *w, const char *name, size_t length, const char **key)
{
    skip_space(w);
    if (!is_at(w, '{'))
        return false;
    do {
        w->at++;
        skip_space(w);
        if (!is_at(w, '"'))
            return false;
        *key = w->at;
        skip_string(w);
        bool is_found = (size_t)(w->at - *key) == length + 2 && memcmp(*key + 1, name, length) == 0;
        skip_space(w);
        w->at += is_at(w, ':');
        if (is_found)
            return true;
        skip_value(w);
        skip_space(w);
    } while (is_at(w, ','));
    return false;
}

struct json_place json_place_find(const char *data, size_t n_bytes, const char *path)
{
    struct walk w = {data, data + n_bytes};
    const char *key = NULL;
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, ".");
        if (!enter(&w, p, n, &key))
            return (struct json_place){0, 0};
        p += n;
        if (*p == '\0')
            break;
    }
    struct json_place place = {1, 1};
    for (const char *p = data; p < key; p++) {
        place.line += *p == '\n';
        place.column = *p == '\n' ? 1 : place.column + (((unsigned char)*p & 0xc0) != 0x80);
    }
    return place;
}
