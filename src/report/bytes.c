/* The tables of bytes: where they were, by tier and kind, and what moved in a step. */
#include <math.h>
#include <stdio.h>

#include "report/html.h"
#include "report/page.h"

/* Bytes by kind and tier; negative: not known. */
struct placement {
    double bytes[ZN_N_KINDS][ZN_N_TIERS];
    double total[ZN_N_KINDS];
};

/* What the plan allocated, as run.json tells: `bytes{parameters{device,host,nvme},…}`. */
static bool read_plan(zn_json *run, struct placement *p)
{
    zn_json *bytes, *tiers;
    if (!run || zn_json_type_at(run, "bytes") != ZN_JSON_OBJECT || zn_json_get_object(run, "bytes", &bytes) != ZN_OK)
        return false;
    for (int kind = 0; kind < ZN_N_KINDS; kind++) {
        if (zn_json_get_object(bytes, zn_kind_name((zn_kind)kind), &tiers) != ZN_OK)
            return false;
        p->total[kind] = 0;
        for (int tier = 0; tier < ZN_N_TIERS; tier++) {
            int64_t n;
            if (zn_json_get_int(tiers, zn_tier_name((zn_tier)tier), 0, INT64_MAX, &n) != ZN_OK)
                return false;
            p->bytes[kind][tier] = (double)n;
            p->total[kind] += (double)n;
        }
    }
    return true;
}

/* The log has sums of kinds and of tiers. They tell the places where only one tier is used. */
static void read_sums(const struct zn_report_log *log, struct placement *p)
{
    bool only_device = log->tier_bytes[ZN_TIER_HOST] == 0 && log->tier_bytes[ZN_TIER_NVME] == 0;
    for (int kind = 0; kind < ZN_N_KINDS; kind++) {
        p->total[kind] = log->kind_bytes[kind];
        for (int tier = 0; tier < ZN_N_TIERS; tier++)
            p->bytes[kind][tier] = !only_device ? -1 : tier == ZN_TIER_DEVICE ? log->kind_bytes[kind] : 0;
    }
}

static void add_cell(zn_text *page, double n_bytes)
{
    zn_text_add(page, "<td>");
    if (n_bytes < 0)
        zn_text_add(page, "–");
    else if (n_bytes == 0)
        zn_text_add(page, "0");
    else
        html_add_size(page, n_bytes);
    zn_text_add(page, "</td>");
}

static void add_kinds(zn_text *page, const struct placement *p)
{
    zn_text_add(page, "<tbody>\n");
    for (int kind = 0; kind < ZN_N_KINDS; kind++) {
        zn_text_add(page, "<tr><td>%s</td>", zn_kind_name((zn_kind)kind));
        for (int tier = 0; tier < ZN_N_TIERS; tier++)
            add_cell(page, p->bytes[kind][tier]);
        add_cell(page, p->total[kind]);
        zn_text_add(page, "</tr>\n");
    }
    zn_text_add(page, "</tbody>\n");
}

static void add_tiers(zn_text *page, const struct zn_report_facts *facts)
{
    const struct zn_report_log *log = facts->log;
    double sum = 0;
    zn_text_add(page, "<tfoot>\n<tr><td>peak in the log</td>");
    for (int tier = 0; tier < ZN_N_TIERS; tier++) {
        add_cell(page, log->tier_bytes[tier]);
        sum = log->tier_bytes[tier] < 0 || sum < 0 ? -1 : sum + log->tier_bytes[tier];
    }
    add_cell(page, sum);
    zn_text_add(page, "</tr>\n<tr class=\"note\"><td>resident, the whole process</td><td></td><td></td><td></td>");
    add_cell(page, log->resident_bytes);
    int64_t limit;
    if (facts->run && zn_json_type_at(facts->run, "memory_limit") == ZN_JSON_NUMBER &&
        zn_json_get_int(facts->run, "memory_limit", 1, INT64_MAX, &limit) == ZN_OK) {
        zn_text_add(page, "</tr>\n<tr class=\"note\"><td>memory limit</td><td></td><td></td><td></td>");
        add_cell(page, (double)limit);
    }
    zn_text_add(page, "</tr>\n</tfoot>\n");
}

static void add_traffic(zn_text *page, const struct zn_report_log *log)
{
    static const char *const names[ZN_N_TRAFFIC] = {"sent to other ranks", "read from NVMe", "written to NVMe"};
    zn_text_add(page, "<h2>Traffic of a step</h2>\n<div class=\"table\"><table>\n<thead><tr><th></th><th>last step</th>"
                      "<th>mean</th><th>whole run</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < ZN_N_TRAFFIC; i++) {
        zn_text_add(page, "<tr><td>%s</td>", names[i]);
        add_cell(page, log->traffic_last[i]);
        add_cell(page, log->n_steps > 0 ? round(log->traffic_sum[i] / (double)log->n_steps) : 0);
        add_cell(page, log->traffic_sum[i]);
        zn_text_add(page, "</tr>\n");
    }
    zn_text_add(page, "</tbody>\n</table></div>\n");
}

void report_add_bytes(zn_text *page, const struct zn_report_facts *facts)
{
    struct placement p;
    if (!read_plan(facts->run, &p))
        read_sums(facts->log, &p);
    zn_text_add(page, "<h2>Where the bytes were</h2>\n<div class=\"table\"><table>\n<thead><tr><th></th>");
    for (int tier = 0; tier < ZN_N_TIERS; tier++)
        zn_text_add(page, "<th>%s</th>", zn_tier_name((zn_tier)tier));
    zn_text_add(page, "<th>total</th></tr></thead>\n");
    add_kinds(page, &p);
    add_tiers(page, facts);
    zn_text_add(page, "</table></div>\n<p class=\"muted\">Of rank 0. On the cpu device, what is not offloaded counts as "
                      "device, what is offloaded to cpu as host.</p>\n");
    add_traffic(page, facts->log);
}
