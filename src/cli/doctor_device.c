/* Checks of a device one after the other: one that fails leaves the others to be run. */
#include "cli/doctor_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/machine.h"
#include "base/size.h"
#include "cli/doctor_training.h"
#include "plan/calibrate_device.h"
#include "plan/calibrate_machine.h"
#include "zinc/status.h"

enum { N_ROUNDS = 8, N_PRODUCTS = 24, N_CHECKS = 3, SEED = 1 };

struct finding {
    const char *name, *what; /* what is counted */
    struct zn_check check;
    zn_status status;
    char failure[512]; /* "" where it passed */
    double seconds;
};

struct report {
    zn_accelerator *accelerator;
    struct finding finding[N_CHECKS];
    struct zn_cluster measured;
    char not_measured[512]; /* why; "" where it was */
    char *path;             /* of the device's file */
    bool passed;
};

/* ---- Checking ---- */

typedef zn_status check_function(zn_device *processor, zn_device *device, struct zn_check *check);

static zn_status check_kernels(zn_device *processor, zn_device *device, struct zn_check *check)
{
    return zn_check_kernels(processor, device, N_ROUNDS, SEED, check);
}

static zn_status check_products(zn_device *processor, zn_device *device, struct zn_check *check)
{
    return zn_check_products(processor, device, N_PRODUCTS, SEED, check);
}

static zn_status on_devices(zn_accelerator *accelerator, int n_threads, check_function *function, struct zn_check *check)
{
    zn_clock clock;
    zn_ledger ledger;
    zn_device *processor = NULL, *device = NULL;
    zn_clock_init_real(&clock);
    zn_ledger_init(&ledger);
    zn_status status = zn_device_create_cpu(&ledger, &clock, n_threads, NULL, &processor);
    if (status == ZN_OK)
        status = zn_device_create_on(accelerator, &ledger, &clock, &device);
    if (status == ZN_OK)
        status = function(processor, device, check);
    zn_device_destroy(device);
    zn_device_destroy(processor);
    return status;
}

static void judge(struct report *r, struct finding *f)
{
    if (f->status != ZN_OK)
        snprintf(f->failure, sizeof f->failure, "%s", zn_error_message());
    else
        snprintf(f->failure, sizeof f->failure, "%s", f->check.difference);
    r->passed = r->passed && !f->failure[0];
}

static void check_all(struct report *r, int n_threads)
{
    static const char *const names[N_CHECKS][2] = {
        {"kernels", "calls over random shapes"},
        {"products", "products, repeated, cut, moved and beside copies"},
        {"training", "placements of a small model, 3 steps each"},
    };
    zn_clock clock;
    zn_clock_init_real(&clock);
    r->passed = true;
    for (int i = 0; i < N_CHECKS; i++) {
        struct finding *f = &r->finding[i];
        double start = zn_clock_now(&clock);
        f->name = names[i][0];
        f->what = names[i][1];
        f->status = i == 2 ? doctor_check_training(r->accelerator, &f->check)
                           : on_devices(r->accelerator, n_threads, i ? check_products : check_kernels, &f->check);
        f->seconds = zn_clock_now(&clock) - start;
        judge(r, f);
    }
}

/* Rates of this machine without the device: measured before, or usual ones. */
static void measure(struct report *r, const struct zn_machine *machine)
{
    struct zn_cluster host;
    bool is_found = false;
    if (zn_calibration_load(&host, &is_found) != ZN_OK || !is_found) {
        host = zn_calibration_usual(machine->n_cores);
        host.host_memory = machine->memory_available;
        host.nvme_memory = 0; /* nobody looked for a drive */
        host.host_nvme = (struct zn_link){0};
    }
    zn_status status = zn_device_calibration_path(zn_accelerator_name(r->accelerator), &r->path);
    if (status == ZN_OK)
        status = zn_device_calibrate(r->accelerator, &host, &r->measured);
    if (status != ZN_OK)
        snprintf(r->not_measured, sizeof r->not_measured, "%s", zn_error_message());
    r->passed = r->passed && status == ZN_OK;
}

/* ---- Printing ---- */

