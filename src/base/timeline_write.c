/* A time line as trace events: one complete event for each span, one thread for each track. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_text.h"
#include "base/size.h"
#include "base/timeline_private.h"

/* A track has so many lines at most; what overlaps beyond that goes to the last. */
enum { MAX_LANES = 64 };

struct window {
    double begin, end;
};

static int compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void put_line_name(FILE *f, int process, zn_track track, int lane)
{
    int id = (int)track * MAX_LANES + lane;
    char name[64];
    snprintf(name, sizeof name, lane ? "%s %d" : "%s", zn_track_name(track), lane + 1);
    fprintf(f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", process, id, name);
    fprintf(f, ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}", process, id, id);
}

static void put_span(FILE *f, int process, const struct span *s, int lane, const struct window *w)
{
    double begin = fmax(s->begin, w->begin) - w->begin, end = fmin(s->end, w->end) - w->begin;
    char unit[32] = "", size[ZN_SIZE_TEXT + 2] = "", text[ZN_SIZE_TEXT];
    if (s->track == ZN_TRACK_COMM && s->unit >= 0)
        snprintf(unit, sizeof unit, ", unit %d", s->unit);
    if (s->n_bytes)
        snprintf(size, sizeof size, ", %s", zn_size_text((size_t)s->n_bytes, text));
    fprintf(f, ",\n{\"name\":\"%s%s%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.6f,\"dur\":%.6f", s->label, unit,
            size, zn_track_name(s->track), process, (int)s->track * MAX_LANES + lane, begin * 1e6, (end - begin) * 1e6);
    if (s->n_bytes)
        fprintf(f, ",\"args\":{\"bytes\":%llu}", (unsigned long long)s->n_bytes);
    fputc('}', f);
}

/* Each span goes to the first line of its track that is free when it begins. */
static void put_spans(FILE *f, int process, const zn_timeline *t, const struct window *w)
{
    double free_at[MAX_LANES];
    int n_lanes = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct span *s = &t->spans[i];
        int lane = 0;
        if (i == 0 || s->track != t->spans[i - 1].track)
            n_lanes = 0;
        if (s->end <= w->begin || s->begin >= w->end)
            continue;
        while (lane < n_lanes && lane < MAX_LANES - 1 && free_at[lane] > s->begin)
            lane++;
        if (lane == n_lanes) {
            put_line_name(f, process, s->track, lane);
            n_lanes++;
        }
        free_at[lane] = s->end;
        put_span(f, process, s, lane, w);
    }
}

static void put_process(FILE *f, int process, const char *name, const zn_timeline *t, const struct window *w)
{
    fprintf(f, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":", process);
    zn_json_put_string(f, name);
    fprintf(f, "}}");
    put_spans(f, process, t, w);
}

zn_status zn_timeline_print(zn_timeline *t, int process, const char *name, double begin, double end, char **events)
{
    const struct window w = {begin, end};
    char *text = NULL;
    size_t n_bytes;
    ZN_TRY(zn_timeline_status(t));
    FILE *f = open_memstream(&text, &n_bytes);
    if (!f)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a time line");
    pthread_mutex_lock(&t->lock);
    if (t->n_spans)
        qsort(t->spans, t->n_spans, sizeof *t->spans, compare);
    put_process(f, process, name, t, &w);
    pthread_mutex_unlock(&t->lock);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return zn_fail(ZN_ERR_MEMORY, "no memory for a time line");
    }
    *events = text;
    return ZN_OK;
}

zn_status zn_trace_write(const char *path, const char *const *events, int n)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return zn_fail(ZN_ERR_IO, "%s: cannot write the time line: %s", path, strerror(errno));
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%s", i ? ",\n" : "", events[i]);
    fprintf(f, "\n]}\n");
    struct stat is;
    bool is_file = fstat(fileno(f), &is) == 0 && S_ISREG(is.st_mode), written = fflush(f) == 0 && !ferror(f);
    int cause = errno;
    fclose(f);
    if (written)
        return ZN_OK;
    if (is_file)
        unlink(path);
    return zn_fail(ZN_ERR_IO, "%s: cannot write the time line: %s", path, strerror(cause));
}

zn_status zn_timeline_write(zn_timeline *t, const char *path, const char *process, double begin, double end)
{
    char *events;
    ZN_TRY(zn_timeline_print(t, 0, process, begin, end, &events));
    zn_status status = zn_trace_write(path, &(const char *){events}, 1);
    free(events);
    return status;
}
