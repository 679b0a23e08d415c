/* `zinc doctor`: what this machine has, and what each backend found. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/doctor_device.h"
#include "cli/doctor_drives.h"
#include "cli/doctor_facts.h"
#include "cli/doctor_mpi.h"
#include "plan/calibrate_machine.h"

struct doctor_flags {
    struct zn_words nvme_path;
    bool json, measure, check;
    const char *device;
};

static const struct zn_option flags[] = {
    {.name = "--nvme-path",
     .kind = ZN_OPTION_LIST,
     .offset = offsetof(struct doctor_flags, nvme_path),
     .value = "DIR",
     .otherwise = "the current folder, and every drive mounted that may be written to",
     .help = "Folders whose drives to look at, as `zinc train` takes them."},
    {.name = "--json",
     .kind = ZN_OPTION_FLAG,
     .offset = offsetof(struct doctor_flags, json),
     .help = "Print one JSON object instead of text."},
    {.name = "--measure",
     .kind = ZN_OPTION_FLAG,
     .offset = offsetof(struct doctor_flags, measure),
     .help = "Measure products and memory, for `zinc plan`, and the drives; some seconds.",
     .more = "Products in each precision, the other kernels of training, memory, copies and sums between ranks, and, beside computing, "
             "the drive below the current folder; then what each drive reads and writes. Best on a quiet machine."},
    {.name = "--device",
     .kind = ZN_OPTION_STRING,
     .value = "NAME",
     .offset = offsetof(struct doctor_flags, device),
     .otherwise = "none",
     .help = "With --check: the device, as --device of `zinc train`."},
    {.name = "--check",
     .kind = ZN_OPTION_FLAG,
     .offset = offsetof(struct doctor_flags, check),
     .help = "Hold the device to the processor's bits, and measure it for the planner.",
     .more = "Every kernel over random shapes; products repeated, cut, moved and beside copies; a small model trained with its states on the "
             "device, the host and NVMe. Then products, memory, copies and launches are timed into the device's file."},
};

static const struct zn_command command = {
    .name = "zinc doctor",
    .summary = "what this machine has, and what each backend found",
    .usage = "[--measure] [--nvme-path DIR…] [--json]; zinc doctor --device NAME --check [--json]",
    .example = "zinc doctor",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
};

static void line(const char *name, const char *text)
{
    printf("%-14s %s\n", name, text);
}

static void print_binding(const struct doctor_facts *f)
{
    printf("%-14s %d NUMA domain%s; ", "binding", f->n_domains, f->n_domains == 1 ? "" : "s");
    if (f->unbound) {
        printf("off: %s\n", f->unbound);
        return;
    }
    printf("-n %d would run on processors", f->ranks.n);
    for (int i = 0; i < f->ranks.n; i++)
        printf("%s %s", i ? " |" : "", f->ranks.place[i].processors);
    putchar('\n');
}

static void print_machine(const struct doctor_facts *f)
{
    const struct zn_machine *m = &f->machine;
    char total[ZN_SIZE_TEXT], limit[ZN_SIZE_TEXT], available[ZN_SIZE_TEXT];
    line("processor", m->cpu_model);
    printf("%-14s %d to compute with (%d physical, %d logical", "cores", m->n_cores, m->n_physical,
           m->n_logical);
    if (m->cpu_quota > 0)
        printf(", cgroup grants %.2f", m->cpu_quota);
    printf(")\n");
    print_binding(f);
    printf("%-14s", "instructions");
    for (int i = 0; i < DOCTOR_N_ISAS; i++)
        printf(" %s%s", f->isa[i].name, f->isa[i].found ? "" : " (absent)");
    printf("; used: %s\n", f->isa_used);
    printf("%-14s %s, available %s", "memory", zn_size_text(m->memory_total, total),
           zn_size_text(m->memory_available, available));
    if (m->memory_cgroup)
        printf(", cgroup limit %s", zn_size_text(m->memory_cgroup, limit));
    if (m->memory_process != SIZE_MAX)
        printf(", limits of the process (ulimit) leave %s", zn_size_text(m->memory_process, limit));
    putchar('\n');
    line("huge pages", m->huge_pages);
}

static void print_text(const struct doctor_facts *f, const struct doctor_drives *drives)
{
    printf("%-14s %s (%s)\n", "zinc", zn_version(), f->compiler);
    print_machine(f);
    for (int i = 0; i < DOCTOR_N_BACKENDS; i++)
        printf("%-14s %s: %s\n", i ? "" : "backends", f->backend[i].name, f->backend[i].state);
    line("mpi", f->mpi);
    printf("%-14s -n: %s\n", "", f->ranks_text);
    doctor_drives_print(drives);
}

static void print_measured(const struct zn_cluster *c, const char *path)
{
    printf("%-14s matrix products %.4g Gflop/s in fp32, %.4g in bf16, %.4g in fp16\n", "measured",
           c->device.flops[ZN_F32] / 1e9, c->device.flops[ZN_BF16] / 1e9, c->device.flops[ZN_F16] / 1e9);
    printf("%-14s memory %.4g GB/s, copies between ranks %.4g GB/s\n", "", c->device.rate / 1e9,
           c->device_device.alone / 1e9);
    if (c->nvme_memory)
        printf("%-14s drive %.4g GB/s, reads and writes mixed\n", "", c->host_nvme.alone / 1e9);
    else
        line("", "no drive for swap here");
    line("", path);
}

static void put_text(const char *name, const char *text)
{
    printf("\"%s\":", name);
    zn_json_put_string(stdout, text);
}

static void put_binding(const struct doctor_facts *f)
{
    printf("\"binding\":{\"domains\":%d,", f->n_domains);
    put_text("off", f->unbound);
    printf(",\"ranks\":[");
    for (int i = 0; i < f->ranks.n; i++) {
        printf("%s", i ? "," : "");
        zn_json_put_string(stdout, f->ranks.place[i].processors);
    }
    printf("]}");
}

static void put_machine(const struct doctor_facts *f)
{
    const struct zn_machine *m = &f->machine;
    printf("\"machine\":{");
    put_text("cpu", m->cpu_model);
    printf(",\"cores\":%d,\"physical_cores\":%d,\"logical_cores\":%d,\"cgroup_cpus\":", m->n_cores,
           m->n_physical, m->n_logical);
    if (m->cpu_quota > 0)
        printf("%.9g", m->cpu_quota);
    else
        printf("null");
    printf(",\"isa\":{");
    for (int i = 0; i < DOCTOR_N_ISAS; i++)
        printf("%s\"%s\":%s", i ? "," : "", f->isa[i].name, f->isa[i].found ? "true" : "false");
    printf("},");
    put_text("isa_used", f->isa_used);
    printf(",\"memory_total\":%zu,\"memory_limit\":%zu,\"memory_available\":%zu,\"cgroup_memory\":",
           m->memory_total, m->memory_limit, m->memory_available);
    if (m->memory_cgroup)
        printf("%zu,", m->memory_cgroup);
    else
        printf("null,");
    if (m->memory_process != SIZE_MAX)
        printf("\"process_memory\":%zu,", m->memory_process);
    else
        printf("\"process_memory\":null,");
    put_text("huge_pages", m->huge_pages);
    printf("}");
}

static void put_measured(const struct zn_cluster *c, const char *path)
{
    printf(",\"measured\":{\"flops\":{\"fp32\":%.6g,\"bf16\":%.6g,\"fp16\":%.6g}", c->device.flops[ZN_F32],
           c->device.flops[ZN_BF16], c->device.flops[ZN_F16]);
    printf(",\"memory_bytes_per_second\":%.6g,\"copy_bytes_per_second\":%.6g,\"nvme_bytes_per_second\":", c->device.rate,
           c->device_device.alone);
    if (c->nvme_memory)
        printf("%.6g,", c->host_nvme.alone);
    else
        printf("null,");
    put_text("file", path);
    printf("}");
}

static void print_json(const struct doctor_facts *f, const struct doctor_drives *drives)
{
    printf("{");
    put_text("version", zn_version());
    printf(",");
    put_text("compiler", f->compiler);
    printf(",");
    put_machine(f);
    printf(",");
    put_binding(f);
    printf(",\"backends\":{");
    for (int i = 0; i < DOCTOR_N_BACKENDS; i++) {
        if (i)
            printf(",");
        put_text(f->backend[i].name, f->backend[i].state);
    }
    printf("},\"mpi\":{");
    put_text("version", f->mpi);
    printf(",\"starts_ranks\":%s,", f->starts_ranks ? "true" : "false");
    put_text("said", f->ranks_text);
    printf("},\"drives\":");
    doctor_drives_put(drives);
}

/* What --measure found, or NULL. */
static void print_all(const struct doctor_facts *f, const struct doctor_drives *drives, const struct zn_cluster *measured,
                      const char *path, bool json)
{
    if (!json) {
        print_text(f, drives);
        if (measured)
            print_measured(measured, path);
        return;
    }
    print_json(f, drives);
    if (measured)
        put_measured(measured, path);
    printf("}\n");
}