static void print_text(const struct report *r)
{
    const struct zn_device_info *info = zn_accelerator_info(r->accelerator);
    const struct zn_cluster *c = &r->measured;
    char memory[ZN_SIZE_TEXT], piece[ZN_SIZE_TEXT];
    printf("%-14s %s: %s\n", "device", zn_accelerator_name(r->accelerator), info->about);
    printf("%-14s %s%s", "memory", zn_size_text(info->memory_bytes, memory), info->shares_memory ? " shared with the host" : "");
    if (info->allocation_bytes)
        printf(", at most %s in one piece", zn_size_text(info->allocation_bytes, piece));
    putchar('\n');
    for (int i = 0; i < N_CHECKS; i++) {
        const struct finding *f = &r->finding[i];
        printf("%-14s %s: %lld %s, %.1f s%s%s\n", f->name, f->failure[0] ? "FAILED" : "the processor's bits",
               (long long)f->check.n_checked, f->what, f->seconds, f->failure[0] ? "\n               " : "", f->failure);
    }
    if (r->not_measured[0]) {
        printf("%-14s FAILED: %s\n", "measured", r->not_measured);
        return;
    }
    printf("%-14s matrix products %.4g Gflop/s in fp32, %.4g in bf16, %.4g in fp16\n", "measured", c->device.flops[ZN_F32] / 1e9,
           c->device.flops[ZN_BF16] / 1e9, c->device.flops[ZN_F16] / 1e9);
    printf("%-14s memory %.4g GB/s, copies from and to the host %.4g GB/s, a launch %.3g us\n", "", c->device.rate / 1e9,
           c->device_host.alone / 1e9, c->device.launch * 1e6);
    printf("%-14s %s\n", "", r->path);
}

static void put_text(const char *name, const char *text)
{
    printf("\"%s\":", name);
    zn_json_put_string(stdout, text);
}

static void put_measured(const struct report *r)
{
    const struct zn_cluster *c = &r->measured;
    if (r->not_measured[0]) {
        printf("\"measured\":null,");
        put_text("not_measured", r->not_measured);
        return;
    }
    printf("\"measured\":{\"flops\":{\"fp32\":%.6g,\"bf16\":%.6g,\"fp16\":%.6g},\"memory_bytes_per_second\":%.6g,"
           "\"link_bytes_per_second\":%.6g,\"launch_seconds\":%.6g,",
           c->device.flops[ZN_F32], c->device.flops[ZN_BF16], c->device.flops[ZN_F16], c->device.rate, c->device_host.alone,
           c->device.launch);
    put_text("file", r->path);
    printf("}");
}

static void print_json(const struct report *r)
{
    const struct zn_device_info *info = zn_accelerator_info(r->accelerator);
    printf("{");
    put_text("version", zn_version());
    printf(",\"device\":{");
    put_text("name", zn_accelerator_name(r->accelerator));
    printf(",");
    put_text("about", info->about);
    printf(",\"memory\":%zu,\"allocation\":%zu,\"shares_memory\":%s},\"checks\":{", info->memory_bytes, info->allocation_bytes,
           info->shares_memory ? "true" : "false");
    for (int i = 0; i < N_CHECKS; i++) {
        const struct finding *f = &r->finding[i];
        printf("%s\"%s\":{\"passed\":%s,\"checked\":%lld,\"seconds\":%.3f,", i ? "," : "", f->name, f->failure[0] ? "false" : "true",
               (long long)f->check.n_checked, f->seconds);
        put_text("failure", f->failure[0] ? f->failure : NULL);
        printf("}");
    }
    printf("},");
    put_measured(r);
    printf(",\"passed\":%s}\n", r->passed ? "true" : "false");
}

zn_status doctor_check_device(const char *name, bool json)
{
    struct report r = {0};
    struct zn_machine machine;
    struct zn_device_name parsed;
    ZN_TRY(zn_device_name_parse(name, &parsed));
    if (!parsed.backend)
        return zn_fail(ZN_ERR_USAGE, "--check holds a device to the processor: give --device opencl, not %s", name);
    ZN_TRY(zn_machine_read("", &machine));
    ZN_TRY(zn_accelerator_open(&(struct zn_accelerator_choice){name, 0, 1, machine.n_cores}, &r.accelerator));
    check_all(&r, machine.n_cores);
    measure(&r, &machine);
    if (json)
        print_json(&r);
    else
        print_text(&r);
    zn_accelerator_close(r.accelerator);
    free(r.path);
    if (fflush(stdout) != 0)
        return zn_fail(ZN_ERR_IO, "cannot write to standard output");
    return r.passed ? ZN_OK : zn_fail(ZN_ERR_IO, "%s does not compute as the processor does, or could not be measured", name);
}
