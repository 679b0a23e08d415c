/* MPI as the communicators of a process share it: one thread makes all calls of MPI, which every MPI allows.
 *
 * The threads of communicators hand it steps, functions that never wait in MPI, and sleep until theirs is done. It runs the steps
 * in turn, again and again, with sleeps of 20 µs to 1 ms while none is done. So a request that waits for other ranks holds up
 * those of no other communicator, in whatever order ranks come to them, and waiting costs the same for one as for many. */
#ifndef ZN_COMM_LINK_H
#define ZN_COMM_LINK_H

#include "comm/node.h"

typedef struct comm_link comm_link;

/* Starts the thread, and ends it. After a failure the memory is left to the process's end, since MPI may still write to it. */
zn_status link_create(comm_link **link);
void link_destroy(comm_link *link, bool failed);

/* Runs the step on MPI's thread until it sets *done or fails; blocks. Its failure, with the whole message, is the caller's. Not
 * from that thread. */
zn_status link_run(comm_link *link, zn_status (*step)(void *arg, bool *done), void *arg);

/* Does not block: when this rank found the failure of the job, it is told to all ranks of other nodes, once. Not from MPI's
 * thread. */
void link_tell(comm_link *link);

/* ---- On MPI's thread ---- */

/* For a job of several nodes, after MPI was started; collective over all ranks, and blocks. From then on failures of other nodes
 * are heard, and dead ranks of this one seen, while a step waits and through the job's look_around. */
zn_status link_connect(comm_link *link, struct comm_node *world, int n_ranks);
void link_disconnect(comm_link *link, bool failed); /* collective; legal without a connection */

/* ---- Once connected ---- */

/* The MPI_Comm of all ranks, in the order of the job. Untyped, since mpi.h appears in no header. */
const void *link_mpi_comm(const comm_link *link);

/* The first rank on the node of that rank: the same for all ranks of a node. */
int link_node_of(const comm_link *link, int job_rank);

#endif
