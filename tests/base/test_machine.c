/* Cores and memory as a process may use them, from planted /proc and /sys trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/machine.h"

static char root[64];

/* Writes a file below the root, with the folders above it. */
static void plant(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *p = strchr(whole + strlen(root) + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(whole, 0700);
        *p = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

/* A machine of four cores with two threads each, all allowed, 8 GiB of memory, no groups. */
static int plain_machine(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/zinc-machine-XXXXXX");
    assert_non_null(mkdtemp(root));
    plant("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Processor 9\n");
    plant("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
    plant("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\n"
                           "MemAvailable:    6291456 kB\n");
    plant("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    for (int cpu = 0; cpu < 8; cpu++) {
        char path[128], text[16];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        snprintf(text, sizeof text, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        plant(path, text);
    }
    return 0;
}

static int remove_machine(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static struct zn_machine read_machine(void)
{
    struct zn_machine m;
    if (zn_machine_read(root, &m) != ZN_OK)
        fail_msg("%s", zn_error_message());
    return m;
}

static const size_t gib = (size_t)1 << 30;

static void without_limits_all_cores_and_memory_count(void **state)
{
    (void)state;
    struct zn_machine m = read_machine();
    assert_string_equal(m.cpu_model, "Some Processor 9");
    assert_int_equal(m.n_logical, 8);
    assert_int_equal(m.n_physical, 4);
    assert_int_equal(m.n_cores, 4);
    assert_true(m.cpu_quota == 0);
    assert_int_equal(m.memory_total, 8 * gib);
    assert_int_equal(m.memory_cgroup, 0);
    assert_int_equal(m.memory_limit, 8 * gib);
    assert_int_equal(m.memory_available, 6 * gib);
    assert_string_equal(m.huge_pages, "madvise");
}

static void the_affinity_mask_limits_cores(void **state)
{
    (void)state;
    plant("/proc/self/status", "Cpus_allowed_list:\t1,5,6-7\n");
    struct zn_machine m = read_machine();
    assert_int_equal(m.n_logical, 4);
    assert_int_equal(m.n_physical, 3); /* 1 and 5 share a core */
    assert_int_equal(m.n_cores, 3);
}

static void version_2_limits_of_any_group_above_count(void **state)
{
    (void)state;
    plant("/proc/self/cgroup", "0::/slice/job\n");
    plant("/proc/self/mountinfo",
          "20 1 0:5 / /proc rw - proc proc rw\n26 25 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - "
          "cgroup2 cgroup2 rw\n");
    plant("/sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
    plant("/sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
    plant("/sys/fs/cgroup/slice/job/memory.max", "4294967296\n");
    plant("/sys/fs/cgroup/slice/job/memory.current", "2147483648\n");
    plant("/sys/fs/cgroup/slice/job/memory.stat", "anon 1\ninactive_file 1073741824\n");
    plant("/sys/fs/cgroup/slice/memory.max", "max\n");
    struct zn_machine m = read_machine();
    assert_true(m.cpu_quota == 1.5);
    assert_int_equal(m.n_cores, 2);
    assert_int_equal(m.memory_cgroup, 4 * gib);
    assert_int_equal(m.memory_limit, 4 * gib);
    assert_int_equal(m.memory_available, 3 * gib); /* file pages can be dropped */
}

static void version_1_limits_count(void **state)
{
    (void)state;
    plant("/proc/self/cgroup", "4:memory:/a/b\n2:cpu,cpuacct:/a\n0::/\n");
    plant("/proc/self/mountinfo", "30 1 0:7 / /cg/memory rw - cgroup cgroup rw,memory\n"
                                  "31 1 0:8 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    plant("/cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    plant("/cg/memory/a/memory.limit_in_bytes", "2147483648\n");
    plant("/cg/memory/a/memory.usage_in_bytes", "1073741824\n");
    plant("/cg/memory/a/memory.stat", "total_inactive_file 536870912\n");
    plant("/cg/cpu/a/cpu.cfs_quota_us", "100000\n");
    plant("/cg/cpu/a/cpu.cfs_period_us", "50000\n");
    plant("/cg/cpu/cpu.cfs_quota_us", "-1\n");
    plant("/cg/cpu/cpu.cfs_period_us", "100000\n");
    struct zn_machine m = read_machine();
    assert_true(m.cpu_quota == 2.0);
    assert_int_equal(m.n_cores, 2);
    assert_int_equal(m.memory_limit, 2 * gib);
    assert_int_equal(m.memory_available, gib + gib / 2);
}

static void limits_of_the_process_count_what_is_mapped(void **state)
{
    (void)state;
    plant("/proc/self/status", "Cpus_allowed_list:\t0-7\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\n");
    plant("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                               "Max data size             unlimited            unlimited            bytes     \n"
                               "Max address space         3221225472           unlimited            bytes     \n");
    struct zn_machine m = read_machine();
    assert_int_equal(m.memory_process, 2 * gib);
    assert_int_equal(m.memory_available, 2 * gib);
    plant("/proc/self/limits", "Max data size             1073741824           1073741824           bytes     \n"
                               "Max address space         3221225472           unlimited            bytes     \n");
    m = read_machine();
    assert_int_equal(m.memory_process, gib / 2);
    assert_int_equal(m.memory_available, gib / 2);
    plant("/proc/self/limits", "Max address space         1024                 unlimited            bytes     \n");
    m = read_machine();
    assert_int_equal(m.memory_available, 0);
    plant("/proc/self/limits", "Max address space         unlimited            unlimited            bytes     \n");
    m = read_machine();
    assert_true(m.memory_process == SIZE_MAX);
    assert_int_equal(m.memory_available, 6 * gib);
}

static void no_limit_of_version_1_is_no_limit(void **state)
{
    (void)state;
    plant("/proc/self/cgroup", "4:memory:/\n");
    plant("/proc/self/mountinfo", "30 1 0:7 / /cg/memory rw - cgroup cgroup rw,memory\n");
    plant("/cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    plant("/cg/memory/memory.usage_in_bytes", "9223372036854771000\n");
    struct zn_machine m = read_machine();
    assert_int_equal(m.memory_cgroup, 0);
    assert_int_equal(m.memory_limit, 8 * gib);
    assert_int_equal(m.memory_available, 6 * gib);
}

static void a_container_sees_its_groups_below_the_mount(void **state)
{
    (void)state;
    plant("/proc/self/cgroup", "0::/docker/123/job\n");
    plant("/proc/self/mountinfo", "26 25 0:22 /docker/123 /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    plant("/sys/fs/cgroup/job/memory.max", "1073741824\n");
    plant("/sys/fs/cgroup/job/memory.current", "0\n");
    struct zn_machine m = read_machine();
    assert_int_equal(m.memory_limit, gib);
    assert_int_equal(m.memory_available, gib);
}

static void a_quota_below_one_leaves_one_core(void **state)
{
    (void)state;
    plant("/proc/self/cgroup", "0::/\n");
    plant("/proc/self/mountinfo", "26 25 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    plant("/sys/fs/cgroup/cpu.max", "20000 100000\n");
    assert_int_equal(read_machine().n_cores, 1);
}

static void this_machine_can_be_read(void **state)
{
    (void)state;
    struct zn_machine m;
    assert_int_equal(zn_machine_read("", &m), ZN_OK);
    assert_true(m.n_cores >= 1 && m.n_physical <= m.n_logical);
    assert_true(m.memory_limit <= m.memory_total);
    assert_true(m.memory_available <= m.memory_limit);
}

static void a_machine_without_proc_is_an_error_that_names_the_file(void **state)
{
    (void)state;
    struct zn_machine m;
    assert_int_equal(zn_machine_read("/nowhere", &m), ZN_ERR_IO);
    assert_non_null(strstr(zn_error_message(), "/nowhere/proc/self/status"));
}

#define ON_A_TREE(test) cmocka_unit_test_setup_teardown(test, plain_machine, remove_machine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_TREE(without_limits_all_cores_and_memory_count),
        ON_A_TREE(the_affinity_mask_limits_cores),
        ON_A_TREE(version_2_limits_of_any_group_above_count),
        ON_A_TREE(version_1_limits_count),
        ON_A_TREE(limits_of_the_process_count_what_is_mapped),
        ON_A_TREE(no_limit_of_version_1_is_no_limit),
        ON_A_TREE(a_container_sees_its_groups_below_the_mount),
        ON_A_TREE(a_quota_below_one_leaves_one_core),
        cmocka_unit_test(this_machine_can_be_read),
        cmocka_unit_test(a_machine_without_proc_is_an_error_that_names_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
