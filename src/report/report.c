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

static zn_status write_page(const struct zn_report_facts *facts, const char *output)
{
    zn_text page;
    zn_text_init(&page);
    zn_report_page(&page, facts);
    zn_status status = zn_text_status(&page);
    if (status == ZN_OK)
        status = zn_file_write(output, page.data, page.n_bytes);
    zn_text_fini(&page);
    return status;
}

static zn_status check(const struct zn_report_options *o, const char *log, const char *output)
{
    size_t n = strlen(output);
    if (n < 5 || strcmp(output + n - 5, ".html") != 0) /* and so it is never the log or a model */
        return zn_fail(ZN_ERR_USAGE, "--output %s: the name of a page ends in .html", output);
    if (zn_folder_exists(output))
        return zn_fail(ZN_ERR_USAGE, "--output %s: is a folder", output);
    if (!zn_folder_exists(o->folder))
        return zn_fail(ZN_ERR_INPUT, "%s: %s", o->folder,
                       zn_file_exists(o->folder) ? "is a file; give the output folder of a run" : "no such folder");
    if (!o->log && !zn_file_exists(log))
        return zn_fail(ZN_ERR_INPUT, "%s: holds no metrics.jsonl, so it is no run's output; a log that is elsewhere is "
                                     "given with --log",
                       o->folder);
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

static zn_status report(const struct zn_report_options *o, const char *log_path, const char *output)
{
    struct zn_report_log *log = NULL;
    char *checkpoint = NULL;
    struct zn_report_facts facts = {.folder = o->folder, .steps = -1};
    bool has_one = false, has_index = false;
    ZN_TRY(check(o, log_path, output));
    zn_status status = read_run(&facts);
    if (status == ZN_OK)
        status = zn_report_log_read(log_path, &log);
    if (status == ZN_OK)
        status = holds(o->folder, "model.safetensors", &has_one);
    if (status == ZN_OK)
        status = holds(o->folder, "model.safetensors.index.json", &has_index);
    if (status == ZN_OK)
        status = find_checkpoint(o->folder, &checkpoint);
    if (status == ZN_OK) {
        tell_faults(o, log);
        facts.log = log;
        facts.has_weights = has_one || has_index;
        facts.checkpoint = checkpoint;
        status = write_page(&facts, output);
    }
    free(checkpoint);
    free(log);
    zn_json_destroy(facts.run);
    return status;
}

zn_status zn_report(const struct zn_report_options *options)
{
    char *log = NULL, *output = NULL;
    zn_status status = zn_path_join(options->folder, "metrics.jsonl", &log);
    if (status == ZN_OK)
        status = zn_path_join(options->folder, "report.html", &output);
    if (status == ZN_OK)
        status = report(options, options->log ? options->log : log, options->output ? options->output : output);
    free(output);
    free(log);
    return status;
}
