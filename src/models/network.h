/* A network of the caller's own (zinc/network.h) as a model. */
#ifndef ZN_MODELS_NETWORK_H
#define ZN_MODELS_NETWORK_H

#include "models/model.h"
#include "zinc/network.h"

/* A model that runs sequences up to max_seq_len, 0 for the network's longest. The network is borrowed. The caller destroys. */
zn_status zn_network_make_model(const zn_network *network, int64_t max_seq_len, zn_model **model);

#endif
