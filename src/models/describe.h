/* What a model is, without the model: for callers that see none of its types. */
#ifndef ZN_MODELS_DESCRIBE_H
#define ZN_MODELS_DESCRIBE_H

#include "zinc/network.h"

struct zn_described_parameter {
    const char *name;
    int n_dims;
    int64_t dims[4], n_elements;
};

typedef struct zn_description {
    char architecture[32];
    int64_t n_elements, max_seq_len, vocabulary;
    struct zn_described_parameter *parameters;
    size_t n_parameters;
    void *model; /* has the names */
} zn_description;

/* The model of config.json's text; `name` stands for the file in messages. The caller ends it. */
zn_status zn_description_init(zn_description *description, const char *config, size_t n_bytes, const char *name);

/* The same of a network. */
zn_status zn_description_of_network(zn_description *description, const zn_network *network);
void zn_description_fini(zn_description *description);

/* What stands for a network in a config.json: its name and sizes. The caller frees the text. */
zn_status zn_network_config(const zn_network *network, char **text);

#endif
