/* Pieces between nodes, by MPI's transport. Only the communication thread calls it. Nothing here
 * blocks in MPI: requests are tested, with sleeps in between that grow to a millisecond, and with a
 * look at the node's failure. */
#ifndef ZN_COMM_NETWORK_H
#define ZN_COMM_NETWORK_H

#include "comm/node.h"
#include "comm/sum.h"

typedef struct comm_network comm_network; /* NULL in the workers of jobs on one node */

/* A gather's remote pieces: into all[q] for every rank q of another node, while `mine` goes to
 * each of them. `mine` and `all` are in use from begin until end. */
zn_status network_gather_begin(comm_network *net, const struct comm_asked *asked, const void *mine,
                               unsigned char *all);
zn_status network_gather_end(comm_network *net);

/* A reduce's remote terms, block by block: next sets the terms of other nodes' ranks to the next
 * *n_elements (0: no more) and leaves the others alone; they are valid until the next call. */
zn_status network_reduce_begin(comm_network *net, const struct comm_asked *asked, const float *mine);
zn_status network_reduce_next(comm_network *net, struct sum_term *terms, int64_t *n_elements);

/* Tells all ranks of other nodes that this node has failed, and with what. */
void network_tell_failure(comm_network *net);

/* Ends MPI: for all ranks together, or, after a failure, when the process exits. Frees. */
void network_destroy(comm_network *net, bool failed);

#endif
