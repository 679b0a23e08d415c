/* For tests of what survives a crash: the environment variable ZINC_TEST_KILL_AT=save:K ends the process with SIGKILL at
 * its K-th file operation of saving, save:K@R only rank R. Without it, a point does nothing. */
#ifndef ZN_CHECKPOINT_KILL_POINT_H
#define ZN_CHECKPOINT_KILL_POINT_H

void kill_point(int rank);

#endif
