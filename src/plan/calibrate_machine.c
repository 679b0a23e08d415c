/* Measuring this machine with the kernels a run uses, so that its figures are those a run can reach. */
#include "plan/calibrate_machine.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/machine.h"
#include "base/median.h"
#include "comm/sum.h"
#include "device/cpu/isa.h"
#include "device/device.h"
#include "plan/calibrate_drive.h"
#include "plan/calibrate_kernels.h"
#include "plan/calibrate_products.h"

/* What a process takes beside its plan: code, libraries, stacks. */
static const size_t PROCESS_BYTES = 64 * 1024 * 1024;

enum { FILE_BYTES = 1 << 20, N_PASSES = 3, N_ROUNDS = 4, MAX_RATES = ZN_N_KERNELS + 16, COPY_BYTES = 64 * 1024 * 1024 };

zn_status zn_calibration_path(char **path)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *base = NULL;
    if (cache && cache[0] == '/') /* a relative one is to be ignored, says its specification */
        return zn_path_join(cache, "zinc/machine.json", path);
    if (!home || !*home)
        return zn_fail(ZN_ERR_INPUT, "neither XDG_CACHE_HOME nor HOME says where " ZN_THIS_MACHINE " is kept");
    ZN_TRY(zn_path_join(home, ".cache", &base));
    zn_status status = zn_path_join(base, "zinc/machine.json", path);
    free(base);
    return status;
}

/* ---- The machine as it is, without rates ---- */

static zn_status describe(struct zn_cluster *c, int *n_threads)
{
    struct zn_machine machine;
    const char *isa;
    ZN_TRY(zn_machine_read("", &machine));
    ZN_TRY(zn_cpu_isa_choose(NULL, &isa));
    *c = (struct zn_cluster){.nodes = 1, .devices = 1};
    *n_threads = machine.n_cores;
    snprintf(c->name, sizeof c->name, ZN_THIS_MACHINE);
    snprintf(c->about, sizeof c->about, "%s, %d cores, %s", machine.cpu_model, machine.n_cores, isa);
    snprintf(c->device.name, sizeof c->device.name, "%d cores", machine.n_cores);
    c->device.is_host = true;
    c->device.cores = machine.n_cores;
    c->device.memory = machine.memory_available / 10 * 9;
    c->device.reserved = PROCESS_BYTES + (size_t)machine.n_cores * ZN_CPU_SCRATCH_BYTES;
    c->host_memory = c->device.memory;
    if (c->device.memory <= c->device.reserved)
        return zn_fail(ZN_ERR_MEMORY, "this machine has no memory left to plan with");
    return ZN_OK;
}

/* ---- Rates: the median of several rounds, as a step is bound by what is usual ---- */

struct bench {
    zn_device *device;
    zn_clock *clock;
    zn_addr memory;
};

/* What is done in a second, of rounds that did so much each. */
static double usual_rate(double work, double *seconds, int n_rounds)
{
    double usual = zn_median(seconds, n_rounds);
    return usual > 0 ? work / usual : 0;
}

static zn_status measure_products(const struct bench *b, int n_threads, struct zn_cluster *c)
{
    struct products p;
    ZN_TRY(products_measure(b->device, n_threads, b->memory, &p));
    memcpy(c->device.flops, p.flops, sizeof p.flops);
    memcpy(c->device.weights, p.weights, sizeof p.weights);
    memcpy(c->device.token_sums, p.sums, sizeof p.sums);
    return ZN_OK;
}

static zn_status measure_memory(const struct bench *b, double *rate)
{
    double seconds[N_ROUNDS];
    struct zn_add_args args = {.y = b->memory,
                               .a = b->memory + COPY_BYTES,
                               .b = b->memory + 2 * (zn_addr)COPY_BYTES,
                               .n_elements = COPY_BYTES / (int64_t)sizeof(float)};
    ZN_TRY(zn_run_add(b->device, &args));
    for (int i = 0; i < N_ROUNDS; i++) {
        double start = zn_clock_now(b->clock);
        ZN_TRY(zn_run_add(b->device, &args));
        seconds[i] = zn_clock_now(b->clock) - start;
    }
    *rate = usual_rate(zn_kernel_cost(ZN_KERNEL_add, &args).n_bytes, seconds, N_ROUNDS);
    return ZN_OK;
}

