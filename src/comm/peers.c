/* Ranks of other nodes, from the link's table of nodes. */
#include "comm/peers.h"

#include <stdlib.h>

static bool share_node(const comm_link *link, const int *job_ranks, int a, int b)
{
    return link_node_of(link, job_ranks[a]) == link_node_of(link, job_ranks[b]);
}

static bool is_first_of_node(const comm_link *link, const int *job_ranks, int rank)
{
    for (int i = 0; i < rank; i++)
        if (share_node(link, job_ranks, i, rank))
            return false;
    return true;
}

zn_status peers_init(struct comm_peers *peers, const comm_link *link, const int *job_ranks, int rank, int n_ranks)
{
    bool leads = is_first_of_node(link, job_ranks, rank);
    *peers = (struct comm_peers){.remote = calloc((size_t)n_ranks, sizeof *peers->remote),
                                 .leaders = calloc((size_t)n_ranks, sizeof *peers->leaders)};
    if (!peers->remote || !peers->leaders)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a table of %d ranks", n_ranks);
    for (int i = 1; i < n_ranks; i++) {
        int other = (rank + i) % n_ranks;
        if (share_node(link, job_ranks, rank, other))
            continue;
        peers->remote[peers->n_remote++] = other;
        if (leads && is_first_of_node(link, job_ranks, other))
            peers->leaders[peers->n_leaders++] = other;
    }
    return ZN_OK;
}

void peers_fini(struct comm_peers *peers)
{
    free(peers->leaders);
    free(peers->remote);
}
