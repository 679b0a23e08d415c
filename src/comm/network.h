/* Pieces between nodes, by MPI's transport. Only the communication thread calls it. Nothing here
 * blocks in MPI: requests are tested, with sleeps in between that grow to a millisecond, and with a
 * look at the node's failure. */
#ifndef ZN_COMM_NETWORK_H
#define ZN_COMM_NETWORK_H

#include "comm/node.h"
#include "comm/sum.h"

typedef struct comm_network comm_network; /* NULL in the workers of jobs on one node */

/* For a job of several nodes, after MPI was started; collective over all ranks. Hears failures of
 * other nodes from then on, through node's look_around too. Holds *n_bytes of staging. */
zn_status network_create(struct comm_node *node, comm_network **net, size_t *n_bytes);

/* For all ranks together. After a failure the memory is left to the process's end, since MPI may
 * still be writing to it. */
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

/* After a failure of the node: gives up what is under way and, when this rank found the failure,
 * tells it to all ranks of other nodes. */
void network_give_up(comm_network *net, bool tell);

#endif
