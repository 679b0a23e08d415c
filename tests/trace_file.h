/* For tests of time lines: a written one is read back and checked. */
#ifndef ZN_TESTS_TRACE_FILE_H
#define ZN_TESTS_TRACE_FILE_H

#include "base/json.h"
#include "files.h"

enum { TRACE_LINES = 512 };

/* What a file holds, by the category of its events. */
struct trace_file {
    int n_events, n_lines;
    struct {
        int64_t id;
        double end; /* of the last event */
    } line[TRACE_LINES];
};

static inline void trace_check_event(struct trace_file *f, zn_json *event, double seconds)
{
    const double rounding = 2e-6; /* microseconds are written with six digits */
    int64_t id;
    double begin, duration;
    int i = 0;
    OK(zn_json_get_int(event, "tid", 0, 1 << 20, &id));
    OK(zn_json_get_number(event, "ts", &begin));
    OK(zn_json_get_number(event, "dur", &duration));
    while (i < f->n_lines && f->line[i].id != id)
        i++;
    if (i == f->n_lines)
        f->line[f->n_lines++].id = id;
    assert_true(duration >= 0 && begin >= -rounding && begin + duration <= seconds * 1e6 + rounding);
    if (begin < f->line[i].end - rounding)
        fail_msg("line %d: an event begins at %.6f, the one before ends at %.6f", (int)id, begin, f->line[i].end);
    f->line[i].end = begin + duration;
}

/* Every event lies within the step, and no two of a line overlap. How many there are whose category is `track` and
 * whose name begins with `label`; NULL stands for all. */
static inline int trace_count(const char *path, double seconds, const char *track, const char *label)
{
    struct trace_file f = {0};
    zn_json *root, *events;
    int n = 0;
    OK(zn_json_load_file(path, (size_t)1 << 28, &root));
    OK(zn_json_get_array(root, "traceEvents", &events));
    for (size_t i = 0; i < zn_json_n_items(events); i++) {
        zn_json *event;
        const char *kind, *name, *category;
        OK(zn_json_item_object(events, i, &event));
        OK(zn_json_get_string(event, "ph", &kind));
        OK(zn_json_get_string(event, "name", &name));
        if (strcmp(kind, "X") != 0)
            continue;
        OK(zn_json_get_string(event, "cat", &category));
        trace_check_event(&f, event, seconds);
        n += (!track || strcmp(track, category) == 0) && (!label || strncmp(label, name, strlen(label)) == 0);
    }
    zn_json_destroy(root);
    return n;
}

#endif
