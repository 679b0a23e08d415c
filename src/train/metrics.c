/* The log of a run. */
#include "train/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_text.h"
#include "formats/events.h"

struct zn_metrics {
    FILE *file;
    char *path;
    bool is_regular;
    int64_t step; /* of the last line, which begins at `at` */
    off_t at;
    zn_events *events; /* the same for TensorBoard; NULL: none */
    int64_t event_step; /* of the last that were written */
};

static zn_status fail_log(const char *path)
{
    return zn_fail(ZN_ERR_IO, "%s: cannot write the log: %s", path, strerror(errno));
}

static zn_status open_log(const char *path, const char *mode, zn_metrics **metrics)
{
    zn_metrics *m = calloc(1, sizeof *m);
    if (!m || !(m->path = strdup(path))) {
        zn_metrics_destroy(m);
        return zn_fail(ZN_ERR_MEMORY, "no memory for the log");
    }
    struct stat is;
    m->file = fopen(path, mode);
    if (!m->file || fstat(fileno(m->file), &is) != 0) {
        fail_log(path);
        zn_metrics_destroy(m);
        return ZN_ERR_IO;
    }
    m->is_regular = S_ISREG(is.st_mode);
    m->step = -1;
    *metrics = m;
    return ZN_OK;
}

zn_status zn_metrics_create(const char *path, zn_metrics **metrics)
{
    return open_log(path, "we", metrics);
}

/* Where the first line after the step begins. A line without its end was being written when a run died. */
static off_t end_of_step(FILE *file, int64_t step)
{
    char *line = NULL;
    size_t capacity = 0;
    off_t end = 0;
    for (ssize_t n; (n = getline(&line, &capacity, file)) > 0; end += n) {
        long long is;
        if (line[n - 1] != '\n' || sscanf(line, "{\"step\":%lld", &is) != 1 || is > step)
            break;
    }
    free(line);
    return end;
}

zn_status zn_metrics_continue(const char *path, int64_t step, zn_metrics **metrics)
{
    zn_metrics *m = NULL;
    struct stat is;
    if (stat(path, &is) != 0 || !S_ISREG(is.st_mode)) /* a pipe has nothing to cut */
        return zn_metrics_create(path, metrics);
    ZN_TRY(open_log(path, "r+e", &m));
    rewind(m->file);
    off_t end = end_of_step(m->file, step);
    if (ferror(m->file) || fseeko(m->file, end, SEEK_SET) != 0 || ftruncate(fileno(m->file), end) != 0) {
        fail_log(path);
        zn_metrics_destroy(m);
        return ZN_ERR_IO;
    }
    *metrics = m;
    return ZN_OK;
}

void zn_metrics_destroy(zn_metrics *m)
{
    if (!m)
        return;
    if (m->file)
        fclose(m->file);
    zn_events_destroy(m->events);
    free(m->path);
    free(m);
}

static void put_memory(FILE *f, const struct zn_step_report *s, const zn_ledger *ledger)
{
    fprintf(f, ",\"memory\":{");
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        fprintf(f, "\"%s\":%zu,", zn_tier_name((zn_tier)tier), ledger->tier_peak[tier]);
    fprintf(f, "\"resident\":%zu},\"states\":{", s->resident_bytes);
    for (int kind = 0; kind < ZN_N_KINDS; kind++)
        fprintf(f, "%s\"%s\":%zu", kind ? "," : "", zn_kind_name((zn_kind)kind),
                zn_ledger_kind(ledger, (zn_kind)kind));
    fprintf(f, "},\"comm_bytes\":%llu,\"nvme_read_bytes\":%llu,\"nvme_write_bytes\":%llu",
            (unsigned long long)s->comm_bytes, (unsigned long long)s->nvme_read_bytes,
            (unsigned long long)s->nvme_write_bytes);
}

bool zn_metrics_can_replace(const zn_metrics *m)
{
    return m->is_regular;
}

/* Written over in one write, so that a reader, and a run that goes on, see one of the two. */
static zn_status begin_line(zn_metrics *m, int64_t step)
{
    if (m->is_regular && step == m->step && fseeko(m->file, m->at, SEEK_SET) != 0)
        return fail_log(m->path);
    m->step = step;
    m->at = m->is_regular ? ftello(m->file) : 0;
    return m->at < 0 ? fail_log(m->path) : ZN_OK;
}

static zn_status end_line(zn_metrics *m)
{
    if (fflush(m->file) != 0 || ferror(m->file))
        return fail_log(m->path);
    if (m->is_regular && ftruncate(fileno(m->file), ftello(m->file)) != 0)
        return fail_log(m->path);
    return ZN_OK;
}

