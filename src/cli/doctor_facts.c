/* What this machine has, and what each backend found. */
#include "cli/doctor_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "cli/doctor_mpi.h"
#include "comm/comm.h"
#include "device/cpu/cpu.h"

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

static void read_backends(struct doctor_facts *f)
{
    static const char *const table[DOCTOR_N_BACKENDS][2] = {
        {"cpu", "found"},
        {"opencl", "not in this build; --device cpu computes on the processor"},
        {"cuda", "not in this build; --device cpu computes on the processor"},
    };
    for (int i = 0; i < DOCTOR_N_BACKENDS; i++) {
        f->backend[i].name = table[i][0];
        f->backend[i].state = table[i][1];
    }
}

static void disk_type(long magic, char text[32])
{
    static const struct {
        long magic;
        const char *name;
    } types[] = {
        {0xef53, "ext4"},        {0x58465342, "xfs"},  {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"},
        {0x794c7630, "overlay"}, {0x6969, "nfs"},      {0x2fc12fc1, "zfs"},   {0xf2f52010, "f2fs"},
        {0x0bd00bd0, "lustre"},  {0x65735546, "fuse"}, {0x01021997, "9p"},    {0xff534d42, "cifs"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].magic == magic) {
            snprintf(text, 32, "%s", types[i].name);
            return;
        }
    }
    snprintf(text, 32, "type 0x%lx", (unsigned long)magic);
}

/* Writes one aligned block past the page cache into a file without a name. */
static bool direct_works(void)
{
    enum { BLOCK = 4096 };
    bool works = false;
    void *block = NULL;
    int file = open(".", O_TMPFILE | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    if (posix_memalign(&block, BLOCK, BLOCK) == 0) {
        memset(block, 0, BLOCK);
        works = pwrite(file, block, BLOCK, 0) == BLOCK;
    }
    free(block);
    close(file);
    return works;
}

static zn_status read_disk(struct doctor_facts *f)
{
    struct statfs s;
    if (!getcwd(f->disk_folder, sizeof f->disk_folder) || statfs(".", &s) != 0)
        return zn_fail(ZN_ERR_IO, "the current folder: %s", strerror(errno));
    disk_type((long)s.f_type, f->disk_type);
    f->disk_free = (size_t)s.f_bavail * (size_t)s.f_bsize;
    f->disk_direct = direct_works();
    return ZN_OK;
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
    return read_disk(facts);
}
