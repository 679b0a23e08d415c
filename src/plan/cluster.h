/* Descriptions of machines: what a device, a host, a drive and the links between them can do. They are
 * data files (data/clusters/, also compiled in); rates are in bytes and flops a second. */
#ifndef ZN_PLAN_CLUSTER_H
#define ZN_PLAN_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "device/kernels.h"

/* A link that devices of a node share; alone 0: there is none. */
struct zn_link {
    double alone; /* what one device gets when no other uses it */
    double node;  /* what all devices of a node get together */
    bool relayed; /* in collectives a byte enters a node once and is handed on to all its devices */
};

struct zn_cluster {
    char name[64], about[256];
    int nodes;   /* how many there are */
    int devices; /* of a node */
    size_t host_memory;
    double host_rate;   /* of its memory */
    size_t nvme_memory; /* of a node; 0: no drive */
    struct {
        char name[64];
        bool is_host;            /* a processor: its memory is the host's, ranks may share it */
        size_t memory, reserved; /* what it has, and what a process takes beside its plan */
        double rate;             /* of its memory */
        double flops[3];         /* of matrix products, by zn_dtype up to ZN_F16; 0: it has none */
        double launch;           /* seconds a kernel takes beside its work; 0: not known */
        /* Of a real device with memory of its own; files do not have them. */
        bool shares_memory; /* its bytes are the host's, too */
        size_t allocation;  /* at most in one piece; 0: no limit */
        /* Measured of a processor; 0 where they are not known. */
        int cores;
        size_t process;               /* memory that a process holds beside its plan; `reserved` is more, to be safe */
        double kernel[ZN_N_KERNELS];  /* flops a second of those that have any, else bytes */
        double weights[3];            /* elements of B that matrix products take a second beside their flops, by type */
        double token_sums[2];         /* … and of C where they sum over tokens: written, added to */
        double sum[3];                /* bytes of terms that one core adds in a sum over ranks, by type on the wire */
    } device;
    struct zn_link device_host, host_nvme, device_device, node_node;
};

/* What each of n_using ranks of a node gets. */
double zn_link_rate(const struct zn_link *link, int n_using);

/* By the name of a shipped description or, with a slash or the ending .json, from a file. */
zn_status zn_cluster_load(const char *name, struct zn_cluster *cluster);

/* From text; `file` names it in messages, `name` becomes the cluster's. What is unknown, missing, not
 * above zero or contradicts itself is refused in one line. */
zn_status zn_cluster_parse(const char *text, size_t n_bytes, const char *file, const char *name,
                           struct zn_cluster *cluster);

/* Writes a description that parse takes, whole or not at all. */
zn_status zn_cluster_write(const struct zn_cluster *cluster, const char *path);

/* The names of those compiled in: NULL at the end. */
const char *zn_cluster_name(size_t i);

#endif
