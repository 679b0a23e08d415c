/* Cluster descriptions of any bytes: refused, or every figure a plan divides by is above zero. */
#include <stdint.h>
#include <stdlib.h>

#include "plan/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_link(const struct zn_link *link, bool wanted)
{
    check(wanted == (link->alone > 0) && wanted == (link->node > 0));
    check(!wanted || zn_link_rate(link, 4096) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zn_cluster c;
    if (zn_cluster_parse((const char *)data, size, "fuzz", "fuzz", &c) != ZN_OK)
        return 0;
    check(c.nodes > 0 && c.devices > 0 && c.host_memory > 0 && c.host_rate > 0);
    check(c.device.memory > c.device.reserved && c.device.rate > 0 && c.device.flops[ZN_F32] > 0);
    check(c.device.flops[ZN_BF16] >= 0 && c.device.flops[ZN_F16] >= 0);
    check_link(&c.device_host, !c.device.is_host);
    check_link(&c.host_nvme, c.nvme_memory > 0);
    check_link(&c.device_device, c.devices > 1 || c.device.is_host);
    check_link(&c.node_node, c.nodes > 1);
    return 0;
}
