/* Planning and running of passes that extend a sequence. */
#include "train/generator.h"

#include <stdlib.h>

#include "base/size.h"

/* Addresses of a pass that is only recorded. */
#define RECORDED_ARENA ((zn_addr)1 << 46)
#define RECORDED_CACHE ((zn_addr)1 << 47)

/* One large buffer. */
struct region {
    zn_kind kind;
    zn_addr address;
    size_t n_bytes;
};

struct zn_generator {
    zn_device *device;
    const zn_module *module;
    const zn_generator_plan *plan; /* NULL while recording */
    zn_resident weights;
    zn_tape *tape;
    zn_cache cache;
    int64_t rows;
    struct region ids, logits, arena, keys_and_values;
};

static zn_status region_alloc(zn_generator *g, struct region *region, const char *name, zn_kind kind,
                              size_t n_bytes)
{
    zn_addr address;
    zn_status status = zn_device_alloc(g->device, ZN_TIER_DEVICE, kind, n_bytes, &address);
    if (status != ZN_OK)
        return zn_context(status, "%s", name);
    *region = (struct region){.kind = kind, .address = address, .n_bytes = n_bytes};
    return ZN_OK;
}

static void region_free(zn_generator *g, struct region *region)
{
    if (region->address)
        zn_device_free(g->device, ZN_TIER_DEVICE, region->kind, region->address, region->n_bytes);
}

static zn_status alloc_buffers(zn_generator *g)
{
    size_t n_ids = (size_t)g->rows * sizeof(int32_t);
    size_t n_logits = (size_t)g->module->vocabulary * sizeof(float);
    ZN_TRY(region_alloc(g, &g->ids, "ids", ZN_KIND_BUFFERS, n_ids));
    ZN_TRY(region_alloc(g, &g->logits, "logits", ZN_KIND_BUFFERS, n_logits));
    g->cache.base = RECORDED_CACHE;
    if (!g->plan)
        return ZN_OK;
    ZN_TRY(region_alloc(g, &g->arena, "arena", ZN_KIND_ACTIVATIONS, g->plan->arena_bytes));
    ZN_TRY(region_alloc(g, &g->keys_and_values, "keys and values", ZN_KIND_BUFFERS,
                        g->plan->cache_bytes));
    g->cache.base = g->keys_and_values.address;
    return ZN_OK;
}

/* plan NULL: a generator that records. */
static zn_status create(zn_device *device, const zn_module *module, zn_dtype type,
                        int64_t rows, int64_t capacity, const zn_generator_plan *plan,
                        zn_generator **generator)
{
    zn_generator *g = calloc(1, sizeof *g);
    if (!g)
        return zn_fail(ZN_ERR_MEMORY, "no memory for a generator");
    g->device = device;
    g->module = module;
    g->plan = plan;
    g->rows = rows;
    g->cache.capacity = capacity;
    zn_status status = zn_resident_init(&g->weights, device, module, type);
    if (status == ZN_OK)
        status = zn_tape_create(device, &zn_resident_hooks, &g->weights, type, &g->tape);
    if (status == ZN_OK)
        status = alloc_buffers(g);
    if (status != ZN_OK) {
        zn_generator_destroy(g);
        return status;
    }
    *generator = g;
    return ZN_OK;
}

zn_status zn_generator_create(zn_device *device, const zn_module *module, zn_dtype type,
                              const zn_generator_plan *plan, zn_generator **generator)
{
    return create(device, module, type, plan->rows, plan->capacity, plan, generator);
}

void zn_generator_destroy(zn_generator *g)
{
    if (!g)
        return;
    region_free(g, &g->ids);
    region_free(g, &g->logits);
    region_free(g, &g->arena);
    region_free(g, &g->keys_and_values);
    zn_tape_destroy(g->tape);
    zn_resident_fini(&g->weights);
    free(g);
}

