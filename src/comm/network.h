/* A communicator's pieces between nodes, by MPI's transport: steps of its requests run on the process's link, and never wait
 * there. */
#ifndef ZN_COMM_NETWORK_H
#define ZN_COMM_NETWORK_H

#include "comm/link.h"
#include "comm/sum.h"

typedef struct comm_network comm_network; /* NULL in workers whose ranks share one node */

/* For a communicator of n_ranks on several nodes, of which this is `rank`. Holds *n_bytes of staging. */
zn_status network_create(comm_link *link, struct comm_node *node, int rank, int n_ranks, comm_network **net, size_t *n_bytes);

/* After a failure the memory is left to the process's end, since MPI may still be writing to it. NULL is legal. */
void network_destroy(comm_network *net, bool failed);

/* A gather's remote pieces: into all[q] for every rank q of another node, while `mine` goes to
 * each of them. `mine` and `all` are in use from begin until end. */
zn_status network_gather_begin(comm_network *net, const struct comm_asked *asked,
                               const unsigned char *mine, unsigned char *all);
zn_status network_gather_end(comm_network *net);

/* A reduce's remote terms, block by block: next sets the terms of other nodes' ranks to the next
 * *n_elements (0: no more) and leaves the others alone; they are valid until the next call. */
zn_status network_reduce_begin(comm_network *net, const struct comm_asked *asked,
                               const unsigned char *mine);
zn_status network_reduce_next(comm_network *net, struct sum_term *terms, int64_t *n_elements);

/* After a failure of the job: gives up what is under way, so that MPI no longer writes to the caller's memory. */
void network_give_up(comm_network *net);

#endif
