/* Training as one rank of a communicator: what zn_train does, for tests that make their own ranks. */
#ifndef ZN_TRAIN_TRAIN_H
#define ZN_TRAIN_TRAIN_H

#include "comm/comm.h"
#include "zinc/train.h"

/* Collective. Only rank 0 writes and calls the listener. */
zn_status zn_train_as_rank(const struct zn_train_options *options, zn_comm *comm);

/* The same of zn_eval. Collective. */
zn_status zn_eval_as_rank(const struct zn_eval_options *options, zn_comm *comm, struct zn_eval_result *result);

#endif