/* One pass over n tokens that are on the device. */
static zn_status run_pass(zn_generator *g, zn_lifetimes *lifetimes, int64_t n, bool wants_logits)
{
    bool recording = !g->plan;
    zn_tape_start(g->tape, lifetimes, recording, recording ? RECORDED_ARENA : g->arena.address);
    zn_tape_use_cache(g->tape, &g->cache);
    struct zn_batch batch = {
        .ids = zn_tape_external(g->tape, ZN_I32, 2, (int64_t[]){1, n}, g->ids.address),
        .logits = wants_logits ? g->logits.address : 0,
    };
    return zn_module_extend(g->module, g->tape, &batch);
}

static zn_status check_ids(const zn_generator *g, const int32_t *ids, int64_t n)
{
    if (n < 1 || n > g->cache.capacity - g->cache.past)
        return zn_fail(ZN_ERR_INTERNAL, "%lld tokens after %lld: the generator was made for %lld",
                       (long long)n, (long long)g->cache.past, (long long)g->cache.capacity);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->module->vocabulary)
            return zn_fail(ZN_ERR_INPUT, "token %d is not in the model's vocabulary of %lld", ids[i],
                           (long long)g->module->vocabulary);
    return ZN_OK;
}

zn_status zn_generator_extend(zn_generator *g, const int32_t *ids, int64_t n, float *logits)
{
    ZN_TRY(check_ids(g, ids, n));
    while (n > 0) {
        int64_t rows = n < g->rows ? n : g->rows;
        ZN_TRY(zn_device_write(g->device, g->ids.address, ids, (size_t)rows * sizeof *ids));
        ZN_TRY(run_pass(g, g->plan->pass, rows, logits && rows == n));
        g->cache.past += rows;
        ids += rows;
        n -= rows;
    }
    if (!logits)
        return ZN_OK;
    return zn_device_read(g->device, logits, g->logits.address, g->logits.n_bytes);
}

int64_t zn_generator_length(const zn_generator *g)
{
    return g->cache.past;
}

void zn_generator_rewind(zn_generator *g, int64_t length)
{
    if (length < g->cache.past)
        g->cache.past = length;
}

zn_resident *zn_generator_weights(zn_generator *g)
{
    return &g->weights;
}

/* Records the largest pass; smaller ones follow it. */
static zn_status record(zn_generator_plan *plan, zn_generator *g)
{
    ZN_TRY(run_pass(g, plan->pass, plan->rows, true));
    zn_lifetimes_allow_smaller(plan->pass);
    ZN_TRY(zn_lifetimes_pack(plan->pass));
    plan->arena_bytes = zn_lifetimes_peak(plan->pass);
    plan->cache_bytes = g->cache.n_bytes;
    return ZN_OK;
}

zn_status zn_generator_plan_init(zn_generator_plan *plan, const zn_module *module,
                                 zn_dtype type, int64_t rows, int64_t capacity)
{
    zn_ledger ledger;
    zn_clock clock;
    zn_device *device = NULL;
    zn_generator *g = NULL;
    const struct zn_sim_rates rates = {.flops = 1e12, .memory_bytes = 1e11};
    *plan = (zn_generator_plan){.rows = rows < ZN_GENERATOR_ROWS ? rows : ZN_GENERATOR_ROWS,
                                .capacity = capacity};
    zn_ledger_init(&ledger);
    zn_clock_init_virtual(&clock);
    zn_status status = zn_lifetimes_create(&plan->pass);
    if (status == ZN_OK)
        status = zn_device_create_sim(&ledger, &clock, &rates, &device);
    if (status == ZN_OK)
        status = create(device, module, type, plan->rows, capacity, NULL, &g);
    if (status == ZN_OK)
        status = record(plan, g);
    plan->n_bytes = zn_ledger_tier(&ledger, ZN_TIER_DEVICE) + plan->arena_bytes + plan->cache_bytes;
    zn_generator_destroy(g);
    zn_device_destroy(device);
    return status;
}

void zn_generator_plan_fini(zn_generator_plan *plan)
{
    zn_lifetimes_destroy(plan->pass);
    *plan = (zn_generator_plan){0};
}
