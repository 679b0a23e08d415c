/* Reading the log. A line that is no step (one cut off by a crash, say) is counted and left out: the
 * rest of the log is still worth a page, and the page tells. */
#include "report/log.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

enum { MAX_LINE = 64 * 1024 }; /* a line of ours has about 600 bytes */

static const int64_t MAX_STEP = 1000000000000000; /* doubles count them exactly */

struct reader {
    FILE *file;
    const char *path;
    char line[MAX_LINE + 1];
    size_t n_bytes;
    bool is_too_long, has_end;
};

/* ---- Lines ---- */

/* The next line without its end; false at the end of the file. Any byte may be in it. */
static bool next_line(struct reader *r)
{
    int c;
    r->n_bytes = 0;
    r->is_too_long = r->has_end = false;
    while ((c = getc_unlocked(r->file)) != EOF && c != '\n') {
        if (r->n_bytes < MAX_LINE)
            r->line[r->n_bytes++] = (char)c;
        else
            r->is_too_long = true;
    }
    r->has_end = c == '\n';
    r->line[r->n_bytes] = '\0';
    return r->has_end || r->n_bytes > 0;
}

static bool is_blank(const struct reader *r)
{
    for (size_t i = 0; i < r->n_bytes; i++)
        if (!isspace((unsigned char)r->line[i]))
            return false;
    return true;
}

/* How many bytes at `text` are a number that JSON does not have: NaN, Infinity, as C and Python write
 * them, with a sign or without. */
static size_t strange_number(const char *text)
{
    static const char *const words[] = {"infinity", "inf", "nan"};
    size_t sign = text[0] == '-' || text[0] == '+';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);
        if (strncasecmp(text + sign, words[i], n) == 0)
            return sign + n;
    }
    return 0;
}

/* The line with null for such numbers, in `repaired`, which has room for twice its length. Returns the length. */
static size_t replace_strange_numbers(const char *line, size_t n_bytes, char *repaired)
{
    bool in_string = false;
    char *to = repaired;
    for (size_t i = 0; i < n_bytes;) {
        size_t n = in_string ? 0 : strange_number(line + i);
        if (n > 0) {
            memcpy(to, "null", 4);
            to += 4;
            i += n;
            continue;
        }
        if (line[i] == '"')
            in_string = !in_string;
        else if (in_string && line[i] == '\\' && i + 1 < n_bytes)
            *to++ = line[i++];
        *to++ = line[i++];
    }
    return (size_t)(to - repaired);
}

static zn_status parse(const struct reader *r, const char *place, zn_json **json)
{
    if (r->is_too_long)
        return zn_fail(ZN_ERR_INPUT, "%s: longer than the %d bytes that a line may have", place, MAX_LINE);
    if (zn_json_load_buffer(r->line, r->n_bytes, place, json) == ZN_OK)
        return ZN_OK;
    char fault[ZN_REPORT_FAULT];
    snprintf(fault, sizeof fault, "%s", zn_error_message());
    char *repaired = malloc(2 * r->n_bytes + 1);
    if (!repaired)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", place);
    zn_status status = zn_json_load_buffer(repaired, replace_strange_numbers(r->line, r->n_bytes, repaired), place, json);
    free(repaired);
    return status == ZN_OK ? ZN_OK : zn_fail_text(status, fault);
}

/* ---- Steps ---- */

/* The number there; NaN when there is none. */
static double number_at(zn_json *object, const char *key)
{
    double value;
    if (zn_json_type_at(object, key) != ZN_JSON_NUMBER || zn_json_get_number(object, key, &value) != ZN_OK)
        return NAN;
    return value;
}

static bool is_amount(double value)
{
    return value >= 0 && value <= 1e100; /* sums stay finite */
}

static void read_bytes(zn_json *object, const char *key, double *n_bytes)
{
    double value = number_at(object, key);
    if (is_amount(value))
        *n_bytes = value;
}

static void read_memory(struct zn_report_log *log, zn_json *line, double at)
{
    zn_json *memory, *states;
    if (zn_json_type_at(line, "memory") == ZN_JSON_OBJECT &&
        zn_json_get_object(line, "memory", &memory) == ZN_OK) {
        for (int tier = 0; tier < ZN_N_TIERS; tier++)
            read_bytes(memory, zn_tier_name((zn_tier)tier), &log->tier_bytes[tier]);
        read_bytes(memory, "resident", &log->resident_bytes);
        for (int tier = 0; tier < ZN_N_TIERS; tier++)
            zn_curve_add(&log->tier[tier], at, number_at(memory, zn_tier_name((zn_tier)tier)));
        zn_curve_add(&log->resident, at, number_at(memory, "resident"));
    }
    if (zn_json_type_at(line, "states") == ZN_JSON_OBJECT &&
        zn_json_get_object(line, "states", &states) == ZN_OK) {
        for (int kind = 0; kind < ZN_N_KINDS; kind++)
            read_bytes(states, zn_kind_name((zn_kind)kind), &log->kind_bytes[kind]);
    }
}

