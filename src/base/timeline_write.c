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

static void put_line_name(FILE *f, zn_track track, int lane)
{
    int id = (int)track * MAX_LANES + lane;
    char name[64];
    snprintf(name, sizeof name, lane ? "%s %d" : "%s", zn_track_name(track), lane + 1);
    fprintf(f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", id, name);
    fprintf(f, ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"sort_index\":%d}}", id, id);
}

static void put_span(FILE *f, const struct span *s, int lane, const struct window *w)
{
    double begin = fmax(s->begin, w->begin) - w->begin, end = fmin(s->end, w->end) - w->begin;
    char unit[32] = "", size[ZN_SIZE_TEXT + 2] = "", text[ZN_SIZE_TEXT];
    if (s->track == ZN_TRACK_COMM && s->unit >= 0)
        snprintf(unit, sizeof unit, ", unit %d", s->unit);
    if (s->n_bytes)
        snprintf(size, sizeof size, ", %s", zn_size_text((size_t)s->n_bytes, text));
    fprintf(f, ",\n{\"name\":\"%s%s%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.6f,\"dur\":%.6f", s->label, unit,
            size, zn_track_name(s->track), (int)s->track * MAX_LANES + lane, begin * 1e6, (end - begin) * 1e6);
    if (s->n_bytes)
        fprintf(f, ",\"args\":{\"bytes\":%llu}", (unsigned long long)s->n_bytes);
    fputc('}', f);
}

/* Each span goes to the first line of its track that is free when it begins. */
static void put_spans(FILE *f, const zn_timeline *t, const struct window *w)
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
            put_line_name(f, s->track, lane);
            n_lanes++;
        }
        free_at[lane] = s->end;
        put_span(f, s, lane, w);
    }
}

static void put_all(FILE *f, const zn_timeline *t, const char *process, const struct window *w)
{
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    fprintf(f, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"name\":");
    zn_json_put_string(f, process);
    fprintf(f, "}}");
    put_spans(f, t, w);
    fprintf(f, "\n]}\n");
}

zn_status zn_timeline_write(zn_timeline *t, const char *path, const char *process, double begin, double end)
{
    const struct window w = {begin, end};
    ZN_TRY(zn_timeline_status(t));
    FILE *f = fopen(path, "we");
    if (!f)
        return zn_fail(ZN_ERR_IO, "%s: cannot write the time line: %s", path, strerror(errno));
    pthread_mutex_lock(&t->lock);
    if (t->n_spans)
        qsort(t->spans, t->n_spans, sizeof *t->spans, compare);
    put_all(f, t, process, &w);
    pthread_mutex_unlock(&t->lock);
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
