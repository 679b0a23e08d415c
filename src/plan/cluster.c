/* Reading of cluster descriptions. Nothing is guessed: every key is known, present and above zero. */
#include "plan/cluster.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/options.h"
#include "base/text.h"
#include "plan/cluster_files.h"

enum { CLUSTER_BYTES = 1 << 20, MAX_NODES = 1 << 20, MAX_DEVICES = 4096, VERSION = 1 };

double zn_link_rate(const struct zn_link *link, int n_using)
{
    double share = link->relayed ? link->node : link->node / n_using;
    return share < link->alone ? share : link->alone;
}

/* ---- Values ---- */

static const char *list_name(const void *context, size_t i)
{
    return ((const char *const *)context)[i];
}

/* `known` ends with NULL. */
static zn_status check_keys(zn_json *object, const char *const *known)
{
    for (const char *key = zn_json_first_key(object); key; key = zn_json_next_key(object, key)) {
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (*k)
            continue;
        const char *near = zn_nearest_name(key, list_name, known);
        return zn_json_fail(object, "unknown key '%s'%s%s", zn_shown(key).text, near ? ", did you mean " : "",
                            near ? near : "");
    }
    return ZN_OK;
}

static zn_status get_positive(zn_json *object, const char *key, double *value)
{
    double v;
    ZN_TRY(zn_json_get_number(object, key, &v));
    if (!(v > 0) || !isfinite(v) || v > 0x1p62)
        return zn_json_fail(object, "'%s' must be above 0 and below 2^62, not %.9g", key, v);
    *value = v;
    return ZN_OK;
}

static zn_status get_bytes(zn_json *object, const char *key, size_t *n_bytes)
{
    int64_t value;
    ZN_TRY(zn_json_get_int(object, key, 1, INT64_MAX / 2, &value));
    *n_bytes = (size_t)value;
    return ZN_OK;
}

static zn_status get_count(zn_json *object, const char *key, int max, int *count)
{
    int64_t value;
    ZN_TRY(zn_json_get_int(object, key, 1, max, &value));
    *count = (int)value;
    return ZN_OK;
}

static zn_status get_text(zn_json *object, const char *key, char *text, size_t size)
{
    const char *value;
    ZN_TRY(zn_json_get_string(object, key, &value));
    if (strlen(value) >= size)
        return zn_json_fail(object, "'%s' is longer than %zu bytes", key, size - 1);
    snprintf(text, size, "%s", value);
    return ZN_OK;
}

/* ---- Parts ---- */

static zn_status read_by_type(zn_json *device, const char *key, double rates[3])
{
    static const char *const keys[] = {"fp32", "bf16", "fp16", NULL};
    static const zn_dtype types[] = {ZN_F32, ZN_BF16, ZN_F16};
    zn_json *object;
    ZN_TRY(zn_json_get_object(device, key, &object));
    ZN_TRY(check_keys(object, keys));
    for (int i = 0; keys[i]; i++)
        if (types[i] == ZN_F32 || zn_json_has(object, keys[i]))
            ZN_TRY(get_positive(object, keys[i], &rates[types[i]]));
    return ZN_OK;
}

static zn_status read_kernels(zn_json *device, struct zn_cluster *c)
{
    const char *names[ZN_N_KERNELS + 1] = {0};
    zn_json *kernels;
    for (int k = 0; k < ZN_N_KERNELS; k++)
        names[k] = zn_kernel_name((zn_kernel)k);
    ZN_TRY(zn_json_get_object(device, "kernels", &kernels));
    ZN_TRY(check_keys(kernels, names));
    for (int k = 0; k < ZN_N_KERNELS; k++)
        if (zn_json_has(kernels, names[k]))
            ZN_TRY(get_positive(kernels, names[k], &c->device.kernel[k]));
    return ZN_OK;
}