static void read_traffic(struct zn_report_log *log, zn_json *line)
{
    static const char *const keys[ZN_N_TRAFFIC] = {"comm_bytes", "nvme_read_bytes", "nvme_write_bytes"};
    for (int i = 0; i < ZN_N_TRAFFIC; i++) {
        double value = number_at(line, keys[i]);
        if (!is_amount(value))
            continue;
        log->traffic_last[i] = value;
        log->traffic_sum[i] += value;
    }
}

static void read_skipped(struct zn_report_log *log, zn_json *line, int64_t step)
{
    bool skipped = false;
    const char *reason = "not said";
    if (zn_json_type_at(line, "skipped") == ZN_JSON_BOOL)
        (void)zn_json_get_bool(line, "skipped", &skipped);
    if (!skipped) {
        log->n_skipped_at_end = 0;
        return;
    }
    if (zn_json_type_at(line, "reason") == ZN_JSON_STRING)
        (void)zn_json_get_string(line, "reason", &reason);
    if (log->n_skipped < ZN_REPORT_REASONS) {
        log->reasons[log->n_skipped].step = step;
        strcpy(log->reasons[log->n_skipped].text, zn_shown(reason).text);
    }
    zn_curve_add(&log->skipped, (double)step, 1);
    log->n_skipped++;
    log->n_skipped_at_end++;
}

static zn_status read_step(struct zn_report_log *log, zn_json *line)
{
    int64_t step;
    ZN_TRY(zn_json_get_int(line, "step", 0, MAX_STEP, &step));
    double at = (double)step;
    double tokens = number_at(line, "tokens"), targets = number_at(line, "targets"), seconds = number_at(line, "seconds");
    if (zn_json_has(line, "eval_loss") || zn_json_has(line, "eval_reason")) /* most steps have none, and that is no gap */
        zn_curve_add(&log->held_out, at, number_at(line, "eval_loss"));
    if (step == 0) /* what was held out, before the first */
        return ZN_OK;
    log->n_steps++;
    if (step > log->last_step)
        log->last_step = step;
    if (is_amount(tokens))
        log->tokens += tokens;
    if (is_amount(targets))
        log->targets += targets;
    if (is_amount(seconds))
        log->seconds += seconds;
    zn_curve_add(&log->loss, at, number_at(line, "loss"));
    zn_curve_add(&log->grad_norm, at, number_at(line, "grad_norm"));
    zn_curve_add(&log->lr, at, number_at(line, "lr"));
    zn_curve_add(&log->speed, at, number_at(line, "tokens_per_second"));
    read_skipped(log, line, step);
    read_memory(log, line, at);
    read_traffic(log, line);
    return ZN_OK;
}

static zn_status read_line(struct zn_report_log *log, const struct reader *r)
{
    zn_json *json;
    char place[ZN_REPORT_FAULT];
    const char *slash = strrchr(r->path, '/');
    snprintf(place, sizeof place, "%s:%lld", zn_shown(slash ? slash + 1 : r->path).text, (long long)log->n_lines);
    zn_status status = parse(r, place, &json);
    if (status == ZN_OK) {
        status = read_step(log, json);
        zn_json_destroy(json);
    }
    if (status == ZN_ERR_MEMORY)
        return status;
    if (status != ZN_OK && log->n_bad++ == 0)
        snprintf(log->fault, sizeof log->fault, "%s", zn_error_message());
    log->is_cut = status != ZN_OK && !r->has_end;
    return ZN_OK;
}

static zn_status read_lines(struct zn_report_log *log, struct reader *r)
{
    while (next_line(r)) {
        log->n_lines++;
        if (!is_blank(r))
            ZN_TRY(read_line(log, r));
    }
    if (ferror(r->file))
        return zn_fail(ZN_ERR_IO, "%s: cannot read: %s", r->path, strerror(errno));
    if (log->n_steps == 0 && log->n_bad > 0 && !log->is_cut)
        return zn_fail(ZN_ERR_INPUT, "%s: no line of it is a step of a run; %s", r->path, log->fault);
    return ZN_OK;
}

static struct zn_report_log *log_create(void)
{
    struct zn_report_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    zn_curve *curves[] = {&log->loss, &log->held_out, &log->grad_norm, &log->lr, &log->speed, &log->skipped,
                          &log->tier[0], &log->tier[1], &log->tier[2], &log->resident};
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        zn_curve_init(curves[i]);
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        log->tier_bytes[tier] = -1;
    for (int kind = 0; kind < ZN_N_KINDS; kind++)
        log->kind_bytes[kind] = -1;
    log->resident_bytes = -1;
    return log;
}

zn_status zn_report_log_read(const char *path, struct zn_report_log **log)
{
    int fd;
    uint64_t n_bytes;
    struct stat s;
    ZN_TRY(zn_file_open(path, &fd, &n_bytes));
    struct reader *r = calloc(1, sizeof *r);
    struct zn_report_log *l = log_create();
    zn_status status = ZN_OK;
    if (!r || !l || !(r->file = fdopen(fd, "r"))) {
        status = zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
        close(fd);
        goto undo;
    }
    r->path = path;
    if (fstat(fd, &s) == 0)
        l->written = s.st_mtime;
    status = read_lines(l, r);
    fclose(r->file);
    if (status == ZN_OK) {
        *log = l;
        l = NULL;
    }
undo:
    free(l);
    free(r);
    return status;
}
