/* `zinc report`: reads the folder of a run and writes the page. */
#include "zinc/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "report/page.h"

enum { MAX_RUN_JSON = 16 * 1024 * 1024, FORMAT = 1 };

static zn_status holds(const char *folder, const char *name, bool *found)
{
    char *path;
    ZN_TRY(zn_path_join(folder, name, &path));
    *found = zn_file_exists(path);
    free(path);
    return ZN_OK;
}

/* Leaves facts->run NULL when there is none: the log alone is worth a page. */
static zn_status read_run(struct zn_report_facts *facts)
{
    char *path;
    bool found;
    int64_t format;
    ZN_TRY(holds(facts->folder, "run.json", &found));
    if (!found)
        return ZN_OK;
    ZN_TRY(zn_path_join(facts->folder, "run.json", &path));
    zn_status status = zn_json_load_file(path, MAX_RUN_JSON, &facts->run);
    free(path);
    ZN_TRY(status);
    ZN_TRY(zn_json_get_int(facts->run, "format", INT64_MIN, INT64_MAX, &format));
    if (format != FORMAT)
        return zn_json_fail(facts->run, "has format %lld; this version reads %d", (long long)format, FORMAT);
    return zn_json_get_int_or(facts->run, "steps", 0, INT64_MAX, -1, &facts->steps);
}

/* Names are sorted, and steps have the same number of digits. */
static zn_status newest_of(const char *checkpoints, char **newest)
{
    char **names;
    size_t n;
    ZN_TRY(zn_folder_list(checkpoints, &names, &n));
    size_t i = n;
    while (i > 0 && strncmp(names[i - 1], "step-", 5) != 0)
        i--;
    zn_status status = ZN_OK;
    if (i > 0 && !(*newest = strdup(names[i - 1])))
        status = zn_fail(ZN_ERR_MEMORY, "%s: out of memory", checkpoints);
    zn_names_free(names, n);
    return status;
}

/* Leaves *newest as it is when there is none. The caller frees it. */
static zn_status find_checkpoint(const char *folder, char **newest)
{
    char *path;
    ZN_TRY(zn_path_join(folder, "checkpoints", &path));
    zn_status status = zn_folder_exists(path) ? newest_of(path, newest) : ZN_OK;
    free(path);
    return status;
}

static zn_status write_page(const struct zn_report_facts *runs, size_t n, const char *output)
{
    zn_text page;
    zn_text_init(&page);
    if (n == 1)
        zn_report_page(&page, &runs[0]);
    else
        zn_report_runs(&page, runs, n);
    zn_status status = zn_text_status(&page);
    if (status == ZN_OK)
        status = zn_file_write(output, page.data, page.n_bytes);
    zn_text_fini(&page);
    return status;
}

static zn_status check_output(const char *output)
{
    size_t n = strlen(output);
    if (n < 5 || strcmp(output + n - 5, ".html") != 0) /* and so it is never the log or a model */
        return zn_fail(ZN_ERR_USAGE, "--output %s: the name of a page ends in .html", output);
    if (zn_folder_exists(output))
        return zn_fail(ZN_ERR_USAGE, "--output %s: is a folder", output);
    return ZN_OK;
}

static zn_status check_folder(const char *folder, const char *given_log, const char *log)
{
    if (!zn_folder_exists(folder))
        return zn_fail(ZN_ERR_INPUT, "%s: %s", folder,
                       zn_file_exists(folder) ? "is a file; give the output folder of a run" : "no such folder");
    if (!given_log && !zn_file_exists(log))
        return zn_fail(ZN_ERR_INPUT, "%s: holds no metrics.jsonl, so it is no run's output; a log that is elsewhere is "
                                     "given with --log",
                       folder);
    return ZN_OK;
}

static void tell_faults(const struct zn_report_options *o, const struct zn_report_log *log)
{
    zn_text text;
    if (!o->note || log->n_bad == 0)
        return;
    zn_text_init(&text);
    zn_text_add(&text, "%lld of %lld lines of the log are left out; the first: %s", (long long)log->n_bad,
                (long long)log->n_lines, log->fault);
    if (!text.failed)
        o->note(o->self, text.data);
    zn_text_fini(&text);
}

