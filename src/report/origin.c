/* Where a run comes from, what was planned beside what was measured, and memory over the steps. */
#include <stdio.h>
#include <string.h>

#include "report/html.h"
#include "report/page.h"

static zn_json *object_at(zn_json *object, const char *key)
{
    zn_json *value;
    if (!object || zn_json_type_at(object, key) != ZN_JSON_OBJECT || zn_json_get_object(object, key, &value) != ZN_OK)
        return NULL;
    return value;
}

static const char *string_at(zn_json *object, const char *key)
{
    const char *value;
    if (!object || zn_json_type_at(object, key) != ZN_JSON_STRING || zn_json_get_string(object, key, &value) != ZN_OK)
        return NULL;
    return value;
}

static double number_at(zn_json *object, const char *key)
{
    double value;
    if (!object || zn_json_type_at(object, key) != ZN_JSON_NUMBER || zn_json_get_number(object, key, &value) != ZN_OK)
        return 0;
    return value;
}

/* ---- Origin ---- */

static void add_machine(zn_text *page, zn_json *machine)
{
    const char *cpu = string_at(machine, "cpu");
    if (!cpu)
        return;
    zn_text_add(page, "<div><dt>machine</dt><dd>");
    html_add(page, cpu);
    zn_text_add(page, ", %.0f cores, ", number_at(machine, "cores"));
    html_add_size(page, number_at(machine, "memory"));
    if (number_at(machine, "nodes") > 1)
        zn_text_add(page, ", one of %.0f nodes", number_at(machine, "nodes"));
    zn_text_add(page, "</dd></div>\n");
}

void report_add_origin(zn_text *page, const struct zn_report_facts *f)
{
    zn_json *origin = object_at(f->run, "origin");
    const char *date = string_at(origin, "date"), *command = string_at(origin, "command");
    if (!origin)
        return;
    zn_text_add(page, "<dl class=\"origin\">\n");
    if (date) {
        zn_text_add(page, "<div><dt>started</dt><dd>");
        html_add(page, date);
        zn_text_add(page, "</dd></div>\n");
    }
    if (command) {
        zn_text_add(page, "<div><dt>command</dt><dd class=\"command\">");
        html_add(page, command);
        zn_text_add(page, "</dd></div>\n");
    }
    add_machine(page, object_at(origin, "machine"));
    zn_text_add(page, "</dl>\n");
}

/* ---- Plan and measurement ---- */

static void add_row(zn_text *page, const char *name, double planned, double measured, void (*add)(zn_text *page, double value))
{
    zn_text_add(page, "<tr><td>%s</td><td>", name);
    if (planned > 0)
        add(page, planned);
    else
        zn_text_add(page, planned < 0 ? "–" : "0");
    zn_text_add(page, "</td><td>");
    if (measured > 0)
        add(page, measured);
    else
        zn_text_add(page, measured < 0 ? "–" : "0");
    zn_text_add(page, "</td></tr>\n");
}

static double planned_bytes(zn_json *bytes, zn_tier tier)
{
    double sum = 0;
    for (int kind = 0; kind < ZN_N_KINDS; kind++)
        sum += number_at(object_at(bytes, zn_kind_name((zn_kind)kind)), zn_tier_name(tier));
    return sum;
}

static void add_gflops(zn_text *page, double rate)
{
    html_add_short(page, rate / 1e9);
    zn_text_add(page, " Gflop/s");
}

/* A rank's step cannot be shorter than its products at the machine's peak, where that is known. */
static void add_speed(zn_text *page, zn_json *planned, const struct zn_report_log *log)
{
    double flops = number_at(planned, "flops"), peak = number_at(planned, "peak_flops");
    double seconds = log->n_steps > 0 ? log->seconds / (double)log->n_steps : 0;
    if (flops <= 0 || seconds <= 0)
        return;
    add_row(page, peak > 0 ? "a step, planned at the machine’s peak" : "a step", peak > 0 ? flops / peak : -1, seconds, html_add_duration);
    add_row(page, "matrix products", peak > 0 ? peak : -1, flops / seconds, add_gflops);
}

void report_add_plan(zn_text *page, const struct zn_report_facts *f)
{
    static const char *const names[ZN_N_TIERS] = {"device memory", "host memory", "NVMe"};
    zn_json *bytes = object_at(f->run, "bytes"), *planned = object_at(f->run, "planned");
    if (!bytes || !planned)
        return;
    zn_text_add(page, "<h2>Plan and measurement</h2>\n<div class=\"table\"><table>\n<thead><tr><th></th><th>planned</th>"
                      "<th>measured</th></tr></thead>\n<tbody>\n");
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        add_row(page, names[tier], planned_bytes(bytes, (zn_tier)tier), f->log->tier_bytes[tier], html_add_size);
    add_row(page, "the whole process", number_at(planned, "process_bytes"), f->log->resident_bytes, html_add_size);
    add_speed(page, planned, f->log);
    zn_text_add(page, "</tbody>\n</table></div>\n<p class=\"muted\">Of rank 0.</p>\n");
}

/* ---- Memory ---- */

void report_add_memory(zn_text *page, const struct zn_report_log *log)
{
    static const char *const names[] = {"resident, the whole process", "device", "host", "nvme"};
    static const char *const styles[] = {"line c0", "line c1", "line c2", "line c3"};
    enum { N = 1 + ZN_N_TIERS, POINTS = 200 };
    zn_curve scaled[N];
    const zn_curve *more[ZN_N_TIERS];
    double greatest = 0;
    for (int i = 0; i < N; i++) {
        scaled[i] = i ? log->tier[i - 1] : log->resident;
        zn_curve_thin(&scaled[i], POINTS);
        if (scaled[i].n > 0 && scaled[i].greatest.value > greatest)
            greatest = scaled[i].greatest.value;
        if (i)
            more[i - 1] = &scaled[i];
    }
    if (greatest <= 0)
        return;
    bool is_large = greatest >= 4.0 * (1 << 30);
    for (int i = 0; i < N; i++)
        zn_curve_scale(&scaled[i], is_large ? 1.0 / (1 << 30) : 1.0 / (1 << 20));
    zn_text_add(page, "<h2>Memory by tier</h2>\n<figure><p class=\"muted\">");
    for (int i = 0; i < N; i++)
        report_add_key(page, styles[i], "M1 5h20", names[i]);
    zn_text_add(page, "</p>\n");
    report_add_chart(page, &(struct zn_chart){.title = "Memory by step", .line = &scaled[0], .more = more, .n_more = ZN_N_TIERS,
                                              .from_zero = true, .width = 920, .height = 240});
    zn_text_add(page, "<figcaption>%s, the most up to each step, of rank 0</figcaption></figure>\n", is_large ? "GiB" : "MiB");
}