/* A rank takes another's piece with one thread, its communication thread: bytes received a second. */
static zn_status measure_copy(const struct bench *b, double *rate)
{
    double seconds[N_ROUNDS];
    char *to = malloc(COPY_BYTES);
    if (!to)
        return zn_fail(ZN_ERR_MEMORY, "no memory to measure with");
    zn_status status = zn_device_read(b->device, to, b->memory, COPY_BYTES);
    for (int i = 0; i < N_ROUNDS && status == ZN_OK; i++) {
        double start = zn_clock_now(b->clock);
        status = zn_device_read(b->device, to, b->memory, COPY_BYTES);
        seconds[i] = zn_clock_now(b->clock) - start;
    }
    if (status == ZN_OK)
        *rate = usual_rate(COPY_BYTES, seconds, N_ROUNDS);
    free(to);
    return status;
}

/* A rank adds its piece of two ranks' gradients with one thread: bytes of terms a second. */
static void measure_sums(const struct bench *b, double rates[3])
{
    enum { N = COPY_BYTES / 4 };
    double seconds[N_ROUNDS];
    float *to = (float *)(uintptr_t)b->memory;
    const struct sum_term terms[2] = {{.data = to + N}, {.data = to + 2 * N}};
    for (zn_dtype wire = ZN_F32; wire <= ZN_F16; wire++) {
        for (int i = 0; i < N_ROUNDS; i++) {
            double start = zn_clock_now(b->clock);
            sum_terms(terms, 2, N, wire, to, false);
            seconds[i] = zn_clock_now(b->clock) - start;
        }
        rates[wire] = usual_rate(2.0 * COPY_BYTES, seconds, N_ROUNDS);
    }
}

/* Memory of this process as the system counts it; 0 where it cannot be read. */
static size_t resident_now(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    if (f && fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A product, over and over, while the drive is measured. */
struct beside {
    zn_device *device;
    struct zn_gemm_args args;
};

static zn_status run_beside(const void *context)
{
    const struct beside *beside = context;
    return zn_run_gemm(beside->device, &beside->args);
}

static zn_status measure_drive(const struct bench *b, int n_threads, struct zn_cluster *c)
{
    const struct beside beside = {b->device, products_example(n_threads, b->memory + DRIVE_MEMORY_BYTES)};
    struct drive_work work = {run_beside, &beside};
    ZN_TRY(drive_measure(b->clock, (unsigned char *)(uintptr_t)b->memory, &work, &c->host_nvme.alone, &c->nvme_memory));
    if (c->nvme_memory == 0)
        c->host_nvme = (struct zn_link){0};
    return ZN_OK;
}

static zn_status measure_rates(const struct bench *b, int n_threads, struct zn_cluster *c)
{
    ZN_TRY(measure_products(b, n_threads, c));
    ZN_TRY(kernels_measure(b->device, n_threads, b->memory, c->device.kernel, &c->device.launch));
    measure_sums(b, c->device.sum);
    ZN_TRY(measure_memory(b, &c->device.rate));
    ZN_TRY(measure_copy(b, &c->device_device.alone));
    ZN_TRY(measure_drive(b, n_threads, c));
    return ZN_OK;
}

/* All that was measured, in one order. */
static int list_rates(struct zn_cluster *c, double *rate[MAX_RATES])
{
    int n = 0;
    for (int type = ZN_F32; type <= ZN_F16; type++) {
        rate[n++] = &c->device.flops[type];
        rate[n++] = &c->device.weights[type];
        rate[n++] = &c->device.sum[type];
    }
    for (int k = 0; k < ZN_N_KERNELS; k++)
        rate[n++] = &c->device.kernel[k];
    rate[n++] = &c->device.token_sums[0];
    rate[n++] = &c->device.token_sums[1];
    rate[n++] = &c->device.launch;
    rate[n++] = &c->device.rate;
    rate[n++] = &c->device_device.alone;
    rate[n++] = &c->host_nvme.alone;
    return n;
}

/* Several times over: a second in which others have the machine spoils one pass alone. */
static zn_status measure_passes(const struct bench *b, int n_threads, struct zn_cluster *c)
{
    struct zn_cluster pass[N_PASSES];
    double *rate[N_PASSES][MAX_RATES], *result[MAX_RATES], values[N_PASSES];
    for (int i = 0; i < N_PASSES; i++) {
        pass[i] = *c;
        ZN_TRY(measure_rates(b, n_threads, &pass[i]));
        list_rates(&pass[i], rate[i]);
    }
    *c = pass[N_PASSES - 1];
    int n = list_rates(c, result);
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < N_PASSES; i++)
            values[i] = *rate[i][r];
        *result[r] = zn_median(values, N_PASSES);
    }
    if (c->nvme_memory == 0 || c->host_nvme.alone == 0) { /* it was there in some passes alone */
        c->nvme_memory = 0;
        c->host_nvme.alone = 0;
    }
    c->host_nvme.node = c->host_nvme.alone;
    c->device_device.node = c->device.rate / 2; /* each byte is read and written */
    c->host_rate = c->device.rate;
    return ZN_OK;
}