/* All of it or nothing; but any device may have a time of launches. */
static zn_status read_measured(zn_json *device, struct zn_cluster *c)
{
    static const char *const keys[] = {"cores", "process_bytes", "kernels", "sums", "weights", "token_sums"};
    static const char *const ways[] = {"written", "added", NULL};
    zn_json *token_sums;
    int n = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        n += zn_json_has(device, keys[i]);
    if (n > 0 && !c->device.is_host)
        return zn_json_fail(device, "'cores', 'process_bytes', 'kernels', 'sums', 'weights' and 'token_sums' are of processors");
    if (n == 0)
        return zn_json_has(device, "launch_seconds") ? get_positive(device, "launch_seconds", &c->device.launch) : ZN_OK;
    ZN_TRY(get_count(device, "cores", MAX_DEVICES, &c->device.cores));
    ZN_TRY(get_bytes(device, "process_bytes", &c->device.process));
    ZN_TRY(get_positive(device, "launch_seconds", &c->device.launch));
    ZN_TRY(read_by_type(device, "sums", c->device.sum));
    ZN_TRY(read_by_type(device, "weights", c->device.weights));
    ZN_TRY(zn_json_get_object(device, "token_sums", &token_sums));
    ZN_TRY(check_keys(token_sums, ways));
    for (int i = 0; i < 2; i++)
        ZN_TRY(get_positive(token_sums, ways[i], &c->device.token_sums[i]));
    return read_kernels(device, c);
}

static zn_status read_device(zn_json *root, struct zn_cluster *c)
{
    static const char *const keys[] = {"name", "is_host", "memory_bytes", "reserved_bytes", "bytes_per_second",
                                       "flops", "cores", "process_bytes", "launch_seconds", "kernels", "sums", "weights",
                                       "token_sums", NULL};
    zn_json *device;
    ZN_TRY(zn_json_get_object(root, "device", &device));
    ZN_TRY(check_keys(device, keys));
    ZN_TRY(get_text(device, "name", c->device.name, sizeof c->device.name));
    ZN_TRY(zn_json_get_bool(device, "is_host", &c->device.is_host));
    ZN_TRY(get_bytes(device, "memory_bytes", &c->device.memory));
    ZN_TRY(get_bytes(device, "reserved_bytes", &c->device.reserved));
    ZN_TRY(get_positive(device, "bytes_per_second", &c->device.rate));
    if (c->device.reserved >= c->device.memory)
        return zn_json_fail(device, "'reserved_bytes' leaves nothing of 'memory_bytes'");
    ZN_TRY(read_by_type(device, "flops", c->device.flops));
    return read_measured(device, c);
}

static zn_status read_host(zn_json *root, struct zn_cluster *c)
{
    static const char *const keys[] = {"memory_bytes", "bytes_per_second", NULL};
    static const char *const nvme_keys[] = {"memory_bytes", NULL};
    zn_json *host, *nvme;
    ZN_TRY(zn_json_get_object(root, "host", &host));
    ZN_TRY(check_keys(host, keys));
    ZN_TRY(get_bytes(host, "memory_bytes", &c->host_memory));
    ZN_TRY(get_positive(host, "bytes_per_second", &c->host_rate));
    if (c->device.is_host && c->device.memory > c->host_memory / (size_t)c->devices)
        return zn_json_fail(host, "'memory_bytes' is less than its %d devices have", c->devices);
    ZN_TRY(zn_json_get_object_or_null(root, "nvme", &nvme));
    if (!nvme)
        return ZN_OK;
    ZN_TRY(check_keys(nvme, nvme_keys));
    return get_bytes(nvme, "memory_bytes", &c->nvme_memory);
}

/* A link between things that are not there is as wrong as one that is missing. */
static zn_status read_link(zn_json *links, const char *key, bool wanted, const char *why_not, struct zn_link *link)
{
    bool between_nodes = strcmp(key, "node_node") == 0;
    static const char *const keys[] = {"alone", "node", NULL}, *const network_keys[] = {"alone", "node", "relayed", NULL};
    zn_json *l;
    if (!wanted)
        return zn_json_has(links, key) ? zn_json_fail(links, "'%s': %s", key, why_not) : ZN_OK;
    ZN_TRY(zn_json_get_object(links, key, &l));
    ZN_TRY(check_keys(l, between_nodes ? network_keys : keys));
    ZN_TRY(get_positive(l, "alone", &link->alone));
    ZN_TRY(get_positive(l, "node", &link->node));
    if (between_nodes)
        ZN_TRY(zn_json_get_bool(l, "relayed", &link->relayed));
    return ZN_OK;
}