static zn_status run(const struct doctor_flags *given)
{
    struct doctor_facts facts;
    struct doctor_drives drives;
    struct zn_cluster measured;
    char *path = NULL;
    if (given->check != (given->device != NULL))
        return zn_fail(ZN_ERR_USAGE, "--device and --check go together: zinc doctor --device opencl --check");
    if (given->check)
        return given->measure ? zn_fail(ZN_ERR_USAGE, "--check measures the device, --measure the machine; give one")
                              : doctor_check_device(given->device, given->json);
    ZN_TRY(doctor_facts_read(&facts));
    ZN_TRY(doctor_drives_read(&given->nvme_path, given->measure, &drives));
    if (given->measure) {
        ZN_TRY(zn_calibration_save(&measured));
        ZN_TRY(zn_calibration_path(&path));
    }
    print_all(&facts, &drives, given->measure ? &measured : NULL, path, given->json);
    free(path);
    return fflush(stdout) == 0 ? ZN_OK : zn_fail(ZN_ERR_IO, "cannot write to standard output");
}

int zn_cli_doctor(int argc, char **argv)
{
    struct doctor_flags given = {0};
    struct zn_options options;
    int code = zn_cli_begin(&command, argc, argv, &given, &options);
    if (code < 0)
        code = zn_cli_end(&command, doctor_is_rank() ? doctor_run_as_rank() : run(&given));
    zn_options_fini(&options, &given);
    return code;
}
