/* Ranks tell one another which processors they may use. */
#include "train/binding.h"

#include <stdlib.h>

#include "base/machine_files.h"
#include "base/rng.h"

/* What a rank may use: those that tell the same share it. */
struct holder {
    uint64_t machine, mask;
};

/* The kernel that runs here: containers of one machine have the same. */
static uint64_t machine_hash(void)
{
    char text[64] = "";
    machine_file_read("", "/proc/sys/kernel/random/boot_id", text, sizeof text);
    return zn_random_key(0, text);
}

/* How many ranks hold what this one holds, and how many of them come before it. */
static zn_status find_holders(zn_comm *comm, const zn_topology *topology, int *index, int *n)
{
    struct holder mine = {machine_hash(), topology ? zn_topology_mask_hash(topology) : 0};
    struct holder *all = calloc((size_t)zn_comm_n_ranks(comm), sizeof *all);
    zn_status status = zn_comm_agree(comm, all ? ZN_OK : zn_fail(ZN_ERR_MEMORY, "no memory for a table of ranks"));
    if (status == ZN_OK)
        status = zn_comm_exchange(comm, &mine, sizeof mine, all);
    *index = *n = 0;
    for (int rank = 0; status == ZN_OK && rank < zn_comm_n_ranks(comm); rank++) {
        bool same = all[rank].machine == mine.machine && all[rank].mask == mine.mask;
        *n += same;
        *index += same && rank < zn_comm_rank(comm);
    }
    free(all);
    return status;
}

static void bind_to_share(struct zn_run *run, zn_topology *topology, int index, int n)
{
    struct zn_place place;
    zn_topology_place(topology, index, n, run->threads, &place);
    if (place.is_all)
        return;
    run->bound = topology; /* also after a failure: a part may have been done */
    if (zn_topology_bind(topology, &place) != ZN_OK)
        zn_run_note(run, "%s; threads may run anywhere", zn_error_message());
}

zn_status zn_run_bind(struct zn_run *run, int threads)
{
    zn_topology *topology = NULL;
    int index, n;
    if (zn_topology_read(&topology) != ZN_OK)
        zn_run_note(run, "%s; threads may run anywhere", zn_error_message());
    zn_status status = find_holders(run->comm, topology, &index, &n);
    if (status == ZN_OK && threads == 0)
        run->threads = run->machine.n_cores > n ? run->machine.n_cores / n : 1;
    if (status == ZN_OK && topology && !zn_bind_is_off())
        bind_to_share(run, topology, index, n);
    if (!run->bound)
        zn_topology_destroy(topology);
    return status;
}
