/* What the handles of the public API hold. Files of this folder see public types, and of the folders below only what does not have the
 * same names: zn_engine and zn_model are the public ones here. */
#ifndef ZN_API_HANDLES_H
#define ZN_API_HANDLES_H

#include "api/options.h"
#include "base/clock.h"
#include "comm/comm.h"
#include "models/describe.h"
#include "zinc/engine.h"

struct zn_context_handle {
    zn_clock clock;
    zn_comm *comm;
    size_t memory_limit;
    int threads;
};

struct zn_model_handle {
    char *folder; /* NULL: a network */
    const zn_network *network;
    zn_description description;
};

/* The caller's struct is of this version, and there is a parameter i. */
zn_status parameter_check(const struct zn_parameter_info *info, size_t i, size_t n);

struct data_item {
    enum data_kind { DATA_PATH, DATA_ROW, DATA_TOKENS } kind;
    char *text; /* a path, or a row of JSON */
    int32_t *ids;
    size_t n_ids;
};

struct zn_data_handle {
    struct data_item *items;
    size_t n_items, capacity;
};

/* Whether some of it is in memory alone. */
bool data_needs_files(const zn_data *data);

/* Writes what is in memory to files NAME-0.jsonl, NAME-1.bin … of the folder, which the rank 0 does. Blocks. */
zn_status data_write(const zn_data *data, const char *folder, const char *name);

/* Gives the option the paths of all of the data in their order, those files among them. */
zn_status data_set_paths(const zn_data *data, const char *folder, const char *name, const char *flag, zn_options *options);

#endif
