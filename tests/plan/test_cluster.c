/* Cluster descriptions: those that are shipped, shared links, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/cluster.h"
#include "plan/cluster_files.h"

static struct zn_cluster load(const char *name)
{
    struct zn_cluster c;
    if (zn_cluster_load(name, &c) != ZN_OK)
        fail_msg("%s: %s", name, zn_error_message());
    return c;
}

static const char *text_of(const char *name)
{
    for (size_t i = 0; zn_cluster_files[i].name; i++)
        if (strcmp(zn_cluster_files[i].name, name) == 0)
            return zn_cluster_files[i].text;
    fail_msg("%s is not compiled in", name);
    return NULL;
}

/* The text with the first `from` replaced. */
static char *with(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    char *changed = malloc(strlen(text) + strlen(to) + 1);
    assert_non_null(changed);
    sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return changed;
}

/* A change to a shipped description is refused in one line that holds both words. */
static void refuses(const char *name, const char *from, const char *to, const char *first, const char *second)
{
    struct zn_cluster c;
    char *text = with(text_of(name), from, to);
    zn_status status = zn_cluster_parse(text, strlen(text), "mine.json", "mine", &c);
    free(text);
    if (status == ZN_OK)
        fail_msg("'%s' for '%s' was taken", to, from);
    const char *message = zn_error_message();
    if (!strstr(message, "mine.json") || !strstr(message, first) || !strstr(message, second) || strchr(message, '\n'))
        fail_msg("'%s' for '%s': %s", to, from, message);
}

static void all_shipped_ones_can_be_read(void **state)
{
    (void)state;
    size_t n = 0;
    for (; zn_cluster_name(n); n++) {
        struct zn_cluster c = load(zn_cluster_name(n));
        assert_string_equal(c.name, zn_cluster_name(n));
    }
    assert_int_equal(n, 5);
}

static void dgx2_has_the_papers_figures(void **state)
{
    (void)state;
    struct zn_cluster c = load("dgx2-v100");
    assert_int_equal(c.devices, 16);
    assert_true(c.device.memory == (size_t)32 << 30);
    assert_true(c.host_memory == (size_t)3 << 39); /* 1.5 TB */
    assert_true(c.device.flops[ZN_F16] == 70e12);
    assert_true(c.device.flops[ZN_BF16] == 0); /* V100 has none */
    assert_true(zn_link_rate(&c.device_host, 1) == 12e9);
    assert_true(zn_link_rate(&c.device_host, 16) == 3e9);
    assert_true(zn_link_rate(&c.host_nvme, 1) == 12e9);
    assert_true(zn_link_rate(&c.host_nvme, 16) == 25e9 / 16);
    assert_true(zn_link_rate(&c.device_device, 16) == 150e9);
    assert_true(zn_link_rate(&c.node_node, 16) == 100e9); /* each byte enters the node once */
}

static void shared_links_are_shared(void **state)
{
    (void)state;
    struct zn_link link = {.alone = 12, .node = 48};
    assert_true(zn_link_rate(&link, 1) == 12);
    assert_true(zn_link_rate(&link, 4) == 12);
    assert_true(zn_link_rate(&link, 8) == 6);
    assert_true(zn_link_rate(&link, 16) == 3);
    link.relayed = true;
    link.node = 10;
    assert_true(zn_link_rate(&link, 1) == 10);
    assert_true(zn_link_rate(&link, 16) == 10);
}

static void same_link(const struct zn_link *a, const struct zn_link *b)
{
    assert_true(a->alone == b->alone && a->node == b->node && a->relayed == b->relayed);
}

