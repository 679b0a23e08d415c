/* Configuration files in YAML: a mapping of flags to values, of which `zinc: {…}` may be the whole.
 *
 * Of YAML 1.2's core schema: plain `true`, `false`, `null`, `~`, decimal numbers, and all else as text; quoted scalars are text.
 * What would make a file mean more than it shows is refused by name: anchors, aliases, tags, a second document, keys twice. Nothing
 * is deeper than a list below a flag, so the depth of a file costs nothing. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/text.h"
#include "settings/config.h"

enum { MAX_ENTRIES = 1024 };

static const char *const SECTION = "zinc";

struct reader {
    const char *path;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    struct config *config;
};

static zn_status fail_at(const struct reader *r, const yaml_mark_t *mark, const char *what)
{
    return zn_fail(ZN_ERR_INPUT, "%s: line %zu, column %zu: %s", r->path, mark->line + 1, mark->column + 1, what);
}

static zn_status fail_here(const struct reader *r, const char *what)
{
    return fail_at(r, &r->event.start_mark, what);
}

static zn_status fail_parse(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const yaml_mark_t *mark = p->error == YAML_READER_ERROR ? &p->mark : &p->problem_mark;
    char text[256];
    if (p->error == YAML_MEMORY_ERROR)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", r->path);
    snprintf(text, sizeof text, "not valid YAML: %s%s%s", p->context ? p->context : "", p->context ? ": " : "",
             p->problem ? p->problem : "it cannot be read");
    return fail_at(r, mark, text);
}

/* What an event brings besides its value. */
static zn_status refuse_extras(const struct reader *r)
{
    const yaml_event_t *e = &r->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_ALIAS_EVENT)
        return fail_here(r, "an alias (*name): not in this build");
    if (e->type == YAML_DOCUMENT_START_EVENT &&
        e->data.document_start.tag_directives.start != e->data.document_start.tag_directives.end)
        return fail_here(r, "a %TAG directive: not in this build");
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor)
        return fail_here(r, "an anchor (&name): not in this build");
    return tag ? fail_here(r, "a tag (!name): not in this build") : ZN_OK;
}

static zn_status next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return fail_parse(r);
    return refuse_extras(r);
}

/* ---- Scalars ---- */

