/* Cores and memory of the machine. */
#include "base/machine.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/machine_files.h"

/* The text after "name" and ":" in a file of such lines; false when there is none. */
static bool field_of(const char *text, const char *name, char *value, size_t size)
{
    size_t n = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, name, n) != 0)
            continue;
        const char *p = line + n + strspn(line + n, " \t");
        if (*p++ != ':')
            continue;
        p += strspn(p, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(p, "\n"), p);
        return true;
    }
    return false;
}

static size_t memory_field(const char *text, const char *name)
{
    char value[64];
    if (!field_of(text, name, value, sizeof value))
        return 0;
    return (size_t)strtoull(value, NULL, 10) * 1024; /* "24682416 kB" */
}

/* The first processor of the core that processor `cpu` belongs to: the core's name. */
static int core_of(const char *root, int cpu)
{
    char path[128], text[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (!machine_file_read(root, path, text, sizeof text))
        return cpu;
    return (int)strtol(text, NULL, 10);
}

/* Counts processors and cores in a list such as "0-3,8". */
static zn_status count_cores(const char *root, const char *list, struct zn_machine *m)
{
    enum { MAX_CPUS = 8192 };
    static const char *const what = "the list of processors of /proc/self/status";
    bool *seen = calloc(MAX_CPUS, sizeof *seen);
    if (!seen)
        return zn_fail(ZN_ERR_MEMORY, "no memory for %s", what);
    zn_status status = ZN_OK;
    for (const char *p = list; *p && *p != '\n';) {
        char *end;
        long first = strtol(p, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (end == p || first < 0 || last < first || last >= MAX_CPUS) {
            status = zn_fail(ZN_ERR_IO, "%s: cannot read '%s'", what, list);
            break;
        }
        for (long cpu = first; cpu <= last; cpu++) {
            int core = core_of(root, (int)cpu);
            m->n_logical++;
            m->n_physical += core >= 0 && core < MAX_CPUS && !seen[core];
            if (core >= 0 && core < MAX_CPUS)
                seen[core] = true;
        }
        p = end + (*end == ',');
    }
    free(seen);
    return status;
}

static zn_status read_cores(const char *root, struct zn_machine *m)
{
    char text[8192], list[4096];
    if (!machine_file_read(root, "/proc/self/status", text, sizeof text))
        return zn_fail(ZN_ERR_IO, "%s/proc/self/status: cannot be read: %s", root, strerror(errno));
    if (!field_of(text, "Cpus_allowed_list", list, sizeof list))
        return zn_fail(ZN_ERR_IO, "%s/proc/self/status: no Cpus_allowed_list", root);
    ZN_TRY(count_cores(root, list, m));
    m->cpu_quota = cgroup_cpu_quota(root);
    m->n_cores = m->n_physical;
    if (m->cpu_quota > 0 && m->cpu_quota < m->n_cores)
        m->n_cores = (int)ceil(m->cpu_quota);
    if (m->n_cores < 1)
        m->n_cores = 1;
    return ZN_OK;
}

/* The soft limit in a line "Max address space   2048000000   unlimited   bytes"; SIZE_MAX: none. */
static size_t soft_limit(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    const char *p = line ? line + strlen(name) : "";
    p += strspn(p, " ");
    return *p >= '0' && *p <= '9' ? (size_t)strtoull(p, NULL, 10) : SIZE_MAX;
}

/* What the limits of the process itself leave. Both count what is mapped, whether it is used or not. */
static size_t process_memory(const char *root)
{
    static const struct {
        const char *limit, *mapped;
    } both[] = {{"Max address space", "VmSize"}, {"Max data size", "VmData"}};
    char limits[8192], status[8192];
    size_t left = SIZE_MAX;
    if (!machine_file_read(root, "/proc/self/limits", limits, sizeof limits) ||
        !machine_file_read(root, "/proc/self/status", status, sizeof status))
        return SIZE_MAX;
    for (int i = 0; i < 2; i++) {
        size_t limit = soft_limit(limits, both[i].limit), mapped = memory_field(status, both[i].mapped);
        size_t rest = limit == SIZE_MAX ? SIZE_MAX : limit > mapped ? limit - mapped : 0;
        if (rest < left)
            left = rest;
    }
    return left;
}

static zn_status read_memory(const char *root, struct zn_machine *m)
{
    char text[8192];
    if (!machine_file_read(root, "/proc/meminfo", text, sizeof text))
        return zn_fail(ZN_ERR_IO, "%s/proc/meminfo: cannot be read: %s", root, strerror(errno));
    m->memory_total = memory_field(text, "MemTotal");
    m->memory_available = memory_field(text, "MemAvailable");
    if (!m->memory_total)
        return zn_fail(ZN_ERR_IO, "%s/proc/meminfo: no MemTotal", root);

    size_t left;
    cgroup_memory(root, &m->memory_cgroup, &left);
    if (m->memory_cgroup >= m->memory_total)
        m->memory_cgroup = 0; /* version 1 writes "no limit" as a very large number */
    m->memory_limit = m->memory_cgroup ? m->memory_cgroup : m->memory_total;
    if (m->memory_cgroup && left < m->memory_available)
        m->memory_available = left;
    m->memory_process = process_memory(root);
    if (m->memory_process < m->memory_available)
        m->memory_available = m->memory_process;
    return ZN_OK;
}

/* The file holds "always [madvise] never". */
static void read_huge_pages(const char *root, struct zn_machine *m)
{
    char text[128];
    snprintf(m->huge_pages, sizeof m->huge_pages, "unknown");
    if (!machine_file_read(root, "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text))
        return;
    const char *open = strchr(text, '[');
    if (open && strchr(open, ']'))
        snprintf(m->huge_pages, sizeof m->huge_pages, "%.*s", (int)strcspn(open + 1, "]"),
                 open + 1);
}

zn_status zn_machine_read(const char *root, struct zn_machine *machine)
{
    struct zn_machine m = {.cpu_model = "unknown"};
    char text[4096];
    if (machine_file_read(root, "/proc/cpuinfo", text, sizeof text))
        field_of(text, "model name", m.cpu_model, sizeof m.cpu_model);
    ZN_TRY(read_cores(root, &m));
    ZN_TRY(read_memory(root, &m));
    read_huge_pages(root, &m);
    *machine = m;
    return ZN_OK;
}

zn_status zn_machine_check_threads(const struct zn_machine *machine, int64_t n_threads)
{
    const char *allowed = getenv("ZINC_ALLOW_OVERSUBSCRIPTION");
    if (n_threads > machine->n_logical && !(allowed && strcmp(allowed, "1") == 0))
        return zn_fail(ZN_ERR_USAGE, "--threads %lld: this process may run on %d processors", (long long)n_threads,
                       machine->n_logical);
    return ZN_OK;
}
