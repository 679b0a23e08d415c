/* Names of devices, and the backends behind them. */
#include "device/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/cuda/cuda.h"
#include "device/opencl/opencl.h"

static const struct zn_backend *const backends[] = {
    &zn_backend_opencl,
    &zn_backend_cuda,
    NULL,
};

struct zn_accelerator {
    const struct zn_backend *backend;
    void *opened;
    int n_sharing;
    char name[32];
    struct zn_device_info info;
};

const struct zn_backend *zn_backend_at(size_t i)
{
    return backends[i];
}

static const struct zn_backend *find_backend(const char *name, size_t n)
{
    for (size_t i = 0; backends[i]; i++)
        if (strlen(backends[i]->name) == n && memcmp(backends[i]->name, name, n) == 0)
            return backends[i];
    return NULL;
}

zn_status zn_device_name_parse(const char *text, struct zn_device_name *name)
{
    size_t n = strcspn(text, ":");
    char *end;
    if (strcmp(text, "cpu") == 0) {
        *name = (struct zn_device_name){.index = -1};
        return ZN_OK;
    }
    const struct zn_backend *backend = find_backend(text, n);
    if (!backend)
        return zn_fail(ZN_ERR_USAGE, "`--device %s`: not in this build", zn_shown(text).text);
    long index = text[n] ? strtol(text + n + 1, &end, 10) : -1;
    if (text[n] && (text[n + 1] < '0' || text[n + 1] > '9' || *end || index > 4095))
        return zn_fail(ZN_ERR_USAGE, "--device %s: after the colon is the number of a device, from 0", zn_shown(text).text);
    *name = (struct zn_device_name){backend, (int)index};
    return ZN_OK;
}

/* Which of n devices, and how many ranks of the node are on it. */
static void choose(struct zn_accelerator *a, const struct zn_accelerator_choice *choice, int given, int n, int *index)
{
    *index = given >= 0 ? given : choice->local_rank % n;
    a->n_sharing = given >= 0 ? choice->n_local : (choice->n_local - *index + n - 1) / n;
    snprintf(a->name, sizeof a->name, "%s:%d", a->backend->name, *index);
}

zn_status zn_accelerator_open(const struct zn_accelerator_choice *choice, zn_accelerator **accelerator)
{
    struct zn_device_name name;
    struct zn_device_info infos[ZN_MAX_DEVICES];
    int n, index;
    ZN_TRY(zn_device_name_parse(choice->name, &name));
    if (!name.backend)
        return zn_fail(ZN_ERR_INTERNAL, "the processor is not opened as a device beside it");
    zn_accelerator *a = calloc(1, sizeof *a);
    if (!a)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a device");
    a->backend = name.backend;
    zn_status status = a->backend->list(choice->n_threads, infos, &n);
    if (status == ZN_OK && name.index >= n)
        status = zn_fail(ZN_ERR_USAGE, "there %s %d, counted from 0; `zinc doctor` lists them", n == 1 ? "is" : "are", n);
    if (status == ZN_OK) {
        choose(a, choice, name.index, n, &index);
        status = a->backend->open(index, &a->opened);
    }
    if (status != ZN_OK) {
        free(a);
        return zn_add_context(status, "--device %s", choice->name);
    }
    a->backend->describe(a->opened, &a->info);
    *accelerator = a;
    return ZN_OK;
}

void zn_accelerator_close(zn_accelerator *a)
{
    if (a)
        a->backend->close(a->opened);
    free(a);
}

const struct zn_device_info *zn_accelerator_info(const zn_accelerator *a)
{
    return &a->info;
}

const char *zn_accelerator_name(const zn_accelerator *a)
{
    return a->name;
}

int zn_accelerator_n_sharing(const zn_accelerator *a)
{
    return a->n_sharing;
}

zn_status zn_device_create_on(zn_accelerator *a, zn_ledger *ledger, zn_clock *clock, zn_device **device)
{
    return a->backend->create(a->opened, ledger, clock, device);
}