static void put_eval(FILE *f, const struct zn_step_report *s)
{
    if (!s->evaluated)
        return;
    fprintf(f, ",\"eval_loss\":");
    zn_json_put_number(f, s->eval_loss, 9);
    if (!s->eval_reason)
        return;
    fprintf(f, ",\"eval_reason\":");
    zn_json_put_string(f, s->eval_reason);
}

static void put_pairs(FILE *f, const struct zn_step_report *s)
{
    if (s->has_pairs && s->skipped)
        fprintf(f, ",\"accuracy\":null,\"margin\":null");
    else if (s->has_pairs)
        fprintf(f, ",\"accuracy\":%.9g,\"margin\":%.9g", s->accuracy, s->margin);
}

/* ---- The same for TensorBoard ---- */

zn_status zn_metrics_add_events(zn_metrics *m, const char *folder, int64_t resumed)
{
    m->event_step = -1;
    return zn_events_create(folder, resumed >= 0 ? resumed + 1 : 0, &m->events);
}

static void add_event(zn_metrics *m, const char *group, const char *name, double value)
{
    char tag[64];
    snprintf(tag, sizeof tag, "%s%s%s", group, group[0] ? "/" : "", name);
    zn_events_add(m->events, tag, value);
}

static void add_events(zn_metrics *m, const struct zn_step_report *s, const zn_ledger *ledger)
{
    if (!s->skipped) {
        add_event(m, "", "loss", s->loss);
        add_event(m, "", "grad_norm", s->grad_norm);
        if (s->has_pairs) {
            add_event(m, "", "accuracy", s->accuracy);
            add_event(m, "", "margin", s->margin);
        }
    }
    add_event(m, "", "lr", s->lr);
    add_event(m, "", "scale", s->scale);
    add_event(m, "", "tokens", (double)s->tokens);
    add_event(m, "", "targets", (double)s->targets);
    add_event(m, "", "seconds", s->seconds);
    add_event(m, "", "tokens_per_second", (double)s->tokens / s->seconds);
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        add_event(m, "memory", zn_tier_name((zn_tier)tier), (double)ledger->tier_peak[tier]);
    add_event(m, "memory", "resident", (double)s->resident_bytes);
    for (int kind = 0; kind < ZN_N_KINDS; kind++)
        add_event(m, "states", zn_kind_name((zn_kind)kind), (double)zn_ledger_kind(ledger, (zn_kind)kind));
    add_event(m, "", "comm_bytes", (double)s->comm_bytes);
    add_event(m, "", "nvme_read_bytes", (double)s->nvme_read_bytes);
    add_event(m, "", "nvme_write_bytes", (double)s->nvme_write_bytes);
}

/* A step that is told again has its held-out loss to add. ledger NULL: nothing but that. */
static zn_status write_events(zn_metrics *m, const struct zn_step_report *s, const zn_ledger *ledger)
{
    if (!m->events)
        return ZN_OK;
    if (ledger && s->step != m->event_step)
        add_events(m, s, ledger);
    if (s->evaluated)
        add_event(m, "", "eval_loss", s->eval_loss);
    m->event_step = s->step;
    return zn_events_write(m->events, s->step);
}

/* ---- Lines ---- */

zn_status zn_metrics_start(zn_metrics *m, const struct zn_step_report *s)
{
    fprintf(m->file, "{\"step\":0");
    put_eval(m->file, s);
    fprintf(m->file, "}\n");
    if (fflush(m->file) != 0 || ferror(m->file))
        return fail_log(m->path);
    return write_events(m, s, NULL);
}

zn_status zn_metrics_step(zn_metrics *m, const struct zn_step_report *s, const zn_ledger *ledger)
{
    FILE *f = m->file;
    ZN_TRY(begin_line(m, s->step));
    fprintf(f, "{\"step\":%lld", (long long)s->step);
    if (s->skipped) {
        fprintf(f, ",\"loss\":null,\"skipped\":true,\"reason\":");
        zn_json_put_string(f, s->reason);
        fprintf(f, ",\"grad_norm\":null");
    } else {
        fprintf(f, ",\"loss\":%.9g,\"grad_norm\":%.9g", s->loss, s->grad_norm);
    }
    fprintf(f, ",\"lr\":%.17g,\"scale\":%.9g,\"tokens\":%lld,\"targets\":%lld,\"seconds\":%.17g,\"tokens_per_second\":%.17g",
            s->lr, s->scale, (long long)s->tokens, (long long)s->targets, s->seconds, (double)s->tokens / s->seconds);
    put_pairs(f, s);
    put_eval(f, s);
    put_memory(f, s, ledger);
    fprintf(f, "}\n");
    ZN_TRY(end_line(m));
    return write_events(m, s, ledger);
}