static void same_cluster(const struct zn_cluster *a, const struct zn_cluster *b)
{
    assert_string_equal(a->about, b->about);
    assert_string_equal(a->device.name, b->device.name);
    assert_true(a->nodes == b->nodes && a->devices == b->devices);
    assert_true(a->host_memory == b->host_memory && a->host_rate == b->host_rate && a->nvme_memory == b->nvme_memory);
    assert_true(a->device.is_host == b->device.is_host && a->device.memory == b->device.memory &&
                a->device.reserved == b->device.reserved && a->device.rate == b->device.rate);
    for (zn_dtype type = ZN_F32; type <= ZN_F16; type++)
        assert_true(a->device.flops[type] == b->device.flops[type] && a->device.sum[type] == b->device.sum[type] &&
                    a->device.weights[type] == b->device.weights[type]);
    for (int i = 0; i < 2; i++)
        assert_true(a->device.token_sums[i] == b->device.token_sums[i]);
    for (int k = 0; k < ZN_N_KERNELS; k++)
        assert_true(a->device.kernel[k] == b->device.kernel[k]);
    assert_true(a->device.cores == b->device.cores && a->device.launch == b->device.launch && a->device.process == b->device.process);
    same_link(&a->device_host, &b->device_host);
    same_link(&a->host_nvme, &b->host_nvme);
    same_link(&a->device_device, &b->device_device);
    same_link(&a->node_node, &b->node_node);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    char path[] = "/tmp/zinc-cluster-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; zn_cluster_name(i); i++) {
        struct zn_cluster c = load(zn_cluster_name(i)), again;
        assert_int_equal(zn_cluster_write(&c, path), ZN_OK);
        again = load(path);
        same_cluster(&c, &again);
    }
    struct zn_cluster measured = load("cpu-server"), again;
    measured.device.cores = 32;
    measured.device.launch = 1e-6;
    measured.device.process = 1 << 24;
    measured.device.sum[ZN_F32] = 1e10;
    measured.device.weights[ZN_F32] = 4e9;
    measured.device.weights[ZN_BF16] = 3e9;
    measured.device.token_sums[0] = 2e9;
    measured.device.token_sums[1] = 7e9;
    measured.device.kernel[ZN_KERNEL_adam] = 2e10;
    measured.device.kernel[ZN_KERNEL_gelu_forward] = 3e9;
    assert_int_equal(zn_cluster_write(&measured, path), ZN_OK);
    again = load(path);
    same_cluster(&measured, &again);
    unlink(path);
}

static void wrong_values_are_refused_by_name(void **state)
{
    (void)state;
    refuses("dgx2-v100", "\"devices\": 16", "\"devices\": 0", "devices", "0");
    refuses("dgx2-v100", "\"devices\": 16", "\"devices\": -4", "devices", "-4");
    refuses("dgx2-v100", "\"devices\": 16", "\"devices\": \"16\"", "devices", "string");
    refuses("dgx2-v100", "\"nodes\": 64", "\"nodes\": 1.5", "nodes", "1.5");
    refuses("dgx2-v100", "\"nodes\": 64", "\"nodes\": 99999999999", "nodes", "99999999999");
    refuses("dgx2-v100", "\"version\": 1", "\"version\": 2", "version", "2");
    refuses("dgx2-v100", "\"memory_bytes\": 34359738368", "\"memory_bytes\": 0", "device", "memory_bytes");
    refuses("dgx2-v100", "\"memory_bytes\": 34359738368", "\"memory_bytes\": 1e19", "device", "memory_bytes");
    refuses("dgx2-v100", "\"memory_bytes\": 34359738368", "\"memory_bytes\": 1000", "reserved_bytes", "nothing");
    refuses("dgx2-v100", "\"fp16\": 70e12", "\"fp16\": -70e12", "flops", "fp16");
    refuses("dgx2-v100", "\"fp16\": 70e12", "\"fp16\": 0", "flops", "fp16");
    refuses("dgx2-v100", "\"alone\": 12e9", "\"alone\": 0", "device_host", "alone");
    refuses("dgx2-v100", "\"node\": 48e9", "\"node\": -1", "device_host", "node");
    refuses("dgx2-v100", "\"relayed\": true", "\"relayed\": 1", "node_node", "relayed");
    refuses("cpu-server", "\"memory_bytes\": 274877906944", "\"memory_bytes\": 374877906944", "host", "devices");
}

/* Measured rates are a processor's, all together, of kernels that there are. */
static void measured_rates_are_refused_by_name(void **state)
{
    (void)state;
    const char *flops = "\"fp32\": 4e12, \"bf16\": 4e12, \"fp16\": 4e12}";
#define MEASURED(kernels)                                                                                              \
    "\"fp32\": 4e12}, \"cores\": 4, \"process_bytes\": 9, \"launch_seconds\": 1e-6, \"sums\": {\"fp32\": 1e9}, "     \
    "\"weights\": {\"fp32\": 1e9}, \"token_sums\": {\"written\": 1e9, \"added\": 1e9}, "                             \
    "\"kernels\": {" kernels "}"
    refuses("cpu-server", flops, MEASURED("\"adma\": 1e9"), "unknown key 'adma'", "adam");
    refuses("cpu-server", flops, MEASURED("\"adam\": 0"), "kernels", "adam");
    refuses("cpu-server", flops, "\"fp32\": 4e12}, \"cores\": 4", "device", "process_bytes");
    refuses("cpu-server", flops, "\"fp32\": 4e12}, \"cores\": 0", "device", "cores");
    refuses("cpu-server", flops, "\"fp32\": 4e12}, \"weights\": {\"fp32\": 1}", "device", "cores");
    refuses("dgx2-v100", "\"fp16\": 70e12}", "\"fp16\": 70e12}, \"cores\": 4", "device", "processors");
#undef MEASURED
}