static bool is_one_of(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

static bool is_true(const char *text)
{
    return is_one_of(text, "true", "True", "TRUE");
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* [-+]? ( .digits | digits ( . digits? )? ) ( [eE] [-+]? digits )? */
static bool is_decimal(const char *text)
{
    const char *begin = text + (*text == '-' || *text == '+');
    const char *p = skip_digits(begin);
    bool has_digits = p > begin;
    if (*p == '.') {
        begin = p + 1;
        p = skip_digits(begin);
        has_digits = has_digits || p > begin;
    }
    if (has_digits && (*p == 'e' || *p == 'E')) {
        begin = p + 1 + (p[1] == '-' || p[1] == '+');
        p = skip_digits(begin);
        has_digits = p > begin;
    }
    return has_digits && *p == '\0';
}

static config_type type_of(const yaml_event_t *scalar)
{
    const char *text = (const char *)scalar->data.scalar.value;
    if (scalar->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return CONFIG_TEXT;
    if (!*text || strcmp(text, "~") == 0 || is_one_of(text, "null", "Null", "NULL"))
        return CONFIG_NOTHING;
    if (is_true(text) || is_one_of(text, "false", "False", "FALSE"))
        return CONFIG_BOOL;
    return is_decimal(text) ? CONFIG_NUMBER : CONFIG_TEXT;
}

/* A whole number may be written 100000, 1e5 or 100000.0, and becomes its digits. */
static zn_status set_number(struct config_entry *entry, const char *text)
{
    char digits[32], *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    double number = strtod(text, NULL);
    entry->is_whole = *end == '\0' && errno == 0;
    if (*end != '\0' && number == floor(number) && fabs(number) < 0x1p53) {
        entry->is_whole = true;
        whole = (long long)number;
    }
    if (!entry->is_whole)
        return config_add_text(entry, text, strlen(text));
    snprintf(digits, sizeof digits, "%lld", whole);
    return config_add_text(entry, digits, strlen(digits));
}

static zn_status check_text(const struct reader *r)
{
    const char *text = (const char *)r->event.data.scalar.value;
    return strlen(text) == r->event.data.scalar.length ? ZN_OK : fail_here(r, "a text that holds a NUL");
}

static zn_status set_scalar(const struct reader *r, struct config_entry *entry)
{
    const char *text = (const char *)r->event.data.scalar.value;
    ZN_TRY(check_text(r));
    entry->type = type_of(&r->event);
    entry->is_true = entry->type == CONFIG_BOOL && is_true(text);
    if (entry->type == CONFIG_NUMBER)
        return set_number(entry, text);
    return entry->type == CONFIG_TEXT ? config_add_text(entry, text, strlen(text)) : ZN_OK;
}

/* ---- Lists and mappings ---- */

static zn_status read_list(struct reader *r, struct config_entry *entry)
{
    entry->type = CONFIG_LIST;
    ZN_TRY(next(r));
    while (r->event.type != YAML_SEQUENCE_END_EVENT) {
        const char *text = (const char *)r->event.data.scalar.value;
        if (r->event.type != YAML_SCALAR_EVENT)
            return fail_here(r, "a list holds texts, nothing deeper");
        ZN_TRY(check_text(r));
        if (type_of(&r->event) != CONFIG_TEXT)
            entry->type = CONFIG_OTHER;
        ZN_TRY(config_add_text(entry, text, strlen(text)));
        ZN_TRY(next(r));
    }
    return ZN_OK;
}

/* At a key: adds its entry. */
static zn_status read_key(struct reader *r, struct config_entry **entry)
{
    struct config *config = r->config;
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_here(r, "a key is the name of a flag");
    ZN_TRY(check_text(r));
    const char *key = (const char *)r->event.data.scalar.value;
    for (size_t i = 0; i < config->n_entries; i++)
        if (strcmp(config->entries[i].key, key) == 0) {
            char text[sizeof(struct zn_shown) + 32];
            snprintf(text, sizeof text, "%s: is given twice", zn_shown(key).text);
            return fail_here(r, text);
        }
    if (config->n_entries == MAX_ENTRIES)
        return fail_here(r, "more keys than there are flags");
    return config_add(config, key, strlen(key), entry);
}

static zn_status read_value(struct reader *r, struct config_entry *entry)
{
    entry->line = (int)r->event.start_mark.line + 1;
    entry->column = (int)r->event.start_mark.column + 1;
    if (r->event.type == YAML_SCALAR_EVENT)
        return set_scalar(r, entry);
    if (r->event.type == YAML_SEQUENCE_START_EVENT)
        return read_list(r, entry);
    return fail_here(r, "a mapping, where a flag has a value or a list of texts");
}

static bool is_section(const struct reader *r)
{
    return r->event.type == YAML_SCALAR_EVENT && r->config->n_entries == 0 &&
           strcmp((const char *)r->event.data.scalar.value, SECTION) == 0;
}

/* Up to the end of the mapping that has begun. */
static zn_status read_entries(struct reader *r)
{
    while (r->event.type != YAML_MAPPING_END_EVENT) {
        struct config_entry *entry;
        ZN_TRY(read_key(r, &entry));
        ZN_TRY(next(r));
        ZN_TRY(read_value(r, entry));
        ZN_TRY(next(r));
    }
    return ZN_OK;
}

static zn_status read_section(struct reader *r)
{
    ZN_TRY(next(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return fail_here(r, "'zinc' is a mapping of flags to their values");
    ZN_TRY(next(r));
    ZN_TRY(read_entries(r));
    ZN_TRY(next(r));
    return r->event.type == YAML_MAPPING_END_EVENT ? ZN_OK : fail_here(r, "a key beside 'zinc', which holds all flags");
}

static zn_status read_document(struct reader *r)
{
    ZN_TRY(next(r)); /* the stream */
    ZN_TRY(next(r));
    if (r->event.type == YAML_DOCUMENT_START_EVENT)
        ZN_TRY(next(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return fail_here(r, "expected a mapping of flags to their values");
    ZN_TRY(next(r));
    ZN_TRY(is_section(r) ? read_section(r) : read_entries(r));
    if (r->config->n_entries == 0)
        return fail_here(r, "expected a mapping of flags to their values");
    ZN_TRY(next(r)); /* the end of the document */
    ZN_TRY(next(r));
    return r->event.type == YAML_STREAM_END_EVENT ? ZN_OK : fail_here(r, "a second document: not in this build");
}

zn_status config_read_yaml(const char *path, const char *data, size_t n_bytes, struct config *config)
{
    struct reader r = {.path = path, .config = config};
    *config = (struct config){.section = ""};
    if (!yaml_parser_initialize(&r.parser))
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)data, n_bytes);
    zn_status status = read_document(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}