zn_status zn_calibration_measure(struct zn_cluster *cluster)
{
    struct zn_cluster c;
    zn_clock clock;
    zn_ledger ledger;
    int n_threads;
    ZN_TRY(describe(&c, &n_threads));
    zn_clock_init_real(&clock);
    zn_ledger_init(&ledger);
    struct bench b = {.clock = &clock};
    ZN_TRY(zn_device_create_cpu(&ledger, &clock, n_threads, NULL, &b.device));
    size_t n_bytes = products_bytes(n_threads) + DRIVE_MEMORY_BYTES, stream_bytes = 3 * (size_t)COPY_BYTES;
    n_bytes = n_bytes > stream_bytes ? n_bytes : stream_bytes;
    n_bytes = n_bytes > KERNELS_MEMORY_BYTES ? n_bytes : KERNELS_MEMORY_BYTES;
    zn_status status = zn_device_alloc(b.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, n_bytes, &b.memory);
    if (status == ZN_OK) {
        status = measure_passes(&b, n_threads, &c);
        size_t resident = resident_now(); /* with all that computing has touched: code, stacks, scratch */
        c.device.process = resident > n_bytes ? resident - n_bytes : c.device.reserved;
        zn_device_free(b.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, b.memory, n_bytes);
    }
    zn_device_destroy(b.device);
    if (status == ZN_OK)
        *cluster = c;
    return status;
}

/* A core multiplies at 60 Gflop/s; four of them have the memory's speed; the drive is an NVMe, the network 10 Gb/s. */
struct zn_cluster zn_calibration_usual(int n_cores)
{
    double memory = 10e9 * (n_cores < 4 ? n_cores : 4), flops = 60e9 * n_cores;
    struct zn_cluster c = {.nodes = 1,
                           .devices = 1,
                           .host_rate = memory,
                           .nvme_memory = SIZE_MAX / 2,
                           .device = {.is_host = true,
                                      .memory = SIZE_MAX / 2,
                                      .rate = memory,
                                      .cores = n_cores,
                                      .launch = 5e-6,
                                      .flops = {flops, flops, flops},
                                      .sum = {4e9, 4e9, 4e9}},
                           .host_nvme = {2e9, 2e9, false},
                           .device_device = {5e9, memory / 2, false},
                           .node_node = {1.25e9, 1.25e9, false}};
    snprintf(c.name, sizeof c.name, "a usual machine");
    c.host_memory = c.device.memory;
    return c;
}

/* ---- The file ---- */

static zn_status save(const struct zn_cluster *c, char *path)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    zn_status status = zn_folder_create(path);
    *slash = '/';
    return status == ZN_OK ? zn_cluster_write(c, path) : status;
}

zn_status zn_calibration_save(struct zn_cluster *cluster)
{
    char *path;
    ZN_TRY(zn_calibration_path(&path));
    zn_status status = zn_calibration_measure(cluster);
    if (status == ZN_OK)
        status = save(cluster, path);
    free(path);
    return status;
}

static zn_status load(const char *path, struct zn_cluster *cluster, bool *found)
{
    struct zn_cluster c, now;
    char *text, why[512];
    size_t n_bytes;
    int n_threads;
    ZN_TRY(describe(&now, &n_threads));
    ZN_TRY(zn_file_read(path, FILE_BYTES, &text, &n_bytes));
    zn_status status = zn_cluster_parse(text, n_bytes, path, ZN_THIS_MACHINE, &c);
    free(text);
    if (status != ZN_OK) { /* damaged, or of an older version */
        snprintf(why, sizeof why, "%s", zn_error_message());
        return zn_fail(status, "%s; 'zinc doctor --measure' writes it anew", why);
    }
    *found = strcmp(c.about, now.about) == 0 && c.device.cores == now.device.cores;
    c.device.memory = c.host_memory = now.device.memory;
    c.device.reserved = now.device.reserved;
    *cluster = c;
    return ZN_OK;
}

zn_status zn_calibration_load(struct zn_cluster *cluster, bool *found)
{
    char *path;
    ZN_TRY(zn_calibration_path(&path));
    *found = zn_file_exists(path);
    zn_status status = *found ? load(path, cluster, found) : ZN_OK;
    free(path);
    return status;
}
