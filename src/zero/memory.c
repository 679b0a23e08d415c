/* The buffers of the plan, allocated: what the manifest says, and nothing else; and how communication reaches those of a device. */
#include <stdlib.h>

#include "base/size.h"
#include "zero/engine_private.h"

static zn_device *device_of(const zn_engine *e, zn_tier tier)
{
    return tier == ZN_TIER_HOST ? e->host : e->device;
}

/* Memory of a device that other ranks read: communication takes it from there. */
static zn_status alloc_on_device(zn_engine *e, zn_buffer_id id, struct zn_buffer *b)
{
    ZN_TRY(zn_device_alloc(e->device, b->tier, b->kind, b->n_bytes, &b->base));
    e->shared[id] = (struct zn_shared){.comm = e->comm, .index = -1, .n_bytes = b->n_bytes, .device = b->base};
    return ZN_OK;
}

static zn_status alloc_shared(zn_engine *e, zn_buffer_id id, struct zn_buffer *b)
{
    if (b->space == ZN_SPACE_DEVICE)
        return alloc_on_device(e, id, b);
    ZN_TRY(zn_comm_alloc(b->is_of_slices ? e->tensor : e->comm, b->n_bytes, &e->shared[id]));
    b->base = zn_shared_extent(&e->shared[id]).address;
    if (!b->base) /* on sim nothing is shared, but addresses are not 0 */
        ZN_TRY(e->device->ops->alloc(e->device, b->n_bytes, &b->base));
    zn_ledger_charge(e->device->ledger, b->tier, b->kind, b->n_bytes);
    return ZN_OK;
}

static zn_status cross_bridge(zn_device *device, zn_lane lane, zn_addr to, zn_addr from, size_t n_bytes)
{
    zn_event done;
    zn_event_init(&done);
    zn_status status = zn_device_copy(device, lane, &(struct zn_transfer){.to = to, .from = from, .n_bytes = n_bytes, .done = &done});
    if (status == ZN_OK)
        status = zn_event_wait(&done, device->clock);
    zn_event_fini(&done);
    return status;
}

static zn_status read_device(void *device, void *to, zn_addr from, size_t n_bytes)
{
    return cross_bridge(device, ZN_LANE_COMM_OUT, (zn_addr)(uintptr_t)to, from, n_bytes);
}

static zn_status write_device(void *device, zn_addr to, const void *from, size_t n_bytes)
{
    return cross_bridge(device, ZN_LANE_COMM_IN, to, (zn_addr)(uintptr_t)from, n_bytes);
}

static zn_status alloc_buffer(zn_engine *e, zn_buffer_id id)
{
    struct zn_buffer b = e->plan->buffers[id];
    zn_status status = ZN_OK;
    if (b.n_bytes == 0)
        return ZN_OK;
    b.space = b.tier == ZN_TIER_NVME ? ZN_SPACE_SWAP : device_of(e, b.tier)->space;
    if (b.tier == ZN_TIER_NVME)
        zn_ledger_charge(e->device->ledger, b.tier, b.kind, b.n_bytes);
    else if (b.is_shared)
        status = alloc_shared(e, id, &b);
    else
        status = zn_device_alloc(device_of(e, b.tier), b.tier, b.kind, b.n_bytes, &b.base);
    if (status != ZN_OK)
        return zn_add_context(status, "%s", b.name);
    if (b.space == ZN_SPACE_HOST)
        zn_device_pin(e->device, zn_buffer_extent(&b, 0));
    e->buffers[id] = b;
    return ZN_OK;
}

static void free_buffer(zn_engine *e, zn_buffer_id id)
{
    struct zn_buffer *b = &e->buffers[id];
    if (b->n_bytes == 0)
        return;
    if (b->space == ZN_SPACE_HOST)
        zn_device_unpin(e->device, zn_buffer_extent(b, 0));
    bool is_comms = b->is_shared && b->space != ZN_SPACE_DEVICE;
    if (is_comms)
        zn_comm_free(b->is_of_slices ? e->tensor : e->comm, &e->shared[id]);
    if (is_comms || b->tier == ZN_TIER_NVME)
        zn_ledger_release(e->device->ledger, b->tier, b->kind, b->n_bytes);
    else
        zn_device_free(device_of(e, b->tier), b->tier, b->kind, b->base, b->n_bytes);
    *b = (struct zn_buffer){0};
}

static zn_status alloc_tables(zn_engine *e)
{
    e->tables = calloc((size_t)e->module->n_constants + 1, sizeof *e->tables);
    if (!e->tables)
        return zn_fail(ZN_ERR_MEMORY, "no memory for an engine");
    for (int i = 0; i < e->module->n_constants; i++) {
        const zn_constant *c = &e->module->constants[i];
        size_t n_bytes = (size_t)c->n_elements * sizeof(float), padded = zn_round_up(n_bytes, ZN_PARTITION_ALIGNMENT);
        if (n_bytes == 0)
            continue;
        zn_status status = zn_device_alloc(e->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, padded, &e->tables[i].base);
        if (status != ZN_OK)
            return zn_add_context(status, "%s", c->name);
        e->tables[i].n_bytes = padded;
        ZN_TRY(zn_device_write(e->device, e->tables[i].base, c->values, n_bytes));
    }
    return ZN_OK;
}

/* Memory that transfers to and from the drive pass through. */
static void register_buffers(zn_engine *e)
{
    static const zn_buffer_id through[] = {ZN_BUFFER_PIPELINE, ZN_BUFFER_CHECKPOINT_STAGING};
    for (size_t i = 0; e->storage && i < sizeof through / sizeof through[0]; i++) {
        if (e->buffers[through[i]].n_bytes > 0)
            zn_storage_register(e->storage, zn_buffer_extent(&e->buffers[through[i]], 0));
    }
}

zn_status alloc_buffers(zn_engine *e)
{
    e->bridge = (struct zn_bridge){e->device, read_device, write_device};
    for (int id = 0; id < ZN_N_BUFFERS; id++) {
        if (id == ZN_BUFFER_IDS)
            ZN_TRY(alloc_tables(e));
        ZN_TRY(alloc_buffer(e, (zn_buffer_id)id));
    }
    register_buffers(e);
    if (e->buffers[ZN_BUFFER_BRIDGE].n_bytes > 0)
        zn_comm_set_bridge(e->comm, &e->bridge, &e->shared[ZN_BUFFER_BRIDGE]);
    return ZN_OK;
}

void free_buffers(zn_engine *e)
{
    zn_comm_set_bridge(e->comm, NULL, NULL);
    for (int id = 0; id < ZN_N_BUFFERS; id++)
        free_buffer(e, (zn_buffer_id)id);
    for (int i = 0; e->tables && i < e->module->n_constants; i++)
        if (e->tables[i].n_bytes > 0)
            zn_device_free(e->device, ZN_TIER_DEVICE, ZN_KIND_BUFFERS, e->tables[i].base, e->tables[i].n_bytes);
    free(e->tables);
}
