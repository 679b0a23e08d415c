/* Reading of cards: YAML between two lines of three dashes, then Markdown. Of the YAML only whole keys are taken, as they stand. */
#include "formats/card.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "formats/hub_cache.h"

enum { MAX_CARD_BYTES = 4 * 1024 * 1024 };

static bool is_fence(const char *line, size_t n)
{
    return n >= 3 && memcmp(line, "---", 3) == 0 && strspn(line + 3, " \t\r") >= n - 3;
}

static bool begins_license(const char *line)
{
    static const char *const keys[] = {"license:", "license_name:", "license_link:"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0)
            return true;
    return false;
}

/* A key's value goes on in lines that are indented or items of a list. */
static void add_license(zn_text *lines, const char *card)
{
    bool is_taken = false, is_first = true;
    for (const char *line = card; *line; is_first = false) {
        size_t n = strcspn(line, "\n");
        if (is_first != is_fence(line, n)) /* it begins otherwise, or this is its end */
            return;
        if (!is_first && !strchr(" \t-", line[0]))
            is_taken = begins_license(line);
        if (!is_first && is_taken && n > 0) {
            zn_text_add_bytes(lines, line, n - (line[n - 1] == '\r'));
            zn_text_add(lines, "\n");
        }
        line += n + (line[n] == '\n');
    }
    lines->n_bytes = 0; /* the front matter has no end, so it is none */
}

zn_status zn_card_license(const char *folder, char **lines)
{
    char *path, *card = NULL;
    size_t n_bytes;
    zn_text text;
    ZN_TRY(zn_path_join(folder, "README.md", &path));
    /* A card that cannot be read is no reason not to train. */
    bool is_read = zn_file_exists(path) && zn_file_read(path, MAX_CARD_BYTES, &card, &n_bytes) == ZN_OK;
    free(path);
    zn_text_init(&text);
    zn_text_add(&text, "%s", "");
    if (is_read)
        add_license(&text, card);
    free(card);
    zn_status status = zn_text_status(&text);
    *lines = status == ZN_OK ? strndup(text.data, text.n_bytes) : NULL;
    zn_text_fini(&text);
    return *lines ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "%s: no memory for its card", folder);
}

/* "models--ORG--NAME" of .../models--ORG--NAME/snapshots/REVISION, as "ORG/NAME". NULL: it is no such path. */
static char *name_in_cache(const char *path)
{
    static const char sign[] = "/models--", below[] = "/snapshots/";
    const char *begin = strstr(path, sign), *end = begin ? strstr(begin, below) : NULL;
    if (!end || memchr(begin + 1, '/', (size_t)(end - begin - 1)))
        return NULL;
    begin += sizeof sign - 1;
    char *name = strndup(begin, (size_t)(end - begin)), *dashes = name ? strstr(name, "--") : NULL;
    if (dashes) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    return name;
}

zn_status zn_card_name(const char *folder, char **name)
{
    char path[PATH_MAX];
    *name = NULL;
    if (!realpath(folder, path))
        return ZN_OK;
    char *found = name_in_cache(path);
    if (!found)
        found = strdup(strrchr(path, '/') + 1);
    if (!found)
        return zn_fail(ZN_ERR_MEMORY, "%s: no memory for its name", folder);
    if (zn_hub_is_name(found))
        *name = found;
    else
        free(found);
    return ZN_OK;
}
