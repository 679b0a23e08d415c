/* Writing of cluster descriptions. */
#include "base/files.h"
#include "base/text.h"
#include "plan/cluster.h"

static void add_link(zn_text *t, const char *key, const struct zn_link *link, bool first, bool between_nodes)
{
    zn_text_add(t, "%s\n    \"%s\": {\"alone\": %.6g, \"node\": %.6g", first ? "" : ",", key, link->alone, link->node);
    if (between_nodes)
        zn_text_add(t, ", \"relayed\": %s", link->relayed ? "true" : "false");
    zn_text_add(t, "}");
}

static void add_links(zn_text *t, const struct zn_cluster *c)
{
    const struct {
        const char *key;
        const struct zn_link *link;
    } links[] = {{"device_host", &c->device_host},
                 {"host_nvme", &c->host_nvme},
                 {"device_device", &c->device_device},
                 {"node_node", &c->node_node}};
    bool first = true;
    zn_text_add(t, "  \"links\": {");
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        if (links[i].link->alone > 0) {
            add_link(t, links[i].key, links[i].link, first, links[i].link == &c->node_node);
            first = false;
        }
    }
    zn_text_add(t, "\n  }\n");
}

static void add_by_type(zn_text *t, const char *key, const double rates[3])
{
    zn_text_add(t, ",\n    \"%s\": {", key);
    for (zn_dtype type = ZN_F32; type <= ZN_F16; type++)
        if (rates[type] > 0)
            zn_text_add(t, "%s\"%s\": %.6g", type == ZN_F32 ? "" : ", ", zn_dtype_name(type), rates[type]);
    zn_text_add(t, "}");
}

static void add_measured(zn_text *t, const struct zn_cluster *c)
{
    bool first = true;
    if (c->device.launch > 0)
        zn_text_add(t, ",\n    \"launch_seconds\": %.6g", c->device.launch);
    if (c->device.cores == 0)
        return;
    zn_text_add(t, ",\n    \"cores\": %d,\n    \"process_bytes\": %zu", c->device.cores, c->device.process);
    add_by_type(t, "sums", c->device.sum);
    add_by_type(t, "weights", c->device.weights);
    zn_text_add(t, ",\n    \"token_sums\": {\"written\": %.6g, \"added\": %.6g}", c->device.token_sums[0],
                c->device.token_sums[1]);
    zn_text_add(t, ",\n    \"kernels\": {");
    for (int k = 0; k < ZN_N_KERNELS; k++) {
        if (c->device.kernel[k] > 0) {
            zn_text_add(t, "%s\n      \"%s\": %.6g", first ? "" : ",", zn_kernel_name((zn_kernel)k), c->device.kernel[k]);
            first = false;
        }
    }
    zn_text_add(t, "\n    }");
}

static void add_device(zn_text *t, const struct zn_cluster *c)
{
    zn_text_add(t, "  \"device\": {\n    \"name\": ");
    zn_text_add_quoted(t, c->device.name);
    zn_text_add(t, ",\n    \"is_host\": %s,\n    \"memory_bytes\": %zu,\n    \"reserved_bytes\": %zu,\n",
                c->device.is_host ? "true" : "false", c->device.memory, c->device.reserved);
    zn_text_add(t, "    \"bytes_per_second\": %.6g", c->device.rate);
    add_by_type(t, "flops", c->device.flops);
    add_measured(t, c);
    zn_text_add(t, "\n  },\n");
}

zn_status zn_cluster_write(const struct zn_cluster *c, const char *path)
{
    zn_text t;
    zn_text_init(&t);
    zn_text_add(&t, "{\n  \"version\": 1,\n  \"about\": ");
    zn_text_add_quoted(&t, c->about);
    zn_text_add(&t, ",\n  \"nodes\": %d,\n  \"devices\": %d,\n", c->nodes, c->devices);
    zn_text_add(&t, "  \"host\": {\"memory_bytes\": %zu, \"bytes_per_second\": %.6g},\n", c->host_memory, c->host_rate);
    if (c->nvme_memory)
        zn_text_add(&t, "  \"nvme\": {\"memory_bytes\": %zu},\n", c->nvme_memory);
    add_device(&t, c);
    add_links(&t, c);
    zn_text_add(&t, "}\n");
    zn_status status = zn_text_status(&t);
    if (status == ZN_OK)
        status = zn_file_write(path, t.data, t.n_bytes);
    zn_text_fini(&t);
    return status;
}