/* A run that is read; what its facts borrow is its own. */
struct run {
    struct zn_report_log *log;
    struct zn_report_lanes *lanes;
    char *checkpoint;
};

/* The file that was given must be a time line; the one that run.json names may be gone. */
static zn_status read_lanes(const struct zn_report_options *o, const struct zn_report_facts *facts, struct run *run)
{
    zn_json *origin;
    const char *path = o->trace;
    if (path)
        return zn_report_lanes_read(path, &run->lanes);
    if (!facts->run || zn_json_type_at(facts->run, "origin") != ZN_JSON_OBJECT ||
        zn_json_get_object(facts->run, "origin", &origin) != ZN_OK || zn_json_type_at(origin, "trace") != ZN_JSON_STRING ||
        zn_json_get_string(origin, "trace", &path) != ZN_OK || !zn_file_exists(path))
        return ZN_OK;
    zn_status status = zn_report_lanes_read(path, &run->lanes);
    if (status != ZN_OK && o->note)
        o->note(o->self, zn_error_message());
    return status == ZN_ERR_MEMORY ? status : ZN_OK;
}

static zn_status read_folder(const struct zn_report_options *o, struct zn_report_facts *facts, struct run *run)
{
    char *path;
    bool has_one = false, has_index = false;
    ZN_TRY(zn_path_join(facts->folder, "metrics.jsonl", &path));
    const char *log_path = o->log ? o->log : path;
    zn_status status = check_folder(facts->folder, o->log, log_path);
    if (status == ZN_OK)
        status = read_run(facts);
    if (status == ZN_OK)
        status = zn_report_log_read(log_path, &run->log);
    free(path);
    ZN_TRY(status);
    ZN_TRY(holds(facts->folder, "model.safetensors", &has_one));
    ZN_TRY(holds(facts->folder, "model.safetensors.index.json", &has_index));
    ZN_TRY(find_checkpoint(facts->folder, &run->checkpoint));
    ZN_TRY(read_lanes(o, facts, run));
    tell_faults(o, run->log);
    facts->log = run->log;
    facts->lanes = run->lanes;
    facts->has_weights = has_one || has_index;
    facts->checkpoint = run->checkpoint;
    return ZN_OK;
}

static zn_status report(const struct zn_report_options *o, const char *output)
{
    struct zn_report_facts facts[ZN_REPORT_RUNS];
    struct run runs[ZN_REPORT_RUNS] = {{0}};
    size_t n = 1 + o->n_others, n_read = 0;
    if (n > ZN_REPORT_RUNS)
        return zn_fail(ZN_ERR_USAGE, "a page shows at most %d runs, not %zu", (int)ZN_REPORT_RUNS, n);
    if (n > 1 && (o->log || o->trace))
        return zn_fail(ZN_ERR_USAGE, "%s is that of one run; several are shown from their own folders", o->log ? "--log" : "--trace");
    ZN_TRY(check_output(output));
    zn_status status = ZN_OK;
    for (; n_read < n && status == ZN_OK; n_read++) {
        facts[n_read] = (struct zn_report_facts){.folder = n_read ? o->others[n_read - 1] : o->folder, .steps = -1};
        status = read_folder(o, &facts[n_read], &runs[n_read]);
    }
    if (status == ZN_OK)
        status = write_page(facts, n, output);
    for (size_t i = 0; i < n_read; i++) {
        free(runs[i].checkpoint);
        free(runs[i].lanes);
        free(runs[i].log);
        zn_json_destroy(facts[i].run);
    }
    return status;
}

zn_status zn_report(const struct zn_report_options *options)
{
    char *output = NULL;
    ZN_TRY(zn_path_join(options->n_others ? "." : options->folder, options->n_others ? "runs.html" : "report.html", &output));
    zn_status status = report(options, options->output ? options->output : output);
    free(output);
    return status;
}