static zn_status read_links(zn_json *root, struct zn_cluster *c)
{
    static const char *const keys[] = {"device_host", "host_nvme", "device_device", "node_node", NULL};
    zn_json *links;
    ZN_TRY(zn_json_get_object(root, "links", &links));
    ZN_TRY(check_keys(links, keys));
    ZN_TRY(read_link(links, "device_host", !c->device.is_host, "the device is the host", &c->device_host));
    ZN_TRY(read_link(links, "host_nvme", c->nvme_memory > 0, "there is no 'nvme'", &c->host_nvme));
    ZN_TRY(read_link(links, "device_device", c->devices > 1 || c->device.is_host, "a node has one device",
                     &c->device_device));
    return read_link(links, "node_node", c->nodes > 1, "there is one node", &c->node_node);
}

static zn_status read_cluster(zn_json *root, struct zn_cluster *c)
{
    static const char *const keys[] = {"version", "about", "nodes", "devices", "host", "nvme", "device", "links", NULL};
    int version;
    if (zn_json_type_of(root) != ZN_JSON_OBJECT)
        return zn_json_fail(root, "a cluster is a JSON object");
    ZN_TRY(check_keys(root, keys));
    ZN_TRY(get_count(root, "version", VERSION, &version));
    ZN_TRY(get_text(root, "about", c->about, sizeof c->about));
    ZN_TRY(get_count(root, "nodes", MAX_NODES, &c->nodes));
    ZN_TRY(get_count(root, "devices", MAX_DEVICES, &c->devices));
    ZN_TRY(read_device(root, c));
    ZN_TRY(read_host(root, c));
    return read_links(root, c);
}

zn_status zn_cluster_parse(const char *text, size_t n_bytes, const char *file, const char *name,
                           struct zn_cluster *cluster)
{
    struct zn_cluster c = {0};
    zn_json *root;
    ZN_TRY(zn_json_load_buffer(text, n_bytes, file, &root));
    snprintf(c.name, sizeof c.name, "%s", name);
    zn_status status = read_cluster(root, &c);
    zn_json_destroy(root);
    if (status == ZN_OK)
        *cluster = c;
    return status;
}

/* ---- Names ---- */

const char *zn_cluster_name(size_t i)
{
    return zn_cluster_files[i].name;
}

static const char *next_name(const void *context, size_t i)
{
    (void)context;
    return zn_cluster_name(i);
}

static zn_status load_file(const char *path, struct zn_cluster *cluster)
{
    char *text;
    size_t n_bytes;
    const char *slash = strrchr(path, '/');
    ZN_TRY(zn_file_read(path, CLUSTER_BYTES, &text, &n_bytes));
    zn_status status = zn_cluster_parse(text, n_bytes, path, slash ? slash + 1 : path, cluster);
    free(text);
    return status;
}

static bool is_path(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 5 && strcmp(name + n - 5, ".json") == 0);
}

zn_status zn_cluster_load(const char *name, struct zn_cluster *cluster)
{
    if (is_path(name))
        return load_file(name, cluster);
    zn_text names;
    zn_text_init(&names);
    for (size_t i = 0; zn_cluster_files[i].name; i++) {
        const char *text = zn_cluster_files[i].text;
        zn_text_add(&names, ", %s", zn_cluster_files[i].name);
        if (strcmp(name, zn_cluster_files[i].name) == 0) {
            zn_text_fini(&names);
            return zn_cluster_parse(text, strlen(text), name, name, cluster);
        }
    }
    const char *near = zn_nearest_name(name, next_name, NULL);
    zn_status status = zn_fail(ZN_ERR_USAGE, "--cluster: '%s' is none of: this-machine%s, or a FILE.json%s%s",
                               zn_shown(name).text, names.data ? names.data : "", near ? "; did you mean " : "",
                               near ? near : "");
    zn_text_fini(&names);
    return status;
}
