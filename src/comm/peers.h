/* Which ranks of a communicator are on other nodes. */
#ifndef ZN_COMM_PEERS_H
#define ZN_COMM_PEERS_H

#include "comm/link.h"

struct comm_peers {
    int n_remote, *remote;   /* ranks of other nodes, beginning after this one */
    int n_leaders, *leaders; /* the first rank of every other node, when this is the first of its own */
};

/* Of the rank, in a communicator of n_ranks; the caller calls peers_fini, also after a failure. */
zn_status peers_init(struct comm_peers *peers, const comm_link *link, const int *job_ranks, int rank, int n_ranks);
void peers_fini(struct comm_peers *peers);

#endif