static void unknown_keys_are_refused_by_name(void **state)
{
    (void)state;
    refuses("dgx2-v100", "\"nodes\"", "\"node\": 1, \"nodes\"", "unknown key 'node'", "nodes");
    refuses("dgx2-v100", "\"flops\"", "\"flop\"", "unknown key 'flop'", "flops");
    refuses("dgx2-v100", "\"fp16\"", "\"fp8\"", "flops", "unknown key 'fp8'");
    refuses("dgx2-v100", "\"device_host\"", "\"device_hosts\"", "links", "device_hosts");
    refuses("dgx2-v100", "\"alone\": 12e9", "\"alone\": 12e9, \"all\": 1", "device_host", "unknown key 'all'");
    refuses("dgx2-v100", "\"bytes_per_second\": 255e9", "\"rate\": 255e9", "host", "unknown key 'rate'");
}

static void missing_keys_are_refused_by_name(void **state)
{
    (void)state;
    refuses("dgx2-v100", "\"version\": 1,", "", "version", "missing");
    refuses("dgx2-v100", "\"devices\": 16,", "", "devices", "missing");
    refuses("dgx2-v100", ", \"bytes_per_second\": 255e9", "", "host.bytes_per_second", "missing");
    refuses("dgx2-v100", "\"fp32\": 14e12, ", "", "fp32", "missing");
    refuses("dgx2-v100", "\"is_host\": false,", "", "is_host", "missing");
    refuses("dgx2-v100", ", \"relayed\": true", "", "relayed", "missing");
    refuses("dgx2-v100", "\"device_host\": {\"alone\": 12e9, \"node\": 48e9},", "", "device_host", "missing");
    refuses("dgx2-v100", ", \"node\": 48e9", "", "device_host.node", "missing");
}

/* A link to something that is not there. */
static void links_to_nothing_are_refused(void **state)
{
    (void)state;
    refuses("desktop-24gb", "\"links\": {", "\"links\": {\"node_node\": {\"alone\": 1, \"node\": 1, \"relayed\": true},",
            "node_node", "one node");
    refuses("desktop-24gb", "\"links\": {", "\"links\": {\"device_device\": {\"alone\": 1, \"node\": 1},",
            "device_device", "one device");
    refuses("desktop-24gb", "\"nvme\": {\"memory_bytes\": 2000000000000},", "", "host_nvme", "nvme");
    refuses("cpu-server", "\"links\": {", "\"links\": {\"device_host\": {\"alone\": 1, \"node\": 1},", "device_host",
            "the host");
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    struct zn_cluster c;
    assert_int_equal(zn_cluster_load("dgx-a10", &c), ZN_ERR_USAGE);
    assert_non_null(strstr(zn_error_message(), "did you mean dgx-a100"));
    assert_int_not_equal(zn_cluster_load("./no-such-file.json", &c), ZN_OK);
    assert_non_null(strstr(zn_error_message(), "no-such-file.json"));
    assert_int_not_equal(zn_cluster_parse("[1]", 3, "mine.json", "mine", &c), ZN_OK);
    assert_int_not_equal(zn_cluster_parse("{", 1, "mine.json", "mine", &c), ZN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shipped_ones_can_be_read),
        cmocka_unit_test(dgx2_has_the_papers_figures),
        cmocka_unit_test(shared_links_are_shared),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(wrong_values_are_refused_by_name),
        cmocka_unit_test(measured_rates_are_refused_by_name),
        cmocka_unit_test(unknown_keys_are_refused_by_name),
        cmocka_unit_test(missing_keys_are_refused_by_name),
        cmocka_unit_test(links_to_nothing_are_refused),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
