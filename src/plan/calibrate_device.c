/* Figures of a discrete device: measured with the kernels and lanes that a run uses. */
#include "plan/calibrate_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/median.h"
#include "plan/calibrate_machine.h"

enum {
    FILE_BYTES = 1 << 20,
    SIDE = 512,                     /* of products */
    COPY_BYTES = 16 * 1024 * 1024,  /* over the link, and of each operand of an addition */
    MEMORY_BYTES = 3 * COPY_BYTES,
    N_LAUNCHES = 64,
    N_ROUNDS = 5,
};

/* ---- Stated figures ---- */

/* Those of a small GPU; of one made of the host's cores, a part of what these have. */
static void state_rates(const struct zn_device_info *info, const struct zn_cluster *host, struct zn_cluster *c)
{
    double flops = info->shares_memory ? host->device.flops[ZN_F32] / 4 : 2e12;
    for (int type = ZN_F32; type <= ZN_F16; type++)
        c->device.flops[type] = flops;
    c->device.rate = info->shares_memory ? host->host_rate / 2 : 200e9;
    c->device.launch = 10e-6;
    c->device_host.alone = info->shares_memory ? host->host_rate / 4 : 6e9;
    c->device_host.node = c->device_host.alone;
}

/* The host's cores are no device here: what was measured of them as one goes. */
static struct zn_cluster cluster_of(const struct zn_device_info *info, const struct zn_cluster *host)
{
    struct zn_cluster c = *host;
    memset(&c.device, 0, sizeof c.device);
    snprintf(c.device.name, sizeof c.device.name, "%.63s", info->name);
    snprintf(c.about, sizeof c.about, "%s", info->about);
    c.nodes = c.devices = 1;
    c.device.memory = info->memory_bytes;
    c.device.reserved = info->reserved_bytes;
    c.device.shares_memory = info->shares_memory;
    c.device.allocation = info->allocation_bytes;
    state_rates(info, host, &c);
    return c;
}

/* ---- The file ---- */

zn_status zn_device_calibration_path(const char *name, char **path)
{
    char *machine, file[64];
    ZN_TRY(zn_calibration_path(&machine));
    snprintf(file, sizeof file, "%.40s.json", name);
    for (char *p = file; *p; p++)
        *p = *p == ':' ? '-' : *p;
    *strrchr(machine, '/') = '\0';
    zn_status status = zn_path_join(machine, file, path);
    free(machine);
    return status;
}

static zn_status load(const char *path, struct zn_cluster *measured)
{
    char *text;
    size_t n_bytes;
    ZN_TRY(zn_file_read(path, FILE_BYTES, &text, &n_bytes));
    zn_status status = zn_cluster_parse(text, n_bytes, path, ZN_THIS_MACHINE, measured);
    free(text);
    return status;
}

zn_status zn_device_describe(const zn_accelerator *accelerator, const struct zn_cluster *host, struct zn_cluster *cluster,
                             bool *is_measured)
{
    struct zn_cluster c = cluster_of(zn_accelerator_info(accelerator), host), measured;
    char *path;
    *is_measured = false;
    *cluster = c;
    if (zn_device_calibration_path(zn_accelerator_name(accelerator), &path) != ZN_OK) /* without a home there is no file */
        return ZN_OK;
    zn_status status = zn_file_exists(path) ? load(path, &measured) : ZN_ERR_INPUT;
    bool is_damaged = status != ZN_OK && zn_file_exists(path);
    free(path);
    if (is_damaged)
        return zn_add_context(status, "`zinc doctor --device %s --check` writes it anew", zn_accelerator_name(accelerator));
    if (status != ZN_OK || strcmp(measured.about, c.about) != 0)
        return ZN_OK;
    memcpy(c.device.flops, measured.device.flops, sizeof c.device.flops);
    c.device.rate = measured.device.rate;
    c.device.launch = measured.device.launch;
    c.device_host = measured.device_host;
    *cluster = c;
    *is_measured = true;
    return ZN_OK;
}

/* ---- Measuring ---- */

struct bench {
    zn_device *device;
    zn_clock clock;
    zn_addr memory;
    unsigned char *host;
};

/* Work a second, of the median of rounds; the first, which compiles, is not counted. */
static zn_status rate_of(struct bench *b, zn_status (*work)(struct bench *b, int type), int type, double amount, double *rate)
{
    double seconds[N_ROUNDS];
    for (int i = -1; i < N_ROUNDS; i++) {
        double start = zn_clock_now(&b->clock);
        ZN_TRY(work(b, type));
        ZN_TRY(b->device->ops->synchronize(b->device));
        seconds[i < 0 ? 0 : i] = zn_clock_now(&b->clock) - start;
    }
    double usual = zn_median(seconds, N_ROUNDS);
    *rate = usual > 0 ? amount / usual : 0;
    return *rate > 0 ? ZN_OK : zn_fail(ZN_ERR_INTERNAL, "the clock stood still while a device was measured");
}

