/* The flags of commands that only read a model: where its parameters are, and the ranks that share them. */
#ifndef ZN_CLI_PLACEMENT_H
#define ZN_CLI_PLACEMENT_H

#include "cli/commands.h"

/* A member `place` of the command's flags. */
struct placement_flags {
    const char *off_param, *mpirun, *device;
    struct zn_words nvme_path;
    size_t memory_limit;
    int64_t n_ranks;
    bool allow_buffered_swap;
};

/* Their rows of the command's table; AT(field) is the offset of a field of its flags. */
#define PLACEMENT_FLAGS(AT)                                                                                                   \
    {.name = "--memory-limit", .kind = ZN_OPTION_SIZE, .offset = AT(place.memory_limit), .value = "SIZE",                     \
     .otherwise = "90% of what the cgroup and the machine leave",                                                             \
     .help = "What this process may hold; parameters that do not fit are partitioned over the ranks or read from NVMe."},     \
    {.name = "-n", .kind = ZN_OPTION_INT, .offset = AT(place.n_ranks), .value = "RANKS", .range = "[1, 1048576]",             \
     .otherwise = "one process", .help = "Start mpirun with this many ranks."},                                               \
    {.name = "--mpirun", .kind = ZN_OPTION_STRING, .offset = AT(place.mpirun), .value = "PATH",                               \
     .otherwise = "the one on PATH", .help = "The mpirun that -n starts."},                                                   \
    {.name = "--offload-param", .kind = ZN_OPTION_CHOICE, .offset = AT(place.off_param), .value = "TIER",                     \
     .choices = "none cpu nvme", .otherwise = "chosen by the plan", .help = "Tier of the parameters; changes no bits."},      \
    {.name = "--nvme-path", .kind = ZN_OPTION_LIST, .offset = AT(place.nvme_path), .value = "DIR",                            \
     .otherwise = "the current folder", .help = "Folders for parameters on NVMe; several are used at once."},                 \
    {.name = "--allow-buffered-swap", .kind = ZN_OPTION_FLAG, .offset = AT(place.allow_buffered_swap),                        \
     .help = "Swap also on file systems in memory or without O_DIRECT."},                                                     \
    {.name = "--device", .kind = ZN_OPTION_CHOICE, .offset = AT(place.device), .value = "NAME", .initial = "cpu",             \
     .choices = "cpu sim opencl cuda", .not_yet = "sim opencl cuda", .help = "Where to compute."},                            \
    {.name = "--adapter", .kind = ZN_OPTION_STRING, .value = "DIR", .not_built = true, .help = "A PEFT adapter to apply."}

/* Starts mpirun where -n asks for it, and then does not return but on a failure. */
zn_status zn_cli_place(const struct placement_flags *place, int argc, char **argv);

/* Whether this process writes to a terminal that a person sees: mpirun gives its ranks one of their own. */
bool zn_cli_has_terminal(int fd);

#endif
