/* What this machine has, and what each backend found. */
#include "cli/doctor_facts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor_mpi.h"
#include "comm/comm.h"
#include "device/cpu/cpu.h"
#include "device/opencl/opencl.h"

static zn_status read_isas(struct doctor_facts *f)
{
    static const char *const names[DOCTOR_N_ISAS] = {"plain", "avx2", "avx512"};
    for (int i = 0; i < DOCTOR_N_ISAS; i++) {
        f->isa[i].name = names[i];
        f->isa[i].found = zn_cpu_has_isa(names[i]);
    }
    return zn_cpu_isa_choose(NULL, &f->isa_used);
}

/* Where ranks with the default number of threads would run. A topology that cannot be read is a finding, not a
 * failure. */
static void read_binding(struct doctor_facts *f)
{
    zn_topology *topology;
    f->unbound = zn_bind_is_off();
    if (zn_topology_read(&topology) != ZN_OK) {
        f->unbound = "the topology of the machine cannot be read";
        return;
    }
    f->n_domains = zn_topology_n_domains(topology);
    f->ranks.n = f->n_domains > 2 ? f->n_domains : 2;
    if (f->ranks.n > zn_topology_n_cores(topology))
        f->ranks.n = 1;
    if (f->ranks.n > DOCTOR_MAX_RANKS)
        f->ranks.n = DOCTOR_MAX_RANKS;
    int n_threads = f->machine.n_cores > f->ranks.n ? f->machine.n_cores / f->ranks.n : 1;
    for (int i = 0; i < f->ranks.n; i++)
        zn_topology_place(topology, i, f->ranks.n, n_threads, &f->ranks.place[i]);
    zn_topology_destroy(topology);
}

/* ---- Backends: found, or what would make each work ---- */

static void tell_opencl(char *text, size_t size)
{
    static const char state[] = "not in this build; --device cpu computes on the processor";
    struct zn_opencl_info infos[ZN_OPENCL_MAX_DEVICES];
    int n = 0;
    if (zn_opencl_list(infos, &n) != ZN_OK)
        snprintf(text, size, "%s (%s)", state, zn_error_message());
    else if (n == 0)
        snprintf(text, size, "%s (no device: install its driver, for the processor Debian's pocl-opencl-icd)", state);
    else
        snprintf(text, size, "%s (OpenCL has %s%s%s)", state, infos[0].name, infos[0].missing[0] ? ": " : "", infos[0].missing);
}

static void tell_cuda(char *text, size_t size)
{
    bool has_driver = access("/proc/driver/nvidia/version", R_OK) == 0;
    snprintf(text, size, "not in this build; --device cpu computes on the processor (%s)",
             has_driver ? "NVIDIA's driver is loaded" : "and no driver of NVIDIA is loaded here");
}

static void read_backends(struct doctor_facts *f)
{
    static const char *const names[DOCTOR_N_BACKENDS] = {"cpu", "opencl", "cuda"};
    for (int i = 0; i < DOCTOR_N_BACKENDS; i++)
        f->backend[i].name = names[i];
    snprintf(f->backend[0].state, sizeof f->backend[0].state, "found");
    tell_opencl(f->backend[1].state, sizeof f->backend[1].state);
    tell_cuda(f->backend[2].state, sizeof f->backend[2].state);
}

zn_status doctor_facts_read(struct doctor_facts *facts)
{
    memset(facts, 0, sizeof *facts);
#if defined(__clang__)
    facts->compiler = "clang " __clang_version__;
#else
    facts->compiler = "gcc " __VERSION__;
#endif
    ZN_TRY(zn_machine_read("", &facts->machine));
    read_binding(facts);
    ZN_TRY(read_isas(facts));
    read_backends(facts);
    zn_comm_mpi_version(facts->mpi, sizeof facts->mpi);
    facts->starts_ranks = doctor_try_ranks(facts->ranks_text, sizeof facts->ranks_text);
    return ZN_OK;
}
