/* What this machine has, and what each backend found. */
#include "cli/doctor_facts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/doctor_mpi.h"
#include "comm/comm.h"
#include "device/cpu/cpu.h"
#include "device/open.h"

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

/* The devices of a backend in one line, or why there are none. */
static void read_devices(const struct zn_backend *backend, int n_threads, char *text, size_t n_bytes)
{
    struct zn_device_info infos[ZN_MAX_DEVICES];
    char memory[ZN_SIZE_TEXT];
    int n;
    if (backend->list(n_threads, infos, &n) != ZN_OK) {
        snprintf(text, n_bytes, "%s", zn_error_message());
        return;
    }
    int length = snprintf(text, n_bytes, "found");
    for (int i = 0; i < n && length >= 0 && (size_t)length < n_bytes; i++)
        length += snprintf(text + length, n_bytes - (size_t)length, "%s %s:%d %s, %s%s%s%s", i ? ";" : ":", backend->name, i, infos[i].name,
                           zn_size_text(infos[i].memory_bytes, memory), infos[i].shares_memory ? " shared with the host" : "",
                           infos[i].missing[0] ? ", cannot be used: " : "", infos[i].missing);
}

static void read_backends(struct doctor_facts *f)
{
    f->backend[0].name = "cpu";
    snprintf(f->backend[0].state, sizeof f->backend[0].state, "found");
    for (int i = 1; i < DOCTOR_N_BACKENDS; i++) {
        const struct zn_backend *backend = zn_backend_at((size_t)i - 1);
        f->backend[i].name = backend->name;
        read_devices(backend, f->machine.n_cores, f->backend[i].state, sizeof f->backend[i].state);
    }
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