static zn_status multiply(struct bench *b, int type)
{
    return zn_run_gemm(b->device, &(struct zn_gemm_args){.a = b->memory,
                                                         .b = b->memory + COPY_BYTES,
                                                         .c = b->memory + 2 * (zn_addr)COPY_BYTES,
                                                         .m = SIDE,
                                                         .n = SIDE,
                                                         .k = SIDE,
                                                         .a_stride = SIDE,
                                                         .b_stride = SIDE,
                                                         .c_stride = SIDE,
                                                         .b_type = (zn_dtype)type});
}

static zn_status add(struct bench *b, int type)
{
    (void)type;
    return zn_run_add(b->device, &(struct zn_add_args){.y = b->memory,
                                                       .a = b->memory + COPY_BYTES,
                                                       .b = b->memory + 2 * (zn_addr)COPY_BYTES,
                                                       .n_elements = COPY_BYTES / (int64_t)sizeof(float)});
}

static zn_status launch(struct bench *b, int type)
{
    (void)type;
    for (int i = 0; i < N_LAUNCHES; i++)
        ZN_TRY(zn_run_fill(b->device, &(struct zn_fill_args){.dst = b->memory, .n_elements = 1}));
    return ZN_OK;
}

static zn_status copy(struct bench *b, int lane)
{
    zn_addr host = (zn_addr)(uintptr_t)b->host;
    bool is_out = zn_lane_is_out((zn_lane)lane);
    zn_event done;
    zn_event_init(&done);
    zn_status status = zn_device_copy(b->device, (zn_lane)lane, &(struct zn_transfer){.to = is_out ? host : b->memory,
                                                                                      .from = is_out ? b->memory : host,
                                                                                      .n_bytes = COPY_BYTES,
                                                                                      .done = &done});
    if (status == ZN_OK)
        status = zn_event_wait(&done, &b->clock);
    zn_event_fini(&done);
    return status;
}

static zn_status measure_rates(struct bench *b, struct zn_cluster *c)
{
    double out, in, launches;
    for (int type = ZN_F32; type <= ZN_F16; type++)
        ZN_TRY(rate_of(b, multiply, type, 2.0 * SIDE * SIDE * SIDE, &c->device.flops[type]));
    ZN_TRY(rate_of(b, add, 0, 3.0 * COPY_BYTES, &c->device.rate));
    ZN_TRY(rate_of(b, launch, 0, N_LAUNCHES, &launches));
    ZN_TRY(rate_of(b, copy, ZN_LANE_OUT, COPY_BYTES, &out));
    ZN_TRY(rate_of(b, copy, ZN_LANE_IN, COPY_BYTES, &in));
    c->device.launch = 1 / launches;
    c->device_host.alone = c->device_host.node = out < in ? out : in;
    return ZN_OK;
}

static zn_status measure(zn_accelerator *accelerator, struct zn_cluster *c)
{
    struct bench b = {.host = calloc(1, COPY_BYTES)};
    zn_ledger ledger;
    zn_ledger_init(&ledger);
    zn_clock_init_real(&b.clock);
    zn_status status = b.host ? zn_device_create_on(accelerator, &ledger, &b.clock, &b.device)
                              : zn_fail(ZN_ERR_MEMORY, "no memory to measure with");
    if (status == ZN_OK)
        status = zn_device_alloc(b.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, MEMORY_BYTES, &b.memory);
    if (status == ZN_OK)
        status = measure_rates(&b, c);
    if (b.device)
        zn_device_free(b.device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, b.memory, MEMORY_BYTES);
    zn_device_destroy(b.device);
    free(b.host);
    return status;
}

static zn_status write_file(const struct zn_cluster *c, char *path)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    zn_status status = zn_folder_create(path);
    *slash = '/';
    return status == ZN_OK ? zn_cluster_write(c, path) : status;
}

zn_status zn_device_calibrate(zn_accelerator *accelerator, const struct zn_cluster *host, struct zn_cluster *cluster)
{
    struct zn_cluster c = cluster_of(zn_accelerator_info(accelerator), host), file;
    char *path;
    ZN_TRY(measure(accelerator, &c));
    ZN_TRY(zn_device_calibration_path(zn_accelerator_name(accelerator), &path));
    file = c; /* of one node with one device: what a file may say of that */
    file.device_device = file.node_node = (struct zn_link){0};
    file.device.reserved = file.device.reserved ? file.device.reserved : 1;
    zn_status status = write_file(&file, path);
    free(path);
    if (status == ZN_OK)
        *cluster = c;
    return status;
}
